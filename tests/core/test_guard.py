"""The order of events around one run: what is judged, said, stopped, remembered and let go."""

from __future__ import annotations

import dataclasses
import json

import pytest

from vlmguard import guard, registry, run_report
from vlmguard.core import runstate
from vlmguard.core.errors import SettingsError, Stop
from vlmguard.core.facts import Batch, Checkpointing, Run, Sample, Tower
from vlmguard.core.findings import Finding, PadWithBlank, SetVariant
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import exchange, stop

NEW = {"torch": "2.13.0", "deepspeed": "0.19.8", "transformers": "5.23.0", "peft": "0.21.2"}
VISION = Tower("vision", total=4, trainable=4, checkpointed=True)
BROKEN = Run("x", {**NEW, "x": "1.5"}, "ddp", 2, checkpointing=Checkpointing(True, True),
             find_unused=True, static_graph=False, towers=(VISION,))  # fmt: skip
HEALTHY = dataclasses.replace(BROKEN, checkpointing=Checkpointing(True, False), find_unused=False)
IDLE = dataclasses.replace(HEALTHY, strategy="zero3", find_unused=None, static_graph=None,
                           may_be_unused="yes", can_pad=True)  # fmt: skip


class Framework:
    """A run that takes every remedy."""

    def __init__(self, run: Run) -> None:
        self.run, self.read, self.applied = run, 0, 0

    def translate(self) -> Run:
        self.read += 1
        return self.run

    def apply(self, plan):
        self.applied += 1
        changes = {}
        if plan.variant is not None:
            values = {k: v for k, v in vars(plan.variant).items() if v is not None}
            reentrant = values.pop("use_reentrant", self.run.checkpointing.use_reentrant)
            checkpointing = dataclasses.replace(self.run.checkpointing, use_reentrant=reentrant)
            self.run = dataclasses.replace(self.run, checkpointing=checkpointing, **values)
            changes["variant"] = ["use_reentrant: True → False"]
        if plan.pad:
            self.run = dataclasses.replace(self.run, pads=True)
            changes["blank"] = ["a blank input"]
        return changes

    def guarded(self, **more):
        return guard.pre_wrap(self.translate, self.apply, **more)


def rules(monkeypatch, *settings):
    monkeypatch.setenv("VLMGUARD_RULES", ",".join(settings))


@pytest.fixture
def stopped(monkeypatch):
    """Errors that torchrun was told of."""
    told = []
    monkeypatch.setattr(guard, "abort", told.append)
    monkeypatch.setattr(stop, "abort", told.append)
    return told


def test_a_healthy_run_is_read_once_and_left_alone(capsys):
    made = Framework(HEALTHY)
    state = made.guarded(owner=made)
    assert (made.read, made.applied) == (1, 0)
    assert state.run is HEALTHY
    assert runstate.of(made) is state is runstate.only()
    said = capsys.readouterr().err
    assert said.startswith("vlmguard: ")
    rules = len(registry.get().applying("x"))
    assert f"guards x 1.5, ddp, 2 ranks, by {rules} rules; settings" in said
    guard.close(state)
    assert runstate.of(made) is None
    assert not runstate.opens()


def test_a_run_that_would_fail_is_mended_and_read_again(capsys):
    made = Framework(BROKEN)
    state = made.guarded()
    assert (made.read, made.applied) == (2, 1)
    assert state.run.checkpointing.use_reentrant is False
    assert state.plan.variant.use_reentrant is False
    assert capsys.readouterr().err.count("VG101 fixed: use_reentrant: True → False") == 1


def test_what_must_not_pass_stops_before_anything_is_changed(monkeypatch, stopped, capsys):
    rules(monkeypatch, "VG101=error")
    made = Framework(BROKEN)
    with pytest.raises(Stop, match=r"rank 0.*VG101: .*VLMGUARD_RULES=VG101=warn") as raised:
        made.guarded()
    assert made.applied == 0
    assert stopped == [raised.value]
    assert not runstate.opens(), "let go of"
    assert "VG101 stopped" in capsys.readouterr().err


def test_advice_of_a_stop_is_in_the_frameworks_own_words(monkeypatch, stopped):
    rules(monkeypatch, "VG101=error")
    spell = lambda advice: "--my-flag no" if isinstance(advice, SetVariant) else None  # noqa: E731
    with pytest.raises(Stop, match="--my-flag no"):
        Framework(BROKEN).guarded(spell=spell)


