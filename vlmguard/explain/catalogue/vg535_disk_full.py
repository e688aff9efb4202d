"""No room, no quota."""

from __future__ import annotations

from vlmguard.explain import given
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_HUB = ("storage limit",)


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in _HUB):
        return "the account's private storage on the hub is full: the push was refused, not a disk"
    return "a write failed for want of room: a checkpoint, a cache, a log, or /tmp"


_CUT = Do(
    "ls -la {saved}; du -sh {output}/checkpoint-*: {saved} was being written and is cut: delete it "
    "before you resume; of the older ones all but the newest can go",
    "older checkpoints are deleted",
    unless=_HUB,
    kind="cut",
)
_HOME = ("/home/", "/root/", "/users/", "/u/")
_CACHED = ("datasets/", "huggingface_hub/", "/.cache/huggingface", "modelscope/hub")


def _elsewhere(facts: Facts) -> tuple[Do, ...]:
    """The cache of a home with a quota, where the run's own program lies on another disk."""
    main = given.script(facts.trace)
    words = f"{facts.message} {facts.trace}"
    cached = any(part in words for part in _CACHED) and "uota" in facts.message
    if not cached or not main.startswith("/") or main.startswith(_HOME):
        return ()
    disk = "/".join(main.split("/")[:3])
    return (
        Do(
            f"HF_HOME={disk}/huggingface in front of the same command: the cache of data and "
            "models (~/.cache/huggingface) is beyond the quota of the home; the program's own disk "
            "has another (quota -s)",
            "what was downloaded is fetched again (or mv ~/.cache/huggingface there)",
        ),
    )


_WHERE = Do(
    'df -h . /tmp ~ "${HF_HOME:-$HOME/.cache}"; df -i . /tmp ~; quota -s: a line at 100 % '
    "is the disk, or its inodes",
    "none",
    unless=_HUB,
    kind="room",
)
_FILE_SIZE = Do(
    "ulimit -f: anything but unlimited is the largest file that this shell's programs may "
    "write: ulimit -f unlimited in front of the command; unlimited: the file system has a "
    "largest file (FAT), take another disk",
    "none",
    when=("File too large",),
    kind="room",
)
# What was being written is no checkpoint, but a file of the cache.
_FETCHED = (
    "in http_get",
    "in hf_hub_download",
    "in snapshot_download",
    "in download_and_prepare",
    "in _prepare_split",
    "datasets/arrow_writer.py",
)
_CACHE = Do(
    "HF_HOME=/LARGER/huggingface in front of the same command: /LARGER is a disk on which df -h "
    "shows room; it was the cache of models and data that was being written, which is "
    "~/.cache/huggingface where HF_HOME names no other",
    "what is there is fetched again (or moved: mv ~/.cache/huggingface /LARGER/huggingface)",
)
_CACHE_OF_BOTH = Do(
    "MODELSCOPE_CACHE=/LARGER/modelscope HF_HOME=/LARGER/huggingface in front of the same command: "
    "/LARGER is a disk on which df -h shows room; it was the cache of models and data that was "
    "being written, which is below ~/.cache otherwise",
    "what is there is fetched again",
)
_STEPS = (
    Do(
        "--hub_private_repo false, or room on https://huggingface.co/settings/billing: "
        "the private "
        "storage is full; --push_to_hub false keeps the model on this machine",
        "the model is public",
        when=("storage limit",),
    ),
    Do(
        "resources.limits.ephemeral-storage: 200Gi in the pod's specification, or checkpoints "
        "and caches on a volume (kubectl describe pod NAME says how much it had)",
        "none",
        when=("ephemeral-storage",),
        kind="room",
    ),
    _FILE_SIZE,
    Do(
        "quota -s; du -xh --max-depth=2 ~ 2>/dev/null | sort -h | tail -15: what fills it",
        "none",
        when=("quota", "Quota"),
        unless=_HUB,
        kind="room",
    ),
    Do(
        "df -h {folder}; df -i {folder}; quota -s: 100 % is that disk or its inodes: make room "
        "there, or take another disk (HF_HOME, TMPDIR, the output folder)",
        "none",
        unless=_HUB,
        kind="room",
    ),
    Do(
        "df -h {output} /tmp ~; df -i {output} /tmp; quota -s: 100 % is that disk or its inodes: "
        "make room there, or take another disk for the output folder",
        "none",
        unless=_HUB,
        kind="room",
    ),
    _WHERE,
    Do(
        "ls -la {folder}: what was being written ({path}) is cut; delete that checkpoint "
        "before you resume",
        "none",
        unless=_HUB,
        kind="cut",
    ),
    _CUT,
    Do(
        "delete the newest checkpoint if it was cut, before you resume",
        "none",
        unless=_HUB,
        kind="cut",
    ),
    Do("another output_dir, HF_HOME and TMPDIR on a larger disk", "none", unless=_HUB),
    Do(
        "save_less",
        "older checkpoints are deleted; no optimizer state to resume from",
        unless=_HUB,
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Of a checkpoint only where it was being written."""
    if facts.phase == "save":
        return _STEPS
    if any(words in facts.trace for words in _FETCHED) and "uota" not in facts.message:
        swift = facts.framework == "ms-swift" or "modelscope" in facts.trace
        return (_CACHE_OF_BOTH if swift else _CACHE, _WHERE, _FILE_SIZE)
    return (*_elsewhere(facts), *(do for do in _STEPS if do is not _CUT))


FAILURE = Known(
    code="VG535",
    name="explain-disk-full",
    title="The disk is full or the quota is used up",
    zh="磁盘已满或配额用尽",
    why=_why,
    do=_do,
    wrong="A full /dev/shm says nearly the same: VG543.",
    signs=(
        Sign("LustreError", also=("rc = -28",), releases="Lustre"),
        Sign("LustreError", also=("rc = -122",), releases="Lustre"),
        Sign("No space left on device", no=("extend /dev/shm/",)),
        Sign("Disk quota exceeded"),
        Sign("disk quota exceeded", releases="TensorFlow"),
        Sign("[Errno 28]"),
        Sign("[Errno 122]"),
        Sign("PytorchStreamWriter failed writing file"),
        Sign("unexpected pos", no=("MemoryError",)),
        Sign("basic_ios::clear: iostream error"),
        Sign("write failed: file write failed"),
        Sign("File too large"),
        Sign("Not enough disk space"),
        Sign("not enough free disk space"),
        Sign("Not enough free disk space"),
        Sign("No space left on device", where="line"),
        Sign("low on resource: ephemeral-storage", where="line", releases="Kubernetes"),
        Sign("exceeds the total limit of containers", where="line", releases="Kubernetes"),
        Sign("The node had condition: [DiskPressure", where="line", releases="Kubernetes"),
        Sign("Disk quota exceeded", where="line"),
        Sign("write error: No space", where="line"),
        Sign("SafetensorError", also=("I/O error",)),
        Sign(
            "I/O error: No space",
        ),
        Sign("No usable temporary directory found"),
        Sign("storage limit reached", releases="huggingface_hub: the account's, not a disk's"),
        Sign("OutOfDiskError", releases="Ray"),
        Sign("Local disk is full", releases="Ray"),
        Sign("Error while serializing", also=("No space",)),
        Sign("WinError 112]", releases="Windows"),
    ),
    examples=(
        Example("OSError: [Errno 28] No space left on device", "made by causing it, /dev/full"),
        Example(
            "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 704 vs 598",
            "caffe2/serialize/inline_container.cc, torch 2.4",
        ),
    ),
    evidence="Linux's own texts.",
    narrow=4,
)
