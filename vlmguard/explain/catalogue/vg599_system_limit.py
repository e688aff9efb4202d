"""A limit of the system on threads, processes or open files is reached."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_THREADS = ("thread", "fork", "Resource temporarily unavailable", "clone", "NPROC")
_FILES = ("Too many open files", "EMFILE", "file descriptor")

_MORE = Do(
    "ulimit -n $(ulimit -Hn) in front of the command: as many open files as this shell may have; "
    "ulimit -Hn below 65535: docker run --ulimit nofile=65535:65535, or /etc/security/limits.conf",
    "none",
    when=_FILES,
)
_SHARED = "torch.multiprocessing.set_sharing_strategy('file_system')"
_STRATEGY = (
    Do(
        _SHARED + " on the first line behind the imports of {main}: each tensor of a loader's "
        "worker no longer keeps a file open",
        "leftover files after a crash",
        when=("multiprocessing", "Too many open files"),
        kind="strategy",
    ),
    Do(
        _SHARED + " first in the script: each tensor of a loader's worker no longer keeps a file "
        "open",
        "leftover files after a crash",
        when=("multiprocessing", "Too many open files"),
        kind="strategy",
    ),
)
_PASSED = ("recvfds", "rebuild_storage_fd", "recv_handle")  # files passed between processes
_STEPS = (
    Do(
        "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 in front of the command: one thread a "
        "process in place of one a core",
        "slower work on the CPU",
        when=_THREADS,
    ),
    Do("map_workers", "slower preparation", when=_THREADS),
    Do("workers", "slower batches"),
    Do(
        "ulimit -u; cat /sys/fs/cgroup/pids.max: how many may be; more of them: ulimit -u "
        "unlimited, docker run --pids-limit -1, a pod's podPidsLimit",
        "an administrator's, where the shell refuses",
        when=_THREADS,
    ),
    Do(
        "ls /proc/$(pgrep -f train | head -1)/fd | wc -l: how many files it has open; does the "
        "number grow with the steps, something does not close them",
        "none",
        when=_FILES,
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Files that are passed between processes: their number, not the limit, is too high."""
    if any(name in facts.trace for name in _PASSED):
        return (*_STRATEGY, _MORE, *_STEPS)
    return (_MORE, *_STRATEGY, *_STEPS)


FAILURE = Known(
    code="VG599",
    name="explain-system-limit",
    title="A limit of the system is reached: threads, processes or open files",
    zh="达到系统上限：线程数、进程数或打开文件数",
    why=(
        "the system gave this process no further thread, process or file: a shell, a container or "
        "a job may have so many (`ulimit -u`, `ulimit -n`, a pod's pids limit), and each rank "
        "multiplies what it starts: data-loader and tokenizing workers, and one pool of threads "
        "for each core in each of them"
    ),
    do=_do,
    wrong=(
        "Where the number grows step by step, something is never closed: a higher limit only comes "
        "later."
    ),
    signs=(
        Sign("can't start new thread"),
        Sign("unable to create a new thread"),
        Sign("unable to start new thread"),
        Sign("pthread_create failed"),
        Sign("libgomp: Thread creation failed", where="line"),
        Sign("fork: retry: Resource temporarily unavailable", where="line"),
        Sign("fork: Resource temporarily unavailable", where="line"),
        Sign("Resource temporarily unavailable", no=(".lock", "flock", "lockf", "zmq")),
        Sign("Resource temporarily unavailable", where="line", also=("what():",)),
        Sign("Too many open files", no=("shared memory object",)),
        Sign("Too many open files in system", where="line"),
        Sign("inotify instance limit reached"),
        Sign("inotify watch limit reached"),
    ),
    examples=(
        Example(
            "RuntimeError: can't start new thread",
            "Modules/_threadmodule.c, Python 3.11",
        ),
        Example(
            "OSError: [Errno 24] Too many open files: '/data/images/000123.jpg'",
            "errno 24, Python 3.11",
        ),
        Example(
            "libgomp: Thread creation failed: Resource temporarily unavailable",
            "libgomp/team.c, GCC 12",
        ),
    ),
    evidence="Python's, glibc's and libgomp's own messages.",
    narrow=3,
)
