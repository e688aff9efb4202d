"""A pytest plug-in for the suites of others: how each test ended, and whether it met the guard.

    PYTHONPATH=tools/suites/plugin SUITES_OUT=FILE python -m pytest -p vlmguard_suites …

Every test begins with the same random state. After each step of any optimizer its parameters are
summed up, so that two sides can be compared bit by bit.

A line ``{"begun": id}`` before each test, a line ``{"test": id, "outcome": …}`` after it. A test
meets the guard when a wrapper of ours is called; a run is judged when a state is opened for it.
Processes that a test starts report by ``VLMGUARD_REPORT``.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

LIMIT = float(os.environ.get("SUITES_LIMIT", "120"))
"""Seconds that the set-up or the call of one test may take."""
_ADDRESS = re.compile(r"0x[0-9a-f]+|/tmp/\S+|\d+\.\d+s\b|\b\d{5,}\b")
_OURS = re.compile(r"^vlmguard: .*$", re.MULTILINE)


class Timeout(Exception):
    """The test took longer than `LIMIT`."""


class Met:
    """What of the guard was called during one test.

    calls: wrappers called; runs: states opened; towers: runs whose model sees or hears.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.states: list[Any] = []
        self.said: list[str] = []

    def as_data(self, elsewhere: int) -> dict[str, Any]:
        """JSON; ``elsewhere`` runs were judged in processes that the test started."""
        runs = [run for run in (getattr(s, "run", None) for s in self.states) if run is not None]
        return {
            "calls": self.calls,
            "runs": len(self.states) + elsewhere,
            "towers": sum(1 for run in runs if run.image_towers),
            "said": self.said[:20],
        }


class Weights:
    """Optimizer steps of one test, and a checksum over all parameters after each of them."""

    def __init__(self) -> None:
        self.steps, self.sum = 0, 0

    def stepped(self, optimizer: Any) -> None:
        """Add what ``optimizer`` holds now. What cannot be read as bytes is left out."""
        self.steps += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.sum = zlib.crc32(_bytes(parameter), self.sum)


def _bytes(parameter: Any) -> bytes:
    import torch

    try:
        plain = parameter.detach().contiguous().view(-1).view(torch.uint8)
        return bytes(memoryview(plain.numpy()))
    except Exception:
        return b""


class Recorder:
    """Writes the lines; one a pytest session."""

    def __init__(self, out: Path, done: set[str]) -> None:
        self.out, self.done = out, done
        self.met, self.weights = Met(), Weights()
        self.told: dict[str, dict[str, Any]] = {}
        self.reports = Path(tempfile.mkdtemp(prefix="suites-"))

    def write(self, **line: Any) -> None:
        """Append one line; it is on the disk when this returns."""
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out what an earlier session has done."""
        left = [item for item in items if item.nodeid in self.done]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item.nodeid not in self.done]

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported is one failed test."""
        if report.failed:
            why = str(getattr(report.longrepr, "longrepr", report.longrepr)).splitlines()[-1:]
            self.write(test=report.nodeid, outcome="uncollected", why="".join(why)[:200])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        """Begin and end of a test."""
        self.met, self.weights, self.told = Met(), Weights(), {}
        _seed()
        report = self.reports / "run.jsonl"
        os.environ["VLMGUARD_REPORT"] = str(report)
        began = time.monotonic()
        self.write(begun=item.nodeid)
        try:
            return (yield)
        finally:
            seconds = round(time.monotonic() - began, 2)
            last = max(self.told.values(), key=lambda told: _RANK[told["outcome"]], default={})
            met = self.met.as_data(self._others())
            self.write(test=item.nodeid, s=seconds, **last, **vars(self.weights), met=met)

    def _others(self) -> int:
        """Runs judged in other processes, by their reports; the reports are taken away."""
        found = 0
        for file in self.reports.glob("*"):
            found += file.read_text("utf-8").count('"kind": "header"')
            file.unlink()
        own = sum(getattr(state, "run", None) is not None for state in self.met.states)
        return max(0, found - own)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        """Keep each phase's outcome, and why."""
        report = yield
        outcome = report.outcome if call.when == "call" or not report.failed else "error"
        why = ""
        if call.excinfo is not None:
            error = call.excinfo
            text = _ADDRESS.sub("…", str(error.value).strip() or "-").splitlines()[0]
            why = f"{error.typename}: {text}"[:200]
            outcome = "timeout" if error.errisinstance(Timeout) else outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "xpassed"
        self.told[call.when] = {"outcome": outcome, "why": why}
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Any:
        """Set-up has `LIMIT` seconds."""
        return (yield from _limited())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """The call has `LIMIT` seconds."""
        return (yield from _limited())


