"""What a person reads of the windows: findings once, one line when all balances, the report."""

from __future__ import annotations

import json
import math
import weakref

import pytest

from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.ledger import line
from vlmguard.ledger.account import STATIONS, Account, Entry, Tensor, Verdict
from vlmguard.ledger.record import record
from vlmguard.ledger.scalars import KEPT, scalars
from vlmguard.ledger.speak import Speaker, finding, listen
from vlmguard.runtime import report

ACCOUNT = Account(
    (
        Tensor("visual.a", "vision", 400_000_000, "float32", True, 0),
        Tensor("visual.b", "vision", 200_000_000, "float32", False, None),
        Tensor("model.a", "llm", 7_600_000_000, "float32", True, 1),
    ),
    2,
    "ddp",
)
SHOWN = {
    "rows": {"targets": 1604},
    "targets": {"sum": 1.0},
    "reduce": {"towers": {"vision": {"gradient": 0.25}, "llm": {"gradient": math.nan}}},
    "update": {"groups": [{"lr": 2e-6}, {"lr": 1e-5}], "towers": {"vision": {"moved": 1}}},
}


def verdicts(**unread):
    return [
        Verdict(name, "cannot tell", reason=unread[name])
        if name in unread
        else Verdict(name, "balances", shown=SHOWN.get(name, {}))
        for name in STATIONS
    ]


def pages(step):
    return [{"window": step - 1, "step": step, "micro": 2, "kinds": ["image"]}, None]


def windows(*many):
    return [record(ACCOUNT, each, pages(n)) for n, each in enumerate(many, 1)]


def test_one_line_when_it_balances():
    assert line.text(windows(*[verdicts()] * 3)) == (
        "ledger: steps 1 to 3 balance; 2 ranks, 1,604 target tokens a step; trained: vision 400M "
        "of\n    600M (lr 2e-6), llm 7.6B (lr 1e-5)"
    )


def test_what_could_not_be_read_is_said():
    assert line.text(windows(verdicts(targets="head is fused away"))) == (
        "ledger: step 1 balances at 5 of 6 stations (cannot tell targets: head is fused away); 2\n"
        "    ranks, 1,604 target tokens a step; trained: vision 400M of 600M (lr 2e-6), llm 7.6B "
        "(lr 1e-5)"
    )


def test_a_run_that_cannot_be_read_is_not_called_balanced():
    told = line.text(windows(verdicts(**dict.fromkeys(STATIONS, "FSDP1's flat parameters"))))
    assert told.startswith("ledger: cannot tell whether step 1 balances (rows, targets, reach,")
    assert "balances at" not in told
    assert not line.text(windows([Verdict(name, "idle") for name in STATIONS]))


def test_a_station_read_once_is_read():
    told = line.text(windows(verdicts(reach="no batch"), verdicts()))
    assert told.startswith("ledger: steps 1 and 2 balance; ")


def test_what_differs_does_not_balance():
    assert not line.text(windows(verdicts(), [Verdict("reduce", "differs")]))
    assert not line.text([])


def test_two_lines_of_a_terminal_whatever_is_in_them():
    tensors = tuple(Tensor(str(n), f"tower {n}", 10**9, "", True, 0) for n in range(40))
    told = line.text([record(Account(tensors, 512), verdicts(reach="x" * 300), pages(10**9))])
    first, second = told.splitlines()
    assert len("vlmguard: " + first) <= 100 >= len(second)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "r.jsonl"))
    state = RunState(Settings(log=True))
    runstate.opened(state)
    yield Speaker(ACCOUNT, state), state, tmp_path / "r.rank0.jsonl"
    runstate.closed(state)


def test_the_line_comes_once_after_three_windows(run, capsys):
    speaker, *_ = run
    for step in (1, 2):
        speaker.window(verdicts(), pages(step))
    assert capsys.readouterr().err == ""
    for step in (3, 4, 5, 6):
        speaker.window(verdicts(), pages(step))
    speaker.close()
    assert capsys.readouterr().err.count("ledger: steps 1 to 3 balance") == 1


def test_a_short_run_has_its_line_at_its_end(run, capsys):
    speaker, *_ = run
    speaker.window(verdicts(), pages(1))
    speaker.close()
    speaker.close()
    assert capsys.readouterr().err.count("ledger: step 1 balances;") == 1


def test_each_window_is_a_line_of_the_report(run):
    speaker, state, file = run
    entry = Entry("VG640", "warning", "why", "what", 2, math.inf, "advice")
    speaker.window([Verdict("reduce", "differs", (entry,), shown=SHOWN["reduce"])], pages(2))
    read = json.loads(file.read_text().splitlines()[0])
    assert (read["kind"], read["run"], read["step"]) == ("ledger", state.number, 2)
    assert read["ranks"] == 2
    assert (read["heard"], read["kinds"]) == (1, ["image"])
    assert read["towers"]["vision"] == {
        "tensors": 2, "parameters": 6 * 10**8, "trainable": 1, "trained": 4 * 10**8, "held": 1,
        "groups": [0],
    }  # fmt: skip
    assert read["stations"]["reduce"]["entries"][0]["size"] == "inf", "strict JSON"
    assert read["stations"]["reduce"]["shown"]["towers"]["llm"] == {"gradient": "nan"}


