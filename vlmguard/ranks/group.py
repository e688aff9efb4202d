"""A process group that writes down every call before it is carried out.

Its methods are those that torch's C++ side (DDP's reducer) and `torch.distributed` call on any
group; releases rename some of them, so old and new names lead to the same place.
"""

from __future__ import annotations

import functools
import inspect
import os
import zlib
from typing import Any

import torch
import torch.distributed as dist

from vlmguard.ranks import collective_calls

_NAMES = {
    name: name
    for name in (
        *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "barrier"),
        *("allgather", "_allgather_base", "allgather_coalesced"),
        *("reduce_scatter", "_reduce_scatter_base", "gather", "scatter"),
        *("alltoall", "alltoall_base", "send", "recv", "recv_anysource"),
        *("allgather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"),
    )
} | {
    # torch 2.13's names for the same calls
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}


class NotedGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Base of both engines; `carry_out` does the work.

    Attributes:
        number: equal on all ranks for one group: torch counts groups on every rank, members or not.
        members: world ranks of the group, in the order of its own ranks.
    """

    kind = "noted"

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.own_rank = rank
        self.own_size = size
        self.own_name = ""
        self.number = 0
        self.members = tuple(range(size))

    def size(self) -> int:
        """How many ranks."""
        return self.own_size

    def rank(self) -> int:
        """This rank's number in the group."""
        return self.own_rank

    @property
    def group_name(self) -> str:
        """Torch's name for the group; its own is kept by C++ backends, and here is none."""
        return self.own_name

    def getGroupName(self) -> str:
        """The same, as C++ asks for it."""
        return self.own_name

    def name(self) -> str:
        """What torch calls the backend."""
        return self.kind

    def getBackendName(self) -> str:
        """The same, as older releases ask for it."""
        return self.kind

    def carry_out(self, call: collective_calls.Call, args: tuple[Any, ...]) -> Any:
        """Do it; returns torch's Work."""
        raise NotImplementedError


AS_GLOO = "VLMGUARD_RANKS_AS_GLOO"
"""Set to 1, tensors are handed on as they come: gloo then refuses those that require grad."""


def _untracked(value: Any) -> Any:
    """The same memory without autograd's history: NCCL writes to it unasked, gloo would refuse."""
    if os.environ.get(AS_GLOO) == "1":
        return value
    if isinstance(value, (list, tuple)):
        return [_untracked(each) for each in value]
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return value.detach()
    return value


def _method(op: str) -> Any:
    def method(self: NotedGroup, *args: Any, **named: Any) -> Any:
        given = (*map(_untracked, args), *_untracked(list(named.values())))
        call = collective_calls.describe(op, given, self.number)
        collective_calls.note(call)
        return self.carry_out(call, given)

    return method


for _name, _op in _NAMES.items():
    setattr(NotedGroup, _name, _method(_op))


def join(kind: str, create: Any, rank: int, size: int, store: Any) -> None:
    """Make ``create(store, rank, size, timeout)`` this process's default group."""

    def made(asked: Any, _: Any) -> NotedGroup:
        group: NotedGroup = create(asked.store, asked.group_rank, asked.group_size, asked.timeout)
        group.own_name = str(asked.group_id)
        group.number = _number(group.own_name)
        members = tuple(getattr(asked, "global_ranks_in_group", None) or ())
        group.members = members or tuple(range(asked.group_size))
        return group

    if not hasattr(dist.Backend, kind.upper()):
        dist.Backend.register_backend(kind, made, extended_api=True, devices=["cpu"])
    dist.init_process_group(kind, rank=rank, world_size=size, store=store)
    _all_groups_are(kind)


def _number(name: str) -> int:
    """From torch's name of a group: a count, or the hash of its ranks."""
    return int(name) if name.isdigit() else zlib.crc32(name.encode())


def _all_groups_are(kind: str) -> None:
    """A later ``new_group(backend="gloo")`` comes to this engine too, whatever it asks for."""
    module: Any = dist.distributed_c10d
    made = module._new_process_group_helper
    if hasattr(made, "of_engine"):
        return
    signature = inspect.signature(made)

    @functools.wraps(made)
    def helper(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        bound.arguments["backend"] = dist.Backend(kind)
        bound.arguments.pop("backend_options", None)
        bound.arguments.pop("pg_options", None)
        return made(*bound.args, **bound.kwargs)

    helper.of_engine = kind  # type: ignore[attr-defined]
    module._new_process_group_helper = helper
