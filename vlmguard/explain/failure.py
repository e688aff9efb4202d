"""One known failure as data: how it looks, what it means, what to change, when that is wrong."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from vlmguard.explain import already, lost, named, settled, twins
from vlmguard.explain.logfacts import Facts
from vlmguard.explain.settled.fault import Settled

# Which of two failures caused the other, where neither a launcher nor a clock tells: a lower one
# comes first. "peer": only tells that another rank is gone. "end": someone ended the processes.
Order = Literal["cause", "hang", "peer", "end"]
Where = Literal["message", "trace", "raised", "within", "line", "else"]

BARE = 20  # characters that tell without their back-ticks
_SPACE = re.compile(r"\s+")


def flat(text: str) -> str:
    """``text`` with single spaces: messages are wrapped by terminals and by rich."""
    return _SPACE.sub(" ", text)


@dataclass(frozen=True)
class Sign:
    """A text that betrays the failure.

    Attributes:
        text: literal, a stable part of the message; single spaces.
        where: "message": in an exception's type and message. "trace": in its traceback.
            "raised": in the frame that raised it ("…/path.py in function"); heard only where no
            message is known: a package's own checks say what it is about, in words of any release.
            "within": in any frame, likewise, and only where the raising frame tells nothing
            either: what was being done when it failed. Heard of a traceback that is cut, too.
            "else": in the message of a check (ValueError, AssertionError, …), heard only where
            no message, place or frame tells: a topic's word, or how values are refused. Of a
            check without frames two of them are needed, of a user's own check none counts.
            "line": in any line of a log, exception or not.
        also: literals, all of which must be in the exception (or line) as well.
        no: literals, none of which may be.
        beside: literals, all of which must be in the message (or line) itself: the traceback of a
            whole log holds nearly every common word.
        releases: what prints it.
    """

    text: str
    where: Where = "message"
    also: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    releases: str = ""
    beside: tuple[str, ...] = ()

    def matches(self, message: str, trace: str = "", raised: str = "") -> bool:
        """Whether an exception with this message and traceback, or this line, bears the sign."""
        inside = {"trace": trace, "raised": raised, "within": raised}.get(self.where, message)
        if not within(self.text, inside) or not all(within(b, message) for b in self.beside):
            return False
        everything = f"{message} {trace}"
        asked = all(within(a, everything) for a in self.also)
        return asked and not any(within(n, everything) for n in self.no)


def within(words: str, text: str) -> bool:
    """Whether they are there, with their back-ticks or, as trackers' pages leave them, without."""
    return words in text or ("`" in words and bare(words) in text)


@functools.cache
def bare(words: str) -> str:
    """``words`` without their back-ticks, unless these are what makes them telling."""
    less = words.replace("`", "")
    return less if " " in less and len(less) >= BARE else words


_PIP = "python -m pip install "


@dataclass(frozen=True)
class Do:
    """One thing to change: an action that `flags` spells for the framework, or plain words.

    Attributes:
        action: may hold {names} of `named`; where the failure does not tell one, it is left out.
        when: literals: said only where the failure's words have one of them.
        unless: literals: not said where they have one of them.
        kind: of steps of one kind only the first that fits is said.
        silent: said only where the failure has no words of its own: a bare assertion, a cut end.
    """

    action: str
    cost: str = ""
    values: tuple[tuple[str, str], ...] = ()
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    kind: str = ""
    silent: bool = False

    def fits(self, said: str) -> bool:
        """Whether these words of a failure are what it is for."""
        if self.silent and said.partition(":")[2].strip():
            return False
        asked = not self.when or any(text in said for text in self.when)
        return asked and not any(text in said for text in self.unless)


@dataclass(frozen=True)
class Example:
    """Lines as they were printed, and by what: made by causing the failure, or the source."""

    text: str
    origin: str


Told = str | Callable[[Facts], str]
Remedies = tuple[Do, ...] | Callable[[Facts], tuple[Do, ...]]


def _first_of_kind(steps: tuple[Do, ...]) -> tuple[Do, ...]:
    """Without those that say less exactly what an earlier one says."""
    firsts = {step.kind: step for step in reversed(steps)}
    return tuple(step for step in steps if not step.kind or firsts[step.kind] is step)


def _in_kernel(steps: tuple[Do, ...], facts: Facts) -> tuple[Do, ...]:
    """A package that a notebook has imported stays as it was until its kernel is started anew."""
    if not steps or "notebook" not in facts.said or not steps[0].action.startswith(_PIP):
        return steps
    more = "then restart the notebook's kernel: what it has imported stays as it was"
    joined = "; " if ": " in steps[0].action else ": "
    return (replace(steps[0], action=f"{steps[0].action}{joined}{more}"), *steps[1:])


def remedies_of(fault: Settled, facts: Facts) -> tuple[Do, ...]:
    """The steps of a settled fault whose names the log tells, without what the run had already."""
    values = named.of(facts).keys()
    found = []
    for step in fault.steps:
        ways = step if isinstance(step, tuple) else (step,)
        told = next((way for way in ways if named.wants(way) <= values), "")
        if told and not already.so(told, facts):
            found.append(Do(told, "none"))
    return tuple(found)


