"""docs/proof.md, from the results of `make faults`, `make mutate` and `tools.matrix.fifty`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ROOT / "tools" / "faults" / "results.jsonl"
MUTATIONS = ROOT / "tools" / "mutate" / "results.jsonl"
FIFTY = ROOT / "docs" / "data" / "fifty.jsonl"
REASONS = ROOT / "tools" / "mutate" / "reasons.toml"
PAGE = ROOT / "docs" / "proof.md"
Row = dict[str, Any]

HEAD = """# Proof that it does no harm

A guard that breaks a training is worse than none. So these tests break vlmguard on purpose, and see
what happens to the run.

## Faults of ours, in real runs

`make faults` trains tiny models of real classes in two real ranks of each framework. In each run
one function of vlmguard fails: it raises, returns a value of the wrong type, or sleeps for longer
than ranks wait for each other. It fails on both ranks or on one alone. The function is drawn from
all that the run calls.

| without vlmguard the run | with a failing vlmguard it must |
| --- | --- |
| is healthy | train to the same bits; or be stopped (VG406), if the ranks then plan differently |
| goes wrong | be fixed all the same, be as without vlmguard, or be stopped with the reason |

`make test` draws six such runs anew each time. Three parts are left out: the stubs that stand in
for framework functions (other tests try them), Python's import hook, and `contain`, which catches
vlmguard's own errors.

In the table a name with *reentrant*, *idle* or *zero3* is a run that goes wrong without vlmguard;
the others are healthy. *Not reached*: the run never called the function that was to fail.
"""

AROUND = """
## Faults around us

The same runs, with something wrong around vlmguard:

- another tool that patches the same functions, before or after; a function that is missing;
- plug-ins of others that do not load, raise, or answer nonsense;
- tables that are damaged, half written, missing or of another release;
- a full disk, a home that cannot be written, a closed or ASCII-only terminal;
- a notebook's streams and event loop, forks, spawned workers, threads, a debugger.
"""

TESTED = """
## Broken runs in `make test`

On 2026-11-30 `make test` took 51 minutes on 2 cores, in a clean clone without environments: 7,544
fast tests, and 1,148 in real frameworks, all passed. In 69 of them a run must be right with
vlmguard: 40 of ColossalAI, 4 of its older releases and 2 of its example, 10 of ms-swift, 4 of
FlagEmbedding, 3 of plain loops, 3 of the self-test, 2 of TRL and LLaMA-Factory, and 1 of the zoo.
Each `make test` draws only some of these cases.
"""

AGAIN = """
## Fifty broken runs, drawn

25 cells of [the matrix](matrix.md) and 25 of [the zoo](zoo.md) that are not right without vlmguard,
drawn with a seed (`python -m tools.matrix.fifty --seed {seed}`) and made again, without and with
it, on one version of the code. Each is a training in two real ranks. In the names *accumulated*
means mixed micro-batches, *both* two kinds of media in a row, *between* an evaluation or a
generation in between, *differ* ranks with different rows, *phases* a step of images and then one of
text.
"""

MUTATED = """
## Mutations

`make mutate` changes rules, plan, guard and compat, one small change at a time: conditions negated
or dropped, comparisons shifted, `and` for `or`, numbers, truth values, default policies and levels,
`return None`, statements left out. Then the fast tests that run the changed line are run.
Docstrings, words of messages, annotations and decorators are left alone.

The changes below are a random sample (seed 131), and some that were made by hand, because tests had
once missed such changes. Those that survived were tried again after tests of single conditions had
been added.
"""


def rows(file: Path) -> list[Row]:
    """JSON lines, none if there is no file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if (
        file.exists()
    ) else []  # fmt: skip


def page() -> str:
    """The page's Markdown."""
    made = rows(FAULTS)
    ours = [row for row in made if row["kind"] != "around us"]
    around = [row for row in made if row["kind"] == "around us"]
    parts = [HEAD, *_table(ours), AROUND, *(_table(around) if around else ["Not run yet.", ""])]
    parts += [TESTED, *_fifty(rows(FIFTY)), MUTATED, *_mutations(rows(MUTATIONS))]
    return "\n".join(parts) + "\n"


