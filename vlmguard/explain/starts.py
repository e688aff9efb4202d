"""Where a program begins anew in a file that several runs were appended to.

A run that is started again prints again what it printed first. That tells only behind an end: ranks
print the same first lines, too. Of a log of one process the end may be any exception that nobody
caught, a signal, Ctrl-C or a mark of success; where several processes write into one log it is
their launcher's word, since one rank's exception is not the others' end; without it the clocks or
lines of the job's own shell must tell. Two programs of one script, one after the other (train,
then evaluate), are no two runs: their tracebacks begin in other files.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from vlmguard.explain import ends, events, launcher
from vlmguard.explain.lines import Line, Time

HEAD = 6  # usable lines of a beginning that are remembered
LOOKED = 60  # lines of the log in which they are looked for
FIRST = 3  # one of so many must be the first that comes again
AGAIN = 3  # so many must come again
WITHIN = 12  # usable lines
SHORT = 15  # characters: a shorter line tells nothing
AHEAD = 20000  # lines in which the next traceback is looked for
CLOCK = 40  # lines in which a clock is looked for
GAP = datetime.timedelta(seconds=60)  # ranks of one run begin closer to each other's end

# Printed once by a process, as it begins, whatever it is.
_BEGINS = (
    "nohup: ignoring input",
    "nohup: 忽略输入",
    "oneDNN custom operations are on",
    "Setting ds_accelerator to",
    "lobal seed set to",
)
# What a launcher of several ranks, a scheduler, a parent says when all is over.
_ALL_OVER = (
    "ProcessRaisedException",
    "ProcessExitedException",
    "Job step aborted",
    "slurmstepd: error: *** ",
    "srun: error: ",
    "MPI_ABORT was invoked",
)
# Several processes write here, whatever marks them.
_SEVERAL = re.compile(
    r"torchrun|torch[./]distributed[./](?:run|launch|elastic)|ProcessGroupNCCL|NCCL INFO"
    r"|\[launch\.py:|(?i:local_rank|world[_ ]size|nproc_per_node|num_processes|\brank)['\"]?"
    r"(?:=|: | )\s?[1-9]|MEMBER: \d{1,5}/[2-9]|distributed init|\(\w{1,60} pid=\d"
    r"|spawn\.py|^-- Process \d|^srun: |mpirun|pdsh|init_process_group|/torch/distributed/"
)
# Of the shell of a job, which no rank runs: modules, a scheduler's variables, a card's table.
_JOB = re.compile(
    r"(?i)^(?:un)?loading \S+ version|^removing \S+ version|^nohup: |\bslurm|\bPBS|\bLSF\b|\bjob\b"
    r"|^\+ \S|nodelist|driver version|^activat|^running on|^hostname"
    r"|^container image|^this container image|container-license"  # NVIDIA's, as it starts
)
_NO_FIRST = re.compile(
    r"^\s|^[\W\d]*$|%\||^(?:Traceback|During handling|The above exception)|^[{\[(]['\"{\[]"
)
_ALIKE = str.maketrans("123456789", "000000000")
_DIGITS = re.compile(r"\d+")
_DATE = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"
)
_MODULE = re.compile(r'^\s{0,4}File "([^"\n]{1,400})", line \d{1,7}, in <module>')
_DIED = re.compile(r"^\S{1,200}\.py: error: ")  # argparse's
_TOP = re.compile(
    r'^\s{0,4}File "([^"\n]{1,400})", line \d{1,7}, in (?:<module>|_run_module_as_main)'
)
_QUIET = re.compile(r"WARN|INFO|DEBUG")
_TRACEBACK = "Traceback (most recent call last)"


def _normal(line: Line) -> str:
    """A line without what differs from run to run, "" where it may come at any time."""
    text = line.text.rstrip()
    if len(text) < SHORT or line.marked or _NO_FIRST.search(text[:300]):
        return ""
    if events.TYPE.match(text):
        return ""
    return _DATE.sub("D", _DIGITS.sub("0", text[:160]))


def _front(text: str) -> str:
    """The first characters of a line, digits alike: to pass by most lines quickly."""
    return text[:4].translate(_ALIKE)


class Log:
    """All lines of a log, and whether several processes write into it, whatever marks them."""

    def __init__(self, kept: Sequence[Line]) -> None:
        self.kept = kept

    @functools.cached_property
    def several(self) -> bool:
        return len({line.lane for line in self.kept if line.lane}) > 1 or any(
            _SEVERAL.search(line.raw[:600]) for line in self.kept
        )


@dataclass
class Run:
    """One run so far: how it began and, where it is over, with which line.

    Attributes:
        first: its first usable lines, `_normal`; ``counts``: how often each came.
        over: an end of one process; ``all_over``: of all of them.
        scripts: the files in which its tracebacks begin.
        time: the last clock that it shows.
        between: whether it said something behind its end.
    """

    log: Log
    first: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    fronts: set[str] = field(default_factory=set)
    over: Line | None = None
    all_over: Line | None = None
    scripts: set[str] = field(default_factory=set)
    time: Time | None = None
    between: bool = False
    chained: bool = False
    _open: bool = False
    _begun: bool = False  # the line before begins a traceback
    _top: bool = False  # it begins where a program does
    _seen: int = 0

    def read(self, line: Line, ended: bool) -> None:
        """Note what ``line`` says of this run; ``ended``: a launcher says that all is over."""
        self._seen += 1
        self.time = line.time or self.time
        self._first(line)
        text = line.text
        if ended or any(word in line.raw for word in _ALL_OVER):
            self.all_over = line
        elif _TRACEBACK in text:
            before = text.partition(_TRACEBACK)[0]
            self._open = line.level != "W" and not _QUIET.search(before)
            self._begun, self._top = True, False
            return
        elif self._begun and (match := _TOP.match(text)):
            self._top = True
            self.scripts.update(_script(match))
        elif self._open and text[:1].strip() and events.TYPE.match(text):
            if self._top:  # what was caught and printed begins within a function
                self.over, self.between, self.chained = line, False, False
            self._open = self._top = False
            if text.startswith("KeyboardInterrupt"):
                self.all_over = line
        elif not self._open:
            self._marks(line)
        self._begun = False

    def _marks(self, line: Line) -> None:
        if ends.says_done(line.text):
            self.all_over = line
        elif _DIED.search(line.text) or launcher.killed(line.text):
            self.over = line
        if self.over is not None:
            self.between = self.between or bool(_normal(line))
            self.chained = self.chained or line.text.lstrip().startswith(events.CHAIN)

    def _first(self, line: Line) -> None:
        ended = self.over or self.all_over
        early = len(self.first) < HEAD and self._seen <= LOOKED and not ended
        if not early and _front(line.text) not in self.fronts:
            return
        normal = _normal(line)
        if normal and early and normal not in self.first:
            self.first.append(normal)
            self.fronts.add(_front(line.text))
        if normal in self.first:
            self.counts[normal] = self.counts.get(normal, 0) + 1

    @property
    def alone(self) -> bool:
        """Whether one process wrote all of it, as far as it tells."""
        twice = bool(self.first) and min(self.counts.get(f, 0) for f in self.first) > 1
        return not (twice or self.log.several)

    @property
    def ended(self) -> bool:
        """Whether it may be over."""
        return self.over is not None or self.all_over is not None


def _script(match: re.Match[str]) -> set[str]:
    """The file in which a traceback begins, none where it is an installed one."""
    own = "-packages/" not in match[1] and not match[0].endswith("_run_module_as_main")
    return {match[1].rpartition("/")[2]} if own else set()


def _begun_in(kept: Sequence[Line], at: int) -> set[str]:
    """The file in which the traceback at ``kept[at]`` begins, where it is a script."""
    match = _MODULE.match(kept[at + 1].text) if at + 1 < len(kept) else None
    return _script(match) if match else set()


def anew(kept: Sequence[Line], at: int, runs: Sequence[Run]) -> bool:
    """Whether a program begins at ``kept[at]``, behind the end of the last of ``runs``."""
    last = runs[-1]
    if not any(_begins(kept, at, run, last) for run in runs) and not _traced(kept, at, last):
        return False
    gap = _gap(kept, at, last)
    return not other_script(kept, at, last) and (gap is None or gap >= datetime.timedelta(0))


def _begins(kept: Sequence[Line], at: int, run: Run, last: Run) -> bool:
    """Whether what ``run`` began with begins again here, ``last`` being over."""
    line = kept[at]
    if last.over is not None and last.alone and any(word in line.raw for word in _BEGINS):
        return True
    if _front(line.text) not in run.fronts or (normal := _normal(line)) not in run.first[:FIRST]:
        return False
    if last.alone and normal == run.first[0] and run.counts[normal] == 1:
        return True
    here = [normal for line in kept[at : at + 3 * WITHIN] if (normal := _normal(line))]
    same = set(here[:WITHIN]).intersection(run.first)
    if len(same) < min(AGAIN, len(run.first)) or (len(same) < 2 and not last.alone):
        return False
    return last.all_over is not None or last.alone or _surely(kept, at, last, same)


def _surely(kept: Sequence[Line], at: int, last: Run, same: set[str]) -> bool:
    """Whether no other rank of the same run prints this."""
    if len(same) < AGAIN or any(last.counts.get(text, 0) > 1 for text in same):
        return False
    gap = _gap(kept, at, last)
    shells = sum(_JOB.search(text) is not None for text in same)
    return shells > 1 or (gap is not None and gap > GAP)


def _traced(kept: Sequence[Line], at: int, last: Run) -> bool:
    """Whether a second traceback begins here in the script of which one ended a lone process."""
    starts = kept[at].text.startswith(_TRACEBACK)
    quoted = at > 0 and kept[at - 1].text.startswith("```")
    if not starts or quoted or last.over is None or not last.between:
        return False
    again = bool(last.scripts & _begun_in(kept, at))
    return again and not last.chained and last.alone


def _gap(kept: Sequence[Line], at: int, last: Run) -> datetime.timedelta | None:
    """How much later than the last clock before ``at`` the first behind it is."""
    later = next((line.time for line in kept[at : at + CLOCK] if line.time), None)
    return None if later is None or last.time is None else _moment(later) - _moment(last.time)


def _moment(time: Time) -> datetime.datetime:
    try:
        month, day, hour, minute, second, micro = time
        return datetime.datetime(2000, month, day, hour, minute, second, micro)
    except ValueError:  # what only looks like a clock
        return datetime.datetime(2000, 1, 1)


def other_script(kept: Sequence[Line], at: int, last: Run) -> bool:
    """Whether what is run from ``at`` on is another script: a second step, not a second run."""
    if not last.scripts:
        return False
    for number in range(at, min(at + AHEAD, len(kept))):
        if _TRACEBACK in kept[number].text and (names := _begun_in(kept, number)):
            return not names <= last.scripts
    return False
