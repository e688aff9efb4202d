"""The lab without torch: cases, messages, comparison, records, release sets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools.lab import (
    agreement,
    campaign,
    cases,
    compare,
    envs,
    messages,
    records,
)
from tools.lab.cases import Case

np = pytest.importorskip("numpy")
CASE = Case("zero3", "non_reentrant", "lora", "two_tower", "images", 1)
TOLD = {
    "verdict": "ok",
    "kind": None,
    "message": None,
    "error": 0.0,
    "sites": None,
    "seconds": 1.2,
}


def record(case: Case, **more: object) -> dict[str, object]:
    return records.make("set", {"torch": "2.13.0"}, case, 0, {**TOLD, **more})


def test_the_product_is_whole_but_for_what_a_rule_leaves_out():
    every = cases.all_cases()
    assert len(every) == len(set(every))
    axes = (8, 3, 4, 5, 5, 2)
    whole = int(np.prod(axes))
    left_out = Counter(why for case in _product() if (why := cases.impossible(case)))
    assert len(every) == whole - sum(left_out.values())
    assert all("FSDP2" in why or "per image" in why or "once per image" in why for why in left_out)


def _product() -> list[Case]:
    import itertools

    from vlmguard.compat import cases as axes

    return [
        Case(*found)
        for found in itertools.product(
            axes.STRATEGIES, axes.CHECKPOINTING, axes.TUNING, axes.MODELS, axes.BATCHES, (1, 2)
        )
    ]


def test_a_control_can_be_measured_wherever_its_case_can():
    every = set(cases.all_cases())
    assert all(case.control() in every for case in every)


def test_parts_hold_the_flips_that_are_known():
    for strategy in ("zero3", "ddp"):
        for tuning in ("full", "lora"):
            case = Case(strategy, "non_reentrant", tuning, "two_tower", "images", 1)
            assert cases.can_flip(case)
    with pytest.raises(ValueError, match="a part is one of full"):
        cases.of_part("half", CASE)


def test_only_names_axes_or_cases():
    chosen = campaign.chosen("full", ["strategy=zero3,ddp", "model=tied", "accumulation=1"])
    assert {case.strategy for case in chosen} == {"zero3", "ddp"}
    assert {case.model for case in chosen} == {"tied"}
    assert campaign.chosen("full", [CASE.key]) == [CASE]
    for word, told in (
        ("strateggy=zero3", "an axis is one of strategy"),
        ("strategy=zero9", "strategy is one of ddp"),
        (CASE.key.replace("lora", "lore"), "no such case"),
        ("fsdp2/none/full/tied/images/1", "no such case"),
    ):
        with pytest.raises(ValueError, match=told):
            campaign.chosen("full", [word])


def test_a_draw_is_the_same_for_the_same_seed():
    every = cases.all_cases()
    assert cases.draw(every, 20, 5) == cases.draw(reversed(every), 20, 5)
    assert cases.draw(every, 20, 5) != cases.draw(every, 20, 6)


@pytest.mark.parametrize(
    ("error", "message", "kind"),
    [
        ("RuntimeError", "Expected to mark a variable ready only once. This", "ready_only_once"),
        ("AssertionError", "The parameter 3 has already been reduced. \n", "already_reduced"),
        ("RuntimeError", "Expected to have finished reduction in the prior", "unfinished"),
        (
            "CheckpointError",
            "torch.utils.checkpoint: Recomputed values for the following tensors have different "
            "metadata than during the forward pass.",
            "recomputed_metadata",
        ),
        ("RuntimeError", "element 0 of tensors does not require grad and", "no_grad"),
        ("AssertionError", "", "assertion"),
        ("KeyError", "'x'", "other"),
        (None, "no output", "died"),
    ],
)
def test_messages_have_classes(error, message, kind):
    assert messages.classify(error, message) == kind


def test_a_first_line_tells_nothing_of_the_machine():
    told = messages.first_line(
        "OSError", "\n/home/me/x/site-packages/torch/a.py at 0x7f12 10.0.0.1:99\nmore", None
    )
    assert told == "OSError: torch/a.py at 0x… address"
    assert messages.first_line(None, "no output", 7) == "exit code 7: no output"


def test_updates_are_compared_not_weights():
    before = {"w": np.full(4, 1000.0), "still": np.zeros(2)}
    after = {"w": before["w"] + 1.0, "still": np.zeros(2)}
    assert compare.error(before, after, after) == 0
    off = {"w": before["w"] + 1.01, "still": np.zeros(2)}
    assert compare.error(before, after, off) == pytest.approx(0.01)
    assert compare.error(before, after, before) == pytest.approx(1.0)
    noise = {"w": after["w"], "still": np.full(2, 1e-9)}
    assert compare.error(before, after, noise) < compare.TOLERANCE
    assert compare.error(before, after, {"w": after["w"]}) == float("inf")
    lost = {"w": after["w"] * float("nan"), "still": np.zeros(2)}
    assert compare.error(before, after, lost) == float("inf")
    assert not compare.finite(lost)
    assert compare.drift(before, after, [after, off]) == pytest.approx(0.01)


def test_records_come_back_sorted_and_the_same_bytes(tmp_path):
    sink = records.Sink("set", tmp_path)
    other = Case("ddp", "none", "full", "tied", "text", 2)
    sink.put(record(CASE, verdict="wrong", error=0.5))
    sink.put(record(other))
    packed = records.pack("set", tmp_path)
    first = packed.read_bytes()
    assert not (tmp_path / "set.jsonl").exists()
    assert list(records.load("set", tmp_path)) == sorted([CASE, other])
    assert records.load("set", tmp_path)[CASE]["verdict"] == "wrong"
    assert records.pack("set", tmp_path).read_bytes() == first
    sink.close()
    records.Sink("set", tmp_path).put(record(CASE))  # measured again: the fresh one counts
    assert records.load("set", tmp_path)[CASE]["verdict"] == "ok"


def test_a_line_that_was_cut_off_is_lost_and_no_other(tmp_path):
    sink = records.Sink("set", tmp_path)
    sink.put(record(CASE))
    sink.close()
    with sink.file.open("a") as handle:
        handle.write('{"format":1,"env":"set","case":{"str')
    assert list(records.load("set", tmp_path)) == [CASE]
    other = Case("ddp", "none", "full", "tied", "text", 2)
    records.Sink("set", tmp_path).put(record(other))
    assert [json.loads(line)["verdict"] for line in sink.file.read_text().splitlines()] == [
        "ok"
    ] * 2


def test_two_runs_do_not_write_the_same_set_at_once(tmp_path):
    sink = records.Sink("set", tmp_path)
    with pytest.raises(records.Busy, match="another run"):
        records.Sink("set", tmp_path)
    records.Sink("other", tmp_path).close()
    sink.close()
    records.Sink("set", tmp_path).close()


def test_a_record_has_the_agreed_keys():
    assert list(record(CASE)) == [
        *("format", "env", "releases", "case", "seed", "verdict", "class", "message", "error"),
        *("sites", "seconds"),
    ]


def test_release_sets_are_data():
    sets = envs.sets()
    assert sets["newest"].measure == "full"
    recipe = envs.recipe()
    for of in sets.values():
        assert of.measure in cases.PARTS
        assert of.torch in recipe["torch"]
        assert of.transformers in recipe["transformers"]


def test_release_sets_are_listed_with_what_is_recorded(capsys):
    assert campaign.environments([], []) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in envs.sets())
    assert "of 4488" in told
    assert campaign.environments(["nowhere"], []) == 2
    assert "no release set nowhere" in capsys.readouterr().out


def test_an_environment_sees_this_package_and_none_of_its_neighbours(tmp_path, monkeypatch):
    monkeypatch.setenv("VLMGUARD_LAB", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    for _ in range(2):
        found = envs.environment(envs.sets()["newest"])["PYTHONPATH"].split(":")
    assert [entry.rpartition("/")[2].partition("-")[0] for entry in found] == [
        *("deepspeed", "transformers", "peft", "vlmguard")
    ]
    inside = Path(found[-1])
    assert sorted(file.name for file in inside.iterdir()) == ["tools", "vlmguard"]
    assert (inside / "tools" / "lab" / "worker.py").exists()


def test_an_environment_that_cannot_be_installed_is_recorded_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("VLMGUARD_LAB", str(tmp_path / "lab"))
    monkeypatch.setenv("VLMGUARD_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "torch-0.0.1.done").touch()
    of = envs.ReleaseSet("nowhere", "0.0.1", "0.0.1", "0.0.1", "0.0.1")
    monkeypatch.setattr(envs, "sets", lambda: {"nowhere": of})
    with pytest.raises(envs.CannotInstall, match="deepspeed 0"):
        envs.make(of)
    noted = envs.states()["nowhere"]
    assert noted["state"] == "failed"
    assert "No matching distribution" in noted["reason"]


def test_engines_agree_where_they_see_the_same_at_two_moments():
    ok = {"verdict": "ok", "kind": None}
    crash = {"verdict": "crash", "kind": "unfinished"}
    assert agreement.same({"verdict": "hang", "kind": None}, {"verdict": "mismatch", "kind": None})
    assert not agreement.same(ok, crash)
    assert not agreement.same(crash, {"verdict": "crash", "kind": "no_grad"})
    counted = {**crash, "seconds": 1.0}
    of = envs.sets()["newest"]
    text = agreement.table(of, 3, {CASE: counted}, {CASE: {**ok, "seconds": 2.0}})
    assert f'case = "{CASE.key}"' in text
    assert "agreeing = 0" in text


def test_the_command_line_imports_no_torch():
    heavy = "[m for m in ('torch', 'numpy') if m in sys.modules]"
    code = f"import sys, vlmguard.cli.app; print({heavy})"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
