"""``make mutate``: changes rules, plan, guard and compat, one change at a time, and runs the tests.

    python tools/mutate/run.py [--seed N] [--count N] [--minutes N] [--again] [--named] [FILE …]

A process imports pytest once and forks for each change; the child reads the changed
source and runs, in process, the fast tests that reach the changed line, the quickest first, until
one fails. What was tried is kept in results.jsonl and not tried again while the file is as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
sys.path = [each for each in sys.path if each != str(HERE)]

from tools.mutate import named, reached  # noqa: E402
from tools.mutate.operators import Mutation, mutations  # noqa: E402

RESULTS = HERE / "results.jsonl"
FILES = (
    *sorted(f"vlmguard/rules/{path.name}" for path in (ROOT / "vlmguard/rules").glob("vg*.py")),
    "vlmguard/core/plan.py",
    "vlmguard/guard.py",
    "vlmguard/run_report.py",
    "vlmguard/compat/cases.py",
    "vlmguard/compat/choice.py",
    "vlmguard/compat/verdicts.py",
    "vlmguard/compat/defaults.py",
)
LIMIT = 60
"""Seconds of processor time for one change: a test that ends in no time now never does."""
ENDS = 15 * LIMIT
"""Seconds on the wall: it waits for ever."""
ALIVE, DEAD, UNREACHED = "survived", "killed", "no test reaches it"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--again", action="store_true", help="only those that survived")
    parser.add_argument("--named", action="store_true", help="only those of named.py")
    parser.add_argument("--light", action="store_true", help="without the tests that need torch")
    parser.add_argument("files", nargs="*", default=FILES)
    asked = parser.parse_args()
    os.chdir(ROOT)
    os.nice(19 - os.nice(0))
    if asked.named:
        every = named.mutations(ROOT)
    else:
        every = [each for file in asked.files for each in mutations(ROOT, file)]
    known = results()
    if asked.again:
        left = [each for each in every if known.get(each.key, {}).get("outcome", DEAD) != DEAD]
    else:
        left = [each for each in every if not tried(each, known.get(each.key))]
    random.Random(asked.seed).shuffle(left)
    left = left[: asked.count]
    print(f"seed {asked.seed}: {len(every)} changes, {len(left)} to be tried", flush=True)
    reach = reached.measured(ROOT, sorted({each.file for each in every}), asked.light)
    preload()
    until = time.monotonic() + asked.minutes * 60
    for number, each in enumerate(left):
        if time.monotonic() > until:
            print(f"{len(left) - number} are left")
            break
        told = judged(each, reach)
        known[each.key] = told
        if told["outcome"] != DEAD:
            print(f"{each.file}:{each.line} {told['outcome']}: {each.before!r} → {each.after!r}")
            sys.stdout.flush()
        if number % 20 == 19:
            write(known)
    write(known)
    counts = [known[each.key]["outcome"] for each in every if each.key in known]
    print({outcome: counts.count(outcome) for outcome in sorted(set(counts))})
    return 0


def results() -> dict[str, dict[str, object]]:
    """What became of each change, by its key."""
    if not RESULTS.exists():
        return {}
    rows = (json.loads(line) for line in RESULTS.read_text("utf-8").splitlines())
    return {row["key"]: row for row in rows}


def write(known: dict[str, dict[str, object]]) -> None:
    """All results, of the changes that there still are."""
    there = {each.key for file in FILES for each in mutations(ROOT, file)}
    there |= {each.key for each in named.mutations(ROOT)}
    kept = [row for key, row in known.items() if key in there]
    kept.sort(key=lambda row: (row["file"], row["where"], row["key"]))
    half = RESULTS.with_suffix(".half")
    half.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), "utf-8")
    half.replace(RESULTS)


def tried(each: Mutation, row: dict[str, object] | None) -> bool:
    return row is not None and row["source"] == source_digest(each.file)


def source_digest(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:8]


def judged(each: Mutation, reach: reached.Reach) -> dict[str, object]:
    """Run the tests that reach it, in a child."""
    outcome, by = UNREACHED, ""
    for tests in reach.of(each.file, each.line):
        outcome, by = forked(each, tests)
        if outcome == DEAD:
            break
    return {
        "key": each.key, "file": each.file, "where": each.where, "kind": each.kind,
        "before": each.before, "after": each.after, "outcome": outcome, "by": by,
        "source": source_digest(each.file),
    }  # fmt: skip


def forked(each: Mutation, tests: list[str]) -> tuple[str, str]:
    """(outcome, the test that failed or what else happened)."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        pid = os.fork()
        if not pid:
            child(each, tests, log)
        ends = time.monotonic() + ENDS
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > ends:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return DEAD, "no end"
            time.sleep(0.02)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return DEAD, "no end"
        if code == 0:
            return ALIVE, ""
        text = log.read_text("utf-8", errors="replace") if log.exists() else ""
        failed = [line.split()[1] for line in text.splitlines() if line.startswith("FAILED")]
        return DEAD, failed[0] if failed else f"exit {code}"


def child(each: Mutation, tests: list[str], log: Path) -> None:
    """Import the changed module under the tests; never returns."""
    code: int = 3
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
        output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["TMPDIR"] = tempfile.tempdir = str(log.parent)
        source = each.applied((ROOT / each.file).read_text("utf-8"))
        sys.meta_path.insert(0, Changed(each.file, source))
        code = int(pytest_main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                                "-W", "ignore", "--tb=no", "-rf", *tests]))  # fmt: skip
        sys.stdout.flush()
    finally:
        os._exit(code)


def pytest_main(words: list[str]) -> int:
    import pytest

    return pytest.main(words)


def module(file: str) -> str:
    """Its dotted name."""
    return file.removesuffix(".py").removeprefix("plugins/").replace("/", ".")


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds one module, with the source that it is given."""

    def __init__(self, file: str, source: str) -> None:
        self.path, self.source = str(ROOT / file), source
        self.name = module(file)

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_filename(self, name: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        return self.source.encode()

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("never from a cache of bytecode")


def preload() -> None:
    """What every child needs, imported once: nothing of ours."""
    for name in ("pytest", "pluggy", "packaging.specifiers", "tomllib", "typer", "rich"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    early = {module(file) for file in (*FILES, *named.files())} & set(sys.modules)
    assert not early, f"imported before they could be changed: {early}"


def survivors() -> Iterator[dict[str, object]]:
    """The changes that no test noticed."""
    return (row for row in results().values() if row["outcome"] != DEAD)


def of_this_tree() -> None:
    """Start again with these sources in front: an installed `.pth` imports vlmguard at start-up."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"
    if os.environ.get("PYTHONPATH") != path:
        os.environ["PYTHONPATH"] = path
        os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:]])


if __name__ == "__main__":
    of_this_tree()
    sys.exit(main())