def test_a_blank_input_is_set_until_a_step_held(capsys):
    state = Framework(IDLE).guarded()
    assert state.run.pads
    said = capsys.readouterr().err
    assert "VG108 set" in said
    assert "VG108 fixed" not in said
    run_report.confirmed(state, "a forward ran on it")
    said = capsys.readouterr().err
    assert "VG108 fixed [rank 0]: a forward ran on it" in said
    run_report.confirmed(state, "again")
    assert capsys.readouterr().err == ""


def test_what_was_fixed_is_taken_back_where_the_run_then_fails(capsys):
    state = Framework(IDLE).guarded()
    run_report.confirmed(state, "a forward ran on it")
    assert state.fixed == ["VG106", "VG108"]
    error = RuntimeError("collectives do not match")
    run_report.taken_back(state, "it ran, and the ranks failed", error)
    assert state.fixed == []
    assert "VG106 taken back [rank 0]: it ran, and the ranks failed" in error.__notes__[0]
    run_report.taken_back(state, "again", error)
    assert len(error.__notes__) == 2
    capsys.readouterr()
    run_report.confirmed(state, "another")
    assert capsys.readouterr().err == ""


def test_a_blank_input_that_nothing_needed_is_never_called_fixed(capsys):
    state = Framework(IDLE).guarded()
    state.set.clear()
    note = Finding("VG106", "note", "frozen", remedies=(PadWithBlank(),))
    wanted = Plan(fixes=(note,), remedies=note.remedies)
    run_report.changed(state, wanted, {"blank": ["a blank input"]})
    assert "VG106 set" in capsys.readouterr().err
    run_report.confirmed(state, "a forward ran on it")
    assert capsys.readouterr().err == ""


def test_only_what_was_to_be_mended_is_looked_for_again(stopped, capsys):
    """What the user leaves as it is still speaks, and is no remedy that failed."""
    guard.verify(Plan(fixes=(Finding("VG106", "error", "another"),)), BROKEN)
    assert "VG903" not in capsys.readouterr().err


def test_what_might_never_have_come_true_is_set_and_proved_once(capsys):
    state = Framework(dataclasses.replace(BROKEN, find_unused=False)).guarded()
    assert "VG101 set" in capsys.readouterr().err
    run_report.proved(state, "VG101", "it ran twice")
    assert "VG101 fixed [rank 0]: it ran twice" in capsys.readouterr().err
    run_report.proved(state, "VG101", "it ran twice")
    run_report.proved(state, "VG999", "never heard of")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", ["error", "note"])
def test_a_remedy_that_did_not_take_is_as_bad_as_what_it_was_for(level, stopped, capsys):
    run = BROKEN if level == "error" else dataclasses.replace(BROKEN, find_unused=False)

    def nothing(plan):
        return {"variant": ["use_reentrant: True → False"]}

    if level == "error":
        with pytest.raises(Stop, match="vlmguard's change for VG101 had no effect"):
            guard.pre_wrap(lambda: run, nothing)
    else:
        assert guard.pre_wrap(lambda: run, nothing).run is run
        assert "VG903 warned: vlmguard's change for VG101" in capsys.readouterr().err


def test_a_setting_that_the_model_cannot_obey_ends_the_run(stopped):
    def check():
        raise SettingsError("no tower is called visoin")

    made = Framework(HEALTHY)
    with pytest.raises(SettingsError, match="visoin") as raised:
        made.guarded(check=check)
    assert made.read == 0
    assert stopped == [raised.value]
    assert not runstate.opens()


def test_a_setting_that_names_no_rule_ends_the_run(monkeypatch, stopped):
    rules(monkeypatch, "VG998=off")
    with pytest.raises(SettingsError, match="VG998"):
        Framework(HEALTHY).guarded()


def test_a_run_that_cannot_be_read_is_let_go_of(capsys):
    def translate():
        raise KeyError("gone")

    assert guard.pre_wrap(translate, lambda plan: {}) is None
    assert not runstate.opens()


@pytest.mark.parametrize("again", ["raises", "is read"])
def test_where_the_second_look_fails_the_plan_was_still_applied(again, capsys):
    made = Framework(BROKEN)

    def translate():
        if made.read and again == "raises":
            raise KeyError("gone")
        return made.translate()

    state = guard.pre_wrap(translate, made.apply)
    assert made.applied == 1
    assert (state.run is BROKEN) is (again == "raises")


