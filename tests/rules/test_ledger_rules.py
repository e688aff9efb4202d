"""VG610 to VG660 have no hook: the ledger's stations speak for them, under their policies."""

from __future__ import annotations

import pytest

from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings, check_codes
from vlmguard.ledger.account import STATIONS, Account, Entry, Tensor, Verdict
from vlmguard.ledger.speak import Speaker
from vlmguard.rules import RULES

LEDGER = [rule.CODE for rule in RULES if "VG610" <= rule.CODE <= "VG669"]
ACCOUNT = Account((Tensor("visual.a", "vision", 8, "float32", True, 0),), 2, "ddp")


def wrong(code, level="warning", **more):
    entry = Entry(code, level, "the optimizer gets another gradient", "3 of 4 tensors", **more)
    return [Verdict("reduce", "differs", (entry,))]


@pytest.fixture
def said(capsys):
    def said(rules, *windows):
        state = RunState(Settings(rules, ledger="first"))
        runstate.opened(state)
        speaker = Speaker(ACCOUNT, state)
        for verdicts in windows:
            speaker.window(verdicts)
        speaker.close()
        runstate.closed(state)
        return capsys.readouterr().err

    return said


def test_fourteen_codes():
    assert len(LEDGER) == 14


@pytest.mark.parametrize("code", LEDGER)
def test_speaks(said, code):
    """Once a run, with what, how much, since when and what to do."""
    told = said({}, wrong(code, size=0.56, since=2, advice="do this"), wrong(code, size=0.57))
    assert told == (
        f"vlmguard: {code} warned: 3 of 4 tensors: the optimizer gets another gradient "
        f"(station {STATIONS[int(code[3]) - 1]}, off by 56 %, since step 2). To do: do this\n"
    )


@pytest.mark.parametrize("code", LEDGER)
@pytest.mark.parametrize("level", ["warning", "note"])
def test_silent(said, code, level):
    assert said({code: "off"}, wrong(code, level)) == ""
    assert said({"VG6": "off"}, wrong(code, level)) == ""
    check_codes(Settings({code: "off", "VG6": "off", code[:4]: "off"}), {r.CODE for r in RULES})


@pytest.mark.parametrize("code", LEDGER)
def test_stops_where_the_user_asked_for_it(said, code):
    with pytest.raises(Stop, match=code):
        said({code: "error"}, wrong(code))


def test_what_is_only_shown_is_not_said_and_never_stops(said):
    assert "VG640" not in said({"VG6": "error"}, wrong("VG640", "note"))