def _fifty(drawn: list[Row]) -> list[str]:
    """How they ended without the guard, and with it."""
    if not drawn:
        return []
    ends = list(dict.fromkeys(("right", "stopped", *(row["on"] for row in drawn))))
    counts = Counter((row["off"], row["on"]) for row in drawn)
    lines = [AGAIN.format(seed=drawn[0]["seed"]), f"| without | {' | '.join(ends)} |"]
    lines.append("|---|" + "---:|" * len(ends))
    for off in sorted({row["off"] for row in drawn}):
        lines.append(f"| {off} | {' | '.join(str(counts[off, on] or '') for on in ends)} |")
    cells = (f"`{row['cell'].removeprefix('zoo:')}`" for row in drawn)
    told = [f"`{row['cell'].removeprefix('zoo:')}`" for row in drawn if row["on"] == "broken"]
    words = f"The words are those of [the matrix](matrix.md). Broken: {', '.join(told) or 'none'}"
    words += "; [the zoo](zoo.md) gives the reasons." if told else "."
    return [*lines, "", words, "", f"They were {', '.join(cells)}.", ""]


def _table(made: list[Row]) -> list[str]:
    """What became of the runs, by scenario; those that did harm by name."""
    outcomes = Counter((row["scenario"], _class(row)) for row in made)
    names = list(dict.fromkeys(row["scenario"] for row in made))
    columns = [c for c in ("as without", "fixed", "stopped", "not reached", "HARM")
               if any(outcomes[name, c] for name in names)]  # fmt: skip
    functions = len({row["target"] for row in made})
    what = "faults" if any(row["kind"] == "around us" for row in made) else "functions"
    right = sum(bool(row["ok"]) for row in made)
    told = f"{right} did what they must. A stop gives its reason."
    lines = [f"{len(made)} runs, {functions} {what}: {told}", ""]
    lines += [f"| run | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name in sorted(names):
        counts = (str(outcomes[name, column] or "") for column in columns)
        lines.append(f"| {name} | {' | '.join(counts)} |")
    harm = [row for row in made if not row["ok"]]
    lines += ["", *(f"- {r['scenario']}, `{r['target']}` {r['kind']}: {_cell(r['outcome'])}"
                    f" {r.get('note', '')}".rstrip() for r in harm)]  # fmt: skip
    return [*lines, ""]


def _class(row: Row) -> str:
    if not row["ok"]:
        return "HARM"
    if not row["reached"]:
        return "not reached"
    return next(
        ("fixed" if word == "mended" else word for word in ("mended", "stopped")
         if row["outcome"].startswith(word)), "as without"
    )


def _mutations(tried: Iterable[Row]) -> list[str]:
    reasons = tomllib.loads(REASONS.read_text("utf-8")) if REASONS.exists() else {}
    tried = list(tried)
    by_file = Counter((row["file"], row["outcome"]) for row in tried)
    alive = [row for row in tried if row["outcome"] != "killed"]
    lines = [f"{len(tried)} changes tried, {len(tried) - len(alive)} noticed by a test, "
             f"{len(alive)} not.", "", "| file | noticed | not |", "|---|---:|---:|"]  # fmt: skip
    for file in sorted({row["file"] for row in tried}):
        dead = by_file[file, "killed"]
        rest = sum(count for (name, _), count in by_file.items() if name == file) - dead
        lines.append(f"| `{file}` | {dead} | {rest or ''} |")
    lines += [
        "",
        "Those that no test notices, and why:",
        "",
        "| where | change | why |",
        "|---|---|---|",
    ]
    for row in alive:
        where = f"`{row['file'].removeprefix('vlmguard/')}` {row['where']}"
        change = f"`{_cell(row['before'])}` → `{_cell(row['after'])}`"
        why = reasons.get(row["key"], "**no reason is known**")
        lines.append(f"| {where} | {change} | {why} |")
    return lines


def _cell(text: str) -> str:
    """Short, on one line, without what Markdown would read."""
    flat = " ".join(text.split()).replace("|", "¦").replace("`", "'")
    return flat if len(flat) <= 90 else f"{flat[:87]}…"


def main() -> int:
    if "--check" in sys.argv:
        return int(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
