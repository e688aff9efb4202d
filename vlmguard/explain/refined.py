"""What the run's own facts make of a failure that its message alone names otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard.explain.answer import Answer
from vlmguard.explain.failure import Known

_INDEX, _NOT_GATHERED = "VG545", "VG523"


def by_facts(answer: Answer, catalogue: Sequence[Known]) -> Answer:
    """Under ZeRO-3 an index into a table of 0 rows is a weight that was not gathered."""
    said = answer.facts.message
    empty = "IndexError" in said and said.rstrip().endswith("with size 0")
    known = answer.known
    if known is not None and known.code == _INDEX and empty and answer.facts.zero == 3:
        answer.known = next(k for k in catalogue if k.code == _NOT_GATHERED)
    return answer