def test_one_code_does_not_fill_the_terminal(run, capsys):
    speaker, *_ = run
    for name in "abcdefgh":
        entry = Entry("VG630", "warning", "no gradient came", f"tensor {name}")
        speaker.window([Verdict("reach", "differs", (entry,))])
    assert capsys.readouterr().err.count("VG630") == 3


@pytest.mark.parametrize("known", [(), ("vision",), ("vision", "aligner")])
def test_a_tower_that_vg302_has_told_of_is_not_told_again(run, capsys, known):
    speaker, state, file = run
    state.no_gradient = frozenset(known)
    entry = Entry("VG630", "warning", "no gradient came", towers=("vision", "aligner"))
    part = Entry("VG630", "warning", "no gradient came to a layer", "2 of 9 vision tensors")
    speaker.window([Verdict("reach", "differs", (entry, part))])
    told = capsys.readouterr().err
    assert told.count("VG630") == (1 if len(known) == 2 else 2)
    assert "to a layer" in told
    assert len(json.loads(file.read_text().splitlines()[0])["stations"]["reach"]["entries"]) == 2


def test_a_user_who_has_a_run_stopped_for_it_is_obeyed(run):
    speaker, state, _ = run
    state.settings = Settings({"VG630": "error"})
    state.no_gradient = frozenset({"vision"})
    entry = Entry("VG630", "warning", "no gradient came", towers=("vision",))
    with pytest.raises(Stop, match="VG630"):
        speaker.window([Verdict("reach", "differs", (entry,))])


def test_two_causes_of_one_code_are_two_and_notes_are_in_the_report_alone(run, capsys):
    speaker, *_ = run
    entries = (
        Entry("VG610", "warning", "8 targets are pads", "row 1 of micro-batch 0 on rank 0"),
        Entry("VG610", "warning", "9 targets are pads", "row 2 of micro-batch 0 on rank 0"),
        Entry("VG610", "note", "every token is a target", "row 1 of micro-batch 0 on rank 0"),
        Entry("VG610", "warning", "the text begins twice", "row 1 of micro-batch 0 on rank 0"),
    )
    for several in (entries[:3], entries[3:]):
        speaker.window([Verdict("rows", "balances", several)])
    speaker.close()
    told = [line for line in capsys.readouterr().err.splitlines() if "VG610" in line]
    assert [line.split()[2] for line in told] == ["warned:", "warned:"]
    assert ["8 targets are pads" in told[0], "begins twice" in told[1]] == [True, True]


class Watcher:
    """As `vlmguard_torch.ledger.watcher.Watcher` calls what listens to it."""

    account, pages = ACCOUNT, ()

    def judged(self, step):
        self.pages = pages(step)
        self.on_verdicts(step, verdicts())


def test_a_watcher_is_listened_to(capsys):
    watcher = Watcher()
    listen(watcher)
    gone = weakref.ref(watcher)
    for step in (7, 8):
        watcher.judged(step)
    watcher.on_close()
    assert "ledger: steps 7 and 8 balance" in capsys.readouterr().err
    del watcher
    assert gone() is None, "it is not kept"


def test_a_run_that_goes_on_knows_what_its_report_holds(monkeypatch, tmp_path):
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "report.json"))
    report.write("ledger", {"step": 1, "stations": {"rows": {"shown": {"digest": "ab"}}}})
    watcher, known = Watcher(), []
    watcher.first_step, watcher.recall = 3, known.append
    listen(watcher)
    listen(watcher, recalls=False)
    assert known == [{"rows": {"earlier": {"ab": 1}}}], "an epoch may begin with the same rows"


def test_numbers_for_the_trainers_logs(run):
    speaker, state, _ = run
    speaker.window(verdicts(targets="head is fused away"), pages(1))
    assert state.kept[KEPT] == {
        "vlmguard/rows": 1.0, "vlmguard/reach": 1.0, "vlmguard/reduce": 1.0,
        "vlmguard/update": 1.0, "vlmguard/ranks": 1.0, "vlmguard/target_tokens": 1604,
        "vlmguard/vision/gradient": 0.25, "vlmguard/vision/moved": 1,
        "vlmguard/vision/lr": 2e-6, "vlmguard/llm/lr": 1e-5,
    }  # fmt: skip
    assert scalars({}) == {}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (Entry("VG640", "warning", "it is 56 % off", "8 tensors", 3, 0.56), "8 tensors: it is 56 % off (station reduce, since step 3)"),  # noqa: E501
        (Entry("VG622", "warning", "weights of 8 tokens sum to 4 since step 1.", "8 tokens", 1), "weights of 8 tokens sum to 4 since step 1 (station targets)"),  # noqa: E501
        (Entry("VG641", "note", "scaled"), "scaled (station reduce)"),
    ],
)
def test_a_sentence_says_each_thing_once(entry, told):
    assert finding(entry).why == told