@pytest.fixture
def posted(monkeypatch):
    """What this rank left for the others."""
    told = {}
    monkeypatch.setattr(guard.agree, "_post", lambda state, data: told.update(plan=data))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    return told


def boom(*args, **kwargs):
    raise KeyError("boom")


def test_other_ranks_are_told_what_is_changed_here(posted):
    Framework(BROKEN).guarded()
    assert posted["plan"] == [{"kind": "Variant", "use_reentrant": False}]


@pytest.mark.parametrize("what", ["read", "applied", "judged", "planned"])
def test_other_ranks_are_told_where_a_fault_of_ours_changes_nothing(posted, monkeypatch, what):
    """They would run another variant than this one, and wait for it for ever."""
    made, before = Framework(BROKEN), RunState(Settings()).number
    if what == "planned":
        monkeypatch.setattr(guard.plan, "make", boom)
        with pytest.raises(KeyError):
            made.guarded()
    elif what == "judged":
        monkeypatch.setattr(guard.registry, "get", boom)
        with pytest.raises(KeyError):
            guard.pre_wrap(made.translate, made.apply)
    else:
        guard.pre_wrap(boom if what == "read" else made.translate, boom)
    assert posted["plan"] == []
    assert RunState(Settings()).number == before + 2, "counted as on ranks without the fault"
    assert made.run is BROKEN


@pytest.mark.parametrize("name", ["header", "changed", "greeting"])
def test_what_cannot_be_said_is_done_all_the_same(posted, monkeypatch, name):
    monkeypatch.setattr(run_report, name, boom)
    made = Framework(BROKEN)
    state = made.guarded()
    assert made.applied == 1
    assert state.run.checkpointing.use_reentrant is False
    assert posted["plan"]


def test_a_finding_that_cannot_be_said_stops_nothing_and_hides_no_stop(monkeypatch, stopped):
    monkeypatch.setattr(guard.report, "say", boom)
    state = Framework(dataclasses.replace(HEALTHY, missing_seams=("step",))).guarded()
    assert state.run.missing_seams == ("step",)


@pytest.mark.parametrize("wrong", ["odd", 17, [], object()])
def test_an_owner_that_leads_to_nonsense_leads_to_no_run(monkeypatch, wrong):
    owner = Framework(HEALTHY)
    state = owner.guarded(owner=owner)
    assert guard.state_of(owner) is state
    monkeypatch.setattr(runstate, "of", lambda owner: wrong)
    assert guard.state_of(owner) is None
    monkeypatch.setattr(runstate, "of", boom)
    assert guard.state_of(owner) is None


@pytest.mark.parametrize("wrong", ["odd", 17, None])
def test_an_apply_that_does_not_say_what_it_did_is_a_fault(wrong, posted, capsys):
    state = guard.pre_wrap(lambda: BROKEN, lambda plan: wrong)
    assert state.run is BROKEN
    assert posted["plan"] == []


@pytest.mark.parametrize(
    ("run", "speaks", "greeted"),
    [
        (HEALTHY, True, True),
        (HEALTHY, False, True),  # two ranks and a tower
        (dataclasses.replace(HEALTHY, world=1), False, False),
        (dataclasses.replace(HEALTHY, world=1), True, True),
        (dataclasses.replace(HEALTHY, towers=()), False, False),
        (dataclasses.replace(BROKEN, towers=()), False, True),
    ],
)
def test_who_is_greeted(run, speaks, greeted, capsys):
    Framework(run).guarded(speaks=speaks)
    assert ("guards x" in capsys.readouterr().err) is greeted


def test_rank_1_writes_a_header_and_prints_none(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "report.jsonl"))
    Framework(BROKEN).guarded()
    assert capsys.readouterr().err == ""
    first, *rest = map(json.loads, (tmp_path / "report.rank1.jsonl").read_text().splitlines())
    assert (first["kind"], first["framework"], first["world"]) == ("header", "x", 2)
    assert first["plan"] == [{"kind": "Variant", "use_reentrant": False}]
    assert first["settings"]["digest"] == Settings().digest
    assert {(each["code"], each["outcome"]) for each in rest} >= {("VG101", "fixed")}


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_first_line_counts_ranks_and_names_sources(ranks):
    state = RunState(Settings(sources=("vlmguard.toml", "environment")))
    text = run_report.greeting(state, dataclasses.replace(HEALTHY, world=ranks))
    assert f"{ranks} rank{'s' if ranks > 1 else ''}, by " in text
    assert "from vlmguard.toml, environment" in text
    assert " from " not in run_report.greeting(RunState(Settings()), HEALTHY)


