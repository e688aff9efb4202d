"""A checkpoint whose names the model has with another prefix: nothing of them was loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest, texts
from vlmguard.explain.failure import Known

_MISSING, _SURPLUS = "missing keys in the checkpoint", "unexpected keys in the checkpoint"
_NAME = re.compile(r"'([\w.]{3,200})'")
FEW = 4  # names: fewer may be a buffer or a tied head
LONGEST = 8000  # characters of a list


def unloaded(answer: Answer, digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """What ``answer`` ended had begun with weights of its own: whoever ended it had a reason.

    transformers' Trainer lists the names that it missed and those that it had no place for, and
    goes on; where one list is the other with another prefix, no weight of them was read.
    """
    text = "\n".join(texts(digests))
    missing, surplus = _names(text, _MISSING), _names(text, _SURPLUS)
    same = [name for name in missing if any(_moved(name, other) for other in surplus)]
    if len(same) < min(FEW, len(missing)) or not same:
        return None
    return replace(answer, known=by_code["VG522"], how="names that were not loaded, at its start")


def _names(text: str, header: str) -> list[str]:
    listed = text.partition(header)[2][:LONGEST].partition("\n")[0]
    return _NAME.findall(listed)[:50]


def _moved(one: str, other: str) -> bool:
    return one != other and (one.endswith(f".{other}") or other.endswith(f".{one}"))
