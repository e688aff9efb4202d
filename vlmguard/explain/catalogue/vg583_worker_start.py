"""A worker process cannot be started."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _do(facts: Facts) -> tuple[Do, ...]:
    """What a data loader cannot send to its workers need not be sent."""
    if "ickle" in facts.message and "datasets/arrow_dataset.py" in facts.trace:
        return (Do("map_workers", "slower preparation, in this process alone"), *_STEPS)
    sent = "ickle" in facts.message and "dataloader.py" in facts.trace
    return (Do("workers", "slower batches"), *_STEPS) if sent else _STEPS


_STEPS = (
    Do(
        "def {local}(…) at the top level of its module, not inside of another function (a "
        "lambda: give it a name there): only what is found there by its name can be sent",
        "none",
        when=("pickle",),
        kind="top",
    ),
    Do(
        "multiprocessing.set_start_method('spawn', force=True) first in the script's "
        "if __name__ == '__main__': (VLLM_WORKER_MULTIPROC_METHOD=spawn for vLLM)",
        "slower start",
        when=(
            "fork",
            "Re-initialize",
            "re-initialize",
            "initialization error",
            "bootstrapping",
        ),
    ),
    Do(
        "notebook_launcher: nothing on the GPU in an earlier cell; restart the kernel and "
        "start "
        "training first",
        "none",
        when=("notebook_launcher", "notebook"),
    ),
    Do(
        "functions at a module's top level instead of lambdas and nested ones; files opened in "
        "the worker",
        "none",
        when=("pickle", "Pickl", "pickling"),
        kind="top",
    ),
    Do("workers", "slower batches"),
    Do(
        "do nothing on the GPU before the workers start; in them nothing on the GPU at all",
        "none",
    ),
    Do(
        "functions at a module's top level instead of lambdas and nested ones; "
        "files opened in the worker",
        "none",
        unless=("pickle", "Pickl", "pickling", "fork"),
    ),
)

FAILURE = Known(
    code="VG583",
    name="explain-worker-start",
    title=(
        "A worker process cannot be started: CUDA was used before a fork, or "
        "something cannot be pickled"
    ),
    zh="子进程无法启动：fork 之前已使用 CUDA，或对象无法 pickle",
    why=(
        "a process was to be started after CUDA had been used in this one (a forked "
        "child cannot use it), or, with spawn, something had to be sent that cannot "
        "be pickled (a lambda, a nested function, an open file)"
    ),
    do=_do,
    wrong=(
        "num_proc=1 in datasets' map helps against pickling, not against CUDA in a forked worker."
    ),
    signs=(
        Sign("cannot be pickled"),
        Sign("Cannot re-initialize CUDA in forked subprocess"),
        Sign("CUDA error: initialization error"),
        Sign("CUDA error (3): initialization error"),
        Sign("Can't pickle", no=("pickle.dumps(", "pickle.dump(")),
        Sign("cannot pickle", no=("pickle.dumps(", "pickle.dump(")),
        Sign("Can't get local object"),
        Sign("PicklingError"),
        Sign("before the current process has finished its bootstrapping phase"),
        Sign("context has already been set"),
        Sign("daemonic processes are not allowed to have children"),
        Sign("has already been started as"),
        Sign("Cowardly refusing to serialize"),
        Sign("is not a public attribute of"),
        Sign("Can't get attribute", also=("__main__",)),
        Sign("cannot probe CUDA device capabilities in a forked"),
        Sign("Cannot re-initialize CUDA in forked subprocess", where="line"),
        Sign("multiprocessing/reduction.py", where="raised"),
        Sign("multiprocessing/popen_", where="raised"),
        Sign("multiprocessing/spawn.py", where="raised"),
        Sign("EOFError: Ran out of input", also=("spawn_main",), releases="the child's end of it"),
        Sign("-packages/dill/", where="raised"),
        Sign("-packages/cloudpickle/", where="raised"),
        Sign("initialization error", also=("CUDA",)),
        Sign("in notebook_launcher()", where="within"),
        Sign("verifying a stable environment for the notebook launcher"),
        Sign("To use CUDA with multiprocessing, you must use"),
        Sign("-packages/dill/", where="within"),
        Sign("-packages/cloudpickle/", where="within"),
        Sign("has been initialized before the `notebook_launcher`"),
        Sign("should only be initialized inside your training function"),
        Sign("causing issues once the `notebook_launcher"),
        Sign("An issue was found when launching the training"),
        Sign("spawn.py in _fixup_main_from_path()", where="within"),
    ),
    examples=(
        Example(
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To "
            "use CUDA with multiprocessing, you must use the 'spawn' start "
            "method",
            "torch/cuda/__init__.py, 2.13.0",
        ),
        Example(
            "AttributeError: Can't pickle local object 'main.<locals>.preprocess'",
            "made by causing it (names and numbers changed), Python 3.11",
        ),
    ),
    evidence="torch's and Python's own messages.",
    narrow=1,
)