_ORDER = ("passed", "skipped", "xfailed", "xpassed", "error", "failed", "timeout")
_RANK = {outcome: number for number, outcome in enumerate(_ORDER)}


def _seed() -> None:
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def _limited() -> Any:
    def over(number: int, frame: Any) -> None:
        raise Timeout(f"more than {LIMIT:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _listen(recorder: Recorder) -> None:
    """Hear each call of a wrapper of ours, each state that is opened, each line that is said."""
    from vlmguard.core import runstate
    from vlmguard.runtime import stderr, stub

    call, opened, say = stub.Hook.call, runstate.opened, stderr.say

    def counted(self: Any, *args: Any) -> Any:
        recorder.met.calls += 1
        return call(self, *args)

    def kept(state: Any) -> Any:
        recorder.met.states.append(state)
        return opened(state)

    def heard(text: str) -> Any:
        recorder.met.said.append(_ADDRESS.sub("…", text))
        return say(text)

    stub.Hook.call, runstate.opened, stderr.say = counted, kept, heard  # type: ignore[method-assign]


def pytest_configure(config: Any) -> None:
    """Begin, where ``SUITES_OUT`` names a file; hub ids are answered where ``SUITES_HUB`` does."""
    if not os.environ.get("SUITES_OUT"):
        return
    done = os.environ.get("SUITES_DONE", "")
    recorder = Recorder(Path(os.environ["SUITES_OUT"]), set(json.loads(done)) if done else set())
    config.pluginmanager.register(recorder, "vlmguard-suites-recorder")
    if "torch" in sys.modules:
        from torch.optim import optimizer as optimizers

        optimizers.register_optimizer_step_post_hook(
            lambda optimizer, *rest: recorder.weights.stepped(optimizer)
        )
    if os.environ.get("VLMGUARD") != "off":
        _listen(recorder)
    if hub := os.environ.get("SUITES_HUB"):
        _answer_data_sets(Path(hub))


def _answer_data_sets(hub: Path) -> None:
    """`datasets.load_dataset` of an id for which ``hub`` has a folder reads that folder."""
    try:
        import datasets
    except ImportError:
        return
    real = datasets.load_dataset

    def load_dataset(path: Any, name: Any = None, *args: Any, **more: Any) -> Any:
        at = hub / "datasets" / str(path).replace("/", "--") / str(name or "default")
        if not at.is_dir():
            return real(path, name, *args, **more)
        found = datasets.load_from_disk(str(at))
        split = more.get("split") or (args[2] if len(args) > 2 else None)
        found = _part(datasets, found, split)
        if more.get("streaming"):
            several = isinstance(found, dict)
            return (
                datasets.IterableDatasetDict({k: v.to_iterable_dataset() for k, v in found.items()})
                if several
                else found.to_iterable_dataset()
            )
        return found

    datasets.load_dataset = load_dataset
    for module in list(sys.modules.values()):
        if getattr(module, "load_dataset", None) is real:
            module.load_dataset = load_dataset  # type: ignore[attr-defined]


def _part(datasets: Any, found: Any, split: str | None) -> Any:
    """``train``, ``train[:10]``, or all of it."""
    if not split:
        return found
    name, _, rows = split.partition("[")
    part = found[name]
    if not rows:
        return part
    first, last = rows.rstrip("]").split(":")
    return part.select(range(int(first or 0), min(int(last or len(part)), len(part))))
