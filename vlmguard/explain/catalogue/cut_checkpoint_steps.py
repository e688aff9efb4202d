"""A checkpoint to go on from one of whose files is cut (VG541): which, and the one before it."""

from __future__ import annotations

import re
import shlex

from vlmguard.explain import given, named
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

# torch's files are packs; a cut one lacks its table at the end. The last word: a folder.
CUT = (
    "python -c 'import sys, zipfile, pathlib; [print(f) for f in pathlib.Path(sys.argv[1]).rglob("
    '"*") if f.suffix in (".bin", ".pt", ".pth", ".ckpt") and not zipfile.is_zipfile(f)]\' '
)
# The same of safetensors' files; then what is to be done with those that do not open.
OPENED = (
    "for f in $(find {} -name '*.safetensors'); do python -c 'import sys, safetensors; "
    'safetensors.safe_open(sys.argv[1], "pt")\' "$f" '
)
_RESUMING = ("load_checkpoint", "_load_from_checkpoint", "_load_optimizer", "_load_rng_state")
# Words of a pack that does not open.
PACKED = (
    "PytorchStreamReader",
    "central directory",
    "Unpickling",
    "EOFError",
    "invalid magic",
    "invalid load key",
)
_CUT_SHORT = (*PACKED, "unexpected EOF")
_RANK = re.compile(r"(?<![a-z0-9])rank_?(\d{1,5})(?!\d)")


def steps(facts: Facts) -> tuple[Do, ...]:
    """The files of that checkpoint, looked through; then the one before; () where none is told."""
    folder = given.files(facts).get("checkpoint", "")
    resumed = any(words in facts.trace for words in _RESUMING)
    whole = "SafetensorError" in facts.message
    if not resumed or not (whole or any(words in facts.message for words in _CUT_SHORT)):
        return ()
    safe, number = named.quoted(folder), re.search(r"^(.{1,200}/)?checkpoint-(\d{1,9})$", folder)
    if not safe or number is None:
        return ()
    likely = _likely(facts)
    command = f'{OPENED.format(safe)}|| echo "broken: $f"; done' if whole else f"{CUT}{safe}"
    look = Do(
        f"{command}: those that it prints are cut, the save was broken off{likely}; none "
        f"printed: ls -lR {safe}, a rank's file that is smaller than the others'",
        "none",
    )
    flag = "--resume_from_checkpoint " if "resume_from_checkpoint" in facts.typed else ""
    flag = flag or "resume_from_checkpoint: "
    before = Do(
        f"ls -d {shlex.quote(number[1] or './')}checkpoint-* | sort -V: {flag}the one before "
        f"checkpoint-{number[2]}",
        "the steps between",
    )
    lost = "the optimizer's state and the place in the data are lost"
    weights = () if whole else (Do("weights_of", lost, (("folder", safe),)),)
    return (
        look,
        before,
        *weights,
        Do("see that the disk was not full when it was written (VG535)"),
    )


def _likely(facts: Facts) -> str:
    """The file that the failing rank had begun to read and never said that it had."""
    rank, names = facts.said.get("startrank", ""), facts.said.get("unread", "").split()
    own = [name for name in names if (m := _RANK.search(name)) is not None and m[1] == rank]
    return f" (rank {rank} was at {own[0]})" if rank and len(own) == 1 else ""
