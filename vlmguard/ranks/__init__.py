"""Runs N ranks of a step on one CPU machine and says how each ended.

``run(work, group="gloo")`` is the truth; ``group="referee"`` needs no ports and no time-outs and
names both sides of a deadlock at once. See `fork.run`. Importing this package imports no torch.
"""

from vlmguard.ranks.calls import Call, phase
from vlmguard.ranks.engaged import not_engaged
from vlmguard.ranks.fork import run
from vlmguard.ranks.outcome import Outcome, Result, Site

__all__ = ["Call", "Outcome", "Result", "Site", "not_engaged", "phase", "run"]
