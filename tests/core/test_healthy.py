"""A run that was measured to be right is never stopped: each such record as an adapter's facts."""

from __future__ import annotations

import pytest

from vlmguard import guard, host, plan, settings
from vlmguard.cases import Case
from vlmguard.facts import Checkpointing, Run, Tower
from vlmguard.lab import table

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
        "ddp" if ddp else case.strategy,
        2,
        tuning="lora" if lora else "full",
        checkpointing=Checkpointing(on, case.checkpointing == "reentrant" if on else None),
        towers=(tower, words),
        forwards=2 if case.model == "two_forwards" else 1,
        repeats="yes" if case.model == "per_image" and sees else "no",
        shared=case.model == "tied",
        frozen=case.tuning != "full",
        idle="yes" if case.batch == "differ_dummy" and sees else "no",
        completes=case.batch == "differ_dummy",
        completing=case.batch == "differ_dummy",
        find_unused=case.strategy == "ddp_find_unused" if ddp else None,
        static_graph=case.strategy == "ddp_static" if ddp else None,
        accumulation=case.accumulation,
    )


SETS: dict[str, list[table.Record]] = {}
for _record in table.records():
    if _record.verdict == "ok" and _record.case.batch in BATCHES:
        SETS.setdefault(_record.name, []).append(_record)


@pytest.mark.parametrize("name", SETS)
def test_no_rule_stops_a_run_that_was_right(name):
    used = settings.resolve()
    stopped = set()
    for record in SETS[name]:
        run = as_run(record.case, dict(record.releases))
        findings = host.get().pre_wrap(run)
        made = plan.make(findings, used, guard.default_policy, run, guard.chosen)
        stopped |= {(found.code, *record.case) for found in made.stops}
    assert not stopped
