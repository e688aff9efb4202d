"""DDP's static graph with accumulation."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _do(facts: Facts) -> tuple[Do, ...]:
    return (
        Do("no_static_graph", "none"),
        Do("non_reentrant", "none; what static_graph was for under checkpointing"),
        *_once(facts),
    )


def _once(facts: Facts) -> tuple[Do, ...]:
    """Without accumulation, at the same global batch."""
    micro, accumulation = facts.micro, facts.accumulation
    if micro is None or accumulation is None or accumulation < 2:
        return ()
    whole = (("micro", str(micro * accumulation)), ("accumulation", "1"))
    return (Do("batch", "more memory for a larger micro-batch", whole),)


FAILURE = Known(
    code="VG514",
    name="explain-static-graph",
    title="DDP's static graph met a step that is not like the first",
    zh="DDP static_graph 与梯度累积（或变化的计算图）冲突",
    why="static_graph=True promises that every step is the same; "
    "accumulation under no_sync, or a batch that skips a part, is "
    "not",
    do=_do,
    wrong="Where the graph does change from step to step (text and "
    "images), accumulation is not the cause: "
    "find_unused_parameters is what fits.",
    signs=(
        Sign("our training graph has changed in this iteration"),
        Sign("expect_autograd_hooks_", also=("INTERNAL ASSERT FAILED",)),
        Sign("reducer.cpp", also=("INTERNAL ASSERT FAILED",)),
        Sign("unmarked_param", also=("INTERNAL ASSERT",)),
        Sign("static_graph", also=("INTERNAL ASSERT",)),
    ),
    examples=(
        Example(
            "RuntimeError: expect_autograd_hooks_ INTERNAL ASSERT FAILED "
            'at "../torch/csrc/distributed/c10d/reducer.cpp":1591, please '
            "report a bug to PyTorch.",
            "torch/csrc/distributed/c10d/reducer.cpp, 2.2",
        ),
    ),
    evidence="Measured on torch 2.2 to 2.15: accumulation of 2 with static_graph fails in all.",
    prevented=("VG109",),
    narrow=1,
)
