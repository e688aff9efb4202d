"""Runs the commands of classes.py and says what became of each.

    python -m tests.frameworks.swift.campaign off|on|both NAME…

One line a run: what was expected, what came, and, for those that ended, how far the updates are
from the reference's.
"""

from __future__ import annotations

import sys

from tests.frameworks.swift.classes import BY_NAME, DETAIL, PART, Run
from tests.kit import swift
from tests.kit.oracle import Vacuous, compare

LIMIT = 240.0


def start(
    run: Run, flags: list[str], guard: bool, detail: bool = False, quiet: float | None = None
) -> swift.Outcome:
    """One command; with `detail` the ranks compare each collective first."""
    flags = [flag.replace("{data}", str(swift.dataset())) for flag in flags]
    extra = {**run.extra, **(DETAIL if detail else {})}
    return swift.run(
        run.verb, run.model, run.data, flags,
        guard=guard, world=run.world, timeout=LIMIT, extra=extra, cold=False, quiet=quiet,
    )  # fmt: skip


def outcome(run: Run, guard: bool) -> swift.Outcome:
    """With the guard off a run that must fail says where the ranks part."""
    return start(run, run.flags, guard, detail=not guard and run.off == PART)


def judged(run: Run, done: swift.Outcome) -> tuple[str, str]:
    """What became of it, in the words of `Run.off`, and the evidence."""
    if done.hung:
        return "hang", done.output[-300:]
    if done.returncode:
        stops = [f["code"] for f in done.findings if f["level"] == "error"]
        return (stops[-1] if stops else "crash"), _reason(done.output)
    if fault := _other(run, done):
        return "vacuous", fault
    reference = start(run, run.reference, False)
    if reference.returncode:
        return "no reference", _reason(reference.output)
    try:
        verdict = compare(done.ranks, reference.ranks, world=run.world)
    except Vacuous as vacuous:
        return "vacuous", str(vacuous)
    worst = f"worst {verdict.worst[0][0]:.1e} {verdict.worst[0][1]}" if verdict.worst else ""
    faults = "; ".join(list(verdict.faults)[:3])
    return ("right" if verdict else "wrong"), f"{verdict.judged} moved, {worst} {faults}"


def _other(run: Run, done: swift.Outcome) -> str:
    """Why this is not the wrapper that the command asks for, or ""."""
    flags = " ".join(run.flags).replace("--fsdp", "fsdp2")
    wanted = next((name for name in ("zero2", "zero3", "fsdp2") if name in flags), "")
    wrapped = {rank.wrapped for rank in done.ranks}
    if all((wanted or "distributeddataparallel") in name.lower() for name in wrapped):
        return ""
    return f"wrapped by {wrapped}, not by {wanted or 'DDP'}"


def _reason(output: str) -> str:
    if "SIGSEGV" in output:
        return "SIGSEGV"
    marks = ("Error", "mismatch", "Expected to", "has already been reduced", "VG")
    lines = [line.strip() for line in output.splitlines() if any(mark in line for mark in marks)]
    return " | ".join(dict.fromkeys(line[:300] for line in lines[-6:]))


def met(run: Run, done: swift.Outcome, guard: bool, word: str) -> bool:
    """Whether it came as written down."""
    wanted = run.on if guard else run.off
    if wanted == "hang":  # or a rank that the other's end took along
        return word == "hang" or (done.returncode != 0 and "gloo/transport" in done.output)
    if wanted in ("right", "wrong"):
        return word == wanted
    return done.returncode != 0 and wanted in done.output


def main(mode: str, names: list[str]) -> None:
    for name in names or BY_NAME:
        run = BY_NAME[name]
        for guard in {"off": (False,), "on": (True,), "both": (False, True)}[mode]:
            done = outcome(run, guard)
            word, evidence = judged(run, done)
            wanted = run.on if guard else run.off
            mark = "as expected" if met(run, done, guard, word) else f"EXPECTED {wanted!r}"
            codes = sorted({f"{f['code']}/{f['outcome']}" for f in done.findings})
            print(
                f"{name} guard {'on' if guard else 'off'}: {word} ({mark}, {done.seconds:.0f} s) "
                f"{' '.join(codes)}\n    {evidence}\n    {done.folder}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
