"""What to change when the GPU's memory ran out: by phase, and by what was asked for.

Weights that do not fit are sharded, quantised or offloaded; an optimizer's states are sharded or
put on the CPU; a long row or a large image is made smaller; what an evaluation keeps is not kept.
"""

from __future__ import annotations

import re

from vlmguard.explain import already, limits, memory, projects
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

MOST = 6  # steps
SMALL = 33  # GiB: cards on which a model that trains as a whole needs the host's memory
# What vLLM says of its own part of the card.
CACHE = ("cache blocks", "KV cache", "desired GPU memory utilization")

_ENGINE = (
    Do("short_engine", "longer rows are refused", when=("max seq len", "max_model_len")),
    Do("more_engine", "less room for the training on the same card", unless=("desired GPU",)),
    Do("less_engine", "a smaller cache", when=("desired GPU",)),
    Do("short_engine", "longer rows are refused", unless=("max seq len", "max_model_len")),
    Do("nvidia-smi: end what else runs on this card, or take another one"),
)
# Frames whose tensors have a number for each word of the vocabulary.
_VOCABULARY = ("log_softmax", "cross_entropy", "logps", "in ForCausalLMLoss", "logits", "lm_head")
# Frames of a vision tower: Qwen2-VL's own blocks have no name but their attention's.
_TOWER = re.compile(
    r"self\.(?:visual|vpm|vision_tower|vision_model|vision_encoder|image_encoder)\("
    r"|in (?:get_vllm_embedding|get_image_features|get_video_features|extract_feature"
    r"|encode_images)\b|modeling_(?:siglip|clip|intern_vit)\w{0,12}\.py"
    r"|hidden_states \+ self\.attn\("
)
# Whose trainers evaluate without gradients; a loop of one's own may lack that.
_WITHOUT_GRADIENTS = ("ms-swift", "LLaMA-Factory", "TRL", "axolotl", "FlagEmbedding")
# Which load a model in the precision of its checkpoint.
_AS_SAVED = ("ms-swift", "LLaMA-Factory", "axolotl")
_NO_GRAD = Do(
    "with torch.no_grad(): round {place}, if it is not there: else each batch keeps what a "
    "backward would need",
    "none",
)
_SEGMENTS = Do("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in front of the command", "none")
# Frames of an evaluation that hold or gather logits.
_LOGITS = (
    "in pad_across_processes",
    "in preprocess_logits_for_metrics",
    "in gather_for_metrics",
    "in gather_function",
    "in nested_concat",
    "in _gather",
    "in to_cpu_and_numpy",
)
_OTHERS = (
    Do(
        "ps -o pid,user,etime,args -p {pid}: it holds this card too: end it, or take another card: "
        "CUDA_VISIBLE_DEVICES=1 in front of the command; another rank of this run: "
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) in front of the model',
        kind="others",
    ),
    Do(
        "nvidia-smi: end what else runs on this card, or take another one: CUDA_VISIBLE_DEVICES=1 "
        "in front of the command",
        kind="others",
    ),
)
# A Trainer moves a model by itself only where it knows of no DeepSpeed.
_TOLD = Do(
    'TrainingArguments(deepspeed="{dsfile}") made in front of from_pretrained(…) in {main}, and '
    '"stage": 3 under "zero_optimization" in {dsfile}: the Trainer put the whole model on each '
    "card, as it does where its arguments have no DeepSpeed file",
    "slower: parameters are gathered for each layer",
)
_FRAMES = Do(
    "grep -nE 'num_frames|max_frames|fps' {main}: half of it: fewer frames a video",
    "less of each video is seen",
)


def in_tower(facts: Facts) -> bool:
    return _TOWER.search(facts.trace) is not None


def begins(facts: Facts) -> bool:
    """Whether the first step is where it failed, as far as the log tells."""
    return facts.steps is None or facts.steps[0] <= 1


def one_row(facts: Facts, told: memory.Memory) -> bool:
    """Whether one tensor of a row or an image is what did not fit, whatever else is sharded."""
    weights = any(words in facts.trace for words in ("flatten", "in __init__", "in _apply"))
    return told.huge and facts.phase in ("", "forward", "backward") and not weights


def filled(facts: Facts, told: memory.Memory) -> bool:
    """Whether weights, gradients and optimizer fill the card: it is full when the first batch's
    images come, before anything of that batch is kept."""
    return begins(facts) and facts.phase == "forward" and told.full and in_tower(facts)


def steps(facts: Facts) -> tuple[Do, ...]:
    if any(words in facts.message for words in CACHE):
        return _ENGINE
    told = memory.read(facts.message)
    first: tuple[Do, ...] = ()
    if "in replica" in facts.message:
        first += (Do("trainer_group", "none: DataParallel keeps everything on the first card"),)
    if told.other is not None and told.other > 1:
        first += _OTHERS
    by_phase = {
        "load": _loading,
        "step": _states,
        "evaluation": _evaluation,
        "generation": _generation,
        "save": _saving,
    }
    found = by_phase.get(facts.phase, _stepping)(facts, told)
    return _few((*first, *found), facts)


