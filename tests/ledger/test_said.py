"""What counts as told, shown and missed, on made-up records of the report."""

from __future__ import annotations

from tools.ledger import said

KNOWN = {"kind": 8, "codes": ["VG642"], "seen": ""}


def record(window=0, **stations):
    told = {name: {"state": "balances", "reason": "", "shown": {}, "entries": [], **station}
            for name, station in stations.items()}  # fmt: skip
    return {"kind": "ledger", "window": window, "step": window + 1, "towers": {}, "stations": told}


def entry(code="VG642", level="warning"):
    return {"code": code, "level": level, "why": "so", "what": ""}


def judged(*wrong, known=KNOWN, right=()):
    return said.judge(known, right or [record()], wrong)["verdict"]


def test_a_warning_with_its_code_by_the_third_step_is_told():
    assert judged(record(2, reduce={"entries": [entry()]})) == "told"
    assert judged(record(3, reduce={"entries": [entry()]})) == "otherwise"  # too late
    assert judged(record(0, reduce={"entries": [entry("VG640")]})) == "otherwise"


def test_a_note_is_shown_if_the_healthy_run_has_none():
    noted = record(0, reach={"entries": [entry("VG630", "note")]})
    assert judged(noted) == "shown"
    assert judged(noted, right=[noted]) == "missed"


def test_numbers_show_only_kinds_of_which_that_is_enough():
    rate = {"kind": 31, "codes": [], "seen": "update.schedule"}
    slow, fast = (record(0, update={"shown": {"schedule": [lr]}}) for lr in (0.1, 0.2))
    assert judged(fast, right=[slow], known=rate) == "shown"
    assert judged(slow, right=[slow], known=rate) == "missed"
    assert judged(fast, right=[slow], known={**rate, "kind": 8}) == "missed"


def test_a_warning_of_a_healthy_run_is_an_alarm_and_a_note_is_none():
    assert said.alarms([record(0, reach={"entries": [entry("VG630", "note")]})]) == []
    assert len(said.alarms([record(n, reach={"entries": [entry()]}) for n in range(3)])) == 1
