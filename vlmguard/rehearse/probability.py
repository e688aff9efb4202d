"""How often ranks meet different kinds of rows by chance."""

from __future__ import annotations


def ranks_differ(share: float, world: int, batch: int = 1) -> float:
    """The probability that at one step some ranks have media and others have none.

    share: of rows without media. batch: rows of one micro-batch, which is without media only if
    all of its rows are. With one row a batch: 1 - p^N - (1 - p)^N.
    """
    without: float = share**batch
    return max(0.0, 1.0 - without**world - (1.0 - without) ** world)


def told(share: float, world: int, batch: int = 1) -> str:
    """The same in words."""
    chance = ranks_differ(share, world, batch)
    shown = f"{chance:.0%}" if 0.01 <= chance <= 0.99 else f"{chance:.2g}"
    if chance > 0.99 and 0 < share < 1:
        shown = "over 99%"
    return f"{share:.0%} of the rows have no media: at {world} ranks {shown} of the steps are such"