def _few(found: tuple[Do, ...], facts: Facts) -> tuple[Do, ...]:
    """Without what the run has already, or by default where enough else is left."""
    once = tuple(dict.fromkeys(found))
    left = tuple(do for do in once if not already.so(do.action, facts)) or once
    sure = [do for do in left if not already.by_default(do.action, facts)]
    if len(sure) >= MOST - 2:
        return tuple(sure[:MOST])
    return tuple(do for do in left if do in sure or len(sure) < MOST)[:MOST]


def _deepspeed(facts: Facts) -> bool:
    told = facts.zero is not None or facts.said.get("launcher") == "deepspeed"
    return told or bool(
        {"deepspeed", "engine"} & facts.said.keys() or "deepspeed" in facts.releases
    )


def _alone(facts: Facts) -> bool:
    """Whether it is one process, or nothing in the log tells of more."""
    if facts.world is not None:
        return facts.world == 1
    own = facts.framework in ("", "transformers") and projects.of(facts) is None
    return own and not (facts.strategy or facts.said.get("launcher") or _deepspeed(facts))


def _own_loop(facts: Facts) -> bool:
    """Whether nothing in the log tells of a Trainer, DeepSpeed or a project that has both."""
    return not (facts.framework or _deepspeed(facts) or projects.of(facts))


def _lora(facts: Facts) -> bool:
    return "lora" in facts.tuning.lower()


_STAGE_2 = Do("zero2", "none for the result; shards optimizer states and gradients")
_STAGE_3 = Do("zero3", "slower: parameters are gathered for each layer")
_ON_CPU = Do("zero3_offload", "slow: optimizer and weights in the host's memory")
_SMALL = Do("small_optimizer", "needs bitsandbytes; states of 8 bits")
_FREEZE = Do("freeze_tower", "the tower no longer learns")
_ADAPT = Do("lora", "another kind of tuning: fewer weights learn")


def _shard(facts: Facts) -> tuple[Do, ...]:
    """DeepSpeed's stages where it is there or the framework brings it; else torch's own."""
    own = _own_loop(facts)
    if _alone(facts):
        return (_SMALL, Do("offload", "slow: optimizer states on the CPU"))[: 1 + _deepspeed(facts)]
    if own:
        return () if facts.fsdp else (Do("fsdp", "each rank holds a part, gathered by layer"),)
    if _lora(facts) and facts.zero in (0, 1, 2):  # the weights are what is large
        return (Do("zero3", "slower; shards the frozen weights, too"),)
    if facts.zero == 3:
        return (Do("offload", "slower: optimizer states on the CPU"),)
    if facts.zero == 2 or (facts.zero is None and _deepspeed(facts)):
        return (_STAGE_3,)
    return (_STAGE_2, Do("zero3", "slower; shards the parameters too"))


