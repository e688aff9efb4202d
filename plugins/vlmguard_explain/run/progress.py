"""How far a run came: steps, marks of an end, losses that are no numbers, what it began beside."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from vlmguard_explain.lazy import lazy, patterns, words
from vlmguard_explain.lines.lines import Line

_P = patterns("run.progress")
_T = words("run.progress")


def says_done(text: str) -> bool:
    """Whether a line says that the training is over."""
    if "Error" in text or "print(" in text:  # a line of source code
        return False
    if any(mark in text for mark in _T.marks):  # frameworks print them only at the end
        return True
    worded = any(part in text for part in _T.hints)
    match = _P.words.search(text, 0, 600) if worded else None
    if match is None:
        return False
    before = _P.part.search(text, max(match.start() - 30, 0), match.start())
    return before is None and _P.of_part.match(text, match.end()) is None


NEAR = 12  # lines after an interruption: there a trainer says how long it ran
SOON = 10  # lines: words for an end right after an exception are always printed
KEPT = 64  # steps
LONG = 600  # characters: a step's line is shorter
ANNOUNCED = 300  # characters: an announcement is shorter
ZEROS = 5  # losses of 0.0 in a row, from the first one on
MASKED = 3  # rows that are masked completely


@dataclass
class Progress:
    """What one log tells of its steps."""

    # (place in the log, step, steps in all or 0), the last of them
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    last: Line | None = None  # the last line that told a step
    # places of marks of an end; full: only a full bar marks it
    done: list[int] = field(default_factory=list)
    end: Line | None = None
    full: bool = False
    # (line; 0: sound; 1: gradient nan; 2: loss nan, or loss 0.0 with gradient nan or inf)
    losses: list[tuple[Line, int]] = field(default_factory=list)
    bars: list[int] = field(default_factory=list)  # places of the last lines with a bar of any kind
    # lines of a Trainer that log a loss of 0.0 in supervised training
    zeros: list[Line] = field(default_factory=list)
    sound: int = 0  # how many losses are not 0.0; masked: how many rows are said to be masked
    masked: int = 0
    loading: Line | None = None  # the last progress bar that is not the training's
    preparing: Line | None = None  # the last line before any step that says that data is made ready
    final: Line | None = None  # the last line with any text
    restarts: list[int] = field(default_factory=list)  # places where a bar began again
    # evaluating, saving: where an evaluation, a checkpoint last began
    evaluating: int = -1
    saving: int = -1
    _bar: tuple[int, int] = (0, 1)  # the last step of the training bar
    _interrupted: int = -NEAR
    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=SOON))
    _worded: dict[int, int] = field(default_factory=dict)  # a script's word for it → SOON before
    _growth: dict[int, list[int]] = field(default_factory=dict)
    _highest: dict[int, int] = field(default_factory=dict)

    def read(self, line: Line) -> None:
        """Note what a line tells."""
        text = line.text
        self.final = line
        self._recent.append(line.at)
        if any(words in text for words in _T.interrupted):
            self._interrupted = line.number
        if line.number >= self._interrupted + NEAR and says_done(text):
            self._ended(line, not any(mark in text for mark in _T.marks))
        self._beside(line)
        if (step := step_of(text)) is not None:
            self._step(line.at, *step)
            self.last = line
            self._bar = step if "%|" in text or "Iter(train)" in text else self._bar
        elif _P.loading.match(text):
            self.loading = line
        elif "%|" in text and _P.loading.match(line.raw):  # a file name was taken for a host name
            self.loading = replace(line, text=line.raw)
        elif not self.steps and len(text) < ANNOUNCED and _P.prepares.search(text):
            self.preparing = line
        self._loss(line, text)

    def close(self) -> None:
        """Judge the last line: nothing but "done", or a full bar."""
        if self.final is not None and self.steps and not self.done:
            if _P.last.match(self.final.text):  # these words count only at the end
                self._ended(self.final, True)
            elif self._bar[0] == self._bar[1] == max(self._growth) > 1 and self.last:
                self.full = True
                self._ended(self.last, False)  # it took the last step

    def _ended(self, line: Line, worded: bool) -> None:
        self.done.append(line.at)
        self.end = line
        if worded:
            self._worded[line.at] = self._recent[0]

    def _beside(self, line: Line) -> None:
        """An evaluation, a checkpoint; a script's own words tell that only behind a step."""
        text = line.text
        worded = bool(self.steps) and len(text) < ANNOUNCED
        if _P.evaluation.search(text) or (worded and _P.evaluates.search(text)):
            self.evaluating = line.at
        if _P.checkpoint.search(text) or (worded and _P.saves.search(text)):
            self.saving = line.at
        self.masked += _T.masked in text
        if "%|" in text:
            self.bars = [*self.bars[-KEPT:], line.at]

    def _step(self, at: int, number: int, total: int) -> None:
        """Note a step; a bar that starts anew (an evaluation, a restart) counts anew."""
        highest = self._highest.get(total, -1)
        anew = -1 < number + 10 < highest or number <= 1 < highest
        if anew:
            self.restarts.append(at)
        if anew or number > highest:
            self._highest[total] = number
            self._growth.setdefault(total, []).append(at)
        self.steps = [*self.steps[1 - KEPT :], (at, number, total)]

    def _loss(self, line: Line, text: str) -> None:
        found = _P.loss.findall(text) if _LOGS.search(text) and not _P.whole.search(text) else []
        if not found:
            other = _P.elsewhere.search(text, 0, LONG) if _P.other.search(text) else None
            if other is not None:
                self.losses.append((line, 2 * (other[other.lastindex or 1].lower() in _NO_NUMBER)))
            return
        losses = [value.lower() for name, value in found if name.lower() == "loss"]
        norms = [value.lower() for name, value in found if name.lower() != "loss"]
        nothing = bool(losses) and _P.nothing.fullmatch(losses[-1]) is not None
        if nothing and not norms and self.losses and self.losses[-1][1]:
            return  # a callback repeats a line of nan without its gradient
        zero = nothing and norms[-1:] in (["nan"], ["inf"])
        broken = zero or not _NO_NUMBER.isdisjoint(losses)
        self.losses.append((line, 2 if broken else int("loss" in text and norms[-1:] == ["nan"])))
        if _P.sound.search(text):
            self.sound += 1
        elif _P.zero.search(text) and "'epoch'" in text:
            sft = "'mean_token_accuracy'" in text  # TRL prints an entropy with it, too
            if sft or not any(word in text for word in _T.no_sft):
                self.zeros = [*self.zeros[:ZEROS], line]

    @property
    def first(self) -> int | None:
        """Where the first step stands."""
        return min((places[0] for places in self._growth.values()), default=None)

    def after(self, at: int) -> int:
        """How many steps more are told after ``at``, on the bar that grew most."""
        grown = (len(places) - bisect_right(places, at) for places in self._growth.values())
        return max(grown, default=0)

    def resumed(self, at: int) -> bool:
        """Whether a bar that had grown before ``at`` grew on after it."""
        return any(places[0] <= at < places[-1] for places in self._growth.values())

    def over(self, at: int) -> bool:
        """Whether an end was marked before ``at``, and no step was taken between."""
        marks = [place for place in self.done if place < at]
        return bool(marks) and not self.full and not any(a > marks[-1] for a, _, _ in self.steps)

    def finished(self, at: int) -> bool:
        """Whether an end is marked after ``at``; a script's own words close behind it, and no step
        between, prove nothing: a line behind the command is reached however that ended."""

        def only_said(place: int) -> bool:
            stepped = any(at < a <= place for a, _, _ in self.steps)
            return at >= self._worded.get(place, at + 1) and not stepped

        return any(place > at and not only_said(place) for place in self.done)

    @property
    def broken(self) -> int:
        """How many of the last logged losses are broken; 0 for too few to tell.

        float16's first steps may have gradients of nan while the loss scale falls: then it takes
        three in a row, and two if the loss itself is broken in the end.
        """
        sound = (n for n, (_, bad) in enumerate(reversed(self.losses)) if not bad)
        count = next(sound, len(self.losses))
        enough = 2 if self.losses and self.losses[-1][1] == 2 else 3
        return count if count >= enough else 0

    @property
    def unlabelled(self) -> bool:
        """Whether every logged loss is 0.0 from the first on, as it is without any label."""
        enough = 1 if self.masked >= MASKED else ZEROS
        return len(self.zeros) >= enough and not self.sound


_NO_NUMBER = frozenset(("nan", "inf", "-inf"))
_LOGS = lazy("oss|grad[_ ]norm")


def of(lines: Iterable[Line]) -> Progress:
    """The progress of one log."""
    progress = Progress()
    for line in lines:
        if line.text.strip():
            progress.read(line)
    progress.close()
    return progress


@functools.cache
def _steps() -> list[tuple[dict[str, Any], re.Pattern[str]]]:
    return [({"most": 10_000, "only": False, **one}, lazy(one["pattern"])) for one in _T.step]


def step_of(text: str) -> tuple[int, int] | None:
    """The step that a line tells, and of how many; 0 where it does not say."""
    for rule, pattern in _steps():
        if len(text) <= rule["most"] and any(one in text for one in rule["text"]):
            if (match := pattern.search(text)) is not None:
                return int(match[1]), int(match[2] or 0)
            if rule["only"]:
                return None
    return None
