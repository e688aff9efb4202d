"""Shared memory is too small."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# A host of twelve hexadecimal digits is Docker's name for a container.
_CONTAINER = re.compile(r"\[[0-9a-f]{12}:\d{1,9}[:\]]")
_LARGER = Do(
    "docker run --shm-size=16g … (the rest as it was; or --ipc=host; Kubernetes: an emptyDir with "
    "medium: Memory on /dev/shm): it runs in a container, which has 64 MB unless told otherwise",
    "host memory",
    kind="shm",
)
_POD = Do(
    "in the pod's YAML volumes: [{name: dshm, emptyDir: {medium: Memory}}] under spec and "
    "volumeMounts: [{name: dshm, mountPath: /dev/shm}] under its container; then kubectl delete -f "
    "and kubectl apply -f of that file",
    "host memory",
    unless=("ancdata", "Too many open files"),
    kind="shm",
)
_OF_NCCL = ("NCCL WARN", "/dev/shm/nccl")  # no loader's
_STEPS = (
    Do(
        "NCCL_SHM_DISABLE=1 in front of the command: the segment is there, and CUDA refuses to "
        "register it (invalid argument): its size is not the matter",
        "slower between the cards of one machine",
        when=("NCCL WARN Cuda failure",),
        kind="without",
    ),
    Do(
        "docker run --shm-size=16g … (the rest as it was; or --ipc=host; in Kubernetes an emptyDir "
        "with medium: Memory on /dev/shm)",
        "host memory",
        when=("/dev/shm/nccl", "No space left"),
        kind="shm",
    ),
    Do(
        "NCCL_SHM_DISABLE=1 in front of the command, where the container cannot be started anew",
        "slower between the cards of one machine",
        when=("/dev/shm/nccl", "NCCL WARN"),
        kind="without",
    ),
    Do(
        "ulimit -n $(ulimit -Hn) in front of the command: as many open files as this shell may "
        "have",
        "none",
        when=("ancdata", "Too many open files"),
    ),
    Do(
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        "leftover files after a crash",
        when=("ancdata", "Too many open files"),
    ),
    Do(
        "docker run --shm-size=32g … (the rest as it was; or --ipc=host; Kubernetes: an "
        "emptyDir with medium: Memory on /dev/shm)",
        "host memory",
        when=("shared memory",),
        unless=("ancdata", "Too many open files", "/dev/shm/nccl"),
        kind="shm",
    ),
    Do(
        "df -h /dev/shm: 64M is a container's default; full: remove what dead runs left there",
        "none",
        unless=("ancdata", "Too many open files", "NCCL WARN Cuda failure"),
    ),
    Do(
        "docker run --shm-size=16g or --ipc=host; in Kubernetes an "
        "emptyDir with medium: Memory on /dev/shm",
        "host memory",
        unless=("ancdata", "Too many open files", "NCCL WARN Cuda failure"),
        kind="shm",
    ),
    Do(
        "workers",
        "slower loading: no worker processes; needs no shared memory",
        unless=_OF_NCCL,
    ),
    Do(
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        "leftover files after a crash",
        unless=("ancdata", "Too many open files", *_OF_NCCL),
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """A bus error in a container: its shared memory, which the log need not name; in a pod nobody
    types docker run."""
    if "pod" in facts.said:
        return (_POD, *_STEPS)
    if _CONTAINER.search(facts.message) and "signal 7" in facts.message:
        return (_LARGER, *_STEPS)
    return _STEPS


FAILURE = Known(
    code="VG543",
    name="explain-shared-memory",
    title="Shared memory (/dev/shm) is too small",
    zh="共享内存 /dev/shm 不足",
    why="data-loader workers and NCCL pass data through /dev/shm, "
    "which containers limit to 64 MB by default; a bus error is "
    "how a full one shows",
    do=_do,
    wrong="A bus error also comes from a memory-mapped file that was cut or a disk that went away.",
    signs=(
        Sign("insufficient shared memory"),
        Sign("unable to open shared memory object"),
        Sign("unable to allocate shared memory"),
        Sign("Bus error"),
        Sign("unable to write to file </torch_"),
        Sign("unable to mmap", no=("Cannot allocate memory",)),
        Sign("Error while creating shared memory segment"),
        Sign("received 0 items of ancdata"),
        Sign("shared memory object", also=("Too many open files",)),
        Sign("unable to resize file"),
        Sign("insufficient shared memory (shm)", where="line"),
        Sign("Bus error", where="line"),
        Sign("Error while creating shared memory segment", where="line"),
        Sign("It is possible that dataloader's workers are out of shared memory", where="line"),
        Sign("Signal 7 (SIGBUS)"),
        Sign("posix_fallocate", also=("shm",)),
        Sign("NCCL WARN Call to posix_fallocate failed", where="line"),
        Sign("misc/shmutils.cc", where="line", also=("NCCL WARN Cuda failure",)),
        Sign("/dev/shm/nccl-", where="line", also=("WARN",)),
        Sign("NCCL WARN Error: failed to extend", where="line"),
        Sign("NCCL WARN Error: failed to create shared memory", where="line", releases="NCCL"),
        Sign("NCCL WARN Error: Could not map", where="line"),
        Sign("failed to extend /dev/shm", where="line"),
        Sign("failed to extend /dev/shm"),
    ),
    examples=(
        Example(
            "RuntimeError: DataLoader worker (pid 4242) is killed by "
            "signal: Bus error. It is possible that dataloader's workers "
            "are out of shared memory. Please try to raise your shared "
            "memory limit.",
            "torch/csrc/DataLoader.cpp, 2.4",
        ),
        Example(
            "RuntimeError: unable to open shared memory object "
            "</torch_4242_1234_0> in read-write mode: Too many open files "
            "(24)",
            "made by causing it (names and numbers changed), torch 2.13.0",
        ),
    ),
    evidence="torch's and NCCL's own messages.",
    narrow=4,
)
