"""The lines by which a run tells its story: its commands, and each other kind of line once.

No bars, no tracebacks, no configuration dumps, none of the words that every run prints.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vlmguard.explain import frames
from vlmguard.explain.lines import Line

FIRST, LAST = 150, 350  # lines that are kept of one log
LONGEST = 2000  # characters of one: more than is ever shown, so that no secret is cut in two
_COMMANDS = 4
_PROGRAM = (
    r"(?:torchrun|deepspeed|accelerate launch|llamafactory-cli|swift (?:sft|pt|rlhf|megatron|infer|"
    r"export|eval|deploy|rollout)|trl (?:sft|dpo|grpo|kto|reward|rloo|env)|colossalai run|axolotl"
    r"|s(?:run|batch)|mpirun|docker run|kubectl|python[\d.]{0,5}|\S{0,80}/python[\d.]{0,5}"
    r"|bash|sh|nohup)"
)
# A command behind a prompt, behind `set -x`'s plus, or as a launcher repeats it.
_COMMAND = re.compile(
    r"^(?:(?:\([\w .+-]{1,40}\) ?){0,2}[^$#>\n]{0,160}[$#❯✗>] |\+{1,3} |.{0,60}run sh: `"
    r"|.{0,90}\b[Cc](?:md|ommand)(?:line)? ?[=:] ?)?"
    rf"(?:[A-Z][A-Z0-9_]{{1,60}}=\S{{0,200}} ){{0,12}}{_PROGRAM} \S"
)
_NOISE = re.compile(
    r"OMP_NUM_THREADS|\*{20}|petrel_client|TensorFlow|TF-TRT|cuDNN factory|cuBLAS factory|cuFFT "
    r"factory|computation_placer|oneDNN|Setting ds_accelerator|async_io|TOKENIZERS_PARALLELISM"
    r"|has NOT been destroyed|destroy_process_group|Special tokens have been added|loading file "
    r"|loading configuration file|loading weights file|Model config |Generate config|NCCL INFO "
    r"|warnings\.warn\(|logger\.warning|FutureWarning|DeprecationWarning|is deprecated"
    r"|If you are using a model|Using a slow image processor|sliding window attention|wandb: "
    r"|swanlab: |tcmalloc|Please use the new API settings|No ROCm runtime|\[real_accelerator"
    r"|values were not passed to `accelerate|To avoid this warning pass in|was set to a value of `"
    r"|unintended please pass in|^More than one GPU|The above exception was|During handling of the"
    r"|CUDA kernel errors might be|CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|RemoteTraceback:"
    r"|For debugging consider|^\S{0,60}\s?(?:Downloading|Fetching) |please pass an auth_token"
)
_LETTER = re.compile(r"[^\W\d_]{2}")


@dataclass
class Gist:
    """``commands`` as they were typed; ``lines``: the others, in order."""

    commands: list[Line] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def of(kept: Sequence[Line], shape: Callable[[str], int]) -> Gist:
    """What is told by ``kept``; two lines of one ``shape`` say the same."""
    gist, first, last = Gist(), list[Line](), deque[Line](maxlen=LAST)
    known: set[int] = set()
    inside: set[str] = set()
    for number, line in enumerate(kept):
        text = line.text
        if not text.strip() or _framed(text, line.lane, inside):
            continue
        one = shape(text)
        if "%|" in text:  # of a bar what it is of, once
            label = text.partition("%|")[0].rstrip(" 0123456789")
            if not _LETTER.search(label):
                continue
            one = hash(label)
        if one in known:
            continue
        known.add(one)
        if len(gist.commands) < _COMMANDS and _COMMAND.match(line.raw[:1500]):
            gist.commands.append(_cut(line, _continued(kept, number)))
        elif _LETTER.search(text) and not _NOISE.search(text[:600]):
            (first if len(first) < FIRST else last).append(_cut(line, line.raw))
    gist.lines = [*first, *last]
    return gist


def _framed(text: str, lane: str, inside: set[str]) -> bool:
    """Whether it is a traceback's, a box's or a configuration's; ``inside`` are lanes in one."""
    if text.startswith(("│", "╭", "╰", "}", "]", "Traceback (")) or frames.is_frame(text):
        inside.add(lane)
        return True
    if text[:1] in " \t" and lane in inside:
        return True
    inside.discard(lane)
    if text.rstrip().endswith(("{", "[", "(")):
        inside.add(lane)
    return False


def _continued(kept: Sequence[Line], number: int) -> str:
    """A command with the lines that its backslashes join to it."""
    said = kept[number].raw.rstrip()
    while said.endswith("\\") and number + 1 < len(kept) and len(said) < LONGEST:
        number += 1
        said = f"{said[:-1].rstrip()} {kept[number].text.strip()}"
    return said


def _cut(line: Line, raw: str) -> Line:
    return replace(line, text="", raw=raw if len(raw) <= LONGEST else raw[: LONGEST - 2] + " …")
