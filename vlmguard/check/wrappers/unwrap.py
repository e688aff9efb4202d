"""A wrapper's words → the command that it starts, by `table`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vlmguard.check import launcher
from vlmguard.check.wrappers.table import WRAPPERS, Wrapper

_SHELLS = {"bash", "sh", "dash", "zsh", "ksh"}


@dataclass(frozen=True)
class Inner:
    """What a wrapper starts.

    Attributes:
        words: the command, the end of the wrapper's own words but for ``implied`` in front.
        text: a shell's text instead of words.
        env: variables that it sets; ``clean``: no other is seen.
        many: the word for a program that starts more than one copy, "" for one copy.
    """

    words: tuple[str, ...] = ()
    text: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    clean: bool = False
    implied: int = 0
    many: str = ""
    away: str = ""


def starts(word: str) -> bool:
    """Whether a word is known to begin a command: a launcher, a wrapper, Python, a shell."""
    name = os.path.basename(word)
    return name in WRAPPERS or name in _SHELLS or word == "-m" or launcher.begins(name)


def unwrap(words: Sequence[str], fed: str = "") -> Inner | None:
    """The command behind one wrapper; None where ``words`` are none, or not in a form known here.

    What may be the value of an option that is not in the tables is passed by, up to a word that
    is known to begin a command; without one, None. fed: its standard input.
    """
    name = os.path.basename(words[0])
    at = 1
    if re.fullmatch(r"python[\d.]*", name) and words[1:2] == ["-m"] and len(words) > 2:
        name, at = words[2], 3
        if name not in WRAPPERS or not WRAPPERS[name].python:
            return None
    wrapper = WRAPPERS.get(name)
    if wrapper is None:
        return None
    if wrapper.verbs:
        found = _behind_verb(wrapper, words, at)
        if not found:
            return None
        at = found
    return _Reader(wrapper, name, words, at).inner(fed)


def _behind_verb(wrapper: Wrapper, words: Sequence[str], at: int) -> int:
    """Where a wrapper's verb ends, general options and their values in front of it; 0 for none."""
    while at < len(words):
        for verb in (verb.split() for verb in wrapper.verbs):
            if list(words[at : at + len(verb)]) == verb:
                return at + len(verb)
        if not words[at].startswith("-") and not words[at - 1].startswith("-"):
            return 0
        at += 1
    return 0


class _Reader:
    """One wrapper's options, left to right."""

    def __init__(self, wrapper: Wrapper, name: str, words: Sequence[str], at: int) -> None:
        self.wrapper, self.name, self.words, self.at = wrapper, name, list(words), at
        self.env: dict[str, str] = {}
        self.clean = "*" in wrapper.clears
        self.many = name if "" in wrapper.ranks else ""
        self.text = ""
        self.left = 0  # words that may be the value of the option in front of them
        self.guessed = False

    def inner(self, fed: str) -> Inner | None:
        if self.wrapper.marked:
            if "--" not in self.words:
                return None
            self.at = self.words.index("--") + 1
        else:
            self.options()
        told = {"env": self.env, "clean": self.clean, "many": self.many, "away": self.wrapper.away}
        if self.text:
            return Inner(text=self.text, **told)  # type: ignore[arg-type]
        rest = self.words[self.at + self.wrapper.operands :]
        if not rest and self.wrapper.fed and fed:
            return Inner(text=fed, **told)  # type: ignore[arg-type]
        if not rest or (self.wrapper.ranks and ":" in rest):  # ``mpirun A : B`` are two commands
            return None
        if self.wrapper.text:
            return Inner(text=" ".join(rest), **told)  # type: ignore[arg-type]
        operands = self.words[self.at : self.at + self.wrapper.operands]
        if (self.guessed or any(map(starts, operands))) and not starts(rest[0]):
            return None
        if self.wrapper.python:
            return Inner(("python", *rest), implied=1, **told)  # type: ignore[arg-type]
        return Inner(tuple(rest), **told)  # type: ignore[arg-type]

    def options(self) -> None:
        left = self.wrapper.operands
        while self.at < len(self.words):
            word = self.words[self.at]
            if "" in self.wrapper.sets and re.match(r"[A-Za-z_]\w*=", word):
                self.set(word)
            elif word == "--":
                self.at += 1
                return
            elif not word.startswith("-") and word not in self.wrapper.clears:
                if left and self.wrapper.operands == 9:  # an option holds its command
                    self.at += 1
                    continue
                if self.left and not left and not starts(word):
                    self.at, self.left = self.at + 1, 0
                    continue
                return
            elif word in ("-m", "--module") and self.wrapper.python:
                return
            else:
                self.option(word)
            self.at += 1

    def option(self, word: str) -> None:
        wrapper = self.wrapper
        option, equals, value = word.partition("=")
        self.left = 0
        short = "" if word.startswith("--") else word[:2]
        if word in wrapper.clears:
            self.clean = True
        elif word in wrapper.pairs:
            self.at += 2
        elif not equals and self.takes(word):
            self.at += 1
            value = self.words[self.at] if self.at < len(self.words) else ""
        elif not equals and short != word and self.takes(short) and not self.takes(word):
            option, value = short, word[2:]
        elif not equals and short != word and self.takes(f"-{word[-1]}") and short:
            option = f"-{word[-1]}"
            self.at += 1
            value = self.words[self.at] if self.at < len(self.words) else ""
        elif not equals and word not in wrapper.flags:
            self.left, self.guessed = 1, True
        if wrapper.valued is None and starts(value):
            self.guessed = True
        if option in wrapper.holds:
            self.text = value
        elif option in wrapper.sets:
            self.set(value)
        elif option in wrapper.ranks:
            self.many = "" if value == "1" else self.name

    def takes(self, option: str) -> bool:
        wrapper = self.wrapper
        if option in wrapper.holds or (option and option in wrapper.sets):
            return True
        if wrapper.valued is None:
            alone = option in wrapper.flags or (len(option) > 2 and option[1] != "-")
            return not alone and option not in wrapper.clears
        return option in wrapper.valued

    def set(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if equals:
            self.env[name] = value
