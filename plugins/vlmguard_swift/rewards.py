"""What a tiny model of random weights is rewarded for, in a rehearsal.

Its completions are noise: a reward function that looks for an answer or a format gives all of them
the same, every advantage is then zero, and nothing moves.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

TOLD = "rewards that were all alike: others in their place, so that something moves"


def spread(told: dict[str, Any]) -> None:
    """From now on groups whose rewards are all equal get others; says so in ``told["notes"]``.

    The user's reward functions run and may fail as they do. Rewards are looked at when they have
    been gathered, so that all ranks put the same in their place.
    """
    try:
        trainer = importlib.import_module("swift.rlhf_trainers.grpo_trainer").GRPOTrainer
        own = trainer._compute_rewards_per_func
    except (ImportError, AttributeError):  # ms-swift 3.x
        return

    @functools.wraps(own)
    def given(self: Any, *args: Any, **named: Any) -> Any:
        rewards = own(self, *args, **named)
        if not alike(rewards, int(getattr(self, "num_generations", 0) or 0)):
            return rewards
        if TOLD not in told["notes"]:
            told["notes"].append(TOLD)
        return others(rewards)

    trainer._compute_rewards_per_func = given


def alike(rewards: Any, group: int) -> bool:
    """Whether in no group of ``group`` rows, that follow each other, one differs from another.

    rewards: (completions, functions), NaN where a function said nothing.
    """
    if rewards.dim() != 2 or not rewards.numel() or group < 2 or len(rewards) % group:
        return False
    sums = rewards.nan_to_num(0.0).sum(1).view(-1, group)
    return bool((sums == sums[:, :1]).all())


def others(rewards: Any) -> Any:
    """Rewards between 0 and 1 that differ from row to row."""
    import torch

    drawn = torch.arange(len(rewards), dtype=torch.float64).mul(0.6180339887).frac()
    return drawn.to(rewards).unsqueeze(1).expand_as(rewards).clone()
