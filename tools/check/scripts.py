"""Which files of a checkout train, and what one types to start each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.check.places import Place

_STARTS = re.compile(
    r"torchrun|torch\.distributed|deepspeed\s|accelerate launch|(swift|megatron) (sft|pt|rlhf)|"
    r"verl\.trainer|python3? [^\n]*(train|tune|sft|grpo|dpo)\w*\.py|"
    r"-m \S*(train|tune)|bash \S*train"
)
_NOT = re.compile(
    r"eval|infer|deploy|merge|export|demo|serve|test|install|playground|bench|data_|_data\b|setup|"
    r"rollout|vllm_server|sampl|notrain", re.I
)  # fmt: skip
_TYPED = re.compile(
    r"^[ \t]*((?:[A-Z_]+=\S+ )*(?:accelerate launch|python3?|torchrun|trl) (?:.*\\\n)*.*)$", re.M
)


def scripts(place: Place, root: Path) -> Iterator[tuple[str, str]]:
    """Every script that trains, and what one types to start it: a shell's text."""
    for file in sorted(found for glob in place.globs for found in root.glob(glob)):
        name = file.relative_to(root).as_posix()
        text = file.read_text("utf-8", "replace")
        bare = re.sub(r"(?m)^\s*#.*$", "", text)
        if file.suffix == ".md":
            typed = [one for one in _TYPED.findall(text) if re.search(place.trains, one)]
            yield from ((f"{name}#{at}", one) for at, one in enumerate(typed, 1))
        elif file.suffix == ".py":
            typed = [one for one in _TYPED.findall(text) if file.name in one]
            if "__main__" in text and re.search(place.trains, text):
                yield name, "\n".join(typed or [f"python {name}"])
        elif file.suffix in (".yaml", ".yml"):
            if re.search(place.trains, text):
                command = next(to for start, to in place.commands if name.startswith(start))
                yield name, f"{command} {name}"
        elif not _NOT.search(name) and _STARTS.search(bare):
            yield name, ""
