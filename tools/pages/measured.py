"""The pages of what was measured: docs/data/*.json → benchmarks.md and gpu.md.

`pages.py` calls it. Where there are no results the page says so.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.house import figures

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA = DOCS / "data"
PARTS = {
    "start": "A Python that starts without a framework",
    "transformers": "A bare import of transformers",
    "swift": "A bare import of ms-swift",
    "pre_step": "A batch, judged on the CPU",
    "watch": "Gradients, watched",
    "agreement": "Ranks that agree before training",
    "step": "A steady training step",
    "ledger": "A step that the ledger watches",
    "mends": "What each remedy costs",
    "explain": "`vlmguard explain` on a large log",
}
LASTING = {
    "start": "1 minute",
    "transformers": "10 minutes",
    "swift": "10 minutes",
    "pre_step": "10 seconds",
    "watch": "1 minute",
    "agreement": "2 minutes",
    "step": "4 minutes",
    "ledger": "8 minutes",
    "mends": "4 minutes",
    "explain": "5 minutes",
}
WHERE = {
    "start": "Two environments that differ in one file: vlmguard's `.pth`, and a null control, a `.pth` of the same name that is read and does nothing.",
    "pre_step": "Ids are lists of Python integers, as a tokenizer gives them. Placeholders are counted in the tensor that the collator makes of them; if their number is not what the images need, they are counted row by row.",
    "agreement": "Each rank is a thread with a client of its own of one real TCPStore; all of them, and its server, are in one process on two cores, so the wall time is mostly theirs. The server's processor time is that of its thread. Comparing the plans at the first step costs each rank two messages more (four, if it is the first to plan so).",
    "watch": "Each tower is watched until two steps have trained it. In the first step vlmguard looks at the parameters; those without a gradient then get hooks.",
    "step": "A real Trainer on a small Qwen2-VL of random weights (11 M parameters), vlmguard switched on and off from step to step in one process; 200 steps each.",
    "ledger": "The same model, every fifth step watched (as a rule it is the first three, at most twenty for new kinds of rows, then one in a thousand). What a watched step costs does not grow with its tokens: it is held to its bar on rows of 2,048 tokens, and shown for rows of 192.",
    "mends": "The same model on CPU, one rank: what it costs there says little about a GPU, where attention and kernels weigh differently. Memory is what tensors take beyond the weights, at most.",
    "explain": "Against `LC_ALL=C grep -aF -f PATTERNS LOG | wc -l` with the same strings, the whole command on both sides. Where `ahocorasick-rs` has no wheel there is no bar, and the log has 64 MB.",
}


def pages() -> dict[str, str]:
    """File name → text."""
    return {"benchmarks.md": benchmarks(_read("benchmarks")), "gpu.md": gpu(_read("gpu"))}


def _read(name: str) -> dict[str, Any] | None:
    file = DATA / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def benchmarks(found: dict[str, Any] | None) -> str:
    """The page of `make bench`."""
    lines = [
        "# Benchmarks",
        "",
        "What vlmguard costs, as a difference or a ratio of two sides: with vlmguard and without. The two sides run by turns on the same machine, so that other work on it hits both. The figure is the median of the pairs, in brackets its 95 % interval (order statistics), in **processor time**; wall time stands beside it.",
        "",
        "*Bar* is the limit that we set. \"Met\": the median is below the bar. \"Not decided\": the median is above it, and the interval holds it. A null control is a file of the same name that does nothing.",
        "",
        f"`make bench` measures all of it again in about {_whole()} minutes of an idle machine, `make bench PARTS='start pre_step'` a part. The numbers are in [benchmarks.json](data/benchmarks.json).",
        "",
    ]
    for part, title in PARTS.items():
        lines += [f"## {title}", ""]
        section = (found or {}).get(part)
        if WHERE.get(part):
            lines += [WHERE[part], ""]
        lines += [*_table(section), ""] if section else ["Not measured yet.", ""]
        lines += [f"`make bench PARTS={part}`, about {LASTING[part]} on two idle cores.", ""]
    lines += _entering()
    return "\n".join(lines).rstrip() + "\n"


ENTERING = {
    "calls": "pairs of a calling and a called module of ours",
    "calls of rules": "of these, pairs with a rule in them",
    "edges": "pairs of our modules that are called one after the other",
    "edges between rules": "of these, pairs with a rule in them",
    "modules": "our modules that are called",
    "modules once the Trainer is made": "our modules that are loaded when the Trainer has been made",
    "modules when train is called": "our modules that are loaded when the framework's `train` is called",
    "ms of processor until the first forward": "processor time until the first forward, ms",
    "ms of processor until the framework's train": "processor time until the framework's `train`, ms",
    "walks": "walks over all parameters of the model",
}


def _whole() -> int:
    """Minutes of all parts."""
    told = (each.split() for each in LASTING.values())
    return round(sum(int(number) for number, unit in told if unit.startswith("minute")))


def _entering() -> Iterator[str]:
    """What a plain Trainer passes before its first forward."""
    found = figures.load()
    sides = [found.get(side, {}) for side in (figures.BEFORE, figures.NOW)]
    yield from ("## The start of a plain Trainer", "")
    yield "What vlmguard does when the training of a plain Trainer begins: LLaVA, tiny, two gloo ranks under DDP, rank 0. A model is *new*, or *known*: its observation lies in the cache. Processor time is of one run each, with imports, from `Trainer(…)` on: differences of some milliseconds mean nothing."
    yield "\nThe rows with pairs are for developers: how many of our modules take part. They say nothing about cost."
    yield "\n*Before* is the state before a model was read once and modules were imported late."
    yield from ("", "| what | new model: before | now | known model: before | now |",
                "| --- | --- | --- | --- | --- |")  # fmt: skip
    for name in sides[1].get("known", {}):
        values = [side.get(kind, {}).get(name, "") for kind in ("new", "known") for side in sides]
        yield f"| {ENTERING.get(name, name)} | {' | '.join(map(str, values))} |"
    yield from ("", "`python -m tools.house --write`, about 1 minute on two idle cores.", "")


_MET = {True: "met", False: "**missed**", None: "not decided"}


def _table(section: dict[str, Any]) -> Iterator[str]:
    yield "| what | figure | wall | bar | pairs |"
    yield "| --- | --- | --- | --- | --- |"
    for row in section["rows"]:
        unit = row["unit"]
        wall = _told(row["wall"], unit) if row["wall"] else ""
        bar = "" if row["bar"] is None else f"{_MET[row['met']]}, ≤ {row['bar']:g}"
        yield f"| {row['what']} | {_told(row['cpu'], unit)} | {wall} | {bar} | {row['number']} |"
    yield ""
    for note in section.get("notes", ()):
        more = ", ".join(f"`{name}`" for name in note["more"]) or "nothing"
        foreign = ", ".join(note["outside"]) or "none"
        yield f"Modules that `import {note['module']}` loads more: {more}. Of others than the standard library and vlmguard: {foreign}."
        yield ""
    yield f"Taken {section['taken']} on {_machine(section['machine'])}."


def _told(value: dict[str, float], unit: str) -> str:
    middle = f"{_number(value['median'])} {unit}"
    if value["low"] == value["high"]:
        return middle
    return f"{middle} ({_number(value['low'])} to {_number(value['high'])})"


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.2f}"


def _machine(words: dict[str, str]) -> str:
    known = {
        "device": "{}",
        "cores": "{} cores",
        "processor": "{}",
        "python": "Python {}",
        "torch": "torch {}",
        "cuda": "CUDA {}",
        "transformers": "transformers {}",
        "load": "load average {} before",
    }
    return ", ".join(told.format(words[key]) for key, told in known.items() if key in words)


NOT_YET = """# GPU

