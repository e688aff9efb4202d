"""How much of each release set was measured, for docs/compatibility.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.lab import cases, envs
from vlmguard.compat import verdicts
from vlmguard.compat.cases import Case

KINDS = {
    "ok": ("ok",),
    "crash": ("crash",),
    "hang, mismatch": ("hang", "mismatch"),
    "wrong, drift": ("wrong", "drift"),
    "not measurable": ("unmeasurable",),
}
HEAD = ("release set", "torch", "deepspeed", "transformers", "peft", "part", "measured", *KINDS)


def rows() -> Iterator[list[str]]:
    """A row a release set of compat/envs.toml, in its order."""
    every = cases.all_cases()
    measured = {each.name: each for each in verdicts.measured().sets}
    for name, of in envs.sets().items():
        part = [case for case in every if cases.of_part(of.measure, case)]
        found = _verdicts(measured[name], part) if name in measured else Counter()
        counts = [str(sum(found[verdict] for verdict in kinds)) for kinds in KINDS.values()]
        told = f"{found.total()} of {len(part)}"
        yield [name, *of.releases.values(), of.measure, told, *counts]


def _verdicts(of: verdicts.ReleaseSet, part: list[cases.Case]) -> Counter[str]:
    """Verdict without its message class → cases of the part."""
    found: Counter[str] = Counter()
    legend = verdicts.measured().legend
    for case in part:
        key, position = verdicts.place(Case(**case.data()))
        told = legend.get(of.cells.get(key, "-")[position : position + 1], "not run")
        if told != "not run":
            found[told.partition(" ")[0]] += 1
    return found
