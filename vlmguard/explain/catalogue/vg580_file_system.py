"""A folder cannot be written, or the file system failed."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _do(facts: Facts) -> tuple[Do, ...]:
    if "os.open(output_dir" in facts.trace and "Permission" in facts.message:
        return (_FOLDERS, *_STEPS)
    return _STEPS


_FOLDERS = Do(
    "python -m pip install -U 'transformers>=4.37.2': 4.37.0 and 4.37.1 open the checkpoint's "
    "folder as a file, which Windows refuses",
    "none",
)
_WINDOWS = tuple(f"Permission denied: '{drive}:" for drive in "CDEFGH")
_STEPS = (
    Do(
        "end what has the file open (a second run, a viewer, a sync client, a virus "
        "scanner: Windows lets no other process write it), or another folder as the "
        "output",
        "none",
        when=_WINDOWS,
        kind="look",
    ),
    Do(
        "python -m pip install -U 'transformers>=4.37.2': 4.36 lets every rank rename that "
        "folder; on nodes with disks of their own --save_on_each_node true",
        "none",
        when=("tmp-checkpoint",),
        kind="look",
    ),
    Do(
        "another --output_dir, or --overwrite_output_dir (gone in transformers 5, which "
        "writes into it); to go on from what is there: --resume_from_checkpoint",
        "none",
        when=("already exists and is not empty",),
        kind="look",
    ),
    Do(
        "mkdir -p {folder}: what writes there does not make the folder",
        "none",
        when=(
            "No such file or directory",
            "cannot be opened",
        ),
        unless=("/proc/",),
        kind="look",
    ),
    Do(
        "id; ls -ld {path} {folder}; df -h {folder}, from the job itself, on its node",
        "none",
        kind="look",
    ),
    Do("id; ls -ld {path}; df -h ., from the job itself, on its node", "none", kind="look"),
    Do(
        "id; df -h . /tmp ~; touch ./x && rm ./x; dmesg -T | grep -i -E 'i/o error|nfs|lustre' "
        "| tail -5, from the job itself, on its node: full, not yours, or a mount that fails?",
        "none",
        kind="look",
    ),
    Do("a folder of your own: --output_dir, HF_HOME, TRITON_CACHE_DIR, TMPDIR", "none"),
    Do(
        "in a container: mount the folder, and run as the user who owns it",
        "none",
        when=("Permission denied", "Read-only", "not permitted"),
    ),
    Do(
        "an input/output error or a mount that is gone: tell the "
        "cluster's people, and resume from the last whole checkpoint",
        "the steps since then",
    ),
)

FAILURE = Known(
    code="VG580",
    name="explain-file-system",
    title="A path cannot be written, is there already, or the file system failed",
    zh="路径无法写入或已存在，或文件系统出错",
    why=(
        "the job may not write where it was told to, the folder is there already, "
        "or the shared file system answered with an error of its own (a mount that "
        "is gone, a stale handle, input/output error)"
    ),
    do=_do,
    wrong="--overwrite_output_dir starts anew: to go on, name the checkpoint.",
    signs=(
        Sign("cannot be opened", also=("_open_zipfile_writer",), releases="torch.save"),
        Sign("LustreError", also=("rc = -",), no=("rc = -28", "rc = -122"), releases="Lustre"),
        Sign("[Errno 13]"),
        Sign("FileNotFoundError", also=("open(", "'wb')"), releases="a folder that is not there"),
        Sign("FileNotFoundError", also=("open(", "'w')"), releases="a folder that is not there"),
        Sign("[Errno 1] Operation not permitted"),
        Sign("PermissionError", no=("Authentication",)),
        Sign("Permission denied"),
        Sign("[Errno 30]"),
        Sign("Read-only file system"),
        Sign("[Errno 5]"),
        Sign("Input/output error"),
        Sign("does not contain a `data` dir"),
        Sign("Opencompass need a `data` folder"),
        Sign("[Errno 107]"),
        Sign("Transport endpoint is not connected"),
        Sign("[Errno 116]"),
        Sign("Stale file handle"),
        Sign("[Errno 121]"),
        Sign("Remote I/O error"),
        Sign("[Errno 17]"),
        Sign("FileExistsError"),
        Sign("already exists and is not empty"),
        Sign("[Errno 39]"),
        Sign("Directory not empty"),
        Sign("[Errno 36]"),
        Sign("File name too long"),
        Sign("Parent directory", also=("does not exist",)),
        Sign("IsADirectoryError"),
        Sign("NotADirectoryError"),
        Sign("[Errno 108]"),
        Sign("[Errno 16] Device or resource busy"),
        Sign("[Errno 26]"),
        Sign("tmp-checkpoint-"),
        Sign("[Errno 103]"),
        Sign("[Errno 19] No such device"),
        Sign("[Errno 112] Host is down"),
        Sign("`.` cannot be created"),
        Sign("FileNotFoundError", also=("checkpoint-", "->")),
        Sign("FileNotFoundError", also=(" in makedirs",)),
        Sign("NotADirectoryError", also=(" in makedirs",)),
        Sign("[Errno 524]"),
        Sign(": Permission denied", where="line", also=("bash",)),
        Sign("slurmstepd: error: couldn't chdir", where="line"),
        Sign("slurmstepd: error: execve", where="line"),
        Sign("Could not open stdout file", where="line"),
        Sign("input file unavailable", where="line"),
        Sign("I/O error, dev ", where="line"),
        Sign("nfs: server", where="line"),
        Sign("Transport endpoint is not connected", where="line"),
        Sign("buffer nbytes != file bytes", where="line", releases="DeepSpeed's swap to NVMe"),
        Sign("== num_file_bytes", where="line", also=("Assertion",)),
        Sign("TMPDIR is set to"),
        Sign("Error while serializing", also=("IoError",), no=("No space", "code: 28")),
        Sign("error closing file", also=("OSError",), releases="pyarrow"),
        Sign("WinError 5]", releases="Windows"),
        Sign("WinError 32]", releases="Windows: in use by another process"),
        Sign("[Errno 95]"),
        Sign("[Errno 38]"),
        Sign("Operation not supported", also=("OSError",)),
    ),
    examples=(
        Example(
            "PermissionError: [Errno 13] Permission denied: '/output'",
            "Python's own text, EACCES",
        ),
        Example("OSError: [Errno 5] Input/output error", "errno's text, Linux"),
        Example(
            "ValueError: Output directory (/out) already exists and is not "
            "empty. Use --overwrite_output_dir to overcome.",
            "examples/pytorch/language-modeling/run_clm.py, transformers 4.40",
        ),
    ),
    evidence="Python's and Linux' own messages.",
    narrow=1,
)
