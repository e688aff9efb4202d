from __future__ import annotations

import dataclasses

import pytest

from vlmguard.compat import choice as compat
from vlmguard.compat import verdicts
from vlmguard.core.facts import Checkpointing, Run, Tower
from vlmguard.runtime import faults

ON = Checkpointing(True, True)


def run(strategy, torch="2.13.0", deepspeed="0.19.8", **more):
    releases = {"torch": torch, "deepspeed": deepspeed}
    return Run("x", releases, strategy, 2, checkpointing=ON, **more)


@pytest.mark.parametrize(
    ("given", "reentrant"),
    [
        (run("ddp"), False),
        (run("zero2"), False),
        (run("zero3"), False),
        (run("zero3", frozen=True), False),
        (run("zero3", frozen=True, deepspeed="0.19.3"), False),
        (run("zero3", frozen=True, deepspeed="0.19.2"), True),
        (run("zero3", frozen=True, deepspeed="0.19.2", torch="2.4.1"), False),
        (run("zero3", frozen=True, deepspeed="0.16.9", torch="2.6.0+cu124"), True),
        (run("zero3", frozen=False, deepspeed="0.16.9"), False),
        (run("unknown"), None),
    ],
)
def test_variant(given, reentrant):
    assert compat.choose(given).use_reentrant is reentrant


def test_nothing_works_and_names_what_does():
    choice = compat.choose(run("zero3", frozen=True, deepspeed="0.19.2", forwards=2))
    assert choice.verdict == "nothing"
    assert "DeepSpeed >= 0.19.3" in choice.instead


def test_a_release_between_two_that_work_can_be_wrong():
    """ZeRO-2 with accumulation loses gradients on deepspeed 0.17.6 - 0.18.2 under every variant."""
    for release, verdict in (("0.17.5", "works"), ("0.18.0", "nothing"), ("0.18.3", "works")):
        given = run("zero2", torch="2.7.1", deepspeed=release, accumulation=4)
        assert compat.choose(given).verdict == verdict, release
    wrong = compat.choose(run("zero2", torch="2.7.1", deepspeed="0.17.6", accumulation=4))
    assert wrong.instead[:2] == ("DeepSpeed >= 0.18.3", "ZeRO-1")
    measured = compat.choose(run("zero2", torch="2.8.0", deepspeed="0.17.6", accumulation=4))
    assert "wrong, measured on" in measured.evidence
    assert "gradients of earlier micro-batches are lost" in measured.evidence
    assert compat.choose(run("zero2", deepspeed="0.17.6")).verdict == "works"


@pytest.mark.parametrize("checkpointing", [ON, Checkpointing()])
def test_what_text_skips_in_the_language_model_is_looked_for(checkpointing):
    """Mllama's cross-attention trains beside a frozen tower."""
    towers = (Tower("vision", ("v",), 9, 0), Tower("llm", ("t",), 9, 9))
    given = dataclasses.replace(
        run("ddp", may_be_unused="yes", find_unused=False, frozen=True, towers=towers),
        checkpointing=checkpointing,
    )
    assert compat.choose(given).find_unused is not True
    skips = dataclasses.replace(given, text_skips=("layers.1.cross_attn.q",))
    assert compat.choose(skips).find_unused is True


def test_a_static_graph_gives_way_to_find_unused():
    choice = compat.choose(run("ddp", may_be_unused="yes", find_unused=False, static_graph=True))
    assert (choice.find_unused, choice.static_graph) == (True, False)
    assert choice.use_reentrant is False


def test_find_unused_for_an_idle_tower_only():
    assert compat.choose(run("ddp", may_be_unused="possible")).find_unused is True
    several = dataclasses.replace(run("ddp", may_be_unused="possible"), world=3)
    assert compat.choose(several).find_unused is None
    assert compat.choose(run("ddp")).find_unused is None
    assert compat.choose(run("zero3", may_be_unused="yes")).find_unused is None


def test_batches_that_go_wrong_are_named_with_what_mends_them():
    choice = compat.choose(run("zero2", may_be_unused="yes"))
    assert choice.verdict == "works"
    assert choice.fails == ("differ: mismatch",)
    assert "a dummy image in text-only batches" in choice.instead
    assert "a frozen tower (if it is not meant to train)" in choice.instead
    assert compat.choose(run("zero2", may_be_unused="yes", pads=True)).fails == ()


def test_untested_releases_are_named():
    choice = compat.choose(run("zero3", deepspeed="0.25.0"))
    assert choice.verdict == "untested"
    assert choice.untested == ("deepspeed 0.25.0",)
    assert choice.use_reentrant is False


@pytest.mark.parametrize("text", ["format = 99", "not toml at all", ""])
def test_a_damaged_table_chooses_nothing(text, tmp_path, monkeypatch, capsys):
    for name in ("choice", "verdicts"):
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.setattr(verdicts, "folder", lambda: tmp_path)
    monkeypatch.setattr(faults, "_said", set())
    verdicts.forget()
    try:
        assert compat.choose(run("ddp")).use_reentrant is None
        assert compat.choose(run("ddp")).verdict == "untested"
    finally:
        verdicts.forget()
    told = capsys.readouterr().err
    assert told.count("table choice failed") == told.count("table verdicts failed") == 1