def test_the_first_step_is_summed_up_once(capsys):
    state = Framework(BROKEN).guarded()
    capsys.readouterr()
    run_report.first_step(state)
    run_report.first_step(state)
    said = capsys.readouterr().err
    assert said.count("rules watched, 1 fixed (VG101)") == 1


def test_what_held_later_is_summed_up_at_the_end(capsys):
    state = Framework(BROKEN).guarded()
    state.set["VG106"] = Finding("VG106", "error", "idle")
    run_report.first_step(state)
    assert "1 fixed (VG101), 1 set (VG106)" in capsys.readouterr().err
    run_report.confirmed(state, "a blank input ran")
    guard.close(state)
    assert "at the end 2 fixed (VG101, VG106)\n" in capsys.readouterr().err


def test_nothing_is_said_at_the_end_where_nothing_came_after(capsys):
    state = Framework(BROKEN).guarded()
    run_report.first_step(state)
    capsys.readouterr()
    guard.close(state)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("speaks", "counted", "rank", "said"),
    [(True, 0, "0", 1), (False, 0, "0", 0), (False, 1, "0", 1), (True, 1, "1", 0)],
)
def test_who_is_told_the_sum(speaks, counted, rank, said, monkeypatch, capsys):
    monkeypatch.setenv("RANK", rank)
    state = RunState(Settings(), run=HEALTHY, speaks=speaks)
    state.counts["warned"] = counted
    run_report.first_step(state)
    assert capsys.readouterr().err.count("rules watched") == said


def test_a_run_that_was_never_read_has_no_first_step(capsys):
    state = RunState(Settings())
    run_report.first_step(state)
    assert capsys.readouterr().err == ""
    assert not state.stepped


def test_closers_run_once_the_last_first_each_contained(capsys):
    state, called = Framework(HEALTHY).guarded(), []

    def broken():
        called.append("broken")
        raise OSError("boom")

    state.at_close(lambda: called.append("first"))
    state.at_close(broken)
    guard.close(state)
    guard.close(state)
    guard.close(None)
    assert called == ["broken", "first"]
    assert state.closed
    assert "letting go of the run failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("policy", "level", "outcome"),
    [
        ("", "error", "stopped"),
        ("VG202=warn", "error", "error"),
        ("VG202=off", "error", None),
        ("VG202=fix", "error", "stopped"),
        ("", "warning", "warned"),
        ("VG202=error", "warning", "stopped"),
        ("", "note", "note"),
        ("VG202=error", "note", "stopped"),
    ],
)
def test_what_becomes_of_a_finding(policy, level, outcome, monkeypatch, stopped, capsys):
    rules(monkeypatch, *([policy] if policy else []))
    guard.settings._load.cache_clear()
    finding = Finding("VG202", level, "three tokens")
    if outcome == "stopped":
        with pytest.raises(Stop, match="three tokens"):
            guard.judge([finding])
        assert stopped
    else:
        guard.judge([finding])
        assert not stopped
    said = capsys.readouterr().err
    assert (f"VG202 {outcome}: three tokens" in said) is (outcome is not None), said


def test_all_findings_are_said_before_one_stops(stopped, capsys):
    serious = Finding("VG202", "error", "three tokens?", advice="lengthen them")
    with pytest.raises(Stop, match=r"VG202: three tokens\? lengthen them"):
        guard.judge([serious, Finding("VG203", "warning", "row 3 was replaced")])
    assert "row 3 was replaced" in capsys.readouterr().err


def test_a_dataloader_worker_stops_without_telling_torchrun(monkeypatch, stopped):
    monkeypatch.setattr(guard.report, "worker", lambda: 0)
    with pytest.raises(Stop, match="rank 0, worker 0"):
        guard.stop([Finding("VG202", "error", "three tokens")])
    assert not stopped, "it is raised again in the rank's main process"
    guard.on_error(None, None, Stop("three tokens"))
    assert len(stopped) == 1


