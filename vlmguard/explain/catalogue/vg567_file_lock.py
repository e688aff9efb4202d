"""A lock on a file was not given free."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if "No such file or directory" in facts.message:
        return (
            "the lock of a cache lies in a folder that is not there: another process or a clean-up "
            "took it away while this one used it, or the folder cannot be made"
        )
    return (
        "ranks or nodes wait for a lock in a cache folder that another "
        "holds, or that a killed run or the file system left behind"
    )


_BUILD = Do(
    "find ~/.cache/torch_extensions -name lock -mmin +10: a build that was broken off left it; "
    "remove it and start again",
    "none",
    when=("file_baton", "_jit_compile", "baton"),
    kind="lock",
)
_STEPS = (
    _BUILD,
    Do("mkdir -p {folder}; ls -ld {folder}, in the job", "none", when=("No such file",)),
    Do(
        "XDG_CACHE_HOME=/tmp/$USER HF_HOME=/tmp/$USER/hf in front of the command: SQLite "
        "cannot lock its file on a network disk, or many ranks open it at once",
        "the caches are filled again",
        when=("database is locked",),
        kind="lock",
    ),
    Do(
        "fuser -v {path}: nobody holds it: a left-over, delete it; else that process is "
        "still at work, or left from an earlier run of yours",
        "none",
        unless=("No such file",),
        kind="lock",
    ),
    Do(
        "fuser -v {lock}: the process that holds it is another download of yours that still "
        "runs, or a left-over to end (kill PID); nobody: delete that file; then the same "
        "command again",
        "none",
        kind="lock",
    ),
    Do(
        "find ~/.cache/huggingface ~/.cache/torch_extensions ~/.cache/modelscope -name '*lock' "
        "-mmin +10: nothing of yours that still runs (pgrep -u $USER -a python)? remove those "
        "files",
        "none",
        kind="lock",
    ),
    Do("download or build once, on one process, before the ranks start", "none"),
    Do(
        "HF_HOME and TORCH_EXTENSIONS_DIR on a disk that knows locks (not every NFS does)",
        "none",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Who waits for another's build stands there, whatever ended it."""
    if "file_baton" in facts.trace or "_jit_compile" in facts.trace:
        return (replace(_BUILD, when=()), *_STEPS)
    return _STEPS


FAILURE = Known(
    code="VG567",
    name="explain-file-lock",
    title="A file lock was never given free",
    zh="文件锁长时间未释放",
    why=_why,
    do=_do,
    wrong="Not a collective: the ranks' inputs have nothing to do with it.",
    signs=(
        Sign("filelock"),
        Sign("The file lock"),
        Sign("could not be acquired"),
        Sign("SoftFileLock"),
        Sign("FileLock"),
        Sign("Timeout", also=(".lock",)),
        Sign("No such file or directory", beside=(".lock'",)),
        Sign("Lock", also=("timed out",)),
        Sign("lock", also=("Timed out waiting",), no=("recv operation", "send operation")),
        Sign(
            "No locks available",
        ),
        Sign("database is locked", releases="sqlite: swanlab, mlflow, optuna"),
    ),
    examples=(
        Example(
            "filelock._error.Timeout: The file lock "
            "'/cache/hub/.locks/models--x/a.lock' could not be acquired.",
            "made by causing it (names and numbers changed), filelock",
        ),
    ),
    evidence="filelock's own message.",
    narrow=3,
)
