"""Two runs of one process share nothing: what is said is said of the run that it is about."""

from __future__ import annotations

import functools
import json
import threading

import pytest

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.core.host import Host
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import faults


class Owner:
    """A trainer, a template."""

    def boom(self, *args):
        raise ValueError("ours")


@pytest.fixture
def two(tmp_path):
    """Two open runs, each with a report of its own; the second was opened last."""
    names = ("one", "two")
    states = [RunState(Settings(report=str(tmp_path / f"{name}.jsonl"))) for name in names]
    for state, name in zip(states, names, strict=True):
        state.run = Run(name)
        runstate.opened(state)
    return states


def told(state):
    """What stands in its report: codes, and the number of the run that they are said of."""
    path = state.settings.report.replace(".jsonl", ".rank0.jsonl")
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return [(line["code"], line["run"]) for line in lines if line["kind"] == "finding"]


def test_a_finding_goes_to_its_own_run_whoever_was_opened_last(two, capsys):
    finding = Finding("VG203", "warning", "row 3 was replaced")
    for state in two:
        guard.judge([finding, finding], state)
        assert told(state) == [("VG203", state.number)]
    assert capsys.readouterr().err.count("row 3") == 2


@pytest.mark.parametrize("leads", ["state", "facts", "owner", "bound", "partial"])
def test_a_fault_is_said_of_the_run_that_it_happened_in(two, leads):
    first, owner = two[0], Owner()
    runstate.bind(owner, first)
    calls = {
        "state": (Owner().boom, first),
        "facts": (Owner().boom, first.run),
        "owner": (Owner().boom, owner),
        "bound": (owner.boom,),
        "partial": (functools.partial(Owner().boom, first), "more"),
    }
    assert faults.contain("a part", *calls[leads]) is None
    assert told(first) == [("VG902", first.number)]
    assert (first.counts["warning"], two[1].counts["warning"]) == (1, 0)


def test_a_fault_that_leads_nowhere_is_of_no_run(two, capsys):
    """With one open run it is that one's."""
    faults.contain("a part", Owner().boom)
    assert not any(state.counts for state in two)
    assert "VG902" in capsys.readouterr().err
    runstate.closed(two[1])
    faults.contain("another part", Owner().boom)
    assert two[0].counts["warning"] == 1


def test_a_fault_is_said_though_its_run_cannot_be_found(two, monkeypatch, capsys):
    """What was given may be anything of a framework's: it is not asked for its attributes."""

    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError(name)

    faults.contain("a part", Owner().boom, Hostile(), two[0])
    assert told(two[0]) == [("VG902", two[0].number)]
    monkeypatch.setattr(runstate, "of", lambda owner: 1 / 0)
    faults.contain("another part", Owner().boom, object())
    assert "VG902 warning [rank 0]: another part failed" in capsys.readouterr().err


def test_a_rule_that_fails_fails_in_the_run_that_it_was_asked_about(two):
    class Broken:
        CODE, NAME, DEFAULT = "ZZ902", "broken", "warn"

        @hookimpl
        def pre_wrap(self, run):
            raise ValueError("theirs")

    host = Host(faults.fault)
    host.add(Broken())
    host.pre_wrap(two[0].run)
    assert told(two[0]) == [("VG902", two[0].number)]


def test_an_owner_leads_back_to_the_run_around_it(two):
    """A trainer inside another's callback, with the same template."""
    outer, inner = two
    owner = Owner()
    runstate.bind(owner, outer)
    runstate.bind(owner, inner)
    assert runstate.of(owner) is inner
    runstate.closed(inner)
    assert runstate.of(owner) is outer
    runstate.closed(outer)
    assert runstate.of(owner) is None
    assert not runstate._by_owner


def test_nothing_leads_nowhere(two):
    """A trainer without a template has None for it."""
    runstate.bind(None, two[0])
    assert runstate.of(None) is None


def test_two_threads_speak_of_their_own_run(two):
    """Each opened neither."""
    both, raised = threading.Barrier(2), []

    def work(state):
        for step in range(20):
            both.wait(10)
            guard.judge([Finding("VG203", "warning", f"row {step} was replaced")], state)
            guard.on_error(state.run, None, ValueError(f"step {step}"))

    def safely(state):
        try:
            work(state)
        except BaseException as error:
            raised.append(error)

    every = [threading.Thread(target=safely, args=(state,)) for state in two]
    for each in every:
        each.start()
    for each in every:
        each.join()
    assert not raised
    for state in two:
        assert told(state) == [("VG203", state.number)] * 20
