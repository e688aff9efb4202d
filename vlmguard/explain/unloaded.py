"""A checkpoint whose names the model has with another prefix: nothing of them was loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vlmguard.explain.answer import Answer
from vlmguard.explain.candidates import Candidate
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known
from vlmguard.explain.lines import Line

_MISSING, _SURPLUS = "missing keys in the checkpoint", "unexpected keys in the checkpoint"
_NAME = re.compile(r"'([\w.]{3,200})'")
FEW = 4  # names: fewer may be a buffer or a tied head
LONGEST = 8000  # characters of a list


def unloaded(answer: Answer, digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """What ``answer`` ended had begun with weights of its own: whoever ended it had a reason.

    transformers' Trainer lists the names that it missed and those that it had no place for, and
    goes on; where one list is the other with another prefix, no weight of them was read.
    """
    for digest in digests:
        missing, surplus = _names(digest.text, _MISSING), _names(digest.text, _SURPLUS)
        moved = [(a, b) for a in missing for b in surplus if _moved(a, b)]
        if answer.pick is not None and moved and len(moved) >= min(FEW, len(missing)):
            line = _line(digest, answer.pick, moved[0])
            pick = Candidate(by_code["VG522"], line, None, answer.pick.rank)
            how = "names that were not loaded"
            return replace(answer, known=pick.known, pick=pick, how=how, evidence=[line])
    return None


def _line(digest: Digest, pick: Candidate, moved: tuple[str, str]) -> Line:
    """Where the names are listed, with one of each list."""
    number = digest.first + digest.text.partition(_MISSING)[0].count("\n")
    said = f"There were {_MISSING} model loaded: {moved[0]}, and {_SURPLUS}: {moved[1]}"
    return replace(pick.line, source=digest.number, number=number, text=said, raw=said)


def _names(text: str, header: str) -> list[str]:
    listed = text.partition(header)[2][:LONGEST].partition("\n")[0]
    return _NAME.findall(listed)[:50]


def _moved(one: str, other: str) -> bool:
    return one != other and (one.endswith(f".{other}") or other.endswith(f".{one}"))
