"""A graph or tensor that is no longer what it was."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEPS = (
    Do(
        "{place}: x = x.detach() of what comes from an earlier step (hidden states, rewards, "
        "outputs that are kept), total += loss.detach() for sums; one loss.backward() per forward",
        "none",
        when=("second time",),
        kind="detach",
    ),
    Do(
        "x.detach() of what is kept from one step to the next (hidden states, outputs, losses that "
        "are summed up); loss.backward() once per forward",
        "none",
        when=("second time",),
        kind="detach",
    ),
    Do(
        "{place}: x = x + y, not x += y or x[…] = y, of a tensor that needs a gradient "
        "(x.clone() first)",
        "a little memory",
        when=("leaf Variable", "leaf variable"),
    ),
    Do(
        "torch.autograd.set_detect_anomaly(True) before one step: it names the forward line",
        "slow",
    ),
    Do(
        "write image features by masked_scatter or clone() into the "
        "embeddings, not by slice assignment",
        "a little memory",
    ),
    Do("x.detach() of what is kept between steps", "none", unless=("second time",)),
)
_SCATTER = Do(
    "{place}: x = x.scatter(…) in place of x.scatter_(…), or x = x.clone() on the line before it",
    "a little memory",
)
_BUFFERS = Do("no_broadcast", "none: buffers that never change need no broadcast")


# "hidden_states[i][a + 1 : b] = images[idx]", the line that failed.
_SLICE = re.compile(
    r", in \w{1,60} ([A-Za-z_]\w{0,60})(?:\[[^\[\]]{1,80}\]){1,3} [-+*/]?= [^\n]{1,200}$"
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """DDP writes buffers anew at each forward: two forwards before one backward meet that."""
    ranks = facts.strategy == "ddp" or (facts.world or 1) > 1
    changed = "modified by an inplace operation" in facts.message
    if "leaf" in facts.message.lower() and (match := _SLICE.search(facts.trace)):
        clone = f"{match[1]} = {match[1]}.clone(), on a line of its own in front of {{place}}: what"
        return (Do(f"{clone} is written into needs a gradient itself", "a little memory"),)
    if "scatter_(" in facts.trace and "leaf" in facts.message.lower():
        return (_SCATTER, *_STEPS)
    return (_BUFFERS, *_STEPS) if ranks and changed and facts.zero is None else _STEPS


FAILURE = Known(
    code="VG528",
    name="explain-graph-reuse",
    title="Backward met a tensor that was changed or freed",
    zh="反向传播遇到被原地修改或已释放的张量",
    why="a tensor that backward needs was changed in place, or the "
    "same graph went backward twice: features written into "
    "embeddings that need a gradient, outputs kept from one step "
    "to the next",
    do=_do,
    wrong="retain_graph=True keeps memory growing and hides the second backward.",
    signs=(
        Sign("Can't detach views in-place"),
        Sign("Inference tensors cannot be saved for backward"),
        Sign("Only Tensors created explicitly by the user"),
        Sign("modified by an inplace operation"),
        Sign("Trying to backward through the graph a second time"),
        Sign("a leaf Variable that requires grad is being used in an in-place operation"),
        Sign("a view of a leaf Variable that requires grad is being used in an in-place"),
        Sign("Output 0 of", also=("is a view and is being modified inplace",)),
        Sign(
            "one of the variables needed for gradient computation has been modified", where="line"
        ),
    ),
    examples=(
        Example(
            "RuntimeError: a view of a leaf Variable that requires grad is "
            "being used in an in-place operation.",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="torch's own messages.",
)
