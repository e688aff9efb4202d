"""Whether the intended wrapper really engaged, from the collectives that were seen.

A run can silently not be distributed (a launcher's answer missing, one wrapper put for another)
and then passes every other check. Phases are those of a training step: "forward", "backward",
"step"; `Call.phase` may say more after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard.ranks.collective_calls import Call

_REDUCES = ("allreduce", "allreduce_coalesced", "reduce")
_SCATTERS = ("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced")
_GATHERS = (
    *("allgather", "_allgather_base", "allgather_coalesced"),
    *("allgather_into_tensor_coalesced", "broadcast"),
)
_BESIDE = (
    *("transformers/trainer", "accelerate/utils/operations.py", "accelerate/accelerator.py"),
    *("swift/", "trl/", "llamafactory/", "FlagEmbedding/", "torch/distributed/elastic/"),
)
"""Where a trainer's own talk comes from (losses and metrics gathered for a log line): such calls
say nothing about how the model is wrapped."""


def not_engaged(strategy: str, calls: Sequence[Sequence[Call]], trainable: int) -> str | None:
    """Why this cannot have been ``strategy`` on every rank; None if it was.

    strategy: "ddp…", "fsdp2", "zero0" to "zero3" (stage 0: DeepSpeed's own all-reduce).
    trainable: elements that require gradients, of the whole model.
    """
    for rank, whole in enumerate(calls):
        log = [call for call in whole if _of_wrapper(call)]
        if missing := _missing(strategy, log, trainable):
            return f"rank {rank}: {missing}"
    return None


def _of_wrapper(call: Call) -> bool:
    """DDP's own call in backward has the trainer's line as its site, too."""
    return call.phase.startswith("backward") or not call.site.startswith(_BESIDE)


def _missing(strategy: str, log: Sequence[Call], trainable: int) -> str | None:
    gathered_early = _count(log, _GATHERS, "forward")
    reduced = _count(log, _REDUCES + _SCATTERS, "backward") + _count(
        log, _REDUCES + _SCATTERS, "step"
    )
    if not any(call.op in _REDUCES + _SCATTERS for call in log):
        return "no gradient was ever reduced: this was not distributed"
    if strategy.startswith("ddp"):
        if _count(log, _REDUCES, "backward") < trainable:
            return f"backward reduced fewer than the {trainable} trainable elements: not DDP"
        if _count(log, _GATHERS, "step"):
            return "parameters were gathered after the step: not DDP"
    elif strategy == "zero0":
        if reduced < trainable:
            return f"backward and step reduced fewer than the {trainable} trainable elements"
    elif strategy in ("zero1", "zero1_overlap", "zero2"):
        if not reduced:
            return f"backward and step reduced nothing: not {strategy}"
        if not (_count(log, _GATHERS, "step") or _count(log, _GATHERS, "backward")):
            return f"no updated parameter was gathered: not {strategy}"
    elif not gathered_early:
        return f"forward gathered no parameters: not {strategy}"
    elif strategy == "fsdp2" and not _count(log, _SCATTERS, "backward"):
        return "backward scattered no gradients: not fsdp2"
    return None


def _count(log: Sequence[Call], ops: tuple[str, ...], phase: str) -> int:
    return sum(c.elements for c in log if c.op in ops and c.phase.startswith(phase))
