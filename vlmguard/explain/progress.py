"""How far a run came: steps, the marks of an end, losses that are no numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from vlmguard.explain import begun, ends
from vlmguard.explain.lines import Line

_BAR = re.compile(
    r"^\s{0,8}(?:(?i:train\w{0,6}|epoch[ \d/.:]{0,12}|steps?|iter\w{0,7})[^%|]{0,30}:)?\s{0,4}"
    r"\d{1,3}%\|[^|]{0,300}\| (\d{1,9})/(\d{1,9}) \["
)
_AT_ONCE = re.compile(r"\[00:00<(?:00:00|\?), {1,4}\d{3,9}(?:\.\d{1,9})?it/s")  # no step takes ms
_LOADING = re.compile(r"^\s{0,8}[A-Za-z][^|%]{0,60}:\s{0,4}\d{1,3}%\|")
_WHOLE = re.compile(r"\btrain_loss(?!=)")  # the mean of all steps
_LEARNING = re.compile(r"\d{1,3}%\|[^|]{0,300}\| (\d{1,9})/(\d{1,9}) \[")  # beside a loss
_COUNTED = re.compile(r"global_step/max_steps['\"]: ['\"](\d{1,9})/(\d{1,9})")
_STEP = re.compile(
    r"(?i)(?:^|[\s\[(,|])(?:global[ _]?)?(?:step|iteration|"
    r"iter)s?['\"]?\s{0,3}[:=#\s]\s{0,3}\[?(\d{1,9})"
    r"(?:\s{0,2}/\s{0,4}(\d{1,9}))?(?=[\s,\])|:;.]|$)"
)
_RATE = re.compile(r"(?<![A-Za-z])(?:lr|learning_rate)(?![a-z])")
_BRACKETS = re.compile(r"^\s{0,4}\[\s{0,9}(\d{1,9})/\s{0,4}(\d{1,9})\]\s")
# DETR's, LAVIS's "epoch: [3]  [ 10/500]  eta: …", mmengine's "Epoch(train) [3][10/500]".
_EPOCH = re.compile(
    r"\b[Ee]poch(?:\([a-z]{1,9}\))?:?\s{0,4}\[?\s{0,4}\d{1,6}\]?:?\s{0,4}"
    r"\[\s{0,9}(\d{1,9})/\s{0,4}(\d{1,9})\]"
)
_OF_ALL = re.compile(r"\bIter\(train\) \[\s{0,9}(\d{1,9})/\s{0,4}(\d{1,9})\]")  # mmengine's
_MLPERF = re.compile(r'"(?:epoch_num|samples_count|step_num)": (\d{1,12})')
# Behind a word only where that is the training's: an evaluation's loss of rows without a label is
# nan while the training is sound, a best loss begins at inf.
_LOSS = re.compile(
    r"['\"]?\b(?:(?:avg|average|mean|total|running|global|current|lm|ce|pg|policy|actor|train|training|"
    r"batch|step|iter|epoch|info)[_ /]{1,2}|(?<![a-z][ /_]))"
    r"(loss|grad[_ ]norm)['\"]?(?:\s{0,3}[:=]\s{0,3}|\s{1,3})(?:tensor\()?['\"]?"
    r"((?:nan|-?inf)(?![a-z])|-?[\d.]{1,20}(?:e[+-]?\d{1,3})?)",
    re.I,
)
# The same in Chinese, Japanese, Korean; ultralytics' columns: the first of its losses.
_ELSEWHERE = re.compile(
    r"(?i)(?<!验证)(?<!评估)(?<!测试)(?<!検証)(?<!검증 )(?:损失|損失|손실)(?:值)?"
    r"\s{0,3}[:=\uff1a]?\s{0,3}(nan|inf|[\d.]{1,20})"
    r"|^\s{0,9}\d{1,6}/\d{1,6}\s{1,12}[\d.]{1,9}G\s{1,12}(nan|inf|[\d.]{1,12})\s"
)
# The Trainer's own line of a step whose rows had no label; a reward's loss may be 0.0, too.
_ZERO = re.compile(r"['\"]loss['\"]: ['\"]?(?:0|0\.0{1,8})['\"]?[,}]")
_SOUND = re.compile(r"['\"]loss['\"]: ['\"]?-?(?:[1-9]|0\.0{0,12}[1-9])")
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,12})?")
_NOTHING = re.compile(r"0(?:\.0{1,8})?")
_NO_SFT = ("reward", "kl", "logp", "advantage", "completion", "teacher", "entropy")
_MASKED = "tokenization mismatch: "  # LLaVA's: all of this row is masked
_MISFIT = "vit_embeds.shape="  # InternVL's warning: it cuts the features and goes on
# A web page's or a script's "training has ended" right behind these is no end that is meant.
_LAUNCHERS = ("subprocess.CalledProcessError: Command", "torch.distributed.elastic.multiproc")
AFTER = 3  # lines
# A trainer that says how long it ran when somebody ended it.
_INTERRUPTED = ("KeyboardInterrupt", "eyboard interruption", "eyboard interrupt")
NEAR = 12  # lines
SOON = 10  # lines: words for an end right behind an exception are printed whatever happened
KEPT = 64
CLOCKS = 8
NEARLY = 0.05  # of the first loss: how far the others are from it
LASTED = 20  # steps
ZEROS = 5  # losses of 0.0 in a row, from the first on
MASKED = 3  # rows
LASTING = 10  # losses of 0.0 in a row, to the last


@dataclass
class Progress:
    """What one log tells of its steps.

    Attributes:
        steps: (place in the log, step, steps in all or 0), the last of them.
        last: the last line that told a step.
        done: places of marks of an end.
        restarts: places at which a bar began anew.
        losses: (line, 0 sound, 1 a gradient of nan, 2 a loss of nan, or 0.0 with such a gradient).
        bars: places of the last lines with a bar of any kind.
        zeros: lines of a Trainer that log a loss of 0.0 in supervised training.
        sound: how many losses are not 0.0; `since`: how many are, since the last of those.
        masked: how many rows are said to be masked as a whole.
        misfits: lines of steps in which image features did not fit their places, and it went on.
        loading: the last progress bar that was no training.
        preparing: the last line before any step that says that data is made ready.
        clocks: the last lines of steps, for their time.
        final: the last line with any text.
        evaluating, saving: where an evaluation, a checkpoint last began; `began` is that line.
        synced: where wandb last said that it has all of the run.
        still: lines with a gradient of 0.0, and their losses; moved: that one had another.
        full: that the end is told by a full bar only.
    """

    steps: list[tuple[int, int, int]] = field(default_factory=list)
    last: Line | None = None
    done: list[int] = field(default_factory=list)
    end: Line | None = None
    losses: list[tuple[Line, int]] = field(default_factory=list)
    bars: list[int] = field(default_factory=list)
    zeros: list[Line] = field(default_factory=list)
    sound: int = 0
    since: int = 0
    masked: int = 0
    misfits: list[Line] = field(default_factory=list)
    still: list[tuple[Line, float]] = field(default_factory=list)
    moved: bool = False
    loading: Line | None = None
    preparing: Line | None = None
    clocks: list[Line] = field(default_factory=list)
    final: Line | None = None
    restarts: list[int] = field(default_factory=list)
    evaluating: int = -1
    saving: int = -1
    began: Line | None = None
    synced: int = -1
    full: bool = False
    _worded: dict[int, int] = field(default_factory=dict)
    _growth: dict[int, list[int]] = field(default_factory=dict)
    _highest: dict[int, int] = field(default_factory=dict)

    def step(self, at: int, number: int, total: int) -> None:
        """Note a step; a bar that starts anew (an evaluation, a restart) counts anew."""
        highest = self._highest.get(total, -1)
        if -1 < number + 10 < highest or number <= 1 < highest:
            self.restarts.append(at)
        if number > highest or number + 10 < highest or number <= 1 < highest:
            self._highest[total] = number
            if number != highest:
                self._growth.setdefault(total, []).append(at)
        self.steps.append((at, number, total))
        del self.steps[:-KEPT]

    @property
    def first(self) -> int | None:
        """Where the first step stands."""
        return min((places[0] for places in self._growth.values() if places), default=None)

    def after(self, at: int) -> int:
        """How many steps more are told after ``at``, on the bar that grew most."""
        grown = (len(places) - bisect_right(places, at) for places in self._growth.values())
        return max(grown, default=0)

    def resumed(self, at: int) -> bool:
        """Whether a bar that had grown before ``at`` grew on after it."""
        return any(places[0] <= at < places[-1] for places in self._growth.values() if places)

    def over(self, at: int) -> bool:
        """Whether an end was marked before ``at``, and no step was taken between."""
        marks = [place for place in self.done if place < at]
        return bool(marks) and not self.full and not any(a > marks[-1] for a, _, _ in self.steps)

    def finished(self, at: int) -> bool:
        """Whether an end is marked after ``at``."""
        return any(place > at and not self._only_said(place, at) for place in self.done)

    def _only_said(self, place: int, at: int) -> bool:
        """Whether a script's own words stand close behind ``at``, and no step between: proof of
        nothing, as a line behind the command is reached however that ended."""
        start = self._worded.get(place)
        stepped = any(at < a <= place for a, _, _ in self.steps)
        return start is not None and at >= start and not stepped

    @property
    def broken(self) -> int:
        """How many of the last logged losses are broken; 0 for too few to tell.

        float16's first steps may have gradients of nan while the loss scale falls: three in a row
        are wanted then, two where the loss itself is broken in the end.
        """
        count = 0
        for _, bad in reversed(self.losses):
            if not bad:
                break
            count += 1
        enough = 2 if self.losses and self.losses[-1][1] == 2 else 3
        return count if count >= enough else 0

    @property
    def unlabelled(self) -> bool:
        """Whether every logged loss is 0.0 from the first on, as it is without any label; where
        rows are said to be masked, to the last."""
        enough = 1 if self.masked >= MASKED else ZEROS
        if self.masked >= MASKED and self.since >= LASTING:
            return True
        return len(self.zeros) >= enough and not self.sound

    @property
    def flat(self) -> bool:
        """Whether every logged gradient is 0.0 and the loss stays where it began."""
        losses = [value for _, value in self.still]
        near = all(abs(value - losses[0]) < NEARLY * losses[0] for value in losses)
        many = len(losses) >= ZEROS and bool(self.steps) and self.steps[-1][1] >= LASTED
        return not self.moved and many and near

    def gradient(self, line: Line, losses: list[str], norms: list[str], text: str) -> None:
        """Note a gradient that is 0.0, or is not."""
        if not norms or not _of_sft(text):
            return
        zero, sound = _NOTHING.fullmatch(norms[-1]), losses and _NUMBER.fullmatch(losses[-1])
        if not zero or not sound:
            self.moved = True
        elif not self.moved:
            self.still = [*self.still[: ZEROS * 4], (line, float(losses[-1]))]

    def loss(self, line: Line, text: str) -> None:
        """Note a loss that is 0.0, or is not."""
        if _SOUND.search(text):
            self.sound += 1
            self.since = 0
        elif _ZERO.search(text) and "'epoch'" in text and _of_sft(text):
            self.zeros = [*self.zeros[:ZEROS], line]
            self.since += 1


def _of_sft(text: str) -> bool:
    """Whether a line of numbers is of supervised tuning: TRL's has an entropy, too."""
    return "'mean_token_accuracy'" in text or not any(word in text for word in _NO_SFT)


