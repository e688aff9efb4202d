"""A wrapper's words → the command that it starts, by `table`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vlmguard.check.wrappers.table import WRAPPERS, Wrapper


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


def unwrap(words: Sequence[str]) -> Inner | None:
    """The command behind one wrapper; None where ``words`` are none, or not in a form known here.

    Options that are not in the tables stand alone in one, and end it where what takes a value is
    not known.
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
        verb = next((v for v in wrapper.verbs if list(words[at:]) [: len(v.split())] == v.split()),
                    None)  # fmt: skip
        if verb is None:
            return None
        at += len(verb.split())
    return _Reader(wrapper, name, words, at).inner()


class _Reader:
    """One wrapper's options, left to right."""

    def __init__(self, wrapper: Wrapper, name: str, words: Sequence[str], at: int) -> None:
        self.wrapper, self.name, self.words, self.at = wrapper, name, list(words), at
        self.env: dict[str, str] = {}
        self.clean = "*" in wrapper.clears
        self.many = name if "" in wrapper.ranks else ""
        self.text = ""

    def inner(self) -> Inner | None:
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
        if not rest:
            return None
        if self.wrapper.text:
            return Inner(text=" ".join(rest), **told)  # type: ignore[arg-type]
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
                return
            elif word in ("-m", "--module") and self.wrapper.python:
                return
            else:
                self.option(word)
            self.at += 1

    def option(self, word: str) -> None:
        wrapper = self.wrapper
        option, equals, value = word.partition("=")
        short = "" if word.startswith("--") else word[:2]
        if word in wrapper.clears:
            self.clean = True
        elif not equals and self.takes(word):
            self.at += 1
            value = self.words[self.at] if self.at < len(self.words) else ""
        elif not equals and short != word and self.takes(short) and not self.takes(word):
            option, value = short, word[2:]
        elif not equals and short != word and self.takes(f"-{word[-1]}") and short:
            option = f"-{word[-1]}"
            self.at += 1
            value = self.words[self.at] if self.at < len(self.words) else ""
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