Nothing was measured on a GPU yet. Everything on these pages was run on CPU, in gloo ranks. The failures come from Python code of DeepSpeed, torch and the frameworks, which does the same on any device. Step time, memory and NCCL's own behaviour have not been seen.

`make gpu` measures on one CUDA device, in at most ten minutes. This page is then made from its results:

| part | what is measured |
| --- | --- |
| synchronisation | a training step with vlmguard, in which every synchronisation with the device is an error |
| cost | step time and peak memory, with vlmguard on and off |
| remedies | what reentrant and non-reentrant checkpointing, `find_unused_parameters` and the blank input cost on a Qwen2-VL of 2 billion random weights in bf16 |
| ranks | two ranks on one device that crash or hang without vlmguard, and train with it |

It needs a Python that has torch with CUDA and transformers. `make gpu-wheels` collects the rest, a few MB, into `.gpu/wheels` for a machine without a package index. `python tools/gpu/run.py --cpu` tries it without a GPU.
"""


def gpu(found: dict[str, Any] | None) -> str:
    """The page of `make gpu`."""
    if not found or found.get("rehearsal"):
        return NOT_YET
    lines = [
        "# GPU",
        "",
        f"Taken {found['taken']} on {_machine(found['machine'])}, by `make gpu`. The numbers are in [gpu.json](data/gpu.json).",
        "",
    ]
    for part, told in (("sync", _sync), ("step", _step), ("costs", _costs), ("ranks", _ranks)):
        section = found.get(part) or {"left_out": "not measured"}
        title, body = (
            told(section)
            if isinstance(section, dict) and not {"failed", "left_out"} & set(section)
            else (part, [f"Not measured: {section.get('failed') or section.get('left_out')}."])
        )
        lines += [f"## {title}", "", *body, ""]
    lines += ["## ColossalAI Gemini", "", f"World 1: {found.get('gemini', 'not brought along')}."]
    return "\n".join(lines).rstrip() + "\n"


def _sync(section: dict[str, Any]) -> tuple[str, list[str]]:
    steps = section["steps"]
    passed = section["ours_under_error"] == "passed"
    return "Synchronisations", [
        f'Our own functions of a step under `torch.cuda.set_sync_debug_mode("error")`: {"passed" if passed else ", ".join(section["ours_under_error"])}.',
        f"Synchronisations that torch counts in a step: {statistics.median(steps['off']):g} without the guard, {statistics.median(steps['on']):g} with it; from our files: {', '.join(section['ours_seen']) or 'none'}.",
        f"A whole step in the error mode: without the guard {section['whole_step_off']}, with it {section['whole_step_on']}.",
    ]


def _step(section: dict[str, Any]) -> tuple[str, list[str]]:
    on, off = ([s for s in section["steps"] if bool(s[0]) is wanted] for wanted in (True, False))
    wall = statistics.median(a[2] / b[2] for a, b in zip(on, off, strict=True))
    peak = max(s[3] for s in on) / max(1, max(s[3] for s in off))
    return "A training step with the guard, beside one without", [
        f"Time {wall:.4f} ×, median of {len(on)} pairs; peak memory {peak:.4f} ×; inside our own functions {statistics.median(s[4] for s in on) * 1e6:.0f} µs."
    ]


def _costs(section: dict[str, Any]) -> tuple[str, list[str]]:
    lines = [
        f"Qwen2-VL of {section['parameters'] / 1e9:.2f} billion random weights, {section['dtype'].removeprefix('torch.')}; beside the first of each group.",
        "",
        "| step | time | peak memory |",
        "| --- | --- | --- |",
    ]
    for part in ("checkpointing", "find_unused", "blank"):
        seconds, peaks = section[part]["seconds"], section[part]["peak_bytes"]
        first = next(iter(seconds))
        for name, taken in seconds.items():
            time = statistics.median(a / b for a, b in zip(taken, seconds[first], strict=True))
            lines.append(
                f"| {part}: {name} | {time:.2f} × | {peaks[name] / max(1, peaks[first]):.2f} × |"
            )
    return "What each remedy costs", lines


def _ranks(section: dict[str, Any]) -> tuple[str, list[str]]:
    lines = ["| case | without the guard | with it | fixed |", "| --- | --- | --- | --- |"]
    for each in section.values():
        lines.append(
            f"| {each['what']} | {each['off']['end']} | {each['on']['end']} | {', '.join(each['on']['fixed'])} |"
        )
    return "Two ranks on one device, over gloo", lines