def of(lines: Iterable[Line]) -> Progress:
    """The progress of one log."""
    told = Progress()
    bars: tuple[int, int] | None = None
    failed = -AFTER
    interrupted = -NEAR
    recent: deque[int] = deque(maxlen=SOON)
    for line in lines:
        text = line.text
        if not text.strip():
            continue
        told.final = line
        recent.append(line.at)
        if text.startswith(_LAUNCHERS):
            failed = line.number
        if any(words in text for words in _INTERRUPTED):
            interrupted = line.number
        aside = interrupted < line.number < interrupted + NEAR
        if line.number - failed > AFTER and not aside and ends.says_done(text):
            told.done.append(line.at)
            told.end = line
            if not ends.marked(text):
                told._worded[line.at] = recent[0]
        if begun.evaluates(text, bool(told.steps)):
            told.evaluating = line.at
            told.began = line
        if begun.saves(text, bool(told.steps)):
            told.saving = line.at
            told.began = line
        told.masked += _MASKED in text
        if _MISFIT in text and "size of tensor a" in text:
            told.misfits.append(line)
        if "%|" in text:
            told.bars = [*told.bars[-KEPT:], line.at]
        if text.startswith("wandb: ") and ("Synced" in text or "View run" in text):
            told.synced = line.at
        step = step_of(text)
        if step is not None:
            told.step(line.at, *step)
            told.last = line
            if "%|" in text or "Iter(train)" in text:
                bars = step
            told.clocks = [*told.clocks[1 - CLOCKS :], line]
        elif _LOADING.match(text):
            told.loading = line
        elif "%|" in text and _LOADING.match(line.raw):  # a file's name, taken for a machine's
            told.loading = replace(line, text=line.raw)
        elif not told.steps and begun.prepares(text):
            told.preparing = line
        logged = "oss" in text or "grad_norm" in text or "grad norm" in text
        if logged and not _WHOLE.search(text) and (said := _LOSS.findall(text)):
            losses = [value.lower() for name, value in said if name.lower() == "loss"]
            norms = [value.lower() for name, value in said if name.lower() != "loss"]
            nothing = bool(_NOTHING.fullmatch("".join(losses[-1:])))
            if nothing and not norms and told.losses and told.losses[-1][1]:
                continue  # a line of nan again, as a callback prints it without its gradient
            zero = nothing and norms[-1:] in (["nan"], ["inf"])
            broken = zero or any(value in ("nan", "inf", "-inf") for value in losses)
            gradient = "loss" in text and norms[-1:] == ["nan"]
            told.gradient(line, losses, norms, text)
            told.losses.append((line, 2 if broken else 1 if gradient else 0))
            told.loss(line, text)
        elif ("失" in text or "손실" in text or "G " in text) and (
            other := _ELSEWHERE.search(text, 0, 600)
        ):
            told.losses.append((line, 2 * ((other[1] or other[2]).lower() in ("nan", "inf"))))
    last = told.final
    if last is not None and told.steps and not told.done and ends.last_word(last.text):
        told.done.append(last.at)
        told.end = last
        told._worded[last.at] = recent[0]
    longest = max(told._growth, default=0)
    full = bars is not None and bars[0] == bars[1] == longest and longest > 1
    if full and told.last and not told.done:
        told.full = True
        told.done.append(told.last.at)  # the bar is full: the last step was taken
        told.end = told.last
    return told