def settled_steps(facts: Facts) -> tuple[Do, ...]:
    """The steps of the settled fault that this failure is, none of another one."""
    fault = settled.of(facts)
    return remedies_of(fault, facts) if fault is not None else ()


@dataclass(frozen=True)
class Known:
    """A failure of the catalogue.

    Attributes:
        code, name: as rules have them.
        title: one line, what happened.
        zh: the same in Chinese.
        why: what it means, from the run's facts.
        do: what to change, in the order in which to try.
        wrong: when that remedy is wrong.
        prevented: rules of vlmguard that see it before it happens.
        foreseen: whether they do in this run; None: always.
        order: see `Order`.
        fatal: False for what may pass by itself; it is then told only if the log shows an end.
    """

    code: str
    name: str
    title: str
    zh: str
    why: Told
    do: Remedies
    wrong: str
    signs: tuple[Sign, ...]
    examples: tuple[Example, ...] = ()
    evidence: str = ""
    prevented: tuple[str, ...] = ()
    foreseen: Callable[[Facts], bool] | None = None
    order: Order = "cause"
    narrow: int = 0  # of two that match the same text the narrower one speaks

    def told(self, facts: Facts) -> str:
        fault = settled.of(facts)
        if fault is not None and fault.why:
            return fault.why
        return self.why if isinstance(self.why, str) else self.why(facts)

    def rules(self, facts: Facts) -> tuple[str, ...]:
        """The rules that see it beforehand, where it can be what they see."""
        return self.prevented if self.foreseen is None or self.foreseen(facts) else ()

    def remedies(self, facts: Facts) -> tuple[Do, ...]:
        """What to change, without what the run had already, unless nothing else is left; last, what
        it has by default."""
        found = self.do if isinstance(self.do, tuple) else self.do(facts)
        said, values = facts.message, named.of(facts)
        fit = tuple(d for d in found if d.fits(said) and named.wants(d.action) <= values.keys())
        found = _first_of_kind(fit) or found
        found = tuple(d for d in found if not already.so(d.action, facts)) or found
        late = [d for d in found if already.by_default(d.action, facts)]
        told = [replace(d, cost=f"{d.cost}; the default: only if you changed it") for d in late]
        # before all that reads the flags
        mended = lost.step(self.code, facts) or twins.step(self.code, facts)
        first = (Do(mended, "none"),) if mended else ()
        fault = settled.of(facts)
        sharp = remedies_of(fault, facts) if fault is not None else ()
        if fault is not None and sharp and not fault.more:
            return _in_kernel((*first, *sharp), facts)
        return _in_kernel((*first, *sharp, *(d for d in found if d not in late), *told), facts)

    def steps(self) -> tuple[Do, ...]:
        """Every step that is written down for a failure of which nothing is told, for its page."""
        return self.do if isinstance(self.do, tuple) else self.do(Facts())

    def match(self, message: str, trace: str = "") -> Sign | None:
        """The sign that an exception bears. ``message`` holds type and message, `flat`."""
        for text, less, traced, sign in self._spoken:  # for each exception: no call for most
            inside = trace if traced else message
            if (text in inside or (less and less in inside)) and sign.matches(message, trace):
                return sign
        return None

    def match_raised(self, message: str, trace: str, raised: str) -> Sign | None:
        """The sign that the frame which raised an exception bears: "path.py in function"."""
        return self._longest("raised", message, trace, raised)

    def match_within(self, message: str, trace: str, frames: str) -> Sign | None:
        """The sign that one of the frames bears: "path.py in function", the innermost first."""
        return self._longest("within", message, trace, frames)

    def _longest(self, where: Where, message: str, trace: str, place: str) -> Sign | None:
        signs = [s for s in self._signs.get(where, ()) if s.text in place]  # most have none
        told = [s for s in signs if s.matches(message, trace, place)] if signs else []
        return max(told, key=lambda s: len(s.text), default=None)

    @functools.cached_property
    def _signs(self) -> Mapping[str, tuple[Sign, ...]]:
        """By where they are to be found; asked for each exception, so sorted once."""
        kept: dict[str, list[Sign]] = {}
        for sign in self.signs:
            kept.setdefault(sign.where, []).append(sign)
        return {where: tuple(signs) for where, signs in kept.items()}

    @functools.cached_property
    def _spoken(self) -> tuple[tuple[str, str, bool, Sign], ...]:
        """Text, the same without back-ticks if it has some, whether of the traceback, sign."""
        return tuple(
            (sign.text, bare(sign.text) if "`" in sign.text else "", sign.where == "trace", sign)
            for sign in self.signs
            if sign.where in ("message", "trace")
        )

    @property
    def line_signs(self) -> tuple[Sign, ...]:
        return self._signs.get("line", ())

    def match_else(self, message: str) -> list[Sign]:
        """The signs that a check's message bears, of those for checks that are known nowhere."""
        return [s for s in self._signs.get("else", ()) if s.matches(message)]

    def match_line(self, line: str) -> Sign | None:
        return next((s for s in self.line_signs if s.matches(line)), None)
