"""Whether the loss rose before it was no number: the steps were too large."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from vlmguard.explain.digest import Digest

_LOSS = re.compile(r"\bloss['\"]?\s{0,3}[:=]\s{0,3}['\"]?(\d{1,9}(?:\.\d{1,12})?)(?![\d.e])")
ENOUGH = 4  # losses
TIMES = 2.0  # the last sound one, of those before it


def before_nan(digests: Sequence[Digest]) -> bool:
    """Whether the last sound loss of a log was twice what they were before."""
    return any(_rose(digest) for digest in digests)


def _rose(digest: Digest) -> bool:
    told = (_LOSS.search(line.text) for line, bad in digest.progress.losses if bad == 0)
    values = [float(match[1]) for match in told if match]
    return len(values) >= ENOUGH and values[-1] > TIMES * statistics.median(values[:-1])
