"""What a rule VG5xx says, and its page: made of the catalogue of ``vlmguard explain``."""

from __future__ import annotations

import textwrap

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard_explain import inrun
from vlmguard_explain.advice import flags
from vlmguard_explain.advice.steps import cause, steps
from vlmguard_explain.lazy import lazy
from vlmguard_explain.match.catalogue import Step, by_code
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.show.headline import chinese

_OURSELVES = lazy(r"pip install '?vlmguard")


def speaker(failure: Failure) -> str:
    """The code of the catalogue's entry that ``failure`` is; "" where there is none to say.

    What only says that someone ended the run (SIGTERM, Ctrl-C) is left to logs: in the run the
    user knows.
    """
    known = inrun.classified(failure)
    return "" if known is None or known.order == "end" else known.code


def finding(code: str, run: Run | None, batch: Batch | None, failure: Failure) -> Finding:
    """What the entry ``code`` says of ``failure`` in this run."""
    known, facts = by_code()[code], inrun.facts(run, batch, failure)
    every = [flags.say(step, facts) for step in steps(known, facts)]
    there = [step for step in every if not _OURSELVES.search(step)]  # it guards this run
    advice, why = "; or ".join(there or every), cause(known, facts)
    if chinese():
        why = f"{known.zh}\n    {why}"
    return Finding(code, "error", why, scope="rank", advice=advice, evidence=known.evidence)


def page(code: str) -> str:
    """The sections of a rule's page."""
    known, facts = by_code()[code], Facts()
    signs = "; ".join(dict.fromkeys(f"`{one.text}`" for one in known.patterns[:8]))
    seen = f" vlmguard sees it beforehand by {', '.join(known.prevented)}."
    sections = {
        "What it does": f"Explains an exception, or a line of a log, that has one of: {signs}.",
        "Why it is bad": f"{known.cause}.{seen if known.prevented else ''}",
        "When it is wrong": known.wrong,
        "Example": "; ".join(
            f"{' '.join(one['text'].split())} ({one['origin']})" for one in known.examples
        ),
        "Use instead": "; ".join(_step(step, facts) for step in known.steps),
        "Evidence": known.evidence,
        **({"History": f"Split off from {known.was}."} if known.was else {}),
    }
    lines = [f"{known.title}.", ""]
    for title, body in sections.items():
        filled = textwrap.fill(body, 96, break_long_words=False, break_on_hyphens=False)
        lines += [title, textwrap.indent(filled, "    "), ""]
    return "\n".join(lines)


def _step(step: Step, facts: Facts) -> str:
    """A step, the words of a failure that it is for, and what it costs."""
    where = " or ".join(f"`{text}`" for text in step.when[:2])
    change = f"where it says {where}: " * bool(where) + flags.say(step, facts)
    return f"{change} (cost: {step.cost})" if step.cost else change
