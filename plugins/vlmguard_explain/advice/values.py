"""What a step may name in braces: {path}, {port}, … (``tables/values.toml``).

A log is a stranger's text. Each value has to look like what it is meant to be, is left out if it
holds a secret, and is quoted for a shell. A command that is pasted from an answer can read a file,
ask for a package or for the help of the run's own program, and do no more.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Mapping

from vlmguard_explain.advice import derived
from vlmguard_explain.lazy import lazy
from vlmguard_explain.match.catalogue import table
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.source import clean

_PLACE = lazy(r"\{([a-z]{3,20})\}")
_GROUP = lazy(r"\(\?P<([a-z]{3,20})>")


class Values(Mapping[str, str]):
    """Name → value, quoted; each is looked for when it is first asked."""

    def __init__(self, facts: Facts) -> None:
        self.facts: Facts = facts
        self.message = clean.shown(facts.message)  # hidden secrets are not values
        self._found: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        value = self.raw(name)
        value = value if name in derived.PLAIN else quoted(value)
        if not value and name not in derived.OPTIONAL:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(names()) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def raw(self, name: str) -> str:
        """As the log has it; "" where it does not tell."""
        if name not in self._found:
            self._found[name] = ""
            made = derived.VALUES.get(name) or derived.PLAIN.get(name)
            self._found[name] = made(self) if made is not None else self.read(name)
        return self._found[name]

    def read(self, name: str) -> str:
        """By the table alone: the message, the traceback, the facts of the log, look-ups."""
        read = table("values")
        if name in read["look"]:
            source, sign, place = read["look"][name]
            return derived.look_up(self.raw(source), sign, place)
        fields = map(self.field, read["log"].get(name, ()))
        field, like = next(filter(None, fields), ""), read["like"].get(name, "(.*)")
        match = re.search(like, field)
        return next(self.each(name), "") or (match[1] if match is not None else "")

    def field(self, name: str) -> str:
        """A fact of the log."""
        return self.facts.fields.get(name, "")

    def each(self, name: str) -> Iterator[str]:
        """Every match of its patterns."""
        for match in self._matches(name):
            groups = match.groupdict()
            value = groups[name] if name in groups else next(filter(None, match.groups()), "")
            if value:
                yield value

    def groups(self, name: str) -> list[str]:
        """The filled groups of the first match."""
        match = next(self._matches(name), None)
        return [one for one in match.groups() if one] if match is not None else []

    def _matches(self, name: str) -> Iterator[re.Match[str]]:
        for part, pattern in _patterns().get(name, ()):
            text = self.facts.trace if part == "trace" else self.message
            yield from pattern.finditer(text)


@functools.cache
def _patterns() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Name → (message or trace, pattern), in the order in which they are tried."""
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for part in ("message", "trace"):
        for key, texts in table("values")[part].items():
            for text in [texts] if isinstance(texts, str) else texts:
                for name in _GROUP.findall(text) or [key]:
                    found.setdefault(name, []).append((part, lazy(text)))
    return found


def names() -> set[str]:
    """All that a step may name."""
    read = table("values")
    return {*_patterns(), *read["log"], *read["look"], *derived.VALUES, *derived.PLAIN}


_last: list[tuple[Facts, Values]] = []  # each step of an answer asks for it


def of(facts: Facts) -> Values:
    """The values of one failure."""
    if not _last or _last[0][0] is not facts:
        _last[:] = [(facts, Values(facts))]
    return _last[0][1]


def wants(text: str) -> set[str]:
    """The names whose values ``text`` needs."""
    return set(_PLACE.findall(text))


def known(text: str, values: Mapping[str, str]) -> bool:
    """Whether all of them are there."""
    return all(name in values for name in wants(text))


def filled(text: str, values: Mapping[str, str], else_: Mapping[str, str] | None = None) -> str:
    """``text`` with the values; where there is none that of ``else_``, the usual word, or the name
    in capitals."""
    usual = {**table("values")["usual"], **(else_ or {})}

    def value(match: re.Match[str]) -> str:
        return str(values.get(match[1], usual.get(match[1], match[1].upper())))

    return _PLACE.sub(value, text)


def quoted(value: str) -> str:
    """``value`` for a command line, or "" where it is not fit to stand in one."""
    value = clean.shown(value).strip().rstrip(".,;:'\"`’")
    option = value.startswith("-") and not re.fullmatch(r"--?[A-Za-z][\w-]{0,60}", value)
    if not value or option or re.search("[█`\\n]", value) or len(value) > 180:
        return ""
    return value if re.fullmatch(r"[\d, ]+", value) else shlex.quote(value)
