"""Builtins that set variables, and assignments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vlmguard.check.shell import arith
from vlmguard.check.shell.state import Array, State, known
from vlmguard.check.shell.strings import split
from vlmguard.check.shell.tree import Assignment, NotUnderstood

if TYPE_CHECKING:
    from vlmguard.check.shell.machine import Machine

Status = int | None


def export_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    remove = "-n" in words
    if "-f" in words:
        return 0
    for word in words:
        if word.startswith("-"):
            continue
        (state.exported.discard if remove else state.exported.add)(word)
    return 0


def declare_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    if set(flags) - set("aAixrgltu") or any(word.startswith("+") for word in words):
        if set(flags) & set("pfF"):
            return 0
        raise NotUnderstood(f"declare {' '.join(words)[:40]}")
    if "u" in flags or "l" in flags:
        raise NotUnderstood("declare -u or -l")
    for name in words:
        if name.startswith("-"):
            continue
        if state.scopes and "g" not in flags and name not in state.scopes[-1]:
            state.localise(name, state.get(name))
            state.variables.pop(name, None)
        if "A" in flags and not isinstance(state.get(name), Array):
            state.set(name, Array(named=True))
        elif "a" in flags and state.get(name) is None:
            state.set(name, Array())
        elif "i" in flags and isinstance(state.get(name), str):
            state.set(name, str(arith.evaluate(state.text(name), state)))
        if "x" in flags:
            state.exported.add(name)
    return 0


def readonly_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    return 0


def unset_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    for word in words:
        if word.startswith("-"):
            continue
        found = re.fullmatch(r"(\w+)\[(.+)\]", word)
        if found:
            value = state.get(found[1])
            if isinstance(value, Array):
                value.items.pop(found[2], None)
        elif "-f" in words:
            state.functions.pop(word, None)
        else:
            state.variables.pop(word, None)
            state.exported.discard(word)
    return 0


def read_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    array = ""
    names: list[str] = []
    between = "\n"
    words = list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or len(word) < 2:
            names.append(word)
        elif word[-1] == "a" and words:
            array = words.pop(0)
        elif word[-1] == "d" and words:
            between = words.pop(0)[:1] or "\0"
        elif word[-1] in "ptnNu" and words:
            words.pop(0)
    rest = machine.stdin.take(between)
    if rest is None:
        for name in names or ["REPLY"]:
            state.set(name, "")
        return 1
    separators = state.text("IFS", " \t\n")
    if array:
        pieces, _, _ = split(rest, separators)
        state.set(array, Array({str(n): piece for n, piece in enumerate(pieces)}))
        return 0
    names = names or ["REPLY"]
    for name in names[:-1]:
        pieces, _, _ = split(rest, separators)
        first = pieces[0] if pieces else ""
        rest = rest.lstrip(" \t")[len(first) :]
        rest = rest[1:] if rest[:1] and rest[:1] in separators else rest
        state.set(name, first)
    state.set(names[-1], rest.strip(" \t") if separators.strip() != separators else rest)
    return 0


def mapfile_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    names = [word for word in words if not word.startswith("-")]
    trim = any(word.startswith("-") and "t" in word for word in words)
    if any(word.startswith("-") and set(word[1:]) - {"t"} for word in words):
        raise NotUnderstood("mapfile with options")
    text = machine.stdin.rest()
    lines = text.splitlines(keepends=not trim)
    state.set(names[0] if names else "MAPFILE", Array({str(n): v for n, v in enumerate(lines)}))
    return 0


def getopts_(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    if len(words) < 2 or not all(known(word) for word in (*words, *state.arguments)):
        raise NotUnderstood("getopts of what is not known")
    letters, name = words[:2]
    given = list(words[2:]) or list(state.arguments)
    at = int(state.text("OPTIND", "1") or 1)
    state.variables.pop("OPTARG", None)
    word = given[at - 1] if at <= len(given) else ""
    if not re.fullmatch(r"-\w.*", word, re.S):
        state.set(name, "?")
        state.set("OPTIND", str(at + (word == "--")))
        return 1
    letter, rest = word[1], word[2:]
    wants = letter in letters and letters[letters.index(letter) + 1 :][:1] == ":"
    if rest and not wants:
        raise NotUnderstood("getopts with several letters in one word")
    at += 1
    if wants and not rest:
        rest = given[at - 1] if at <= len(given) else ""
        at += 1
    state.set(name, letter if letter in letters else "?")
    if wants:
        state.set("OPTARG", rest)
    state.set("OPTIND", str(at))
    return 0


def assign(machine: Machine, one: Assignment, state: State) -> None:
    """``name=value`` in all its forms."""
    expander = machine.expander
    if one.elements is not None:
        _elements(machine, one, state)
        return
    text = expander.text(one.value, state)
    if one.index is None:
        before = state.get(one.name)
        if isinstance(before, Array):
            before.items["0"] = (before.items.get("0", "") if one.append else "") + text
            return
        state.set(one.name, (before or "") + text if one.append else text)
        return
    value = state.get(one.name)
    if not isinstance(value, Array):
        value = Array({} if value is None else {"0": value})
        state.set(one.name, value)
    key = expander.text(one.index, state)
    if not value.named:
        try:
            key = str(arith.evaluate(key, state))
        except arith.Unknown:
            raise NotUnderstood(f"{one.name}[…] with an index that is not known") from None
    value.items[key] = (value.items.get(key, "") if one.append else "") + text


def _elements(machine: Machine, one: Assignment, state: State) -> None:
    before = state.get(one.name)
    named = isinstance(before, Array) and before.named
    items: dict[str, str] = {}
    if one.append and before is not None:
        items = dict(before.items) if isinstance(before, Array) else {"0": before}
    next_ = max((int(key) for key in items if not named), default=-1) + 1
    for index, word in one.elements or ():
        if index is not None:
            key = machine.expander.text(index, state)
            key = key if named else str(arith.evaluate(key, state))
            items[key] = machine.expander.text(word, state)
            next_ = next_ if named else int(key) + 1
            continue
        for text in machine.expander.fields(word, state):
            items[str(next_)] = text
            next_ += 1
    state.set(one.name, Array(items, named))
