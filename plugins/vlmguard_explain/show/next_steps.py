"""What to type next: the failure's steps; a table's where it is not known, or the log just ends.
Words about a step are printed as a comment, behind "#"."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vlmguard_explain.advice import flags, steps
from vlmguard_explain.advice import values as values_
from vlmguard_explain.cause.candidates import Answer
from vlmguard_explain.lazy import patterns
from vlmguard_explain.match.catalogue import Step, table
from vlmguard_explain.source import clean

_P = patterns("show.next_steps")


def of(answer: Answer, values: Mapping[str, str]) -> list[Step]:
    """The steps in the words to print, what is typed in back-ticks."""
    facts, failure = answer.facts, answer.known
    own = steps.steps(failure, facts) if failure is not None else steps.of_bug(facts)
    found = [replace(one, do=flags.marked(one, facts)) for one in own]
    if failure is None:
        more = {name: value for name, value in values.items() if value}
        facts = replace(facts, fields={**facts.fields, **more})
        known = {**values_.of(facts), **more}
        for one in table("show")[f"{answer.verdict}_step"]:
            do, asked = one["do"], one.get("run", ())
            if values_.known(do, known) and all(flags.holds(each, facts, known) for each in asked):
                named = values_.wants(do)
                said = values_.filled(do, known) if named else flags.marked(Step(do), facts)
                found.append(Step(said))
    return [replace(one, do=clean.shown(one.do)) for one in found]


def lines(found: Sequence[Step], width: int) -> Iterator[str]:
    """The steps as they can be pasted: words, and what a step costs, are a comment."""
    for number, step in enumerate(found, 1):
        cost = f"[cost: {codes(step.cost)}]" if step.cost not in ("", "none") else ""
        typed, said = split(step.do.removeprefix(steps.UNSURE))
        unsure = steps.UNSURE if step.do.startswith(steps.UNSURE) else ""
        said = "  ".join(filter(None, (unsure + said, cost)))
        if not typed:
            yield from _folded(said, width, f"  {number}. ", "     ")
        elif len(typed) + len(said) + 10 <= width:
            yield f"  {number}. {typed}{'  # ' if said else ''}{said}"
        else:
            first, *rest = folded(typed, width - 8)
            yield from (f"  {number}. {first}", *(f"     {one}" for one in rest))
            yield from _folded(said, width, "     # ", "     # ")


def _folded(said: str, width: int, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        said, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )


def split(said: str) -> tuple[str, str]:
    """(what is typed, the words about it): a step begins with the first, in back-ticks."""
    typed, _, about = said[1:].partition("`") if said.startswith("`") else ("", "", said)
    return typed, codes(about).lstrip(":,; ") if typed else codes(about)


def codes(said: str) -> str:
    """``said`` with the command that shows a code's page beside each bare code."""
    said = _P.bracketed.sub(r"(vlmguard rule \1)", said)
    return _P.code.sub(r"\1 (vlmguard rule \1)", said)


def folded(typed: str, width: int) -> list[str]:
    """A command on lines of at most ``width``, where its spaces allow that."""
    bare = _P.quoted.sub(lambda match: "_" * len(match[0]), typed)
    spaces = [n for n, sign in enumerate(bare) if sign == " "]
    lines, start = list[str](), 0
    while len(typed) - start > width:
        fit = [n for n in spaces if start < n <= start + width - 2]
        at = fit[-1] if fit else next((n for n in spaces if n > start), 0)
        if not at:
            break
        lines, start = [*lines, f"{typed[start:at]} \\"], at + 1
    return [*lines, typed[start:]]
