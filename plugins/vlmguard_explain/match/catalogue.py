"""The known failures, read from one TOML file each; no Python is in the catalogue.

A file is called ``CODE-name.toml``. TOML takes 0.1 s to read, so what was read is kept as JSON,
beside Python's bytecode or in the user's cache, and read again when a file changes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vlmguard.compat import folder

HERE = Path(__file__).parent.parent
FOLDERS = ("catalogue", "cases", "tables")
WHERE = ("message", "trace", "line", "raised", "type")
Order = Literal["cause", "hang", "peer", "end"]


@dataclass(frozen=True)
class Pattern:
    """A literal text that shows the failure, with single spaces."""

    text: str
    # "message": an exception's type and message; "trace": its traceback; "line": any line of
    # a log; "raised": the frame that raised it; "type": the beginning of its type. The last
    # two count only if no message is known
    where: str = "message"
    # all, none: texts that must, or must not, be in the exception (or line) as well
    all: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    near: tuple[str, ...] = ()  # texts that must be in the message (or line) itself

    def matches(self, inside: str, message: str, everything: str) -> bool:
        """Whether ``inside`` holds the text, and the conditions hold."""
        there = self.text in inside and all(text in message for text in self.near)
        asked = there and all(text in everything for text in self.all)
        return asked and not any(text in everything for text in self.none)

    @property
    def size(self) -> int:
        return sum(map(len, (self.text, *self.all, *self.near)))


@dataclass(frozen=True)
class Step:
    """One thing to do: a change of ``tables/changes.toml`` by its name, or words with {values}."""

    do: str
    cost: str = ""
    values: dict[str, str] = field(default_factory=dict)
    # when, unless: said only if the message has one, or none, of these texts
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    # said only in a run with this: "phase=save", "zero=3", "absent", "!absent"
    run: tuple[str, ...] = ()
    kind: str = ""  # of steps of one kind only the first that fits is said
    silent: bool = False  # said only if the exception has no message


@dataclass(frozen=True)
class Case:
    """A known upstream bug, or a special reading of one message: its steps come first."""

    # said, trace: all these texts are in the message, or in the traceback
    said: tuple[str, ...]
    # each is a list of texts: the first whose values are all known is said
    steps: tuple[tuple[str, ...], ...]
    trace: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()  # none of these texts is in either
    # "package release": no case if the run's is older (since), or not older (mended)
    since: str = ""
    mended: str = ""
    cause: str = ""  # what it means; "": as the failure says
    code: str = ""
    more: bool = False  # the failure's own steps follow

    @property
    def size(self) -> int:
        return sum(map(len, (*self.said, *self.trace)))

    def matches(self, message: str, trace: str) -> bool:
        """Whether its texts are in both, and none that must not be."""
        there = all(w in message for w in self.said) and all(w in trace for w in self.trace)
        return there and not any(w in message or w in trace for w in self.unless)


@dataclass(frozen=True, eq=False)
class Known:
    """A failure of the catalogue."""

    code: str
    name: str
    title: str
    zh: str
    cause: str
    wrong: str
    # "cause"; "hang": others only waited; "peer": another rank is gone; "end": someone ended the
    # processes. An earlier one of these explains a later one
    order: Order = "cause"
    narrow: int = 0  # if two match the same text, the higher number wins
    evidence: str = ""
    was: str = ""  # the failure that it was a part of
    prevented: tuple[str, ...] = ()  # rules that see it before it happens
    patterns: tuple[Pattern, ...] = ()
    steps: tuple[Step, ...] = ()
    causes: tuple[Step, ...] = ()  # other words for ``cause``, each with its conditions
    cases: tuple[Case, ...] = ()
    examples: tuple[dict[str, Any], ...] = ()

    @functools.cached_property
    def by_place(self) -> dict[str, list[Pattern]]:
        """Where → patterns."""
        return {where: [p for p in self.patterns if p.where == where] for where in WHERE}

    def match(self, message: str, trace: str = "") -> Pattern | None:
        """The longest pattern that an exception bears. ``message`` holds its type, too."""
        everything = f"{message} {trace}"
        for where, inside in (("message", message), ("trace", trace)):
            for one in self.by_place[where]:
                if one.text in inside and one.matches(inside, message, everything):
                    return one  # most patterns need no call
        return None

    def match_line(self, line: str) -> Pattern | None:
        return next((p for p in self.by_place["line"] if p.matches(line, line, line)), None)

    def match_raised(self, frame: str, message: str, trace: str) -> Pattern | None:
        """The longest pattern of the raising frame, "…/path.py in function"."""
        everything = f"{message} {trace}"
        told = (p for p in self.by_place["raised"] if p.matches(frame, message, everything))
        return max(told, key=lambda one: len(one.text), default=None)


@functools.cache
def load() -> tuple[Known, ...]:
    """All of them, by code."""
    return tuple(_known(p, read) for p, read in data().items() if p.startswith("catalogue/"))


@functools.cache
def by_code() -> dict[str, Known]:
    return {known.code: known for known in load()}


@functools.cache
def cases() -> tuple[Case, ...]:
    """The cases of all failures and packages, the most exact ones first."""
    own = [case for known in load() for case in known.cases]
    told = [c for path, read in data().items() if path.startswith("cases/") for c in read["case"]]
    return tuple(sorted([*own, *(_case(c) for c in told)], key=lambda c: -c.size))


def table(name: str) -> dict[str, Any]:
    """One of the look-up tables; that of releases is `vlmguard.compat`'s."""
    return data().get(f"tables/{name}.toml", {})


