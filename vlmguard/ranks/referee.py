"""The referee's side in a rank: every call goes to the coordinator and comes back with all data.

A call is carried out when it is made, also one that torch calls asynchronous: for ranks that issue
the same calls in the same order, which is what is judged, the data are the same.
"""

from __future__ import annotations

from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]

from vlmguard.ranks.collective_calls import Call
from vlmguard.ranks.group import NotedGroup, join
from vlmguard.ranks.tensor_store import LEAST, Place, TensorStore


class RefereeGroup(NotedGroup):
    """Gives this rank's tensors to the coordinator and works out the result here."""

    kind = "referee"
    line: Connection
    store: TensorStore

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)

    def carry_out(self, call: Call, args: tuple[Any, ...]) -> Any:
        """A Work that is done already."""
        return _done(getattr(self, f"_do_{call.op.lstrip('_')}")(call, *args))

    def _all(self, call: Call, given: list[torch.Tensor], peer: int = -1) -> list[list[Any]]:
        """Every member's tensors for this call, in the order of ranks."""
        before = self.store.held(self.number)
        letter = call.op in ("send", "recv", "recv_anysource")
        store = None if letter else self.store  # a message lies there until it is received
        packed = [_pack(tensor, store, self.number) for tensor in given]
        self.line.send(("call", self.members, call, packed, peer))
        answer = self.line.recv()
        if not letter:
            self.store.free(before)
        return [[_unpack(self.store, *one) for one in member] for member in answer]

    def _do_barrier(self, call: Call, *_: Any) -> list[torch.Tensor]:
        self._all(call, [])
        return []

    def _do_allreduce(self, call: Call, tensors: list[torch.Tensor], options: Any = None) -> Any:
        columns = zip(*self._all(call, tensors), strict=True)
        for tensor, column in zip(tensors, columns, strict=True):
            tensor.copy_(_reduced(column, call.signature))
        return tensors

    _do_allreduce_coalesced = _do_allreduce

    def _do_reduce(self, call: Call, tensors: list[torch.Tensor], options: Any) -> Any:
        columns = list(zip(*self._all(call, tensors), strict=True))
        if self.own_rank == options.rootRank:
            for tensor, column in zip(tensors, columns, strict=True):
                tensor.copy_(_reduced(column, call.signature))
        return tensors

    def _do_broadcast(self, call: Call, tensors: list[torch.Tensor], options: Any) -> Any:
        rows = self._all(call, tensors)
        for tensor, new in zip(tensors, rows[options.rootRank], strict=True):
            tensor.copy_(new.view_as(tensor))
        return tensors

    def _do_allgather(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        rows = self._all(call, inputs)
        for number, row in enumerate(outputs):
            for target, member in zip(row, rows, strict=True):
                _fill(target, member[number])
        return outputs[0]

    def _do_allgather_base(self, call: Call, output: Any, given: Any, *_: Any) -> Any:
        rows = self._all(call, [given])
        output.copy_(torch.cat([row[0].reshape(-1) for row in rows]).view_as(output))
        return [output]

    def _do_allgather_into_tensor_coalesced(self, call: Call, outs: Any, ins: Any, *_: Any) -> Any:
        rows = self._all(call, ins)
        for number, output in enumerate(outs):
            output.copy_(torch.cat([row[number].reshape(-1) for row in rows]).view_as(output))
        return outs

    def _do_reduce_scatter(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        rows = self._all(call, [tensor for row in inputs for tensor in row])
        own = [row[self.own_rank] for row in rows]
        outputs[0].copy_(_reduced(own, call.signature))
        return outputs

    def _do_reduce_scatter_base(self, call: Call, output: Any, given: Any, *_: Any) -> Any:
        own = [self._shard(row[0], output) for row in self._all(call, [given])]
        output.copy_(_reduced(own, call.signature))
        return [output]

    def _do_reduce_scatter_tensor_coalesced(self, call: Call, outs: Any, ins: Any, *_: Any) -> Any:
        rows = self._all(call, ins)
        for number, output in enumerate(outs):
            own = [self._shard(row[number], output) for row in rows]
            output.copy_(_reduced(own, call.signature))
        return outs

    def _shard(self, whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return whole.reshape(-1).chunk(self.own_size)[self.own_rank].view_as(like)

    def _do_gather(self, call: Call, outputs: Any, inputs: Any, options: Any) -> Any:
        rows = self._all(call, inputs)
        if self.own_rank == options.rootRank:
            for target, row in zip(outputs[0], rows, strict=True):
                _fill(target, row[0])
        return outputs

    def _do_scatter(self, call: Call, outputs: Any, inputs: Any, options: Any) -> Any:
        rows = self._all(call, list(inputs[0]) if inputs else [])
        outputs[0].copy_(rows[options.rootRank][self.own_rank])
        return outputs

    def _do_alltoall(self, call: Call, outputs: Any, inputs: Any, *_: Any) -> Any:
        for target, row in zip(outputs, self._all(call, inputs), strict=True):
            target.copy_(row[self.own_rank])
        return outputs

    def _do_alltoall_base(
        self, call: Call, output: Any, given: Any, takes: Any, gives: Any, *_: Any
    ) -> Any:
        sizes = list(gives) or [len(given) // self.own_size] * self.own_size
        rows = self._all(call, list(given.split(sizes)))
        output.copy_(torch.cat([row[self.own_rank] for row in rows]))
        return [output]

    def _do_send(self, call: Call, tensors: Any, to: int, tag: int = 0) -> Any:
        self._all(call, tensors, self.members[to])
        return tensors

    def _do_recv(self, call: Call, tensors: Any, source: int, tag: int = 0) -> Any:
        peer = self.members[source]
        for tensor, new in zip(tensors, self._all(call, tensors, peer)[0], strict=True):
            tensor.copy_(new)
        return tensors


def _pack(
    tensor: torch.Tensor, store: TensorStore | None, group: int
) -> tuple[bytes | Place, str, tuple[int, ...]]:
    flat = tensor.detach().contiguous().reshape(-1)
    raw = flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)
    kind, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    if store is not None and len(raw) >= LEAST:
        return store.put(memoryview(raw.numpy()), group), kind, shape
    return raw.numpy().tobytes(), kind, shape


def _unpack(
    store: TensorStore, raw: bytes | Place, kind: str, shape: tuple[int, ...]
) -> torch.Tensor:
    dtype = getattr(torch, kind)
    if not raw:
        return torch.empty(shape, dtype=dtype)
    content = bytearray(raw) if isinstance(raw, bytes) else store.read(raw)
    return torch.frombuffer(content, dtype=dtype).reshape(shape)


def _fill(target: torch.Tensor, new: torch.Tensor) -> None:
    """Copy; pickled objects may be shorter than the room for them."""
    target.reshape(-1)[: new.numel()].copy_(new.reshape(-1))


def _reduced(parts: Any, signature: str) -> torch.Tensor:
    stacked = torch.stack(list(parts))
    operator = signature.split()
    if "MAX" in operator:
        return stacked.amax(0)
    if "MIN" in operator:
        return stacked.amin(0)
    if "PRODUCT" in operator:
        return stacked.prod(0)
    if "BAND" in operator or "BOR" in operator:
        return stacked.all(0) if "BAND" in operator else stacked.any(0)
    total = stacked.sum(0, dtype=stacked.dtype)
    return total / len(stacked) if "AVG" in operator else total


def _done(value: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(value)
    return _create_work_from_future(future)


def enter(rank: int, size: int, line: Connection, store: TensorStore, scratch: Path) -> None:
    """Join the ranks over ``line``, this rank's connection with the coordinator.

    They share a store in ``scratch``, as real ranks do: what the guard exchanges goes through it.
    """
    RefereeGroup.line = line
    RefereeGroup.store = store
    store = dist.FileStore(str(scratch / "store"), size)
    join(RefereeGroup.kind, RefereeGroup, rank, size, store)
