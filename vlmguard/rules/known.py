"""The rules VG5xx: each speaks for one failure of the catalogue that ``vlmguard explain`` reads."""

from __future__ import annotations

import re
import textwrap

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.explain import flags, inrun
from vlmguard.explain.catalogue import load
from vlmguard.explain.failure import Do, Known
from vlmguard.explain.language import chinese
from vlmguard.explain.logfacts import Facts

_OURSELVES = re.compile(r"pip install '?vlmguard")


class Explained:
    """A rule made of one entry of the catalogue.

    Of all entries that match an exception the best speaks, and no other. What only says that
    someone ended the run (SIGTERM, Ctrl-C) is left to logs: in the run the user knows.
    """

    DEFAULT = "warn"

    def __init__(self, known: Known) -> None:
        self.CODE = known.code
        self.NAME = known.name
        self.__doc__ = page(known)
        self._known = known

    @hookimpl
    def on_error(self, run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
        if self._known.order == "end" or inrun.classified(failure) is not self._known:
            return None
        facts = inrun.facts(run, batch, failure)
        steps = [flags.say(do, facts) for do in self._known.remedies(facts)]
        there = [step for step in steps if not _OURSELVES.search(step)]  # it guards this run
        advice = "; or ".join(there or steps)
        why = self._known.told(facts)
        if chinese():
            why = f"{self._known.zh}\n    {why}"
        code, evidence = self._known.code, self._known.evidence
        return Finding(code, "error", why, scope="rank", advice=advice, evidence=evidence)


def page(known: Known) -> str:
    """The sections of a rule's page."""
    facts = Facts()
    signs = "; ".join(dict.fromkeys(f"`{sign.text}`" for sign in known.signs[:8]))
    spelt = [(_step(do, facts), do.cost) for do in known.steps()]
    changes = "; ".join(f"{what} (cost: {cost})" if cost else what for what, cost in spelt)
    shown = [f"{' '.join(e.text.split())} ({e.origin})" for e in known.examples]
    seen = (
        f" vlmguard sees it beforehand by {', '.join(known.prevented)}." if known.prevented else ""
    )
    sections = {
        "What it does": f"Explains an exception, or a line of a log, that has one of: {signs}.",
        "Why it is bad": f"{known.told(facts)}.{seen}",
        "When it is wrong": known.wrong,
        "Example": "; ".join(shown),
        "Use instead": changes,
        "Evidence": known.evidence,
    }
    lines = [f"{known.title}.", ""]
    for title, body in sections.items():
        filled = textwrap.fill(body, 96, break_long_words=False, break_on_hyphens=False)
        lines += [title, textwrap.indent(filled, "    "), ""]
    return "\n".join(lines)


def _step(do: Do, facts: Facts) -> str:
    """A step, and the words of a failure that it is for."""
    where = " or ".join(f"`{text}`" for text in do.when[:2])
    return f"where it says {where}: {flags.say(do, facts)}" if where else flags.say(do, facts)


RULES = tuple(Explained(known) for known in load())