def _known(path: str, read: dict[str, Any]) -> Known:
    code, _, name = path.partition("/")[2].removesuffix(".toml").partition("-")
    plain = [Pattern(text, where) for where in WHERE for text in read.pop(where, ())]
    try:
        return Known(
            code,
            f"explain-{name}",
            patterns=(*plain, *(_pattern(one) for one in read.pop("pattern", ()))),
            steps=tuple(Step(**_tuples(one)) for one in read.pop("step", ())),
            causes=tuple(Step(**_tuples(one)) for one in read.pop("cause_if", ())),
            cases=tuple(_case({**one, "code": code}) for one in read.pop("case", ())),
            examples=tuple(read.pop("example", ())),
            prevented=tuple(read.pop("prevented", ())),
            **read,
        )
    except Exception as error:
        raise ValueError(f"{path}: {error}") from error


def _pattern(one: dict[str, Any]) -> Pattern:
    where = next(name for name in WHERE if name in one)
    return Pattern(where=where, **_tuples({**one, "text": one[where]}, without=where))


def _tuples(one: dict[str, Any], without: str = "") -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in one.items() if k != without}


def _case(one: dict[str, Any]) -> Case:
    steps = tuple((s,) if isinstance(s, str) else tuple(s) for s in one["steps"])
    return Case(**{**_tuples(one), "steps": steps})


@functools.cache
def data() -> dict[str, dict[str, Any]]:
    """Path below this package → what that TOML file holds."""
    paths = [path for name in FOLDERS for path in sorted((HERE / name).glob("*.toml"))]
    named = {str(path.relative_to(HERE)): path for path in paths}
    if (shared := folder() / "releases.toml").is_file():
        named["tables/releases.toml"] = shared
    stamp = [[n, str(p), p.stat().st_mtime_ns, p.stat().st_size] for n, p in named.items()]
    kept = HERE / "__pycache__" / "catalogue.json"
    if not (kept.exists() or os.access(HERE, os.W_OK)):  # another user installed it
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        kept = Path(home, "vlmguard", kept.name).expanduser()
    with contextlib.suppress(OSError, ValueError):
        before, read = json.loads(kept.read_bytes())
        if before == stamp:
            return dict(read)
    from vlmguard.core.settings import read_toml  # takes as long as this function

    read = {name: read_toml(path) for name, path in named.items()}
    for one in (p for r in read.values() for k in ("pattern", "case") for p in r.get(k, ())):
        one.pop("unlike", None)  # only tests read it
        one.pop("origin", None)
    _keep(kept, [stamp, read])
    return read


def _keep(path: Path, what: object) -> None:
    """Write it where Python would keep its own; whoever may not write there goes without."""
    if sys.dont_write_bytecode:
        return
    new = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(what, ensure_ascii=False), encoding="utf-8")
        new.replace(path)
