"""Training loops of a user's own beside real ranks: in plain torch, with DeepSpeed's engine and on
accelerate. The oracle is the same loop that averages its gradients itself, without a wrapper."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from tests.frameworks.rehearse import known, odd
from tests.frameworks.rehearse.known import Job
from tests.kit import trainers as kit

REAL = ["--sgd", "0.1", "--steps", "4"]
"""What real ranks are compared by; the rehearsed command has AdamW, bf16 and clipping."""
_TORCH: dict[str, tuple[str, list[str]]] = {
    "ddp": ("distributeddataparallel", []),
    "ddp-accumulated": ("distributeddataparallel", ["--accumulate", "2"]),
    "ddp-mixed": ("distributeddataparallel", ["--data", "mixed"]),
    "ddp-phases": ("distributeddataparallel", ["--data", "phases"]),
    "ddp-reentrant": ("distributeddataparallel", ["--checkpointing", "reentrant"]),
    "ddp-checkpointed": ("distributeddataparallel", ["--checkpointing", "default"]),
    "ddp-inner": ("distributeddataparallel", ["--mistake", "inner"]),
    "ddp-unsynced": ("distributeddataparallel", ["--mistake", "unsynced"]),
    "by-itself": ("own exchange", ["--wrapper", "none", "--data", "mixed"]),
    "fsdp": ("fsdp2", ["--wrapper", "fsdp"]),
    "fsdp-accumulated": ("fsdp2", ["--wrapper", "fsdp", "--accumulate", "2"]),
    "fsdp-mixed": ("fsdp2", ["--wrapper", "fsdp", "--data", "mixed"]),
    "zero1": ("zero1", ["--wrapper", "deepspeed", "--stage", "1"]),
    "zero2": ("zero2", ["--wrapper", "deepspeed", "--accumulate", "2"]),
    "zero2-mixed": ("zero2", ["--wrapper", "deepspeed", "--data", "mixed"]),
    "zero3": ("zero3", ["--wrapper", "deepspeed", "--stage", "3"]),
    "zero3-mixed": ("zero3", ["--wrapper", "deepspeed", "--stage", "3", "--data", "mixed"]),
    "zero3-phases": ("zero3", ["--wrapper", "deepspeed", "--stage", "3", "--data", "phases"]),
}  # fmt: skip
"""Name → what stands around the model, and the command's own flags."""
_ACCELERATE: dict[str, list[str]] = {
    "accelerate": [], "accelerate-accumulated": ["--accumulate", "2"],
    "accelerate-mixed": ["--data", "mixed"], "accelerate-lora": ["--lora"],
    "accelerate-lora-phases": ["--lora", "--data", "phases"],
    "accelerate-lora-reentrant": ["--lora", "--checkpointing", "reentrant"],
}  # fmt: skip
_OF_REFERENCE = ["--mistake", "", "--checkpointing", ""]


def jobs() -> Iterator[Job]:
    """Two ranks, and three of one in each group."""
    for name, (wrapped, flags) in _TORCH.items():
        ranks = 3 if name in ("ddp", "zero3-mixed") else 2
        yield _job(name, "own_loop", wrapped, flags, [*_OF_REFERENCE, "--wrapper", "none"], ranks)
    for name, flags in _ACCELERATE.items():
        yield _job(name, "own_accelerate", "distributeddataparallel", flags,
                   ["--average", "--checkpointing", ""])  # fmt: skip


def _job(name: str, script: str, wrapped: str, flags: Sequence[str], right: Sequence[str],
         ranks: int = 2) -> Job:  # fmt: skip
    def command(*more: str) -> kit.Command:
        line = [*kit._torchrun(), str(kit.PROGRAMS / f"{script}.py"), "--model", "{model}"]
        return kit.Command([*line, *flags, *more])

    line = functools.partial(known.of_command, "trl", f"loop-{name}", command(), ranks)
    found = odd.of_command(command(*REAL), command(*REAL, *right), wrapped, ranks)
    return Job(f"loop-{name}", "trl", line, real=found)
