"""A lock on a file was not given free."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG567",
    name="explain-file-lock",
    title="A file lock was never given free",
    zh="文件锁长时间未释放",
    why="ranks or nodes wait for a lock in a cache folder that another "
    "holds, or that a killed run or the file system left behind",
    do=(
        Do(
            "find ~/.cache/huggingface ~/.cache/torch_extensions ~/.cache/modelscope -name "
            "'*.lock' "
            "-mmin +10: nothing of yours that still runs (pgrep -u $USER -a python)? remove those "
            "files",
            "none",
        ),
        Do("download or build once, on one process, before the ranks start", "none"),
        Do(
            "HF_HOME and TORCH_EXTENSIONS_DIR on a disk that knows locks (not every NFS does)",
            "none",
        ),
    ),
    wrong="Not a collective: the ranks' inputs have nothing to do with it.",
    signs=(
        Sign("filelock"),
        Sign("The file lock"),
        Sign("could not be acquired"),
        Sign("SoftFileLock"),
        Sign("FileLock"),
        Sign("Timeout", also=(".lock",)),
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
