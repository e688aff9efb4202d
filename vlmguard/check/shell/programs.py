"""Programs that only read, answered here without starting them.

Each takes (arguments, standard input, state) and gives (status, output), or None where this form
of it is not known: then the program is skipped like any other.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import shutil
import time
from collections.abc import Callable

from vlmguard.check.shell.filters import (
    Result,
    Words,
    awk,
    cat,
    cut,
    flags_of,
    grep,
    head,
    sed,
    sort,
    tail,
    tr,
    uniq,
    wc,
)
from vlmguard.check.shell.state import State
from vlmguard.check.shell.tree import NotUnderstood


def basename(words: Words, stdin: str, state: State) -> Result:
    if not words or words[0].startswith("-"):
        return None
    name = os.path.basename(words[0].rstrip("/")) or "/"
    if len(words) > 1 and name != words[1]:
        name = name.removesuffix(words[1])
    return 0, name + "\n"


def dirname(words: Words, stdin: str, state: State) -> Result:
    words = [word for word in words if word != "--"]
    if not words or words[0].startswith("-"):
        return None
    return 0, "".join((os.path.dirname(word.rstrip("/")) or ".") + "\n" for word in words)


def date(words: Words, stdin: str, state: State) -> Result:
    shapes = [word[1:] for word in words if word.startswith("+")]
    if any(not word.startswith("+") and word not in ("-u", "--utc") for word in words):
        return None
    moment = time.gmtime() if set(words) & {"-u", "--utc"} else time.localtime()
    shape = (shapes or ["%a %b %e %H:%M:%S %Z %Y"])[0].replace("%N", "000000000")
    return 0, time.strftime(shape.replace("%s", str(int(time.time()))), moment) + "\n"


def seq(words: Words, stdin: str, state: State) -> Result:
    if any(re.fullmatch(r"-\d+", word) for word in words):
        flags: dict[str, str] = {}
        rest = list(words)
    else:
        flags, rest = flags_of(words, "sf")
    if set(flags) - {"s"} or not rest or not all(re.fullmatch(r"-?\d+", word) for word in rest):
        return None
    numbers = [int(word) for word in rest]
    first, step, last = {1: (1, 1, numbers[-1]), 2: (numbers[0], 1, numbers[-1])}.get(
        len(numbers), (numbers[0], numbers[1] if len(numbers) > 2 else 1, numbers[-1])
    )
    if step == 0 or abs(last - first) // abs(step) > 10_000:
        return None
    row = range(first, last + (1 if step > 0 else -1), step)
    text = flags.get("s", "\n").join(map(str, row))
    return 0, text + "\n" if text else ""


def expr(words: Words, stdin: str, state: State) -> Result:
    if len(words) == 3 and re.fullmatch(r"-?\d+", words[0]) and re.fullmatch(r"-?\d+", words[2]):
        from vlmguard.check.shell import arith

        op = {"=": "=="}.get(words[1], words[1])
        if op in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!="):
            value = arith.evaluate(f"({words[0]}) {op} ({words[2]})", state)
            return int(value == 0), f"{value}\n"
    if len(words) == 2 and words[0] == "length":
        return int(not words[1]), f"{len(words[1])}\n"
    if len(words) > 3 and all(re.fullmatch(r"\d+|[-+*/%()]", word) for word in words):
        from vlmguard.check.shell import arith

        value = arith.evaluate(" ".join(words), state)
        return int(value == 0), f"{value}\n"
    return None


def ls(words: Words, stdin: str, state: State) -> Result:
    flags, paths = flags_of(words)
    if set(flags) - set("1Ad") or len(paths) > 1:
        return None
    path = state.path(paths[0] if paths else ".")
    if not os.path.isdir(path):
        return (0, paths[0] + "\n") if paths and state.kind(path) else (2, "")
    names = sorted(n for n in os.listdir(path) if "A" in flags or not n.startswith("."))
    return 0, "".join(name + "\n" for name in names)


def realpath(words: Words, stdin: str, state: State) -> Result:
    flags, paths = flags_of(words)
    if set(flags) - set("fmesq") or len(paths) != 1:
        return None
    return 0, os.path.realpath(state.path(paths[0])) + "\n"


def readlink(words: Words, stdin: str, state: State) -> Result:
    return realpath(words, stdin, state) if set(words) & {"-f", "-m", "-e"} else None


def which(words: Words, stdin: str, state: State) -> Result:
    found = [shutil.which(word, path=state.text("PATH")) for word in words if word[:1] != "-"]
    return int(not all(found)), "".join(f"{name}\n" for name in found if name)


def printenv(words: Words, stdin: str, state: State) -> Result:
    if len(words) != 1:
        return None
    value = state.env.get(words[0])
    return (1, "") if value is None else (0, value + "\n")


def _fixed(give: Callable[[], str], allowed: str = "") -> Callable[[Words, str, State], Result]:
    def answer(words: Words, stdin: str, state: State) -> Result:
        return None if any(word not in allowed.split() for word in words) else (0, give() + "\n")

    return answer


def _id(words: Words, stdin: str, state: State) -> Result:
    known: dict[tuple[str, ...], Callable[[], str]] = {
        ("-u",): lambda: str(os.getuid()),
        ("-g",): lambda: str(os.getgid()),
        ("-un",): getpass.getuser,
    }
    give = known.get(tuple(words))
    return None if give is None else (0, give() + "\n")


PROGRAMS: dict[str, Callable[[Words, str, State], Result]] = {
    "basename": basename, "dirname": dirname, "date": date, "seq": seq, "expr": expr, "wc": wc,
    "cat": cat, "head": head, "tail": tail, "cut": cut, "tr": tr, "sort": sort, "uniq": uniq,
    "grep": grep, "egrep": lambda w, i, s: grep(["-E", *w], i, s),
    "fgrep": lambda w, i, s: grep(["-F", *w], i, s), "awk": awk, "sed": sed, "ls": ls,
    "realpath": realpath, "readlink": readlink, "which": which, "printenv": printenv, "id": _id,
    "nproc": _fixed(lambda: str(os.cpu_count() or 1)),
    "hostname": _fixed(platform.node, "-s -f"), "whoami": _fixed(getpass.getuser),
    "uname": _fixed(platform.system, "-s"), "arch": _fixed(platform.machine),
}  # fmt: skip


def answer(name: str, words: Words, stdin: str, state: State) -> Result:
    """What the program would say; None if it is unknown in this form."""
    program = PROGRAMS.get(name)
    if program is None:
        return None
    try:
        return program(words, stdin, state)
    except (NotUnderstood, OSError, ValueError, KeyError):
        return None
