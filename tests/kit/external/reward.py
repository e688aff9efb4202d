"""An ms-swift external plug-in: rewards that differ, or GRPO has no gradient to compare."""

from __future__ import annotations

import os

try:
    from swift.rewards import ORM, orms
except ImportError:  # 3.x
    from swift.plugin import ORM, orms


class Alternating(ORM):
    """By rank and place: the two generations of a prompt sit on two ranks."""

    def __call__(self, completions, **kwargs):
        first = int(os.environ.get("RANK", "0"))
        return [float((first + number) % 2) for number in range(len(completions))]


orms["alternating"] = Alternating
