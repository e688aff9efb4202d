"""A data-loader worker was ended."""

from __future__ import annotations

from vlmguard.explain import prepared
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_CRASHES = ("Segmentation fault", "Floating point", "Illegal instruction", "Aborted")


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in _CRASHES):
        return (
            "a worker process of the data loader crashed in compiled code: most often an image or "
            "video decoder at one file, or two libraries that do not survive fork"
        )
    return (
        "a worker process of the data loader ended without an exception: killed for memory, "
        "crashed in a decoder, or stuck"
    )


MANY = 32  # processes that prepare data: more than that share a machine's memory badly


def _fewer(facts: Facts) -> tuple[Do, ...]:
    """Fewer processes, where very many prepared the data."""
    many = (facts.number("map_workers", *prepared.FLAGS) or 0) >= MANY
    if many and "map operation" in facts.message:
        said = "none; it was memory, most often: so many processes share the machine's"
        return (Do("map_few", said),)
    return ()


_STEPS = (
    Do(
        "map_workers",
        "slower preparation; the exception then shows itself",
        when=("map operation",),
    ),
    Do(
        "DataLoader(timeout=0), or a much larger one: a worker was slow to read, not dead",
        "a hang is noticed later",
        when=("timed out after",),
    ),
    Do(
        "workers_crash",
        "slower loading; a crash in a decoder (cv2, decord, av, PIL) shows its line",
        when=_CRASHES,
    ),
    Do(
        "cv2.setNumThreads(0) in worker_init_fn where OpenCV decodes; else the decoder that "
        "the trace names, in another release",
        "none",
        when=_CRASHES,
    ),
    Do(
        "workers",
        "slower loading; the exception then shows itself in the rank",
        unless=("map operation", *_CRASHES),
    ),
    Do(
        "dmesg -T | grep -i -E 'killed process|oom': was it memory? (VG532)",
        "none",
        when=("Killed", "abruptly died"),
    ),
    Do(
        "more host memory, or fewer workers (VG532); dmesg -T | grep -i killed",
        "none",
        unless=_CRASHES,
    ),
    Do(
        'DataLoader(multiprocessing_context="spawn"), where a library does not survive fork',
        "slower start",
        unless=("map operation",),
    ),
)


_LOOK = Do(
    "dmesg -T | grep -i -E 'killed process|oom' | tail: a line with python: it was memory",
    "none",
)

_KILLED = (
    _LOOK,
    Do("workers", "slower loading; each worker holds rows and its own copy of what it was given"),
    Do(
        "more of the host's memory for the job (#SBATCH --mem=0; docker run --memory; limits: "
        "memory of a pod), or rows that are read one by one, not kept in a list (VG532)",
        "none",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Many workers of many ranks fill a host's memory: fewer of them before none."""
    many = facts.number("dataloader_num_workers", "num_workers") or 0
    killed = "by signal: Killed" in facts.message  # only the kernel, or a person, does that
    told = ("Killed", "exited unexpectedly")
    if many < 4 or (facts.world or 1) < 2 or not any(words in facts.message for words in told):
        return _KILLED if killed else (*_fewer(facts), *_STEPS)
    cost = (
        f"slower loading; {facts.world} ranks × {many} workers held their rows and images in the "
        "host's memory at once; 0 shows an exception that a worker kept to itself"
    )
    fewer = Do("workers_fewer", cost, (("few", str(max(many // 4, 1))),))
    return (fewer, _LOOK, *(do for do in _STEPS if "dmesg" not in do.action))


FAILURE = Known(
    code="VG544",
    name="explain-worker-killed",
    title="A data-loader worker was killed or died",
    zh="数据加载子进程被杀死或异常退出",
    why=_why,
    do=_do,
    wrong="If the rank itself failed first, its workers only followed.",
    signs=(
        Sign("DataLoader worker", also=("is killed by signal",)),
        Sign("DataLoader worker", also=("exited unexpectedly",)),
        Sign("Pin memory thread exited unexpectedly"),
        Sign(
            "DataLoader timed out",
        ),
        Sign("One of the subprocesses has abruptly died"),
        Sign("BrokenProcessPool"),
        Sign("terminated abruptly while the future"),
        Sign("packing worker exited unexpectedly"),
        Sign("torch/utils/data/_utils/signal_handling.py", where="raised"),
        Sign("tokenization failed because a dataset worker died", releases="unsloth"),
    ),
    examples=(
        Example(
            "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.",
            "made by causing it (pid changed), torch 2.13.0",
        ),
        Example(
            "RuntimeError: DataLoader worker (pid(s) 4242, 4243) exited unexpectedly",
            "torch/utils/data/dataloader.py, 2.13.0",
        ),
    ),
    evidence="torch's own message.",
)
