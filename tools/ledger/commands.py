"""Commands of real frameworks that learn wrongly, with the rules off that would mend them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.frameworks.trainers import cases
from tests.kit import oracle, trainers
from tools.ledger import said

CODES: Mapping[str, tuple[str, ...]] = {
    "trl-sft-zero3-phases": ("VG640", "VG642"),
    "trl-dpo-zero3-phases": ("VG640", "VG642"),
    "lf-lora-iv": ("VG640", "VG660"),
    "lf-full-zero3-iv": ("VG640",),
}
"""Cases of tests/frameworks/trainers, each with the codes of which one tells it."""
TITLES: Mapping[str, str] = {
    "trl-sft-zero3-phases": "`trl sft`, ZeRO-3, an image step and then a text step",
    "trl-dpo-zero3-phases": "`trl dpo`, ZeRO-3, an image step and then a text step",
    "lf-lora-iv": "LLaMA-Factory, LoRA, DDP, an image and a video in a row",
    "lf-full-zero3-iv": "LLaMA-Factory, full training, ZeRO-3, an image and a video in a row",
}


def inject(name: str, rules: str) -> dict[str, Any]:
    """The record of one: the reference that the oracle has for it is the healthy run."""
    case = next(each for each in (*cases.TRL, *cases.LLAMAFACTORY) if each.name == name)
    extra = {**case.environment, "VLMGUARD_RULES": rules, "VLMGUARD_LEDGER": "1"}
    known = {
        "kind": 0,
        "title": TITLES[name],
        "codes": CODES[name],
        "world": case.ranks,
        "seen": "",
    }
    told: dict[str, Any] = {"what": "injection", "name": name, **known}
    right, wrong = (
        trainers.run(each, guard=True, ranks=case.ranks, extra=extra, cold=False)
        for each in (case.reference, case.command)
    )
    broken = [each for each in (right, wrong) if each.returncode]
    if broken:
        return told | {"verdict": "broken", "why": broken[0].output[-300:]}
    found = oracle.compare(wrong.ranks, right.ranks, world=case.ranks)
    size = max((error for error, _ in found.worst), default=0.0)
    healthy, faulty = (said.of_lines(each.report()) for each in (right, wrong))
    apart = {"differ": len(found.faults), "of": found.judged, "size": size}
    return (
        told | said.judge(known, healthy, faulty) | {"apart": apart, "alarms": said.alarms(healthy)}
    )
