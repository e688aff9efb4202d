"""What a rank asked of its process group: one `Call` each, with the line that asked.

Calls are written to a file of the rank's own as they are made, so that they outlive a rank that
dies or hangs.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

_PLUMBING = (
    "vlmguard/ranks/",
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/c10d_logger.py",
    "torch/_tensor.py",
    "torch/autograd/",
    "torch/_ops.py",
    "torch/utils/_contextlib.py",
    "deepspeed/comm/",
    "deepspeed/utils/",
    "contextlib.py",
    "typing_extensions.py",
)
"""Files that every call comes through: they do not say who asked."""

_state: dict[str, Any] = {"file": None, "phase": ""}


@dataclass(frozen=True)
class Call:
    """One collective as a rank issued it.

    Attributes:
        op: the process group's method, for example "allreduce".
        signature: what has to be equal on all ranks: op, root or operator, types and shapes.
        elements: how many elements this rank gave in.
        group: the process group's number, in order of creation.
        phase: what the step was doing, as `phase` was told.
        site: "package/file.py:line in function", the innermost frame that is not plumbing.
        compared: False for point-to-point calls, whose two sides differ by nature.
    """

    op: str
    signature: str
    elements: int
    group: int
    phase: str
    site: str
    compared: bool = True


def phase(name: str) -> None:
    """Say what the step does now ("forward", "backward"); later calls carry it."""
    _state["phase"] = name


def log_to(file: Path) -> None:
    """Write this process's calls there from now on."""
    _state["file"] = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(call: Call) -> None:
    """Write the call down at once, unbuffered."""
    if _state["file"] is not None:
        os.write(_state["file"], (json.dumps(asdict(call)) + "\n").encode())


def read(file: Path) -> list[Call]:
    """The calls of a rank, in order; a last line that was cut off is left out."""
    if not file.exists():
        return []
    whole = file.read_bytes().rpartition(b"\n")[0].splitlines()
    return [Call(**json.loads(line)) for line in whole]


def describe(op: str, args: tuple[Any, ...], group: int) -> Call:
    """The call as it stands in the caller's hands, with the caller's line."""
    given, root = _given(op, args)
    shown = [_shown(tensor) for tensor in given]
    words = [op, *([root] if root else []), *(["[varying]"] if op in _VARYING else shown)]
    elements = sum(int(tensor.numel()) for tensor in given)
    signature = " ".join(words)
    return Call(op, signature, elements, group, _state["phase"], here(), op not in _PAIRS)


_PAIRS = ("send", "recv", "recv_anysource")
_VARYING = ("alltoall", "alltoall_base")
_SECOND = (
    *("allgather", "_allgather_base", "allgather_coalesced", "gather", "alltoall"),
    *("alltoall_base", "allgather_into_tensor_coalesced", "_reduce_scatter_base"),
    "reduce_scatter_tensor_coalesced",
)
"""Calls whose input is the second argument; of the others it is the first, or the output says."""


def _given(op: str, args: tuple[Any, ...]) -> tuple[list[Any], str]:
    """The tensors that have to agree between ranks, and the root or operator."""
    if op == "barrier" or not args:
        return [], ""
    tensors = list(_flat(args[1] if op in _SECOND and len(args) > 1 else args[0]))
    options = args[-1]
    words = []
    if op in ("broadcast", "gather", "scatter", "reduce"):
        words.append(f"root {getattr(options, 'rootRank', '?')}")
    if "reduce" in op:
        words.append(_operator(options))
    return tensors, " ".join(words)


def _operator(options: Any) -> str:
    told = getattr(options, "reduceOp", None)
    told = getattr(told, "op", told)  # torch wraps the operator since 2.0
    return str(told).rpartition(".")[2] if told is not None else "SUM"


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part)
    elif hasattr(value, "numel"):
        yield value


def _shown(tensor: Any) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    # Pickled objects travel as uint8, and their lengths may differ between ranks.
    shape = "*" if kind == "uint8" else ",".join(map(str, tensor.shape))
    return f"{kind}[{shape}]"


def here() -> str:
    """The line that asked, from the stack of this thread."""
    frame = sys._getframe(1)
    last = ""
    while frame is not None:
        name = _short(frame)
        told = f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
        if not name.startswith(_PLUMBING):
            return told
        last = last or told
        frame = frame.f_back  # type: ignore[assignment]
    return last


def frames(error: BaseException) -> tuple[str, ...]:
    """Where an exception was raised, outermost first, without the engine's own frames."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        name = _short(trace.tb_frame)
        if not name.startswith("vlmguard/ranks/"):
            found.append(f"{name}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    return tuple(found)


def text(error: BaseException) -> str:
    """An exception's message; where an assertion has none, its line of code."""
    told = str(error)
    if told or not isinstance(error, AssertionError):
        return told
    trace = traceback.extract_tb(error.__traceback__)
    return (trace[-1].line or "") if trace else ""


def _short(frame: FrameType) -> str:
    """A file's path from its package on: the same on every machine, wherever the package lies."""
    package = getattr(frame.f_globals.get("__spec__"), "parent", "")
    return "/".join([*package.split("."), os.path.basename(frame.f_code.co_filename)]).lstrip("/")
