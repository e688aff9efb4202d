"""The lab's records: one JSON object a case, in ``compat/records``.

- format: 1; env: name of the release set; releases: {package: release}; case: the axes
- seed: of data and weights; seconds: wall clock of the run
- verdict: "ok", "crash", "hang", "mismatch", "wrong", "drift" or "unmeasurable"
- class: a crash's message class; message: its first line; sites: both sides of a hang or mismatch
- error: the relative error of the updates, if they were compared

While a set is measured its records grow in NAME.jsonl, a line a case at once; when the run is done
they lie sorted in NAME.jsonl.xz, which is committed.
"""

from __future__ import annotations

import fcntl
import json
import lzma
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.lab.cases import Case
from vlmguard.compat.choice import folder

FORMAT = 1
Record = dict[str, Any]


def home() -> Path:
    """``$VLMGUARD_RECORDS``, else ``compat/records``."""
    found = os.environ.get("VLMGUARD_RECORDS")
    return Path(found) if found else folder() / "records"


def make(env: str, releases: Mapping[str, str], case: Case, seed: int, told: Record) -> Record:
    """A record from a worker's reply."""
    return {
        "format": FORMAT,
        "env": env,
        "releases": dict(releases),
        "case": case.data(),
        "seed": seed,
        "verdict": told["verdict"],
        "class": told["kind"],
        "message": told["message"],
        "error": told["error"],
        "sites": told["sites"],
        "seconds": told["seconds"],
    }


def case_of(record: Record) -> Case:
    """The record's case."""
    return Case(**record["case"])


def parse(text: str) -> list[Record]:
    """Records of a text; a last line that was cut off is left out, any other raises ValueError."""
    whole, _, _ = text.rpartition("\n")
    return [json.loads(line) for line in whole.splitlines() if line]


def load(env: str, place: Path | None = None) -> dict[Case, Record]:
    """All records of a release set, committed and fresh; a fresh one wins."""
    place = place or home()
    found: dict[Case, Record] = {}
    packed = place / f"{env}.jsonl.xz"
    fresh = place / f"{env}.jsonl"
    texts = []
    if packed.exists():
        texts.append(lzma.decompress(packed.read_bytes()).decode())
    if fresh.exists():
        texts.append(fresh.read_text("utf-8"))
    for text in texts:
        found.update((case_of(record), record) for record in parse(text))
    return found


def pack(env: str, place: Path | None = None) -> Path:
    """Sort all records of the set into NAME.jsonl.xz; the same records give the same bytes."""
    place = place or home()
    kept = load(env, place)
    lines = "".join(line(kept[case]) for case in sorted(kept))
    packed = place / f"{env}.jsonl.xz"
    part = packed.with_suffix(".part")
    part.write_bytes(lzma.compress(lines.encode(), preset=9))
    part.rename(packed)
    (place / f"{env}.jsonl").unlink(missing_ok=True)
    return packed


def line(record: Record) -> str:
    """The record as it is written."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


class Busy(Exception):
    """Another run is measuring the set: packing would take the file from under it."""


class Sink:
    """Appends records to NAME.jsonl, each at once and whole; one at a time, until `close`.

    Raises `Busy`.
    """

    def __init__(self, env: str, place: Path | None = None) -> None:
        place = place or home()
        place.mkdir(parents=True, exist_ok=True)
        self.lock = (place / f".{env}.lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"{env} is being measured by another run") from None
        self.file = place / f"{env}.jsonl"
        if self.file.exists():  # a line that an interrupted run left unfinished
            records: Iterable[Record] = parse(self.file.read_text("utf-8"))
            self.file.write_text("".join(map(line, records)), "utf-8")
        self.descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def put(self, record: Record) -> None:
        """Write one."""
        os.write(self.descriptor, line(record).encode())

    def close(self) -> None:
        """Let others write."""
        os.close(self.descriptor)
        self.lock.close()
