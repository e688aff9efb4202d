"""A rehearsal from request to answer, on a plug-in without torch: its one rank is forked, its
weights are compared, and what cannot be judged is not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from vlmguard.check import launcher
from vlmguard.check.shell.state import Call
from vlmguard.ranks import Result, Site
from vlmguard.rehearse import run
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.jobs import as_set
from vlmguard.rehearse.passes import Rehearsal
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.show import Told, text
from vlmguard.rehearse.training_rows import DIFFER, LOADER, NONE, Sample

IMAGE = {"messages": [], "images": ["a.png"]}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps(IMAGE) + "\n" + json.dumps({"messages": []}) + "\n")
    (tmp_path / "scratch").mkdir()

    def asked(*flags: str, thorough: bool = False, **changed):
        given = {
            "adapter": "fake", "entry": "sft", "argv": flags, "folder": str(tmp_path),
            "strategy": "single", "world": 1, "model": str(tmp_path), "name": "m",
            "scratch": str(tmp_path / "scratch"), "data": (str(data),), "shuffled": False,
            "towers": ("vision", "llm"), "thorough": thorough, **changed,
        }  # fmt: skip
        heard = []
        answer = run.rehearse(Request(**given), lambda event, told: heard.append((event, told)))
        assert {told["pass"] for event, told in heard if event == "judged"} or answer["why"]
        return answer

    yield asked
    sys.modules.pop("fake.rehearse", None)


def test_right(ask):
    answer = ask()
    assert (answer["verdict"], answer["exit"]) == ("right", 0), answer
    assert answer["on"]["kind"] == "right"
    assert answer["mended"] == []
    assert answer["notes"][-1] == "--a: b"
    assert "memory" in answer["not_shown"]


def test_a_crash_that_the_guard_mends(ask):
    answer = ask("--off", "crash", "--step", "2")
    assert (answer["verdict"], answer["exit"]) == ("crash", 1)
    off = answer["off"]
    assert (off["step"], off["rank"], off["order"]) == (2, 0, LOADER)
    assert off["error"] == "RuntimeError"
    assert "ready only once" in off["message"]
    assert answer["mended"] == ["VG106"]


def test_a_rank_that_dies_silently_is_a_crash(ask):
    assert ask("--off", "dies")["off"]["error"] == "exit code 3"


def test_wrong_weights(ask):
    answer = ask("--off", "wrong", "--step", "2")
    assert answer["verdict"] == "silently wrong"
    [(name, error), *_] = answer["off"]["tensors"]
    assert (name, error) == ("visual.a", pytest.approx(0.45))
    assert answer["off"]["count"] == 1


def test_what_the_guard_breaks(ask):
    answer = ask("--on", "crash")
    assert (answer["verdict"], answer["exit"], answer["off"]["kind"]) == ("crash", 1, "right")


def test_in_a_forced_order_only_it_comes_with_its_odds(ask):
    answer = ask("--off", "crash", "--step", "5", thorough=True)
    assert answer["off"]["order"] == NONE
    assert "50% of the rows have no media" in answer["off"]["odds"]
    assert DIFFER not in answer["orders"]  # one rank does not differ


def test_what_fails_after_the_last_step_is_of_no_order(ask):
    answer = ask("--off", "evaluates", thorough=True)
    assert (answer["verdict"], answer["off"]["order"]) == ("crash", LOADER)
    assert answer["off"]["odds"] == ""


@pytest.mark.parametrize("kind", ["short", "still"])
def test_what_did_not_run_or_move_is_not_right(ask, kind):
    answer = ask("--off", kind, "--on", kind)
    assert answer["off"]["kind"] != "right"
    if kind == "short":
        assert (answer["verdict"], answer["exit"]) == ("cannot tell", 2)
        assert "only 1 of 2 steps" in answer["why"]


@pytest.mark.parametrize(("kind", "why"), [
    ("crash", "the reference ended with crash"),
    ("short", "the reference did not run every step"),
    ("nan", "the reference's updates are not finite"),
    ("other", "begins with other weights than the reference's"),
    ("fewer", "trains in one of both only"),
])  # fmt: skip
def test_no_verdict_without_a_reference(ask, monkeypatch, kind, why):
    _of_reference(monkeypatch, kind)
    answer = ask()
    assert answer["verdict"] == "cannot tell"
    assert why in answer["why"]


def _of_reference(monkeypatch, kind):
    fake = __import__("fake.rehearse", fromlist=["x"])
    whole = fake.commands

    def changed(*args):
        made = whole(*args)
        return replace(made, reference=(*made.reference, "--off", kind))

    monkeypatch.setattr(fake, "commands", changed)


@pytest.mark.parametrize("towers", [("vision", "llm"), ()])
def test_what_moves_in_neither_was_not_looked_at(ask, monkeypatch, towers):
    """Right numbers, of a tower that stands still in the reference too: one that trains going by
    the command, or in the ranks themselves."""
    _of_reference(monkeypatch, "still")
    answer = ask("--off", "still", "--on", "still", towers=towers)
    assert answer["verdict"] == "cannot tell"
    assert "nothing of the vision tower moved" in answer["why"]


def test_a_tower_that_no_row_reaches_need_not_move(ask, monkeypatch, tmp_path):
    _of_reference(monkeypatch, "still")
    (tmp_path / "text.jsonl").write_text('{"messages": []}\n')
    answer = ask("--off", "still", "--on", "still", data=(str(tmp_path / "text.jsonl"),))
    assert answer["verdict"] == "right"


def test_nothing_moves_at_all(ask, monkeypatch):
    _of_reference(monkeypatch, "dead")
    answer = ask("--off", "dead", "--on", "dead", towers=())
    assert (answer["verdict"], answer["why"]) == (
        "cannot tell", "nothing moved in the reference")  # fmt: skip


def test_a_tower_that_the_command_trains_and_no_rank_knows_was_not_looked_at(ask):
    answer = ask(towers=("vision", "aligner"))
    assert answer["verdict"] == "cannot tell"
    assert "nothing of the aligner tower moved" in answer["why"]


def test_what_was_wrong_before_a_crash_is_told_first(ask):
    """The loader's order is judged by what it did, whatever a later order does."""
    answer = ask("--off", "wrong-then-crash", thorough=True)
    assert answer["off"]["kind"] == "silently wrong"
    assert answer["off"]["order"] == LOADER


