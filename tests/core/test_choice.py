"""Each condition by which a run becomes a question to the tables, and verdicts become an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from tests.core.test_compat_tables import FACTS, MID, NEW, OLD, ask, measured, tables
from vlmguard.compat import cases, verdicts
from vlmguard.compat import choice as compat
from vlmguard.compat.cases import Case, Query
from vlmguard.compat.choice import Choice, Option
from vlmguard.compat.verdicts import Seen
from vlmguard.core.facts import Checkpointing, Run, Tower

__all__ = ["tables"]  # the fixture
VISION = Tower("vision", total=4, trainable=4, checkpointed=True)
WORDS = Tower("llm", total=4, trainable=4, checkpointed=True)
RUN = Run("x", NEW, "ddp", 2, checkpointing=Checkpointing(True, True), find_unused=False,
          towers=(WORDS, VISION))  # fmt: skip
RARE = {"may_be_unused": "possible"}


def of(**changed):
    return cases.of(replace(RUN, **changed))


@pytest.mark.parametrize(
    ("changed", "wrap"),
    [
        ({}, "ddp"),
        ({"find_unused": True}, "ddp_find_unused"),
        ({"find_unused": None}, "ddp"),
        ({"static_graph": True}, "ddp_static"),
        ({"static_graph": True, "find_unused": True}, "ddp_static"),
        ({"strategy": "zero1"}, "zero1"),
        ({"strategy": "zero1", "overlap_comm": True}, "zero1_overlap"),
        ({"strategy": "zero2", "overlap_comm": True}, "zero2"),
        ({"strategy": "zero3", "static_graph": True}, "zero3"),
    ],
)
def test_what_will_wrap_it(changed, wrap):
    assert of(**changed).wrap == wrap


def test_the_wrap_that_will_run_is_weighed_first_and_only_ddp_has_others():
    assert of(static_graph=True).wraps == ("ddp_static", "ddp_find_unused", "ddp")
    assert of(strategy="zero3").wraps == ("zero3",)


@pytest.mark.parametrize(
    ("changed", "tuning"),
    [
        ({}, ("full",)),
        ({"frozen": True}, ("lora_tower",)),
        ({"tuning": "lora"}, ("lora_tower",)),
        ({"towers": (replace(WORDS, adapters=2), VISION)}, ("lora_tower",)),
        ({"tuning": "lora", "towers": (WORDS,)}, ("lora",)),
        ({"tuning": "lora", "towers": (WORDS,), "text_skips": ("q",)}, ("lora_tower",)),
        ({"frozen": True, "towers": (WORDS, replace(VISION, trainable=0))}, ("frozen_tower",)),
        ({"frozen": True, "towers": (replace(WORDS, trainable=1),)}, ("frozen_tower", "lora")),
        ({"frozen": True, "towers": ()}, ("frozen_tower", "lora")),
    ],
)
def test_what_is_tuned(changed, tuning):
    assert of(**changed).tuning == tuning


@pytest.mark.parametrize(
    ("changed", "models"),
    [
        ({}, ("two_tower", "qwen2_vl")),
        ({"towers": (WORDS,)}, ("two_tower",)),
        ({"towers": (), "forwards": 2}, ("two_tower", "two_forwards")),
        ({"towers": (), "repeats": "yes"}, ("two_tower", "per_image")),
        ({"towers": (), "repeats": "possible"}, ("two_tower",)),
        ({"towers": (), "shared": True}, ("two_tower", "tied")),
    ],
)
def test_what_the_model_is_like(changed, models):
    assert of(**changed).models == models


def test_what_may_repeat_should_work_too():
    assert of(repeats="possible").also_models == ("per_image",)
    assert of(repeats="yes").also_models == of(repeats="no").also_models == ()


@pytest.mark.parametrize(
    ("changed", "batches"),
    [
        ({}, ()),
        ({"may_be_unused": "yes"}, ("text", "differ", "image_then_text")),
        ({"may_be_unused": "yes", "pads": True}, ()),
        ({"may_be_unused": "yes", "towers": (WORDS,)}, ()),
        ({"may_be_unused": "yes", "towers": (WORDS,), "text_skips": ("q",)},
         ("text", "differ", "image_then_text")),
        ({"may_be_unused": "yes", "towers": ()}, ("text", "differ", "image_then_text")),
        ({**RARE}, ("text", "differ", "image_then_text")),
        ({**RARE, "world": 3}, ()),
        ({"may_be_unused": "yes", "world": 3}, ("text", "differ", "image_then_text")),
        ({"never_used": ("last",)}, ("text",)),
        ({"never_used": ("last",), "provenance": {"never_used": "assumed"}}, ()),
    ],
)  # fmt: skip
def test_which_batches_it_may_meet(changed, batches):
    assert of(**changed).also_batches == batches


def test_a_blank_input_is_a_batch_that_must_work():
    assert of(pads=True).batches == ("images", "differ_dummy")
    assert of().batches == ("images",)


@pytest.mark.parametrize(("steps", "asked"), [(1, 1), (2, 2), (8, 2)])
def test_accumulation_is_one_or_more(steps, asked):
    assert of(accumulation=steps).accumulation == asked


def test_without_checkpointing_no_variant_is_weighed():
    assert of(checkpointing=Checkpointing(False, True)).checkpointing == ("none",)
    assert of().checkpointing == ("non_reentrant", "reentrant")


@pytest.mark.parametrize(
    ("case", "packages"),
    [
        (Case("ddp", "none"), ("torch",)),
        (Case("zero1_overlap", "none"), ("torch", "deepspeed")),
        (Case("fsdp2", "none", model="qwen2_vl"), ("torch", "transformers")),
        (Case("ddp", "none", "lora", "qwen2_vl"), ("torch", "transformers", "peft")),
        (Case("ddp", "none", "lora_tower", "two_tower"), ("torch",)),
        (Case("ddp", "none", "frozen_tower", "qwen2_vl"), ("torch", "transformers")),
    ],
)
def test_which_releases_can_change_a_verdict(case, packages):
    assert case.decided_by == packages


def test_what_it_may_meet_is_not_what_it_must():
    query = Query(NEW, "zero3", "zero3", batches=("images",), also_batches=("text",),
                  also_models=("per_image",))  # fmt: skip
    required = query.required("zero3", "none")
    possible = query.possible("zero3", "none")
    assert [(c.model, c.batch) for c in required] == [("two_tower", "images")]
    assert [(c.model, c.batch) for c in possible] == [
        ("two_tower", "text"), ("per_image", "images"), ("per_image", "text"),
    ]  # fmt: skip


BAD, GOOD = Seen("hang", "measured", "x"), Seen("ok", "measured", "x")
MAYBE_BAD, MAYBE_GOOD = Seen("wrong", "nearest", "y"), Seen("ok", "nearest", "y")


def option(seen, checkpointing="non_reentrant", **more):
    return Option("ddp", checkpointing, seen, **more)


def test_a_variant_goes_wrong_only_where_it_works_nowhere():
    assert Choice(options=(option(BAD), option(GOOD))).verdict_of("non_reentrant") == ""
    assert Choice(options=(option(BAD), option(None))).verdict_of("non_reentrant") == ""
    assert Choice(options=(option(BAD), option(MAYBE_BAD))).verdict_of("non_reentrant") == "hang"
    assert Choice(options=(option(BAD),)).verdict_of("reentrant") == ""
    assert Choice().verdict_of("reentrant") == ""


def test_the_order_in_which_variants_are_taken():
    best_first = [
        option(GOOD), option(GOOD, fails=(("text", "hang"),)), option(GOOD, doubts=1),
        option(MAYBE_GOOD), option(None), option(MAYBE_BAD), option(BAD),
    ]  # fmt: skip
    assert sorted(best_first[3:] + best_first[:3], key=compat._badness) == best_first


def test_the_worst_of_what_must_work_counts():
    def worst(*seen):
        return compat._worst([(Case("ddp", "none"), each) for each in seen])

    assert worst(GOOD, MAYBE_GOOD, MAYBE_BAD, BAD) is BAD
    assert worst(GOOD, MAYBE_GOOD, MAYBE_BAD) is MAYBE_BAD
    assert worst(GOOD, MAYBE_GOOD) is MAYBE_GOOD
    assert worst() is None
    real = Case("ddp", "none", model="qwen2_vl")
    assert compat._worst([(real, MAYBE_BAD), (Case("ddp", "none"), GOOD)]) is GOOD
    assert compat._worst([(real, BAD), (Case("ddp", "none"), GOOD)]) is BAD


def test_wrap_options_are_named_where_they_are_to_change(tables):
    tables(*measured(NEW, "ddp", non_reentrant="wrong", reentrant="wrong"),
           *measured(NEW, "ddp_find_unused", non_reentrant="ok"))  # fmt: skip
    choice = ask(NEW, "ddp")
    assert (choice.find_unused, choice.static_graph) == (True, None)
    asked = Query(NEW, "ddp", "ddp_static")
    assert compat.answer(asked).static_graph is False
    assert compat.answer(Query(NEW, "ddp", "ddp_find_unused")).find_unused is None


def test_a_static_graph_is_named_where_it_alone_works(tables):
    tables(*measured(NEW, "ddp", reentrant="wrong"), *measured(NEW, "ddp_static", reentrant="ok"))
    choice = ask(NEW, "ddp", checkpointing=("reentrant",))
    assert (choice.static_graph, choice.find_unused) == (True, False)


def test_what_fails_even_so_is_named_with_what_does_not(tables):
    batches = [(NEW, Case("zero3", "non_reentrant", batch="text"), "hang")]
    dummy = [(NEW, Case("zero3", "non_reentrant", batch="differ_dummy"), "ok")]
    tables(*measured(NEW, "zero3", non_reentrant="ok"), *batches, *dummy)
    choice = ask(NEW, checkpointing=("non_reentrant",), also_batches=("text",))
    assert choice.verdict == "works"
    assert choice.fails == ("text: hang",)
    assert choice.instead == ("a dummy image in text-only batches",)
    assert ask(NEW, checkpointing=("non_reentrant",)).instead == ()


def test_no_newer_release_without_one(tables):
    tables(
        *measured(OLD, "zero3", non_reentrant="hang"), *measured(NEW, "zero3", non_reentrant="ok")
    )
    query = Query(OLD, "zero3", "zero3", ("non_reentrant",))
    # torch stays: only deepspeed may move, and that pair was not measured
    assert compat.newer(query, "deepspeed") == ""
    assert compat.newer(replace(query, releases={"torch": "2.13.0"}), "deepspeed") == ""
    assert compat.newer(replace(query, releases={**NEW, "deepspeed": "0.14.5"}), "deepspeed") == (
        "0.19.8"
    )
    assert compat.newer(replace(query, releases=NEW), "deepspeed") == "", "none is newer"


def test_an_empty_table_is_unknown_and_an_unreadable_one_untested(tables, monkeypatch):
    tables(*measured(NEW, "ddp", none="ok"))
    assert ask(NEW).verdict == "unknown"
    monkeypatch.setattr(verdicts, "readable", lambda: False)
    assert ask(NEW).verdict == "untested"
    assert ask(NEW).untested == ("the compatibility tables cannot be read",)


def test_evidence_names_a_measurement_or_a_fact():
    assert compat._evidence(Seen("ok", "facts", "own runs")) == "own runs"
    assert compat._evidence(Seen("hang", "measured", "a, b")) == "hang, measured on a, b"
    assert compat._evidence(Seen("hang", "measured", "a", "since 2.5")) == (
        "hang, measured on a: since 2.5"
    )


@pytest.mark.parametrize(
    ("release", "base", "unfinished"),
    [
        ("2.6.0+cu124", "2.6.0", False),
        ("0.19.3.dev1", "0.19.3", True),
        ("2.13.0rc1", "2.13.0", True),
        ("nonsense", None, False),
        (None, None, False),
        ("", None, False),
    ],
)
def test_releases_as_people_have_them(release, base, unfinished):
    assert verdicts.base(release) == (Version(base) if base else None)
    assert verdicts.unfinished(release) is unfinished


def test_holds():
    assert verdicts.holds({"torch": "2.6.0+cpu"}, "torch", ">=2.6")
    assert verdicts.holds({"torch": "2.7.0rc1"}, "torch", ">=2.6")
    assert verdicts.holds({"torch": "2.5"}, "torch", ">=2.6") is False
    assert verdicts.holds({}, "torch", ">=2.6") is False


SURE = FACTS.replace(
    "row = []", '[[row]]\nstrategy = ["zero3"]\nverdict = "{}"\nevidence = "fact"\n'
)
DOUBTFUL = SURE.replace('evidence = "fact"', 'evidence = "fact"\ncertain = false')


def look(releases, variant="non_reentrant"):
    return verdicts.look(Case("zero3", variant), releases)


def test_a_measurement_goes_before_a_fact_and_a_fact_before_the_nearest(tables):
    facts = SURE.replace("[measured]", '[measured]\ndeepspeed = ">=0.14,<0.20"').format("hang")
    tables(*measured(NEW, "zero3", non_reentrant="ok"), facts=facts)
    assert (look(NEW).verdict, look(NEW).how) == ("ok", "measured")
    assert (look(MID).verdict, look(MID).how, look(MID).where) == ("hang", "facts", "fact")
    assert look(NEW).why == ""
    tables(*measured(NEW, "zero3", non_reentrant="hang"), facts=facts)
    assert look(NEW).why == "fact", "the fact tells of the same failure"
    tables(*measured(NEW, "zero3", non_reentrant="wrong"), facts=facts)
    assert look(NEW).why == ""


def test_a_doubtful_fact_yields_to_the_nearest_measurement(tables):
    facts = DOUBTFUL.format("hang")
    tables(*measured(NEW, "zero3", non_reentrant="ok"), facts=facts)
    assert (look(MID).verdict, look(MID).how) == ("ok", "nearest")
    tables(*measured(NEW, "ddp", none="ok"), facts=facts)
    assert (look(MID).verdict, look(MID).how) == ("hang", "nearest")
    assert look({"torch": "2.6.0"}).verdict == "hang", "a release of which is not known"


def box(verdict):
    every = (OLD, NEW, {**NEW, "deepspeed": "0.14.5"}, {**OLD, "deepspeed": "0.19.8"})
    return [row for each in every for row in measured(each, "zero3", non_reentrant=verdict)]


@pytest.mark.parametrize(
    ("facts", "between", "told"),
    [
        (FACTS, "ok", ("ok", "interpolated")),
        (SURE.format("ok"), "ok", ("ok", "interpolated")),
        (SURE.format("hang"), "hang", ("hang", "interpolated")),
        (SURE.format("hang"), "ok", ("hang", "nearest")),
        (SURE.format("ok"), "hang", ("hang", "nearest")),
        (DOUBTFUL.format("hang"), "ok", ("ok", "interpolated")),
    ],
)
def test_a_fact_beside_what_lies_between(tables, facts, between, told):
    facts = facts.replace("[measured]", '[measured]\ndeepspeed = ">=0.14,<0.20"')
    tables(*box(between), facts=facts)
    assert (look(MID).verdict, look(MID).how) == told


def test_of_sets_alike_in_what_matters_the_worst_counts(tables):
    other = {**NEW, "transformers": "5.19.0"}
    case = Case("zero3", "non_reentrant")
    for first, second in (("ok", "hang"), ("hang", "ok")):
        tables((NEW, case, first, "one"), (other, case, second, "two"))
        assert look(NEW).verdict == "hang"


def test_the_nearest_is_the_fewest_measured_releases_away(tables):
    seen = (("2.4.1", "hang"), ("2.6.0", "wrong"), ("2.10.0", "ok"))
    case = Case("fsdp2", "non_reentrant")
    tables(*(({**NEW, "torch": torch}, case, verdict) for torch, verdict in seen))

    def nearest(torch):
        seen = verdicts.look(Case("fsdp2", "non_reentrant"), {"torch": torch})
        return seen.verdict, seen.how

    assert nearest("2.1") == ("hang", "nearest")
    assert nearest("2.15") == ("ok", "nearest")
    assert nearest("2.5") == ("hang", "interpolated"), "both fail: which way is the older's"
    assert nearest("2.7") == ("wrong", "nearest"), "of two equally far, the older one"


def test_what_was_run_reaches_from_the_oldest_to_the_newest(tables):
    tables(*measured(OLD, "zero3", none="ok"), *measured(NEW, "zero3", none="ok"))
    for torch, inside in (("2.4.1", True), ("2.13.0", True), ("2.15", True), ("2.16", False),
                          ("2.3", False), ("2.13.0rc1", False)):  # fmt: skip
        assert verdicts.reached({"torch": torch}, "torch") is inside, torch
    for peft, inside in (("0.14.0", True), ("0.13", False), ("0.22", False), ("odd", False)):
        assert verdicts.reached({"peft": peft}, "peft") is inside, peft
    assert verdicts.reached({"other": "1"}, "other"), "nothing is known of it"


def test_releases_of_records_and_facts(tables):
    facts = FACTS.replace("row = []", '[[row]]\ndeepspeed = ">=0.16.1"\nverdict = "ok"\n')
    tables(*measured(OLD, "zero3", none="ok"), *measured(NEW, "zero3", none="ok"), facts=facts)
    found = [str(each) for each in verdicts.releases_of("deepspeed")]
    assert found == ["0.14.5", "0.16.1", "0.19.8"]


def test_notes_are_of_a_strategy_and_its_releases(tables):
    note = '[[note]]\nstrategy = ["zero1"]\ndeepspeed = ">=0.18.7"\ntext = "gloo"\n'
    tables(*measured(NEW, "zero1", none="ok"), facts=FACTS + note)
    assert list(verdicts.notes("zero1", NEW)) == ["gloo"]
    assert list(verdicts.notes("zero2", NEW)) == []
    assert list(verdicts.notes("zero1", OLD)) == []
    assert ask(NEW, "zero1").notes == ("gloo",)


def test_what_is_not_run_or_not_measurable_has_no_verdict(tables):
    tables(*measured(NEW, "zero3", none="unmeasurable"))
    assert look(NEW, "none") is None
    assert look(NEW, "reentrant") is None
    assert verdicts.readable()
