"""Which fast tests run which lines: measured once by a trace, kept beside the environments."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

TESTS = ("tests/rules", "tests/core", "tests/plugins")
TORCH = "tests/plugins"
_OUT, _FILES = "MUTATE_REACHED", "MUTATE_FILES"


@dataclass(frozen=True)
class Reach:
    """Attributes:
    lines: file → line → numbers of tests.
    names, seconds: of the tests.
    """

    lines: dict[str, dict[str, list[int]]]
    names: list[str]
    seconds: list[float]

    def of(self, file: str, line: int) -> list[list[str]]:
        """The tests that run a line, the quickest first; apart, and last, those that need torch.
        What runs at import no test is seen to run: then those that run anything of the file, and
        those about all rules."""
        lines = self.lines.get(file, {})
        found = set(lines.get(str(line), ()))
        if not found:
            found = {number for numbers in lines.values() for number in numbers}
            found |= {at for at, name in enumerate(self.names) if name.startswith("tests/rules/")}
        names = [self.names[number] for number in sorted(found, key=lambda at: self.seconds[at])]
        light = [name for name in names if not name.startswith(TORCH)]
        heavy = [name for name in names if name.startswith(TORCH)]
        return [each for each in (light, heavy) if each]


def measured(root: Path, files: list[str], light: bool = False) -> Reach:
    """By running all fast tests once under a trace; again where a test or one of us changed.

    light: without the tests that need torch.
    """
    tests = [folder for folder in TESTS if not (light and folder == TORCH)]
    parts = [path for folder in tests for path in sorted((root / folder).rglob("*.py"))]
    parts += [root / file for file in files]
    text = "".join([*files, *tests]).encode() + b"".join(path.read_bytes() for path in parts)
    kept = root / ".site" / f"reached-{hashlib.sha256(text).hexdigest()[:12]}.json"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            half = Path(scratch) / "reached"
            command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutate.reached",
                       "-p", "no:cacheprovider", "-m", "not frameworks", *tests]  # fmt: skip
            path = os.pathsep.join([str(root), str(root / "plugins")])
            given = {_OUT: str(half), _FILES: json.dumps(files), "PYTHONPATH": path}
            done = subprocess.run(command, env={**os.environ, **given}, cwd=root, check=False)
            print(f"measured what the tests reach: exit {done.returncode}", flush=True)
            kept.write_text(half.read_text())
    told = json.loads(kept.read_text())
    return Reach(told["lines"], told["names"], told["seconds"])


class Tracer:
    """A pytest plug-in: notes the lines of some files that each test runs."""

    def __init__(self, files: list[str]) -> None:
        self.files = {str(Path.cwd() / file): file for file in files}
        self.lines: dict[str, dict[int, set[int]]] = {file: {} for file in files}
        self.names: list[str] = []
        self.seconds: list[float] = []

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = self.files.get(frame.f_code.co_filename)
        if file is None:
            return None
        lines, test = self.lines[file], len(self.names) - 1
        lines.setdefault(frame.f_lineno, set()).add(test)

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.setdefault(frame.f_lineno, set()).add(test)
            return line

        return line

    def pytest_runtest_setup(self, item: Any) -> None:
        self.names.append(item.nodeid)
        self.started = time.monotonic()
        sys.settrace(self.call)

    def pytest_runtest_teardown(self, item: Any) -> None:
        sys.settrace(None)
        self.seconds.append(round(time.monotonic() - self.started, 3))

    def pytest_sessionfinish(self) -> None:
        lines = {
            file: {line: sorted(tests) for line, tests in found.items()}
            for file, found in self.lines.items()
        }
        told = {"lines": lines, "names": self.names, "seconds": self.seconds}
        Path(os.environ[_OUT]).write_text(json.dumps(told))


def pytest_configure(config: Any) -> None:
    """Only in the run that measures."""
    if _OUT in os.environ:
        config.pluginmanager.register(Tracer(json.loads(os.environ[_FILES])))
