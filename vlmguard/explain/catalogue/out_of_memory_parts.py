"""What several phases of an out-of-memory advise: shards, batches, rows, images."""

from __future__ import annotations

from vlmguard.explain import limits, memory, projects
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

LONG = 16384  # tokens of one row
SEGMENTS = Do("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in front of the command", "none")
STAGE_2 = Do("zero2", "none for the result; shards optimizer states and gradients")
STAGE_3 = Do("zero3", "slower: parameters are gathered for each layer")
ON_CPU = Do("zero3_offload", "slow: optimizer and weights in the host's memory")
FOUR = Do("four_bits", "adapters train alone: QLoRA")
SMALL_STATES = Do("small_optimizer", "needs bitsandbytes; states of 8 bits")
FREEZE = Do("freeze_tower", "the tower no longer learns")
ADAPT = Do("lora", "another kind of tuning: fewer weights learn")


FEWER_IMAGES = Do(
    'rows = [r for r in rows if len(r["images"]) <= {fewerimages}] in {main}, where it has read '
    "them (by the names that they have there): the row that did not fit has {rowimages} images and "
    "{rowtokens} tokens, the steps before it had room",
    "the rows of most images are not trained on",
)
LATE = 50  # steps that had room


def late(facts: Facts) -> bool:
    """Whether many steps had room: what did not fit is a larger row, or a leak."""
    return facts.steps is not None and facts.steps[0] >= LATE


def deepspeed(facts: Facts) -> bool:
    told = facts.zero is not None or facts.said.get("launcher") == "deepspeed"
    return told or bool(
        {"deepspeed", "engine"} & facts.said.keys() or "deepspeed" in facts.releases
    )


def alone(facts: Facts) -> bool:
    """Whether it is one process, or nothing in the log tells of more."""
    if facts.world is not None:
        return facts.world == 1
    own = facts.framework in ("", "transformers") and projects.of(facts) is None
    return own and not (facts.strategy or facts.said.get("launcher") or deepspeed(facts))


def own_loop(facts: Facts) -> bool:
    """Whether nothing in the log tells of a Trainer, DeepSpeed or a project that has both."""
    return not (facts.framework or deepspeed(facts) or projects.of(facts))


def adapts(facts: Facts) -> bool:
    return "lora" in facts.tuning.lower()


def sharded(facts: Facts) -> tuple[Do, ...]:
    """DeepSpeed's stages where it is there or the framework brings it; else torch's own.

    Adapters have small states: of them it is the frozen weights that are large.
    """
    if adapts(facts) and (alone(facts) or own_loop(facts)):
        return (FOUR,)
    if adapts(facts) and facts.zero != 3:
        return (Do("zero3", "slower; shards the frozen weights, too"), FOUR)
    project = projects.of(facts)
    if project is not None and "zero2" not in project.spelt:
        return (ON_CPU,)
    own = own_loop(facts)
    if alone(facts):
        return (SMALL_STATES, Do("offload", "slow: optimizer states on the CPU"))[
            : 1 + deepspeed(facts)
        ]
    if own:
        return () if facts.fsdp else (Do("fsdp", "each rank holds a part, gathered by layer"),)
    if facts.zero == 3:
        return (Do("offload", "slower: optimizer states on the CPU"),)
    if facts.zero == 2 or (facts.zero is None and deepspeed(facts)):
        return (STAGE_3,)
    return (STAGE_2, Do("zero3", "slower; shards the parameters too"))


def smaller_images(facts: Facts) -> Do:
    """Smaller images, or fewer tiles for a family that cuts them into tiles."""
    if "unsloth" in facts.trace:
        return Do(
            "UnslothVisionDataCollator(model, tokenizer, resize=512) as the trainer's "
            "data_collator (python -m pip install -U unsloth unsloth_zoo first: that of 2024 lacks "
            "resize)",
            "smaller images: less detail, shorter rows",
        )
    if "internvl" in facts.model.lower():
        return Do("fewer_tiles", "less detail, shorter rows")
    told = facts.number("max_pixels", "image_max_pixels")
    named = facts.framework == "ms-swift" or "qwen" in f"{facts.model} {facts.trace}".lower()
    named = named and facts.framework != "LLaMA-Factory" and projects.of(facts) is None
    yours = "; half of yours, where that is less" if named and not told else ""
    cost = f"smaller images: less detail, shorter rows{yours}"
    return Do("max_pixels", cost, limits.fewer_pixels(facts))


GROUP = 8  # passages of a query, FlagEmbedding's default


def fewer_passages(facts: Facts) -> tuple[Do, ...]:
    """FlagEmbedding's forward takes all passages of the micro-batch's queries at once."""
    if facts.framework != "FlagEmbedding":
        return ()
    told = facts.number("train_group_size")
    now = f"{told} now" if told else f"{GROUP} by default"
    group = max((told or GROUP) // 2, 2)
    said = f"--train_group_size {group}: {now}; all passages of a query are in one forward"
    return (Do(said, "fewer negatives for each query"),)


def _shorter_passages(facts: Facts) -> Do:
    told = facts.number("passage_max_len")
    length = f"--passage_max_len {told // 2}" if told else "half of --passage_max_len"
    return Do(length, f"longer passages are cut{f'; {told} now' if told else ''}")


def shorter_rows(facts: Facts) -> Do:
    if facts.framework == "FlagEmbedding":
        return _shorter_passages(facts)
    project = projects.of(facts)
    if project is not None and project.cuts:
        row = facts.number("longrow") or 0
        length = max(int(dict(limits.shorter(facts))["length"]), min(row // 2, LONG))
        return Do(
            f"the rows of more than {length} tokens out of the annotation file: the collator cuts "
            "a row's ids alone at --model_max_length, image tokens among them, and then fails",
            "fewer rows",
        )
    cost = f"longer rows are dropped, or their text is cut{limits.now(facts)}"
    return Do("max_length", cost, limits.shorter(facts))


def smaller_batch(facts: Facts) -> tuple[Do, ...]:
    """A smaller micro-batch with more accumulation: the same global batch."""
    smaller = memory.smaller(facts.micro, facts.accumulation)
    if smaller is None and facts.micro == 1:
        return ()
    loss = ""
    if facts.framework == "FlagEmbedding":
        loss = "; an embedder also sees fewer in-batch negatives (a reranker has none)"
    if smaller is None:
        return (Do("halve", f"slower steps{loss}"),)
    micro, accumulation = smaller
    kept = micro * accumulation
    if facts.accumulation is None:  # nobody's default is known for sure: the user's own counts
        cost = f"slower; the global batch stays the same{loss}"
        twice = f"{accumulation} ({accumulation} × yours, if you set one)"
        return (Do("batch", cost, (("micro", str(micro)), ("accumulation", twice))),)
    return (
        Do(
            "batch",
            f"slower; {facts.micro} × {facts.accumulation} = {micro} × "
            f"{accumulation} = {kept} rows per rank and step, so the global "
            f"batch stays the same{loss}",
            (("micro", str(micro)), ("accumulation", str(accumulation))),
        ),
    )
