"""Runs N ranks of a step on one CPU machine and says how each ended.

``run(work, group="gloo")`` is the truth; ``group="referee"`` needs no ports and no time-outs and
names both sides of a deadlock at once; ``environment=RankEnvironment(0, 64, 8, tape)`` is one rank
of 64, alone. See `fork.run`. Importing this package imports no torch.
"""

from vlmguard.ranks.collective_calls import Call, phase
from vlmguard.ranks.fork import run
from vlmguard.ranks.outcome import Outcome, Result, Site
from vlmguard.ranks.rank_environment import RankEnvironment
from vlmguard.ranks.wrapper_engaged import not_engaged

__all__ = ["Call", "Outcome", "RankEnvironment", "Result", "Site", "not_engaged", "phase", "run"]
