"""A training step with the guard on and off by turns, and what each mend costs, on small models.

Run by an interpreter that has transformers: ``python -m tools.bench.steps PART [--quick]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.bench import measure

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))


def step(quick: bool) -> dict[str, Any]:
    """200 steps on and 200 off of a real Trainer in one process."""
    import toggled
    import torch

    torch.set_num_threads(1)
    size, number = "tiny" if quick else "small", measure.number(quick, 4, 200)
    spent = toggled.run(size, "cpu", torch.float32, number)["steps"]
    on = [measure.Spent(cpu, wall) for guard, cpu, wall, _, _ in spent if guard]
    off = [measure.Spent(cpu, wall) for guard, cpu, wall, _, _ in spent if not guard]
    found = list(zip(on, off, strict=True))
    inside = measure.median([seconds * 1e6 for guard, *_, seconds in spent if guard])
    name = "a training step of a plain Trainer, guard on beside off"
    return {
        "rows": [
            measure.ratio(name, found, 1.01).data(),
            measure.more("the same, difference", found, "µs", None).data(),
            measure.Row("of it inside our own functions, wall", "µs", inside, len(on)).data(),
        ],
        "machine": _machine(),
    }


_BESIDE = {
    "checkpointing": (("reentrant", "none"), ("non_reentrant", "none"),
                      ("non_reentrant", "reentrant")),
    "find_unused": (("find_unused", "plain"),),
    "blank": (("text_with_blank", "text"), ("text_with_blank", "image")),
}  # fmt: skip
WORDS = {
    "none": "no checkpointing",
    "reentrant": "reentrant checkpointing",
    "non_reentrant": "non-reentrant checkpointing",
    "plain": "DDP without it",
    "find_unused": "DDP that looks for unused parameters",
    "text": "without it",
    "text_with_blank": "a step of text with a blank input",
    "image": "a step with an image",
}


def mends(quick: bool) -> dict[str, Any]:
    """Non-reentrant, find_unused, the blank input: time and peak memory of a step."""
    import costs
    import torch

    torch.set_num_threads(1)
    size, number = "tiny" if quick else "small", measure.number(quick, 2, 20)
    found = costs.all_of(size, "cpu", torch.float32, number)
    return {"rows": list(cost_rows(found)), "machine": _machine(),
            "parameters": found["parameters"]}  # fmt: skip


def cost_rows(found: dict[str, Any]) -> Any:
    """Rows of what `costs.all_of` measured."""
    for part, beside in _BESIDE.items():
        seconds, peaks = found[part]["seconds"], found[part]["peak_bytes"]
        for a, b in beside:
            quotients = [x / y for x, y in zip(seconds[a], seconds[b], strict=True)]
            name = f"{WORDS[a]}, beside {WORDS[b]}"
            yield measure.Row(f"{name}: time", "×", measure.median(quotients),
                              len(quotients)).data()  # fmt: skip
            memory = peaks[a] / max(peaks[b], 1)
            told = measure.Median(memory, memory, memory)
            yield measure.Row(f"{name}: peak memory", "×", told, 1).data()


def _machine() -> dict[str, str]:
    import machine

    return machine.words("cpu")


if __name__ == "__main__":
    from tools.bench.ledger import ledger

    made = {"step": step, "mends": mends, "ledger": ledger}[sys.argv[1]]("--quick" in sys.argv)
    print("RESULT " + json.dumps(made))
