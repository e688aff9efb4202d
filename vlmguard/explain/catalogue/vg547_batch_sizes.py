"""DeepSpeed's batch sizes do not multiply."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# DeepSpeed's: train_batch_size, micro-batch, accumulation, ranks.
_SIZES = re.compile(r"(\d{1,9}) != (\d{1,7}) \* (\d{1,7}) \* (\d{1,7})")


def _do(facts: Facts) -> tuple[Do, ...]:
    auto = Do("auto_batch", "none; the global batch is then micro-batch × accumulation × ranks")
    if (sizes := _SIZES.search(facts.message)) is None:
        return (_NUMBERS, auto, _OUT) if "'str' and 'int'" in facts.message else (auto, _OUT)
    micro, accumulation, ranks = (int(n) for n in sizes.groups()[1:])
    right = micro * accumulation * ranks
    by_hand = Do(
        f'"train_batch_size": {right} in DeepSpeed\'s config ({micro} × {accumulation} × {ranks}; '
        f"it says {sizes[1]})",
        "none",
    )
    given, rows = int(sizes[1]), micro * accumulation
    if facts.said.get("train_batch_size") == sizes[1] and "train_batch_size" in facts.typed:
        return (_typed(given, micro, accumulation, ranks),)
    if ranks == 1 and given > rows and given % rows == 0:
        if (facts.world or 1) == 1:
            return (_planned(given, micro, accumulation), by_hand)
        return _counted(facts, given, micro, accumulation)
    return (by_hand, auto) if not facts.framework else (auto, by_hand)


def _typed(given: int, micro: int, accumulation: int, ranks: int) -> Do:
    """The program makes the configuration of what its command gives (OpenRLHF)."""
    step = micro * ranks
    below, above = given // step * step, (given // step + 1) * step
    return Do(
        f"--train_batch_size {below or above}: in place of {given} (or {above}): it must divide by "
        f"{micro} rows × {ranks} ranks = {step}; or a number of ranks that divides "
        f"{given // micro}",
        "little: another global batch",
    )


def _planned(given: int, micro: int, accumulation: int) -> Do:
    """The configuration is for several ranks, and nothing says that there are more than one."""
    ranks, rows = given // (micro * accumulation), micro * accumulation
    return Do(
        '"train_batch_size": "auto" in DeepSpeed\'s config, which the Trainer fills in (without it '
        f"{rows} = {micro} × {accumulation} × 1); or, with {ranks} cards, torchrun "
        f"--nproc_per_node {ranks} …: {given} = {micro} × {accumulation} × {ranks} is for {ranks} "
        f"ranks (started so already: env | grep WORLD_SIZE in the job must say {ranks})",
        "none",
    )


def _counted(facts: Facts, given: int, micro: int, accumulation: int) -> tuple[Do, ...]:
    """DeepSpeed counts one rank of several: its own group was not there when it was asked."""
    ranks = given // (micro * accumulation)
    call, words = (
        'deepspeed.init_distributed(dist_backend="nccl"), on a line before ',
        "from_pretrained(…), in place of an own torch.distributed.init_process_group(…): DeepSpeed "
        f"counts 1 rank of {facts.world} because its own communication is not set up there; "
        f"{given} = {micro} × {accumulation} × {ranks} is right",
    )
    llava = "/llava/" in facts.trace
    return (
        Do(f"{call}{{place}}, its {words}", "none", kind="init"),
        Do(f"{call}{words}", "none", kind="init"),
        *((_LLAVA,) if llava else ()),
        Do(
            "grep -rn --include='*.py' init_process_group .: an own group made before "
            "TrainingArguments keeps accelerate from setting up DeepSpeed's: take it out",
            "none",
        ),
    )


_LLAVA = Do(
    "python -m pip install 'deepspeed==0.12.6' 'transformers==4.37.2' 'accelerate==0.21.0': the "
    "releases that LLaVA pins",
    "none",
)


_NUMBERS = Do(
    '"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1 (numbers) in '
    'DeepSpeed\'s config, and no "train_batch_size": deepspeed.initialize fills in no "auto", only '
    "the Trainer and accelerate do",
    "none",
)
_OUT = Do(
    "leave train_batch_size out of the config, and set micro-batch "
    "and accumulation on the command line alone",
    "none",
)

FAILURE = Known(
    code="VG547",
    name="explain-batch-sizes",
    title="DeepSpeed's three batch sizes contradict each other",
    zh="DeepSpeed 的三个 batch 参数互相矛盾",
    why="train_batch_size must be micro-batch per GPU × accumulation × "
    "number of ranks; the config fixes at least one that the "
    "command line or the number of ranks changed",
    do=_do,
    wrong="Changing the number of ranks changes the global batch: keep it by the accumulation.",
    signs=(
        Sign("_batch_assertion", where="trace"),
        Sign("_set_batch_related_parameters", where="trace", also=("unsupported operand",)),
        Sign("micro_batch_per_gpu", where="trace", also=("unsupported operand",)),
        Sign("train_batch_size is not equal to micro_batch_per_gpu"),
        Sign("DeepSpeed config values that mismatch", also=("batch_size",)),
        Sign("DeepSpeed config values that mismatch", also=("gradient_accumulation_steps",)),
        Sign("Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided"),
        Sign("train_batch_size", also=("has to be greater than 0",)),
        Sign("Micro batch size per gpu", also=("has to be greater than 0",)),
        Sign("Gradient accumulation steps", also=("has to be greater than 0",)),
        Sign("Train batch size", also=("has to be greater than 0",)),
        Sign(
            "batch related parameters",
        ),
        Sign("needs to be a valid integer value instead of 'auto'"),
        Sign("requires you to pass at least one of training or evaluation dataloaders"),
    ),
    examples=(
        Example(
            "AssertionError: Check batch related parameters. "
            "train_batch_size is not equal to micro_batch_per_gpu * "
            "gradient_acc_step * world_size 16 != 2 * 1 * 2",
            "made by causing it, DeepSpeed 0.19.8",
        ),
    ),
    evidence="deepspeed/runtime/config.py, 0.19.8.",
    narrow=3,
)
