"""The shell's own commands. What changes a process, a signal or a limit is left out, unsaid."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from vlmguard.check.shell import arith, conditions, variables
from vlmguard.check.shell.state import State, known, marks
from vlmguard.check.shell.tree import NotUnderstood

if TYPE_CHECKING:
    from vlmguard.check.shell.machine import Machine

Status = int | None


class Leave(Exception):
    """``exit``, ``return``, ``break``, ``continue``."""

    def __init__(self, kind: str, count: int = 1) -> None:
        super().__init__(kind)
        self.kind = kind
        self.count = count


def _echo(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    newline, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flag = words.pop(0)
        newline = "" if "n" in flag else newline
        escapes = "e" in flag or (escapes and "E" not in flag)
    text = " ".join(words)
    machine.say((_escaped(text) if escapes else text) + newline)
    return 0


def _escaped(text: str) -> str:
    table = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b"}
    return re.sub(r"\\([ntr\\ab])", lambda m: table[m[1]], text)


def _printf(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    name = ""
    if words[:1] == ["-v"]:
        name = words[1]
        words = words[2:]
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        return 1
    text = _formatted(words[0], words[1:])
    if name:
        state.set(name, text)
    else:
        machine.say(text)
    return 0


_SPEC = r"%|([-+ 0#]*)(\d{0,4})(?:\.(\d{0,4}))?([sdibqxXoeEfgGcu])"


def _formatted(shape: str, values: list[str]) -> str:
    if not known(shape):
        return marks(shape)
    if re.search(rf"%(?!{_SPEC})", shape):
        raise NotUnderstood(f"printf {shape[:30]!r}")
    shape = _escaped(shape)
    queue = list(values)

    def one(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        value = queue.pop(0) if queue else ""
        kind = found[5]
        if not known(value):
            return value
        width = f"%{found[2]}{found[3]}"
        if kind in "diu":
            return str(f"{width}d" % _whole(value))
        if kind in "xXo":
            return str(f"{width}{kind}" % _whole(value))
        if kind in "eEfgG":
            return str(f"{width}{'.' + found[4] if found[4] else ''}{kind}" % float(value or 0))
        value = _escaped(value) if kind == "b" else value[:1] if kind == "c" else value
        cut = value[: int(found[4])] if found[4] else value
        return str(f"%{found[2].replace('0', '')}{found[3]}s" % cut)

    text = ""
    for _ in range(1000):
        text += re.sub(f"%({_SPEC})", one, shape)
        if not queue or not re.search(r"%[^%]", shape):
            return text
    raise NotUnderstood("printf of more than a thousand values")


def _whole(text: str) -> int:
    return int(text, 0) if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text) else 0


def _cd(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    words = [word for word in words if word not in ("-P", "-L", "--", "-e")]
    target = words[0] if words else state.text("HOME", "/")
    target = state.text("OLDPWD", ".") if target == "-" else target
    if not known(target):
        machine.remark("cd to a folder that is not known")
        return None
    path = state.path(target)
    if state.kind(path) != "folder":
        machine.remark(f"cd: there is no folder {target} here")
    state.set("OLDPWD", state.folder)
    state.folder = path
    state.set("PWD", path)
    return 0


def _pwd(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    machine.say(state.folder + "\n")
    return 0


def _pushd(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    return _cd(machine, words, state, stdin) if words else 0


def _popd(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    return _cd(machine, ["-"], state, stdin)


def _set(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    while words and re.fullmatch(r"[-+][a-zA-Z]+", words[0]):
        flag = words.pop(0)
        if flag[1:].endswith("o") and words:
            words.pop(0)
    if words and words[0] == "--":
        state.arguments = tuple(words[1:])
    elif words:
        state.arguments = tuple(words)
    return 0


def _shift(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    count = int(words[0]) if words and words[0].isdigit() else 1
    if count > len(state.arguments):
        return 1
    state.arguments = state.arguments[count:]
    return 0


def _test(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    return status(conditions.test(words, state))


def _bracket(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    if words[-1:] != ["]"]:
        raise NotUnderstood("[ without its ]")
    return status(conditions.test(words[:-1], state))


def status(answer: bool | None) -> Status:
    return None if answer is None else int(not answer)


def _let(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    value = 0
    for word in words:
        try:
            value = arith.evaluate(word, state)
        except arith.Unknown:
            return None
    return int(value == 0)


def _leave(kind: str) -> Callable[[Machine, list[str], State, str], Status]:
    def act(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
        number = int(words[0]) if words and words[0].isdigit() else None
        state.status = number if number is not None else state.status
        raise Leave(kind, number or 1)

    return act


def _eval(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    text = " ".join(words)
    if not known(text):
        machine.refuse(f"eval of something that is not known: {machine.trace.shown(text)[:80]}")
        return None
    return machine.source(text, state)


def _source(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    if not words or not known(words[0]):
        machine.refuse("source of a file that is not known")
        return None
    text = state.read(words[0])
    if text is None:
        if words[0].endswith(".sh"):  # it may hold commands, where a profile holds settings
            return machine.met(["source", words[0]], state)
        machine.remark(f"source {words[0]}: cannot be read here")
        return None
    before = state.arguments
    state.arguments = tuple(words[1:]) or before
    try:
        return machine.inside(text, state, words[0])
    except Leave as leave:
        if leave.kind != "return":
            raise
        return state.status
    finally:
        state.arguments = before


def _type(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    from vlmguard.check.shell.programs import which

    names = [word for word in words if not word.startswith("-")]
    if all(name in BUILTINS or name in state.functions for name in names):
        machine.say("".join(name + "\n" for name in names))
        return 0
    found = which(names, "", state)
    machine.say(found[1] if found else "")
    return found[0] if found else 1


def _nothing(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    return 0


def _false(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    return 1


def _alias(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    if words:
        machine.remark("aliases are not followed: a script has none unless it asks for them")
    return 0


def _shopt(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    if "-s" in words and set(words) & {"expand_aliases", "extglob"}:
        machine.refuse(f"shopt {' '.join(words)}: bash then reads the script in another way")
    elif "-s" in words:
        machine.remark(f"shopt {' '.join(words)} is not followed")
    return 0


def _trap(machine: Machine, words: list[str], state: State, stdin: str) -> Status:
    """What a trap would run is met as something that may run."""
    if len(words) > 1 and words[0] not in ("-", "") and not words[0].startswith("-"):
        before, machine.out = machine.out, []
        with contextlib.suppress(Leave):
            machine.source(words[0], state.copy(certain=False))
        machine.out = before
    return 0


BUILTINS: dict[str, Callable[[Machine, list[str], State, str], Status]] = {
    "echo": _echo, "printf": _printf, "cd": _cd, "pwd": _pwd, "pushd": _pushd, "popd": _popd,
    "export": variables.export_, "declare": variables.declare_, "typeset": variables.declare_,
    "local": variables.declare_, "readonly": variables.readonly_, "unset": variables.unset_,
    "read": variables.read_, "mapfile": variables.mapfile_, "readarray": variables.mapfile_,
    "set": _set, "shift": _shift, "test": _test, "[": _bracket, "let": _let,
    "exit": _leave("exit"), "return": _leave("return"), "break": _leave("break"),
    "continue": _leave("continue"), "eval": _eval, "source": _source, ".": _source,
    "type": _type, "hash": _nothing, "true": _nothing, ":": _nothing, "false": _false,
    "wait": _nothing, "trap": _trap, "ulimit": _nothing, "umask": _nothing, "jobs": _nothing,
    "disown": _nothing, "kill": _nothing, "alias": _alias, "unalias": _nothing,
    "shopt": _shopt, "enable": _nothing, "times": _nothing, "getopts": variables.getopts_,
    "sleep": _nothing, "fg": _nothing, "bg": _nothing, "history": _nothing, "complete": _nothing,
    "clear": _nothing, "logout": _leave("exit"), "caller": _false, "bind": _nothing,
}  # fmt: skip
