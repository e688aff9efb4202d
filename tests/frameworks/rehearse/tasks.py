"""Commands of ms-swift's other tasks, for which real ranks have to be asked: one that is right and
one that crashes of each, and one whose numbers are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.frameworks.swift.cases import (
    FULL,
    LORA,
    NO_CHECKPOINTS,
    NO_EMBEDDINGS,
    REENTRANT,
    SFT,
    VISION,
    zero,
)
from tests.frameworks.swift.classes import SAME, Run
from tests.kit import runs, swift

Row = dict[str, Any]


def _judged(row: Row, number: int) -> Row:
    return {**row, "label": number // 2 % 2 == 0}


def _classified(row: Row, number: int) -> Row:
    return {**row, "messages": row["messages"][:1], "label": number % 3}


def _queried(row: Row, speaker: str, number: int) -> Row:
    said = [[{"role": speaker, "content": text}] for text in (f"it is {number}", "no", "never")]
    return {**row, "messages": row["messages"][:1], "positive_messages": said[:1],
            "negative_messages": said[1:]}  # fmt: skip


_ROWS: dict[str, Callable[[Row, int], Row]] = {
    "kto": _judged,
    "seq_cls": _classified,
    "embedding": lambda row, number: _queried(row, "user", number),
    "reranker": lambda row, number: _queried(row, "assistant", number),
}
TASKS: dict[str, tuple[list[str], list[str]]] = {
    "kto": (["rlhf", "--rlhf_type", "kto"], []),
    "seq_cls": (SFT, ["--task_type", "seq_cls", "--num_labels", "3"]),
    "embedding": (SFT, ["--task_type", "embedding", "--loss_type", "infonce"]),
    "reranker": (SFT, ["--task_type", "reranker"]),
}
"""Name → verb and flags."""


def _build(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    lines = (swift.dataset() / "image.jsonl").read_text("utf-8").splitlines()
    for name, make in _ROWS.items():
        rows = [make(json.loads(line), number) for number, line in enumerate(lines)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (out / f"{name}.jsonl").write_text(text, "utf-8")


def made() -> list[Run]:
    """The commands. Builds their rows where they are not there."""
    folder = runs.built("task-rows", Path(__file__).read_text("utf-8"), _build)
    found = []
    for name, (verb, flags) in TASKS.items():
        own = [*flags, "--dataset", str(folder / f"{name}.jsonl")]
        wrong = [*LORA, *REENTRANT, *VISION, *zero(2), *NO_EMBEDDINGS, *own]
        found += [
            Run(f"task-{name}-zero2", verb, "qwen2_vl", "image", [*FULL, *VISION, *zero(2), *own],
                "", "", [*FULL, *VISION, *own, *NO_CHECKPOINTS]),
            Run(f"task-{name}-reentrant", verb, "qwen2_vl", "image", [*LORA, *REENTRANT, *own], "",
                "", [*LORA, *own, *NO_CHECKPOINTS], extra=SAME),
            Run(f"task-{name}-no-embeddings", verb, "qwen2_vl", "image", wrong, "", "",
                [*LORA, *VISION, *own, *NO_CHECKPOINTS], extra=SAME),
        ]  # fmt: skip
    return found
