"""One process that believes it is a rank of many: its peers are taken to hold what it holds.

So its numbers mean nothing; its calls, and whether it fails, do. Sums are this rank's times the
number of ranks, gathers repeat its own part. What rank 0 broadcasts is kept on a tape and played to
another rank, since object lists (settings, generated texts) are read by those that get them.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from vlmguard.ranks.collective_calls import Call
from vlmguard.ranks.group import NotedGroup, join
from vlmguard.ranks.rank_environment import RankEnvironment
from vlmguard.ranks.referee import _done

LARGEST_TAPED = 1 << 20
"""Bytes of a tensor that is kept; weights are equal on all ranks anyway. Objects are always."""
BELIEVED = 1e6
"""A part's entries beyond this are padding that nobody initialised, and become zero: repeated as
every rank's part they would be NaN in the whole, and the loss with them."""


@dataclass
class _Tape:
    """Broadcasts by (group, root, number)."""

    file: Path
    kept: dict[tuple[int, int, int], torch.Tensor]
    counts: dict[tuple[int, int], int]

    def next(self, group: int, root: int) -> tuple[int, int, int]:
        number = self.counts.get((group, root), 0)
        self.counts[(group, root)] = number + 1
        return group, root, number


class AloneGroup(NotedGroup):
    """Answers every call by itself."""

    kind = "alone"
    tape: _Tape

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)

    def carry_out(self, call: Call, args: tuple[Any, ...]) -> Any:
        """A Work that is done already."""
        with torch.no_grad():
            return _done(getattr(self, f"_do_{call.op.lstrip('_')}")(call, *args))

    def _summed(self, call: Call, tensors: Any) -> Any:
        for tensor in tensors:
            if "SUM" in call.signature.split() and tensor.dtype != torch.bool:
                tensor.mul_(self.own_size)
        return tensors

    def _do_barrier(self, call: Call, *_: Any) -> list[torch.Tensor]:
        return []

    def _do_allreduce(self, call: Call, tensors: Any, *_: Any) -> Any:
        return self._summed(call, tensors)

    _do_allreduce_coalesced = _do_reduce = _do_allreduce

    def _do_broadcast(self, call: Call, tensors: Any, options: Any) -> Any:
        for tensor in tensors:
            key = self.tape.next(self.number, options.rootRank)
            if options.rootRank == self.own_rank:
                if tensor.dtype == torch.uint8 or tensor.nbytes <= LARGEST_TAPED:
                    self.tape.kept[key] = tensor.clone()
            elif (played := self.tape.kept.get(key)) is not None and played.dtype == tensor.dtype:
                room = min(played.numel(), tensor.numel())
                tensor.reshape(-1)[:room].copy_(played.reshape(-1)[:room])
        return tensors

    def _do_allgather(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        for row, given in zip(outputs, inputs, strict=True):
            for target in row:
                _fill(target, given)
        return outputs[0]

    def _do_allgather_base(self, call: Call, output: Any, given: Any, *_: Any) -> Any:
        output.view(self.own_size, -1).copy_(_believed(given).reshape(1, -1))
        return [output]

    def _do_allgather_into_tensor_coalesced(self, call: Call, outs: Any, ins: Any, *_: Any) -> Any:
        for output, given in zip(outs, ins, strict=True):
            self._do_allgather_base(call, output, given)
        return outs

    def _do_reduce_scatter(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        for output, row in zip(outputs, inputs, strict=True):
            output.copy_(row[self.own_rank])
        return self._summed(call, outputs)

    def _do_reduce_scatter_base(self, call: Call, output: Any, given: Any, *_: Any) -> Any:
        own = given.reshape(-1).chunk(self.own_size)[self.own_rank]
        output.copy_(own.view_as(output))
        return self._summed(call, [output])

    def _do_reduce_scatter_tensor_coalesced(self, call: Call, outs: Any, ins: Any, *_: Any) -> Any:
        for output, given in zip(outs, ins, strict=True):
            self._do_reduce_scatter_base(call, output, given)
        return outs

    def _do_gather(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        for row in outputs:
            for target in row:
                _fill(target, inputs[0])
        return outputs

    def _do_scatter(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        if inputs:
            outputs[0].copy_(inputs[0][self.own_rank])
        else:
            outputs[0].zero_()
        return outputs

    def _do_alltoall(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        for output, given in zip(outputs, inputs, strict=True):
            _fill(output, given)
        return outputs

    def _do_alltoall_base(self, call: Call, output: Any, given: Any, *_: Any) -> Any:
        output.zero_()
        _fill(output, given)
        return [output]

    def _do_send(self, call: Call, tensors: Any, *_: Any) -> Any:
        return tensors

    def _do_recv(self, call: Call, tensors: Any, *_: Any) -> Any:
        for tensor in tensors:
            tensor.zero_()
        return tensors

    _do_recv_anysource = _do_recv


def _believed(part: torch.Tensor) -> torch.Tensor:
    if not part.is_floating_point():
        return part
    return torch.where(part.abs() < BELIEVED, part, torch.zeros_like(part))


def _fill(target: torch.Tensor, given: torch.Tensor) -> None:
    room = min(target.numel(), given.numel())
    target.reshape(-1)[:room].copy_(_believed(given).reshape(-1)[:room])


def enter(environment: RankEnvironment) -> None:
    """This process is that rank from now on."""
    tape = environment.tape
    kept = pickle.loads(tape.read_bytes()) if environment.rank and tape.exists() else {}
    AloneGroup.tape = _Tape(tape, kept, {})
    join(AloneGroup.kind, AloneGroup, environment.rank, environment.size, dist.HashStore())


def leave(environment: RankEnvironment) -> None:
    """Rank 0 keeps its tape for those that come after it."""
    if environment.rank == 0:
        environment.tape.write_bytes(pickle.dumps(AloneGroup.tape.kept))
