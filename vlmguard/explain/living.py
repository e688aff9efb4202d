"""Whether all ranks of a run lived until its launcher ended them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain import launcher
from vlmguard.explain.digest import Digest
from vlmguard.explain.logfacts import Facts

_ENDED = re.compile(r"\bSending process (\d{1,9}) closing signal SIGTERM\b")  # torchrun's


def all_of_them(facts: Facts, digests: Sequence[Digest]) -> bool:
    """Whether torchrun sent SIGTERM to each that had not failed itself, and none was killed.

    It watches its ranks, and says at once that one was killed: who is silent and was ended so was
    alive.
    """
    ended = {match[1] for d in digests for match in _ENDED.finditer(d.text)}
    failed = [one for d in digests for one in d.exits]
    if not ended or any(one.code in launcher.KILLED for one in failed):
        return False
    if facts.world is None:
        return facts.said.get("nnodes", "1") in ("", "1")
    return facts.world <= len(ended) + max(len({one.rank for one in failed}), 1)
