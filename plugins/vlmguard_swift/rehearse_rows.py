"""Stand-in rows as ms-swift's tasks want them. Standard library only."""

from __future__ import annotations

from typing import Any

from vlmguard.check.reading.fields import Values
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.request import Request

Row = dict[str, Any]
_KINDS = {
    "grpo": "prompt", "kto": "label",
    **dict.fromkeys(("dpo", "cpo", "simpo", "orpo", "rm"), "pair"), "seq_cls": "class",
    **dict.fromkeys(("embedding", "reranker", "generative_reranker"), "query"),
}  # fmt: skip
_SCORED = ("cosine_similarity", "contrastive", "online_contrastive")


def kind_of(values: Values, kind: str) -> str:
    """What a row holds, as `Request.row` has it. kind: of RLHF, or ""."""
    return _KINDS.get(kind) or _KINDS.get(str(values.get("task_type")), "chat")


def shaped(request: Request, rows: list[Row]) -> list[Row]:
    """`stand_in_rows.stand_ins` as this command's rows."""
    argv = Argv(list(request.argv))
    make = {"label": _judged, "class": _classified, "query": _queried}.get(request.row)
    return [make(argv, row, number) for number, row in enumerate(rows)] if make else rows


def _judged(argv: Argv, row: Row, number: int) -> Row:
    return {**row, "label": number % 3 != 0}


def _classified(argv: Argv, row: Row, number: int) -> Row:
    count = argv.get("num_labels") or "2"
    label: Any = number % int(count) if count.isdigit() else 0
    if argv.get("problem_type") == "regression":
        label = number / 10
    elif argv.get("problem_type") == "multi_label_classification":
        label = [label]
    return {**row, "messages": row["messages"][:1], "label": label}


def _queried(argv: Argv, row: Row, number: int) -> Row:
    """One passage that answers it, two that do not."""
    speaker = "user" if argv.get("task_type") == "embedding" else "assistant"
    passages = [f"it is {number}", "no idea", f"not {number + 1}"]
    said = [[{"role": speaker, "content": text}] for text in passages]
    made = {**row, "messages": row["messages"][:1], "positive_messages": said[:1]}
    if speaker == "user" and (argv.get("loss_type") or _SCORED[0]) in _SCORED:
        return {**made, "label": float(number % 2)}
    return {**made, "negative_messages": said[1:]}