def step_of(text: str) -> tuple[int, int] | None:
    """The step that a line tells, and of how many; 0 where it does not say."""
    if match := _COUNTED.search(text):
        return int(match[1]), int(match[2])
    if ":::MLLOG" in text:
        match = _MLPERF.search(text)
        return (int(match[1]), 0) if match else None
    if "Iter(train)" in text and (match := _OF_ALL.search(text, 0, 600)):
        return int(match[1]), int(match[2])
    if "%|" in text:
        match = None if _AT_ONCE.search(text) else _BAR.match(text)
        if match is None and "loss" in text.lower() and not begun.aside(text):
            match = _LEARNING.search(text, 0, 600)  # torchtune's "1|30|Loss: 1.2:  50%|"
        return (int(match[1]), int(match[2])) if match else None
    if ("tep" in text or "iter" in text or "STEP" in text) and (match := _STEP.search(text)):
        if len(text) > 600 or match[1] is None:
            return None
        if "slurm" in text or "*** " in text:
            return None  # a job's step
        if "loss" in text or _RATE.search(text) or match[2]:
            return int(match[1]), int(match[2] or 0)
    if "loss" in text and len(text) <= 600 and (match := _BRACKETS.match(text)):
        return int(match[1]), int(match[2])
    if "poch" in text and len(text) <= 600 and (match := _EPOCH.search(text)):
        return int(match[1]), int(match[2])
    return None
