"""Which rank of how many a process alone believes to be. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RankEnvironment:
    """Attributes:
    rank: 0, or another that comes after it. Not the last: under ZeRO-3 its part may be padding.
    size: how many ranks; local: how many of them on a node.
    tape: a file for what rank 0 broadcasts.
    """

    rank: int
    size: int
    local: int
    tape: Path

    def variables(self) -> dict[str, str]:
        """As a launcher would set them."""
        place = str(self.rank % self.local)
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": place,
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.local),
            "LOCAL_SIZE": str(self.local),
            "GROUP_RANK": str(self.rank // self.local),
            "MASTER_ADDR": "127.0.0.1",  # nothing listens there: the group is made before
            "MASTER_PORT": "29500",
            "TORCH_DIST_INIT_BARRIER": "0",
            "VLMGUARD_ALONE": "1",
        }