def _loading(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """The weights alone do not fit: nothing that a step keeps is there yet."""
    half = Do("load_half", "none on cards from Ampere on")
    single = "float32" in facts.said.get("torch_dtype", "")
    as_saved = facts.framework in _AS_SAVED and not single
    four = Do("four_bits", "adapters train alone: QLoRA")
    if _alone(facts) and not _deepspeed(facts):
        return (four,) if as_saved else (half, four)
    shard = _ON_CPU if facts.zero == 3 else Do("zero3", "slower; each rank holds a part")
    own = facts.framework in ("", "transformers")
    if own and facts.zero != 3 and "_move_model_to_device" in facts.trace and _deepspeed(facts):
        shard = _TOLD
    fewer = (four, shard) if _lora(facts) else (shard, four)
    return (*fewer[:1], *(() if as_saved else (half,)), *fewer[1:], _ON_CPU)


def _states(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """The optimizer's states do not fit: a smaller batch changes nothing of them."""
    less = (_ADAPT, _FREEZE) if facts.vision or in_tower(facts) else (_ADAPT,)
    if _alone(facts) or _own_loop(facts) or facts.zero == 3:
        return (*_shard(facts), *less)
    small = (told.total is not None and told.total < SMALL) or facts.world == 2
    shard = (_ON_CPU, *_shard(facts)) if small else (*_shard(facts), _ON_CPU)
    return (*shard, *(() if facts.zero else (_SMALL,)), *less)


def _generation(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    segments = (_SEGMENTS,) if told.fragmented else ()
    fewer = Do("fewer_answers", "slower rollouts")
    engine = (Do("less_engine", "a smaller cache"),) if "vllm" in facts.trace else ()
    none = (
        (Do("fewer_evals", "no rewards of held-out rows"),) if "in evaluate" in facts.trace else ()
    )
    return (fewer, *engine, _images(facts), *segments, *none, *_shard(facts))


def _saving(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    return (
        Do("save_less", "no optimizer state to resume from"),
        Do(
            '"stage3_gather_16bit_weights_on_model_save": false and zero_to_fp32.py afterwards',
            "one more step by hand",
        ),
    )


def _evaluation(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """The logits of all rows so far are kept on the card: not to keep them is the remedy."""
    batch = Do("eval_batch", "slower evaluation")
    kept = Do("eval_accumulation", "slower evaluation: logits go to the host's memory each step")
    loss = Do("loss_only", "no metrics from logits")
    none = Do("fewer_evals", "no loss of held-out rows")
    whole = facts.framework in _WITHOUT_GRADIENTS or "/trainer" in facts.trace
    first = () if whole else (_NO_GRAD,)
    segments = (_SEGMENTS,) if told.scattered else ()
    ends = (_images(facts), _length(facts))
    if facts.said.get("per_device_eval_batch_size") != "1":
        return (*first, batch, loss, *segments, none, *ends)
    logits = any(words in facts.trace for words in _LOGITS)
    return (*first, *((loss, kept) if logits else (kept, loss)), none, *segments, *ends)


def _stepping(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """In a step: at the first one the size of everything counts, later one row or image."""
    segments = (_SEGMENTS,) if told.fragmented else ()
    if one_row(facts, told):
        return (*segments, *_huge(facts))
    training, batch, length = _training(facts), _batch(facts), _length(facts)
    if filled(facts, told):
        shard = (_ON_CPU,) if facts.zero != 3 and not _alone(facts) else _shard(facts)
        rest = tuple(do for do in training if do not in _shard(facts))
        return (*segments, *shard, _images(facts), length, _FREEZE, *rest)
    if any(words in facts.trace[-600:] for words in _VOCABULARY) and (told.asked or 0) > 1:
        liger = Do("liger", "none: the logits are not kept as a whole")
        known = facts.micro is not None
        rows = (*batch, length) if known else (length, *batch)
        found: tuple[Do, ...] = (*rows, liger, *_shard(facts), *training)
    elif in_tower(facts) and not begins(facts):
        frames = (_FRAMES,) if "video" in facts.trace.lower() else ()
        tower = Do("tower_checkpointing", "the tower's forward runs twice")
        found = (*frames, _images(facts), *batch, tower, _FREEZE, *training)
    elif not begins(facts) and not (facts.micro or 0) > 1:  # one row at a time, or nobody tells
        images = (_images(facts),) if facts.vision else ()
        found = (*training[:1], *images, length, *training)
    else:
        found = training
    between = (_SEGMENTS,) if told.scattered and not segments else ()
    return (*segments, *found[:1], *between, *found[1:])


def _huge(facts: Facts) -> tuple[Do, ...]:
    length, training = _length(facts), _training(facts)
    if any(words in facts.trace for words in _VOCABULARY):
        liger = Do("liger", "none: the logits are not kept as a whole")
        return (*_batch(facts), length, liger, *training)
    row = (_images(facts), length) if facts.vision or not facts.model else (length,)
    return (*row, *training)


def _images(facts: Facts) -> Do:
    """Smaller images, or fewer tiles for a family that cuts them into tiles."""
    if "internvl" in facts.model.lower():
        return Do("fewer_tiles", "less detail, shorter rows")
    return Do("max_pixels", "smaller images: less detail, shorter rows", limits.fewer_pixels(facts))


def _length(facts: Facts) -> Do:
    cost = f"longer rows are dropped, or their text is cut{limits.now(facts)}"
    return Do("max_length", cost, limits.shorter(facts))


def _batch(facts: Facts) -> tuple[Do, ...]:
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


def _training(facts: Facts) -> tuple[Do, ...]:
    """In a step: first what changes neither the rows nor the result."""
    batch, shard, length, pixels = _batch(facts), _shard(facts), _length(facts), _images(facts)
    less = Do("checkpointing", "about a third slower")
    tower = Do("tower_checkpointing", "the tower's forward runs twice")
    if facts.framework == "FlagEmbedding":  # whose loss knows the rows of the micro-batch
        return (less, length, *batch, *shard)
    known = facts.micro is not None
    begin = (*batch, less) if known else (less, *batch)  # half of what nobody told is no number
    if not facts.vision:  # nothing says that it sees; of a model without a name it may
        images = () if facts.model else (tower, pixels, _FREEZE)
        return (*begin, *shard, length, _ADAPT, *images)
    if known and not batch:  # one row at a time: what costs no detail comes first
        return (*begin, *shard, tower, pixels, length, _FREEZE, _ADAPT)
    return (*begin, tower, pixels, length, _FREEZE, *shard, _ADAPT)
