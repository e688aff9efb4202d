"""Training scripts of public repositories through ``vlmguard check``, as one would type it.

    python -m tools.check.campaign CHECKOUTS [--only WORD]

CHECKOUTS holds a folder ``owner+name`` for each repository of `places`, with a file COMMIT. What it
finds goes to docs/data/check_scripts.jsonl, a line a script.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit import envs
from tools.check.places import Place, every
from tools.check.scripts import scripts

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "data" / "check_scripts.jsonl"
SLOW, LIMIT, AT_ONCE = 10, 600, 16
Record = dict[str, Any]


def measure(
    place: Place, root: Path, found: list[tuple[str, str]], overlays: list[Path]
) -> list[Record]:
    """The records of scripts of one folder: all in one command; each alone where that took longer
    than one may, or did not end as it should."""
    folder = root / place.folder(found[0][0])
    paths = [*map(str, overlays), *envs.SOURCES]
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG")}
    with tempfile.TemporaryDirectory(prefix="vlmguard-check-") as empty:
        names = []
        for at, (name, typed) in enumerate(found):
            Path(empty, f"{at}.sh").write_text(typed + "\n", "utf-8")
            script = str(Path(empty, f"{at}.sh"))
            names.append(script if typed else os.path.relpath(root / name, folder))
        started = _processor()
        ended = subprocess.run(
            [envs.path(place.env) / "bin" / "python", "-m", "vlmguard", "check", "--each",
             "--format", "json", *names], cwd=folder, text=True, capture_output=True, check=False,
            env={**kept, "HOME": empty, "PYTHONPATH": os.pathsep.join(paths)},
            timeout=LIMIT,
        )  # fmt: skip
        slow = _processor() - started > SLOW
        bad = "Traceback" in ended.stderr or ended.stdout[:1] not in ("{", "[")
        if (slow or bad) and len(found) > 1:
            return [record for one in found
                    for record in measure(place, root, [one], overlays)]  # fmt: skip
        ours = (str(root) + "/", str(folder) + "/", empty + "/")
    answers = [] if bad else json.loads(ended.stdout)
    answers = answers if isinstance(answers, list) else [answers]
    told = [_told(each, ours) for each in answers]
    told = told or [{"outcome": "traceback", "reason": (ended.stderr.splitlines() or [""])[-1]}]
    where = " ".join([place.env, *place.releases])
    return [{"repository": place.name, "commit": (root / "COMMIT").read_text().strip(),
             "script": name, "environment": where, "slow": slow, **each}
            for (name, _), each in zip(found, told, strict=True)]  # fmt: skip


def _processor() -> float:
    """Seconds of processor time of all commands so far: a machine may do something else too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _told(answer: dict[str, Any], ours: tuple[str, ...]) -> Record:
    """What came of it: "judged", "refused" (by the framework), "a file is missing", "not judged",
    "not looked at" (exit 0 without a verdict), "traceback"; and the reason."""
    jobs = answer["jobs"]
    states = [job["state"] for job in jobs]
    reasons = [job["reason"] for job in jobs if job["state"] == "cannot tell"]
    reasons += ["not understood: " + each["text"] for each in answer["not_understood"]]
    wrong = [job["reason"] for job in jobs if job["state"] == "wrong"]
    missing = [each for job in jobs for each in job["not_looked_at"]]
    if reasons:
        outcome = "not judged"
    elif wrong:
        outcome, reasons = "refused", wrong
    elif "judged" in states:
        outcome, reasons = ("a file is missing", missing) if missing else ("judged", [])
    else:
        outcome = "not looked at" if answer["exit"] == 0 else "not judged"
        reasons = [answer["looked"]]
    reason = reasons[0] if reasons else ""
    for path in ours:
        reason = reason.replace(path, "")
    return {"exit": answer["exit"], "outcome": outcome, "reason": reason[:200],
            "found": sorted({one["code"] for job in jobs for one in job["findings"]})}  # fmt: skip


def _place(place: Place, root: Path) -> Iterator[Record]:
    overlays = [overlay(root.parent / ".releases", release) for release in place.releases]
    for _, same in itertools.groupby(scripts(place, root), lambda one: place.folder(one[0])):
        here = list(same)
        for at in range(0, len(here), AT_ONCE):
            yield from measure(place, root, here[at : at + AT_ONCE], overlays)


def overlay(home: Path, release: str) -> Path:
    """A folder of that release alone: `check` reads its sources."""
    if not (home / release).is_dir():
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target"]
        subprocess.run([*pip, home / release, release], check=True)
    return home / release


def main(words: list[str] | None = None) -> int:
    """Measure; prints a line a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args(words)
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    records = [json.loads(line) for line in lines]
    for name, places in itertools.groupby(every(), lambda place: place.name):
        root = (asked.checkouts / name.replace("/", "+")).resolve()
        if asked.only.lower() not in name.lower() or not root.is_dir():
            continue
        new = [record for place in places for record in _place(place, root)]
        records = [record for record in records if record["repository"] != name] + new
        records.sort(key=lambda record: (record["repository"].lower(), record["script"]))
        RECORDS.write_text("".join(json.dumps(one, sort_keys=True) + "\n" for one in records))
        counts = [record["outcome"] for record in new]
        print(name, {one: counts.count(one) for one in sorted(set(counts))}, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