@pytest.mark.parametrize(
    "message",
    [
        "No space left on device",
        "Torch not compiled with CUDA",
        "The math_verify package is required but not installed.",
    ],
)
def test_a_crash_of_this_machine_alone_is_no_verdict(ask, message):
    answer = ask("--off", f"raise:{message}")
    assert answer["off"]["kind"] == "cannot tell"
    assert message in answer["off"]["why"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [("vLLM is not installed.", "cannot tell"),
     ("cannot import name 'BoneConfig' from 'peft'", "crash")],
)  # fmt: skip
def test_a_missing_package_is_no_verdict_and_a_name_that_a_package_lost_is(ask, message, kind):
    assert ask("--off", f"imports:{message}")["off"]["kind"] == kind


def test_a_crash_before_the_first_step_may_be_of_stand_in_rows(ask):
    answer = ask("--off", "refuses:no such column", data=(), why_no_data="x/y is not on this disk")
    assert answer["off"]["kind"] == "cannot tell"
    assert "with stand-in rows: ValueError: no such column" in answer["off"]["why"]


def test_rows_that_cannot_be_read_are_named(ask, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{")
    answer = ask(data=(str(tmp_path / "bad.jsonl"),))
    assert answer["exit"] == 2
    assert "bad.jsonl" in answer["why"]


@pytest.mark.parametrize("kind", ["right", "crash"])
def test_rows_that_the_framework_drops_are_left_out_and_told(ask, tmp_path, kind):
    """Those behind them would move up, and the reference train on other batches."""
    rows = [{**IMAGE, "number": n, **({"bad": 1} if n in (1, 2) else {})} for n in range(4)]
    data = tmp_path / "dropped.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = ask("--off", kind, "--step", "2", data=(str(data),), batch=2)
    assert answer["off"]["kind"] == kind, answer
    assert answer["on"]["kind"] == "right"
    assert "2 of 4 rows: fake drops them" in answer["notes"]


def test_without_a_row_that_is_kept_there_is_no_verdict(ask, tmp_path):
    data = tmp_path / "dropped.jsonl"
    data.write_text(json.dumps({**IMAGE, "bad": 1}) + "\n")
    answer = ask(data=(str(data),))
    assert (answer["verdict"], answer["exit"]) == ("cannot tell", 2)
    assert "2 of 2 rows are dropped" in answer["why"]


def test_fewer_rows_than_ranks_train_nothing(ask):
    answer = ask(strategy="ddp", world=8, fewest=1)
    assert (answer["verdict"], answer["exit"]) == ("cannot tell", 2)
    assert answer["why"] == "2 rows for 8 ranks: no whole batch, nothing trains"


@pytest.mark.parametrize(
    ("word", "deep"),
    [
        (r".*language_model\.layers\.(2[0-9])\..*q_proj", True),
        ("model.layers.27.self_attn.q_proj", True),
        ("visual.blocks[3]", True),
        (r".*layers\.\d+\.q_proj", False),
        ("q_proj", False),
    ],
)
def test_a_command_that_names_a_layer_gets_all_layers(ask, monkeypatch, word, deep):
    fake = __import__("fake.rehearse", fromlist=["x"])
    asked = []
    monkeypatch.setattr(fake, "make", lambda *given: asked.append(given) or _made(given))
    monkeypatch.setattr(run, "ranks", _here)
    ask("--target_regex", word)
    assert [len(given) for given in asked] == [3 if deep else 2]


def _made(given):
    return {"class": "Fake", "weights": 3, "full": 0}


def _here(work, *_):
    """In this process: what it was called with is seen."""
    from types import SimpleNamespace

    return SimpleNamespace(verdict="ok", outcomes=[SimpleNamespace(value=work(0))])


@pytest.mark.parametrize(("late", "kind"), [(False, "hang"), (True, "cannot tell")])
def test_ranks_that_are_only_slow_do_not_hang(tmp_path, late, kind):
    request = Request("fake", "sft", (), str(tmp_path), "ddp", 2, "", "m", str(tmp_path))
    passes = Rehearsal(request, Commands((), ()), [], Sample([]), lambda _: {}, lambda *_: None)
    ended = Result("hang", [], [], [Site(0, "allreduce", "backward", "a.py:1")], late=late)
    found = passes._hang(Scene("guard off", "sft", (), "", tmp_path), ended)
    assert found.kind == kind
    assert ("not done after 300 s" in found.why) is late


def test_stand_ins_are_told(ask):
    answer = ask(data=(), why_no_data="x/y is not on this disk", media=("image",))
    assert "stand-in rows (image, text): x/y is not on this disk" in answer["notes"]


def test_a_class_that_cannot_be_built_small(ask, monkeypatch):
    fake = __import__("fake.rehearse", fromlist=["x"])

    def broken(source, out):
        raise ValueError("hidden sizes do not fit")

    monkeypatch.setattr(fake, "make", broken)
    answer = ask()
    assert answer["exit"] == 2
    assert "m: its class could not be built small: ValueError" in answer["why"]


def test_an_import_that_fails_is_told_with_its_first_cause(ask, monkeypatch):
    fake = __import__("fake.rehearse", fromlist=["x"])

    def broken(source, out):
        try:
            raise OSError("libcudart.so.12: cannot open")
        except OSError as error:
            raise ModuleNotFoundError("could not import module 'Model'") from error

    monkeypatch.setattr(fake, "make", broken)
    assert "built small: OSError: libcudart.so.12: cannot open" in ask()["why"]


def test_what_a_rank_and_its_rows_replaced_is_told_too(ask, monkeypatch):
    fake = __import__("fake.rehearse", fromlist=["x"])
    act = fake.act
    monkeypatch.setattr(fake, "act", lambda scene: {**act(scene), "notes": ["rewards all alike"]})
    answer = ask()
    assert answer["notes"] == ["1 pictures that are not on this disk: stand-ins", "--a: b",
                               "rewards all alike"]  # fmt: skip
    told = Told(Call(("x",), {}, "/", 3, "train.sh"), ("x",), answer)
    said = text([told])
    assert "replaced: 1 pictures that are not on this disk: stand-ins; --a: b; rewards" in said
    assert "not shown by this: memory, NCCL and topology" in said


@pytest.mark.parametrize("words", [(), ("--end", "crash")])
def test_what_was_not_looked_at_comes_last_and_flags_only_where_something_is_wrong(ask, words):
    told = Told(Call(("x",), {}, "/", 3, "x.sh"), ("x",), ask(*words), typed="x --flag false")
    said = text([told], ["my_wrapper.sh", "line 9"])
    assert said.endswith("\nnot looked at: my_wrapper.sh, line 9")
    wrong = bool(told.answer.get("mended"))
    assert ("by flags of the command: x --flag false" in said) is wrong
    assert "not looked at" not in text([told])


def test_data_that_is_not_here_is_told_beside_what_is(ask):
    answer = ask(why_no_data="x/y is not on this disk")
    assert "left out: x/y is not on this disk" in answer["notes"]


def test_what_is_replaced_in_the_tiny_models_files_is_told_where_it_happens_first(
    ask, monkeypatch
):
    """`own` changes the same files, and its notes are not told."""
    fake = __import__("fake.rehearse", fromlist=["x"])
    order = []
    for name in ("own", "commands"):
        whole = getattr(fake, name)

        def noted(*args, name=name, whole=whole):
            order.append(name)
            return whole(*args)

        monkeypatch.setattr(fake, name, noted)
    ask()
    assert order[:2] == ["commands", "own"]  # and once more for its ending


@pytest.mark.parametrize("evaluates", [True, False])
def test_evaluation_is_not_shown_unless_it_was_rehearsed(ask, evaluates):
    answer = ask(evaluates=evaluates)
    assert answer["verdict"] == "right"
    assert ("evaluation" in answer["not_shown"]) is not evaluates


def test_what_fails_at_its_end_alone_is_told(ask):
    answer = ask("--end", "crash", "--end_on", "crash", "--step", "3")
    assert (answer["verdict"], answer["exit"]) == ("crash", 1)
    assert (answer["off"]["order"], answer["off"]["step"]) == ("its ending", 3)
    assert answer["on"]["kind"] == "crash"
    assert "saving" in answer["not_shown"]


def test_the_guard_may_mend_its_end(ask):
    answer = ask("--end", "crash")
    assert (answer["verdict"], answer["mended"]) == ("crash", ["VG106"])


def test_its_end_is_shown_where_it_was_rehearsed(ask):
    answer = ask("--save_total_limit", "2", "--load_best_model_at_end", "true")
    assert "saving" not in answer["not_shown"]
    assert answer["left_out"] == []


def test_saving_is_not_shown_without_it(ask):
    assert "saving" in ask(passes=("off", "on"))["not_shown"]


@pytest.mark.parametrize(("scale", "kind"), [("1", "right"), ("8.0", "silently wrong")])
def test_a_scale_that_the_reference_shares(ask, scale, kind):
    answer = ask("--plain", scale)
    assert answer["off"]["kind"] == kind
    told = answer["off"]["against"] or answer["off"]["why"]
    assert ("plain cross-entropy" if kind == "right" else "8.00 times") in told


@pytest.mark.parametrize(("flag", "order"), [("--off", ""), ("--end", "its ending")])
def test_the_ledger_reads_a_pass_without_the_guard(ask, flag, order):
    answer = ask(flag, "unbalanced", passes=("off", "end"))
    assert (answer["off"]["kind"], answer["off"]["order"]) == ("silently wrong", order)
    assert answer["off"]["why"].startswith("VG640: halved")
    assert run.NO_BOOKS not in answer["not_shown"]


@pytest.mark.parametrize("flag", ["--off", "--end"])
def test_what_the_ledger_did_not_read_is_not_shown(ask, flag):
    assert run.NO_BOOKS in ask(flag, "unread", passes=("off", "end"))["not_shown"]


@pytest.mark.parametrize(("word", "passes"), [("off", ("off", "end")), ("", ("off", "on", "end"))])
def test_a_guard_that_the_command_switches_off_has_no_pass(word, passes):
    request = Request("x", "sft", (), "/", "single", 1, "/", "m", "/", passes=("off", "on", "end"))
    job = launcher.Job(Call(("fake",), {"VLMGUARD": word}, "/", 1, "a.sh"), "fake", ())
    assert as_set(request, job).passes == passes