def test_a_policy_of_off_explains_nothing(monkeypatch):
    rules(monkeypatch, "VG501=off")
    guard.settings._load.cache_clear()
    error = RuntimeError("Expected to mark a variable ready only once.")
    guard.on_error(BROKEN, None, error)
    assert not getattr(error, "__notes__", [])


def test_an_explanation_stands_under_the_traceback_and_in_the_report(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("VLMGUARD_REPORT", str(tmp_path / "report.jsonl"))
    error = RuntimeError("Expected to mark a variable ready only once.")
    guard.on_error(BROKEN, None, error)
    told = "".join(getattr(error, "__notes__", [])) or capsys.readouterr().err
    assert "VG501 explained [rank 0]" in told
    (line,) = map(json.loads, (tmp_path / "report.rank0.jsonl").read_text().splitlines())
    assert (line["code"], line["outcome"]) == ("VG501", "explained")


def test_only_what_differs_from_what_will_happen_is_chosen():
    variant, nothing = guard.chosen(BROKEN)
    assert variant.use_reentrant is False
    assert nothing is None
    right = dataclasses.replace(BROKEN, checkpointing=Checkpointing(True, False), find_unused=False)
    assert guard.chosen(right) == (None, None)
    old = {**NEW, "torch": "2.6.0", "deepspeed": "0.19.2"}
    hopeless = dataclasses.replace(IDLE, releases=old, frozen=True, forwards=2, tuning="lora",
                                   may_be_unused="no", towers=())  # fmt: skip
    variant, nothing = guard.chosen(hopeless)
    assert (variant, nothing.code) == (None, "VG405")


def test_a_finding_of_no_rule_is_only_said(capsys):
    assert guard.default_policy("XX999") == "warn"
    assert guard.default_policy("VG101") == "fix"
    guard.judge([Finding("XX999", "error", "from nowhere")])
    assert "XX999 error: from nowhere" in capsys.readouterr().err


def test_the_settings_in_force_are_the_runs(monkeypatch):
    state = RunState(Settings({"VG202": "warn"}))
    runstate.opened(state)
    batch = Batch((Sample(placeholders=3, expected=4, keys=("pixel_values",)),), ("image",))
    guard.pre_step(HEALTHY, batch=batch)
    runstate.closed(state)
    with pytest.raises(Stop):
        guard.pre_step(HEALTHY, batch=batch)


def test_one_change_for_two_findings_is_told_once(capsys):
    two = dataclasses.replace(BROKEN, repeats="yes", find_unused=False)
    Framework(two).guarded()
    said = capsys.readouterr().err
    assert said.count("use_reentrant: True → False") == 1
    assert "the same change" in said


class Freezes(Framework):
    """It also takes a freeze policy."""

    def apply(self, plan):
        changes = super().apply(plan)
        if plan.freeze:
            self.run = dataclasses.replace(self.run, unfrozen=0)
            changes["freeze"] = ["visual.x: frozen"]
        return changes


def test_each_line_names_its_own_change(capsys):
    """VG101 mended nothing by what the freeze policy froze."""
    both = dataclasses.replace(BROKEN, freeze=("vision",), unfrozen=3, unfrozen_example="visual.x")
    Freezes(both).guarded()
    told = capsys.readouterr().err.split("vlmguard: ")
    variant = next(line for line in told if line.startswith("VG101 fixed"))
    frozen = next(line for line in told if line.startswith("VG301 fixed"))
    assert "use_reentrant: True → False" in variant
    assert "frozen" not in variant
    assert "visual.x: frozen" in frozen
    assert "use_reentrant" not in frozen
    assert "not obeyed" not in frozen


def test_no_connection_is_left_behind(monkeypatch):
    """The ledger opens one again after the ranks have decided."""
    monkeypatch.setattr(exchange, "_clients", {(1, "host", 1): object(), (1, "host", 2): None})
    guard.close(RunState(Settings()))
    assert list(exchange._clients.values()) == [None]


def test_a_run_is_closed_even_if_its_last_pages_stop_it(monkeypatch):
    monkeypatch.setattr(exchange, "_clients", {(1, "host", 1): object()})
    state = RunState(Settings())

    def stops():
        raise Stop("why")

    state.at_close(stops)
    with pytest.raises(Stop):
        guard.close(state)
    assert state.closed
    assert not exchange._clients
