"""Every record as an adapter's facts: what was right stays so, all else is mended or stopped."""

from __future__ import annotations

import pytest

from tools.lab import table
from vlmguard import guard, registry
from vlmguard.compat.cases import Case
from vlmguard.core import plan, settings
from vlmguard.core.facts import Checkpointing, Run, Tower
from vlmguard.core.findings import Variant

# A batch with images on every rank, or completed by a dummy image; the others are about data that
# a rule cannot see before training.
BATCHES = ("images", "differ_dummy")


def as_run(case: Case, releases: dict[str, str]) -> Run:
    on = case.checkpointing != "none"
    sees = case.tuning in ("full", "lora_tower")
    lora = case.tuning.startswith("lora")
    ddp = case.strategy.startswith("ddp")
    kind = "vision" if case.model == "qwen2_vl" else "aligner"  # "vision" stands for a real model
    tower = Tower(kind, total=4, trainable=4 * sees, checkpointed=on, input_grads=True)
    words = Tower("llm", total=4 + 4 * lora, trainable=4, adapters=4 * lora, checkpointed=on)
    return Run(
        "x",
        releases,
        "ddp" if ddp else case.strategy.partition("_")[0],
        2,
        overlap_comm=case.strategy == "zero1_overlap",
        tuning="lora" if lora else "full",
        checkpointing=Checkpointing(on, case.checkpointing == "reentrant" if on else None),
        towers=(tower, words),
        forwards=2 if case.model == "two_forwards" else 1,
        repeats="yes" if case.model == "per_image" and sees else "no",
        shared=case.model == "tied",
        frozen=case.tuning != "full",
        may_be_unused="yes" if case.batch == "differ_dummy" and sees else "no",
        can_pad=case.batch == "differ_dummy",
        pads=case.batch == "differ_dummy",
        find_unused=case.strategy == "ddp_find_unused" if ddp else None,
        static_graph=case.strategy == "ddp_static" if ddp else None,
        accumulation=case.accumulation,
    )


def as_case(case: Case, variant: Variant | None) -> Case:
    """The case that runs once the variant is applied."""
    if variant is None:
        return case
    names = {True: "reentrant", False: "non_reentrant", None: case.checkpointing}
    if case.checkpointing != "none":
        case = case._replace(checkpointing=names[variant.use_reentrant])
    if not case.strategy.startswith("ddp"):
        return case
    found = {"find_unused": "ddp_find_unused", "static_graph": "ddp_static"}
    on = {option: case.strategy == strategy for option, strategy in found.items()}
    on.update({o: getattr(variant, o) for o in found if getattr(variant, o) is not None})
    wrap = next((strategy for option, strategy in found.items() if on[option]), "ddp")
    return case._replace(strategy=wrap)


SETS: dict[str, dict[Case, table.Record]] = {}
for _record in table.records():
    SETS.setdefault(_record.name, {})[_record.case] = _record


@pytest.mark.parametrize("name", SETS)
def test_what_was_right_stays_right_and_what_was_not_is_mended_or_stopped(name):
    used = settings.resolve()
    wrong = set()
    for case, record in SETS[name].items():
        if case.batch not in BATCHES or record.verdict == "unmeasurable":
            continue
        run = as_run(case, dict(record.releases))
        findings = registry.get().pre_wrap(run)
        made = plan.make(findings, used, guard.default_policy, run, guard.chosen)
        after = SETS[name].get(as_case(case, made.variant))
        if made.stops:
            wrong |= {(found.code, case) for found in made.stops if record.verdict == "ok"}
        elif after is None or after.verdict != "ok":
            wrong.add((record.verdict, case))
    assert not wrong
