"""Records → tables → the choice, on records written here and on those that are committed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import lzma
from pathlib import Path

import pytest

from tools.lab import page, seamtable, table, toml
from vlmguard import compat as where
from vlmguard import registry
from vlmguard.compat import cases, defaults, verdicts
from vlmguard.compat import choice as compat
from vlmguard.compat.cases import Case, Query
from vlmguard.core.facts import Checkpointing, Run, Tower
from vlmguard.core.settings import read_toml
from vlmguard.runtime import faults

ROOT = Path(__file__).parents[2]
OLD = {"torch": "2.4.1", "deepspeed": "0.14.5", "transformers": "4.51.3", "peft": "0.14.0"}
MID = {"torch": "2.6.0", "deepspeed": "0.18.9", "transformers": "4.57.6", "peft": "0.18.1"}
NEW = {"torch": "2.13.0", "deepspeed": "0.19.8", "transformers": "5.23.0", "peft": "0.21.2"}
FACTS = 'format = 1\nrow = []\n[measured]\ntorch = ">=2.4,<2.16"\n'


def record(releases, case, verdict, name="", **more):
    name = name or f"torch{releases['torch']}-deepspeed{releases['deepspeed']}"
    data = {"format": 1, "env": name, "releases": releases, "case": case._asdict(), "seed": 0}
    kind = verdict.partition(" ")[2] or None
    return {**data, "verdict": verdict.partition(" ")[0], "class": kind, **more}


def both(strategy, **by_variant):
    """Cases of the plain model by variant, each with its verdict."""
    return [(Case(strategy, variant), verdict) for variant, verdict in by_variant.items()]


def packed(rows):
    return lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def remake(folder):
    """The table of the folder's records, without the page."""
    toml.write(folder / "verdicts.toml", "table", table.build(table.records()))
    verdicts.forget()


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A function that makes the tables of (releases, case, verdict) triples the ones in use."""
    monkeypatch.setattr(verdicts, "folder", lambda: tmp_path)
    monkeypatch.setattr(faults, "_said", set())

    def make(*measured, facts=FACTS):
        (tmp_path / "records").mkdir(exist_ok=True)
        (tmp_path / "choice.toml").write_text(facts)
        for other in ("defaults", "seams"):
            (tmp_path / f"{other}.toml").write_text("format = 1\n")
        rows = [record(*row) for row in measured]
        (tmp_path / "records" / "all.jsonl.xz").write_bytes(packed(rows))
        remake(tmp_path)

    yield make
    verdicts.forget()


def measured(releases, strategy, **by_variant):
    return [(releases, case, verdict) for case, verdict in both(strategy, **by_variant)]


def ask(releases, strategy="zero3", **more):
    return compat.answer(Query(releases, strategy, strategy, **more))


def test_an_exact_release_set_answers_for_itself(tables):
    tables(*measured(NEW, "zero3", reentrant="ok", non_reentrant="crash recomputed_metadata"))
    choice = ask(NEW)
    assert (choice.use_reentrant, choice.verdict, choice.how) == (True, "works", "measured")
    assert "torch2.13.0-deepspeed0.19.8" in choice.evidence
    assert ask({**NEW, "torch": "2.13.0+cu130"}).how == "measured"
    assert ask({**NEW, "transformers": "9.9"}).how == "measured", "plain torch needs none"


def test_between_two_that_agree_is_interpolated(tables):
    tables(
        *measured(OLD, "fsdp2", reentrant="ok", non_reentrant="ok"),
        *measured(NEW, "fsdp2", reentrant="ok", non_reentrant="ok"),
    )
    choice = ask(MID, "fsdp2")
    assert (choice.use_reentrant, choice.verdict, choice.how) == (False, "works", "interpolated")
    assert choice.untested == ()


def test_between_two_that_disagree_what_is_certain_is_chosen(tables):
    tables(
        *measured(OLD, "fsdp2", reentrant="ok", non_reentrant="wrong"),
        *measured(NEW, "fsdp2", reentrant="ok", non_reentrant="ok"),
    )
    assert ask(MID, "fsdp2").use_reentrant is True
    assert ask(MID, "fsdp2").verdict == "works"
    only = ask(MID, "fsdp2", checkpointing=("non_reentrant",))
    assert (only.verdict, only.how) == ("untested", "nearest")
    assert only.untested == ("torch 2.6.0",)


def test_a_box_whose_corner_nobody_measured_is_not_interpolated(tables):
    """An old torch with a new deepspeed lies between two sets that work."""
    corners = [OLD, NEW, {**NEW, "deepspeed": "0.14.5"}]
    tables(*(row for of in corners for row in measured(of, "zero3", non_reentrant="ok")))
    only = {"checkpointing": ("non_reentrant",)}
    assert ask(MID, **only).how == "nearest"
    every = [*corners, {**OLD, "deepspeed": "0.19.8"}]
    tables(*(row for of in every for row in measured(of, "zero3", non_reentrant="ok")))
    assert ask(MID, **only).how == "interpolated"


def test_on_a_torch_that_was_measured_deepspeed_alone_lies_between_two(tables):
    older, newer = ({**NEW, "deepspeed": release} for release in ("0.14.5", "0.19.8"))
    tables(*(row for of in (older, newer) for row in measured(of, "zero3", non_reentrant="ok")))
    between = {**NEW, "deepspeed": "0.18.9"}
    assert ask(between, checkpointing=("non_reentrant",)).how == "interpolated"


def test_a_set_that_does_not_say_what_decides_is_passed_by(tables):
    bare = {name: release for name, release in OLD.items() if name != "deepspeed"}
    odd = [(*row, "odd") for row in measured(bare, "zero3", non_reentrant="ok")]
    tables(*odd, *measured(NEW, "zero3", non_reentrant="ok"))
    assert ask(NEW, checkpointing=("non_reentrant",)).how == "measured"


def test_a_wheel_reads_the_tables_that_it_brought(tmp_path, monkeypatch):
    monkeypatch.setattr(where, "__file__", str(tmp_path / "compat" / "__init__.py"))
    assert verdicts.folder() == tmp_path.parent / "compat"
    (tmp_path / "_compat").mkdir()
    assert verdicts.folder() == tmp_path / "_compat"


@pytest.mark.parametrize("release", ["2.13.0rc1", "2.13.0.dev20260101", "2.13.0a0+gitabc"])
def test_a_development_build_is_not_measured(tables, release):
    tables(*measured(NEW, "ddp", non_reentrant="ok", reentrant="ok"))
    choice = ask({**NEW, "torch": release}, "ddp")
    assert (choice.verdict, choice.how) == ("untested", "nearest")
    assert choice.untested == (f"torch {release}",)


@pytest.mark.parametrize("certain", ["reentrant", "non_reentrant"])
def test_what_probably_fails_goes_before_what_certainly_does(tables, certain):
    other = "reentrant" if certain == "non_reentrant" else "non_reentrant"
    tables(
        *measured(NEW, "fsdp2", **{certain: "wrong"}),
        *measured(OLD, "fsdp2", **{other: "wrong"}),
    )
    choice = ask(NEW, "fsdp2")
    assert choice.options[0].checkpointing == other
    assert choice.verdict == "untested"


def test_what_certainly_works_goes_before_what_probably_does(tables):
    tables(
        *measured(OLD, "fsdp2", reentrant="ok"),
        *measured(NEW, "fsdp2", reentrant="ok", non_reentrant="ok"),
    )
    assert ask(MID, "fsdp2").use_reentrant is True
    only = ask(MID, "fsdp2", checkpointing=("non_reentrant",))
    assert (only.verdict, only.how) == ("untested", "nearest")


def test_one_case_that_certainly_fails_settles_it_beside_one_that_only_may(tables):
    doubtful = Case("fsdp2", "non_reentrant", model="two_forwards")
    tables(*measured(NEW, "fsdp2", non_reentrant="wrong"), (OLD, doubtful, "crash in_backward"))
    required = {"checkpointing": ("non_reentrant",), "models": ("two_tower", "two_forwards")}
    assert ask(NEW, "fsdp2", **required).verdict == "nothing"
    assert ask(NEW, "fsdp2", **{**required, "models": ("two_forwards",)}).verdict == "untested"


def test_sets_are_named_in_the_order_of_their_releases(tables):
    tables(*(
        (each, Case("fsdp2", "non_reentrant"), "ok")
        for each in ({"torch": "2.4.1"}, {"torch": "2.10.0"})
        for each in [{**NEW, **each}]
    ))  # fmt: skip
    told = ask({**NEW, "torch": "2.6.0"}, "fsdp2", checkpointing=("non_reentrant",)).evidence
    assert told.index("torch2.4.1") < told.index("torch2.10.0")


@pytest.mark.parametrize(
    ("releases", "strategy", "model", "verdict"),
    [
        ({"torch": "2.2.2", "deepspeed": "0.19.8"}, "zero2", "two_tower", "nothing"),
        ({"torch": "2.3.1", "deepspeed": "0.19.8"}, "zero3", "two_tower", "nothing"),
        ({"torch": "2.2.2", "deepspeed": "0.14.5"}, "zero2", "two_tower", "works"),
        ({"torch": "2.2.2"}, "fsdp2", "two_tower", "nothing"),
        ({"torch": "2.8.0"}, "fsdp2", "two_tower", "untested"),
        ({"torch": "2.13.0"}, "fsdp2", "two_tower", "works"),
        ({"torch": "2.13.0"}, "fsdp2", "tied", "untested"),
    ],
)
def test_what_the_committed_tables_do_not_know_they_do_not_say(releases, strategy, model, verdict):
    assert ask(releases, strategy, models=(model,)).verdict == verdict


def test_zero1_with_overlap_reduces_as_zero2_does():
    asked = Query(NEW, "zero1", "zero1_overlap", models=("two_forwards",))
    choice = compat.answer(asked)
    assert choice.use_reentrant is False
    assert choice.verdict_of("reentrant") == "crash already_reduced"
    plain = Query(NEW, "zero1", "zero1", ("reentrant",), models=("two_forwards",))
    assert compat.answer(plain).verdict == "works"


def test_a_third_set_between_them_breaks_the_agreement(tables):
    tables(
        *measured(OLD, "zero3", non_reentrant="ok"),
        *measured({**MID, "deepspeed": "0.16.9"}, "zero3", non_reentrant="hang"),
        *measured(NEW, "zero3", non_reentrant="ok"),
    )
    only = ask(MID, checkpointing=("non_reentrant",))
    assert only.verdict == "untested"


def test_beyond_the_newest_the_nearest_is_named_and_used(tables):
    tables(
        *measured(OLD, "ddp", reentrant="ok", non_reentrant="ok"),
        *measured(NEW, "ddp", reentrant="crash ready_only_once", non_reentrant="ok"),
    )
    choice = ask({"torch": "3.1"}, "ddp")
    assert (choice.use_reentrant, choice.verdict) == (False, "untested")
    assert choice.untested == ("torch 3.1",)
    assert "nearest on torch2.13.0" in choice.evidence


def test_nothing_works_and_the_nearest_that_does(tables):
    broken = measured(OLD, "zero3", reentrant="wrong", non_reentrant="hang", none="ok")
    tables(
        *broken,
        *measured(OLD, "zero2", reentrant="wrong", non_reentrant="ok"),
        *measured({**OLD, "deepspeed": "0.19.8"}, "zero3", non_reentrant="ok"),
    )
    choice = ask(OLD)
    assert choice.verdict == "nothing"
    assert choice.instead == ("DeepSpeed >= 0.19.8", "ZeRO-2", "checkpointing off")


def test_a_trainable_tower_can_be_frozen_instead(tables):
    frozen = Case("zero3", "non_reentrant", "frozen_tower")
    rows = measured(NEW, "zero3", reentrant="wrong", non_reentrant="hang")
    tables(*rows, (NEW, frozen, "ok"))
    assert ask(NEW).instead == ("a frozen tower (if it is not meant to train)",)


def test_not_measurable_is_no_verdict(tables):
    tables(*measured(NEW, "fsdp2", reentrant="unmeasurable", non_reentrant="ok"))
    choice = ask(NEW, "fsdp2")
    assert choice.use_reentrant is False
    assert [o.seen for o in choice.options if o.checkpointing == "reentrant"] == [None]


def test_a_failure_among_the_required_cases_counts(tables):
    """Two forwards under ZeRO-3: the plain case works both ways, the real one only one way."""
    twice = [
        (NEW, Case("zero3", variant, "lora", "two_forwards"), verdict)
        for variant, verdict in (("reentrant", "ok"), ("non_reentrant", "wrong"))
    ]
    plain = [(NEW, Case("zero3", v, "lora"), "ok") for v in ("reentrant", "non_reentrant")]
    tables(*plain, *twice)
    assert ask(NEW, tuning=("lora",)).use_reentrant is False
    models = ("two_tower", "two_forwards")
    assert ask(NEW, tuning=("lora",), models=models).use_reentrant is True


def test_a_doubt_about_the_real_model_tips_the_scales(tables):
    """The plain model works both ways; the real one, on the nearest transformers, only one way."""
    real = [
        (MID, Case("zero3", variant, "frozen_tower", "qwen2_vl"), verdict)
        for variant, verdict in (("reentrant", "ok"), ("non_reentrant", "hang"))
    ]
    plain = [(MID, Case("zero3", v, "frozen_tower"), "ok") for v in ("reentrant", "non_reentrant")]
    tables(*plain, *real)
    releases = {**MID, "transformers": "4.51.3"}
    models = ("two_tower", "qwen2_vl")
    choice = ask(releases, tuning=("frozen_tower",), models=models)
    assert (choice.use_reentrant, choice.verdict) == (True, "works")
    assert ask(releases, tuning=("frozen_tower",)).use_reentrant is False


def test_the_chosen_variant_never_fails_where_another_works(tables):
    """Every pair of verdicts on two releases, asked on and between them."""
    verdict = ("ok", "hang", "wrong")
    for first, second in itertools.product(itertools.product(verdict, verdict), repeat=2):
        tables(
            *measured(OLD, "zero3", reentrant=first[0], non_reentrant=first[1]),
            *measured(NEW, "zero3", reentrant=second[0], non_reentrant=second[1]),
        )
        for releases, (reentrant, other) in ((OLD, first), (NEW, second)):
            choice = ask(releases)
            worked = {True: reentrant == "ok", False: other == "ok"}
            if any(worked.values()):
                assert worked[choice.use_reentrant]
            else:
                assert choice.verdict == "nothing"


def test_a_newer_record_or_an_unknown_axis_is_an_error(tables, tmp_path):
    tables(*measured(NEW, "zero3", reentrant="ok"))
    for change in ({"format": 2}, {"case": {"strategy": "zero3", "checkpointing": "x"}}):
        line = {**record(NEW, Case("zero3", "none"), "ok"), **change}
        (tmp_path / "records" / "new.jsonl.xz").write_bytes(packed([line]))
        with pytest.raises(ValueError, match=r"new\.jsonl\.xz, line 1"):
            list(table.records())


def test_the_last_record_of_a_case_counts(tables):
    tables((NEW, Case("zero3", "none"), "hang"), (NEW, Case("zero3", "none"), "ok"))
    assert ask(NEW, checkpointing=("none",)).verdict == "works"


@pytest.mark.parametrize(
    "text",
    [
        "format = 99",
        "format = 1\n[[set]]\nname = 3",
        'format = 1\n[[set]]\nname = "x"\nreleases = {torch = "?"}\ncells = {}',
        'format = 1\n[axes]\nmodels = ["other"]',
        'format = 1\n[[set]]\nname = "x"\nreleases = {torch = "2.13.0"}\ncells = 3',
        "\x00\x01",
        "",
    ],
)
def test_a_damaged_table_is_said_once_and_acts_as_untested(tables, tmp_path, text, capsys):
    tables(*measured(NEW, "zero3", reentrant="ok"))
    (tmp_path / "verdicts.toml").write_text(text)
    verdicts.forget()
    run = Run("x", NEW, "zero3", 2, checkpointing=Checkpointing(True, False))
    for _ in range(3):
        assert compat.choose(run).verdict == "untested"
        findings = registry.get().pre_wrap(run)
    assert {f.code: f.level for f in findings} == {"VG401": "warning"}
    assert capsys.readouterr().err.count("VG902") == 1


def test_a_table_damaged_during_a_run_changes_nothing(tables, tmp_path):
    tables(*measured(NEW, "zero3", reentrant="ok", non_reentrant="wrong"))
    before = ask(NEW)
    (tmp_path / "verdicts.toml").write_text("broken")
    assert ask(NEW) == before


def test_the_page_shows_verdicts_choices_and_flips(tables, tmp_path):
    tables(
        *measured(OLD, "zero3", reentrant="ok", non_reentrant="crash recomputed_metadata"),
        *measured(NEW, "zero3", reentrant="ok", non_reentrant="ok"),
    )
    table.write(docs=tmp_path)
    text = (tmp_path / "compatibility.md").read_text("utf-8")
    assert "🟥RM" in text
    assert "| newest | 2.13.0 |" in text, "a set that was not measured is listed, too"
    flips = text.partition("## Verdicts that flip")[2].partition("##")[0]
    assert "zero3 · non_reentrant · full · two_tower · images" in flips
    assert "🟩 torch2.13.0-deepspeed0.19.8" in flips


def test_a_run_in_the_words_of_the_lab():
    vision = Tower("vision", total=4, trainable=4, checkpointed=True)
    llm = Tower("llm", total=4, trainable=4, adapters=2)
    on = Checkpointing(True, True)
    run = Run("x", NEW, "ddp", 2, checkpointing=on, towers=(vision, llm), frozen=True)
    assert cases.of(run).tuning == ("lora_tower",)
    assert cases.of(run).models == ("two_tower", "qwen2_vl")
    frozen = dataclasses.replace(run, towers=(dataclasses.replace(vision, trainable=0), llm))
    assert cases.of(frozen).tuning == ("lora",)
    whole = Tower("llm", total=4, trainable=4)
    no_tower = dataclasses.replace(run, towers=(dataclasses.replace(vision, trainable=0), whole))
    assert cases.of(no_tower).tuning == ("frozen_tower",)
    some = dataclasses.replace(run, towers=(dataclasses.replace(whole, trainable=2),))
    assert cases.of(some).tuning == ("frozen_tower", "lora")
    idle = dataclasses.replace(
        run, may_be_unused="yes", accumulation=8, forwards=2, find_unused=True
    )
    query = cases.of(idle)
    assert query.wrap == "ddp_find_unused"
    assert query.accumulation == 2
    assert "two_forwards" in query.models
    assert "differ" in query.also_batches


@pytest.mark.parametrize(
    ("releases", "value", "before"),
    [
        ({"transformers": "4.34.1"}, "none: the model's code decides", ""),
        ({"transformers": "4.36.0"}, "torch's default", "none: the model's code decides"),
        ({"transformers": "4.57.6"}, "True", "torch's default"),
        ({"transformers": "5.0.0"}, "False", "True"),
        ({"ms-swift": "3.5.3"}, "True", ""),
        ({"deepspeed": "0.19.2"}, "0.0", ""),
        ({"deepspeed": "0.19.3"}, "1.0", "0.0"),
        ({"deepspeed": "0.25.0"}, "1.0", "0.0"),
    ],
)
def test_defaults_by_release(releases, value, before):
    found = next(d for d in defaults.in_force(releases) if d.name != "find_unused")
    assert (found.value, found.before) == (value, before)


def test_every_guarded_release_has_every_seam():
    guarded = {"ms-swift": "3.0.0", "FlagEmbedding": "1.3.2", "colossalai": "0.3.0"}
    for row in read_toml(ROOT / "compat" / "seams.toml")["framework"]:
        first = verdicts.base(guarded.get(row["name"], row["releases"][0]))
        for span in row["seam"]:
            if verdicts.base(span["to"]) >= first and "optional" not in span["name"]:
                assert span["at"], span
                assert not span["at"].startswith("→"), span


def test_the_seam_table_knows_every_seam_of_the_adapters():
    rows = {row["name"]: row for row in read_toml(ROOT / "compat" / "seams.toml")["framework"]}
    for framework in seamtable.FRAMEWORKS:
        known = {span["name"] for span in rows[framework.name]["seam"]}
        assert known == set(seamtable.sought(framework)), "run python -m tools.lab seams"


def test_the_committed_tables_are_what_the_records_say(tmp_path):
    data = table.build(table.records())
    assert read_toml(ROOT / "compat" / "verdicts.toml") == data, "run python -m tools.lab table"
    written = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    assert written == page.page(), "run python -m tools.lab table"


def test_no_fact_contradicts_a_record():
    """What works by the older facts worked in the lab, and what does not did not."""
    wrong = set()
    for found in table.records():
        releases = dict(found.releases)
        about = verdicts._about(found.case)
        row = next((r for r in about if verdicts._on(r, releases)), None)
        if row is None or found.verdict == "unmeasurable":
            continue
        if (row["verdict"] == "ok") != (found.verdict == "ok"):
            wrong.add((found.name, found.verdict, row["verdict"], *found.case))
    assert not wrong


def test_on_every_measured_set_the_choice_works_where_anything_does():
    """Every combination of strategy, tuning, model, batch and accumulation of the records."""
    axes = (cases.TUNING, cases.MODELS, cases.BATCHES, cases.ACCUMULATION)
    strategies = ("ddp", "fsdp2", "zero1", "zero2", "zero3")
    combinations = list(itertools.product(strategies, *axes))
    for of in verdicts.measured().sets:
        releases = {name: str(release) for name, release in of.releases.items()}
        for strategy, tuning, model, batch, accumulation in combinations:
            query = Query(
                releases, strategy, strategy, tuning=(tuning,), models=(model,), batches=(batch,),
                accumulation=accumulation,
            )  # fmt: skip
            seen = {
                (wrap, variant): verdicts.verdict(
                    of, Case(wrap, variant, tuning, model, batch, accumulation)
                )
                for wrap in query.wraps
                for variant in query.checkpointing
            }
            if not any(seen.values()):
                continue
            choice = compat.answer(query)
            chosen = seen[choice.options[0].wrap, choice.options[0].checkpointing]
            assert chosen == "ok" or "ok" not in seen.values(), (of.name, query)
            assert choice.verdict != "nothing" or "ok" not in seen.values(), (of.name, query)
