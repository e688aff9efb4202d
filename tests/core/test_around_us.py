"""Something is wrong around us, in a process of its own: a run that would fail is mended all the
same or stopped with its reason, and a healthy one is left alone.

What `make faults --elsewhere` does to real runs, without a framework: there the patchers are, too.
"""

from __future__ import annotations

import concurrent.futures
import os
import sys
import traceback

import pytest

from tests.core.test_guard import BROKEN, HEALTHY, Framework
from tools.faults import elsewhere
from vlmguard import guard, registry, run_report
from vlmguard.compat import verdicts
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Batch, Gradients, Sample

OF_A_TRAINER = {
    "a patcher after us", "a patcher before us", "a patcher that replaces ours", "a missing seam",
    "a child that was forked in a step", "an environment that changes",
}  # fmt: skip
WITHOUT_TABLES = {"half written tables", "damaged tables", "no tables",
                  "tables of another release"}  # fmt: skip
WHOLE = Batch((Sample(4, 4, 1, keys=("pixel_values",)),), ("image",))


def trained():
    """A run that would fail and one that would not; what became of the first."""
    healthy = Framework(HEALTHY)
    state = healthy.guarded(owner=healthy)
    assert (healthy.applied, state.run) == (0, HEALTHY)
    guard.pre_step(state.run, WHOLE)
    guard.pre_step(state.run, gradients=Gradients({}, {"vision": 4}))
    run_report.first_step(state)
    guard.close(state)
    broken = Framework(BROKEN)
    try:
        guard.close(broken.guarded(owner=broken))
    except Stop as stop:
        return f"stopped, {broken.applied} applied: {'VG101: ' in str(stop)}"
    assert broken.run.checkpointing.use_reentrant is False
    return "mended"


def in_a_child(call, *args):
    """What it answers, or the traceback of what it raises."""
    out, told = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            text = str(call(*args))
        except BaseException:
            text = traceback.format_exc()
        os.write(told, text.encode()[-4000:])
        os._exit(0)
    os.close(told)
    with open(out) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def goes_wrong(name, folder):
    for each in ("home", "report", "tmp"):
        (folder / each).mkdir()
    os.environ["VLMGUARD_REPORT"] = str(folder / "report" / "findings.jsonl")
    guard.abort = lambda stop: None
    registry.get.cache_clear()
    verdicts.forget()
    elsewhere.begin(name, folder, 0)
    if name != "a thread of its own":
        return trained()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(trained).result()


@pytest.mark.parametrize("name", sorted(set(elsewhere.OTHERS) - OF_A_TRAINER))
def test_a_run_beside_it(name, tmp_path):
    became = in_a_child(goes_wrong, name, tmp_path)
    allowed = ["mended", *(["stopped, 0 applied: True"] if name in WITHOUT_TABLES else [])]
    assert became in allowed, became


def test_a_child_that_is_forked_while_we_guard_goes_its_own_way(tmp_path):
    """It inherits the run's state, and neither ends nor changes its parent's."""
    made = Framework(BROKEN)
    state = made.guarded(owner=made)

    def step():
        guard.pre_step(state.run, WHOLE)
        guard.close(state)
        return "went"

    assert in_a_child(step) == "went"
    assert not state.closed
    guard.pre_step(state.run, WHOLE)


def test_what_a_full_disk_did_is_said_once_and_costs_no_line_of_the_run(tmp_path):
    def full():
        elsewhere.begin("a full disk under the report", tmp_path, 0)
        os.environ["VLMGUARD_REPORT"] = str(tmp_path / "report" / "findings.jsonl")
        os.environ["RANK"] = "0"
        sys.stderr = elsewhere._Stream()
        trained()
        return sys.stderr.getvalue()

    (tmp_path / "report").mkdir()
    said = in_a_child(full)
    assert said.count("cannot be written") == 1, said
    assert "VG101 fixed" in said
