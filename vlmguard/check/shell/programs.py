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
from collections.abc import Callable, Sequence

from vlmguard.check.shell import patterns
from vlmguard.check.shell.state import LONGEST, State
from vlmguard.check.shell.tree import NotUnderstood

Result = tuple[int, str] | None
Words = Sequence[str]


def _flags(words: Words, valued: str = "") -> tuple[dict[str, str], list[str]]:
    """Short flags (with values for those in ``valued``), and the operands."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            return flags, rest + words
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flags[name] = value
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in valued:
                    flags[letter] = letters or (words.pop(0) if words else "")
                    break
                flags[letter] = ""
        else:
            rest.append(word)
    return flags, rest


def _input(paths: Words, stdin: str, state: State) -> str | None:
    texts = [stdin if path == "-" else state.read(path) for path in paths] if paths else [stdin]
    if any(text is None for text in texts):
        return None
    return "".join(text or "" for text in texts)[:LONGEST]


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
    flags, rest = _flags([w for w in words if not re.fullmatch(r"-\d+", w)] if False else words,
                         "sf") if not any(re.fullmatch(r"-\d+", w) for w in words) else (
        {}, list(words))  # fmt: skip
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


def wc(words: Words, stdin: str, state: State) -> Result:
    flags, paths = _flags(words)
    text = _input(paths, stdin, state)
    if text is None or set(flags) - set("lwcm") or len(flags) != 1:
        return None
    kind = next(iter(flags))
    count = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode()),
             "m": len(text)}[kind]  # fmt: skip
    return 0, f"{count}{' ' + paths[0] if paths else ''}\n"


def cat(words: Words, stdin: str, state: State) -> Result:
    if any(word.startswith("-") and word != "-" for word in words):
        return None
    text = _input(words, stdin, state)
    return None if text is None else (0, text)


def head(words: Words, stdin: str, state: State, last: bool = False) -> Result:
    words = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in words]
    flags, paths = _flags(words, "nc")
    count = flags.get("n", flags.get("lines", "10"))
    text = _input(paths, stdin, state)
    if text is None or set(flags) - {"n", "lines"} or not re.fullmatch(r"\+?\d+", count):
        return None
    lines = text.splitlines(keepends=True)
    number = int(count.lstrip("+"))
    if last:
        kept = lines[max(number - 1, 0) :] if count.startswith("+") else lines[-number:]
        return 0, "".join(kept if number or count.startswith("+") else [])
    return 0, "".join(lines[:number])


def tail(words: Words, stdin: str, state: State) -> Result:
    return head(words, stdin, state, last=True)


def cut(words: Words, stdin: str, state: State) -> Result:
    flags, paths = _flags(words, "dfc")
    text = _input(paths, stdin, state)
    wanted = flags.get("f", flags.get("c", ""))
    if text is None or set(flags) - set("dfcs") or not re.fullmatch(r"[\d,-]+", wanted):
        return None
    lines = []
    for line in text.splitlines():
        between = flags.get("d", "\t") if "f" in flags else ""
        if "f" in flags and between not in line:
            lines.append(line)
            continue
        pieces = line.split(between) if between else list(line)
        lines.append(between.join(_picked(pieces, wanted)))
    return 0, "".join(line + "\n" for line in lines)


def _picked(pieces: list[str], wanted: str) -> list[str]:
    chosen: set[int] = set()
    for item in wanted.split(","):
        first, dash, last = item.partition("-")
        start = int(first or 1)
        stop = min(int(last or len(pieces)), len(pieces)) if dash else start
        chosen.update(range(start, stop + 1))
    return [piece for number, piece in enumerate(pieces, 1) if number in chosen]


def tr(words: Words, stdin: str, state: State) -> Result:
    flags, sets = _flags(words)
    if set(flags) - set("ds") or not sets:
        return None
    first = _characters(sets[0])
    if "d" in flags:
        return 0, "".join(c for c in stdin if c not in first)
    if len(sets) < 2:
        return None
    second = _characters(sets[1])
    if not second:
        return None
    second += second[-1] * max(len(first) - len(second), 0)
    return 0, stdin.translate({ord(a): b for a, b in zip(first, second, strict=False)})


def _characters(text: str) -> str:
    text = text.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z").replace("[:digit:]", "0-9")
    text = text.replace("[:space:]", " \t\n\r").replace("\\n", "\n").replace("\\t", "\t")
    row = lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1)))  # noqa: E731
    return re.sub(r"(\w)-(\w)", row, text)


def sort(words: Words, stdin: str, state: State) -> Result:
    flags, paths = _flags(words)
    text = _input(paths, stdin, state)
    if text is None or set(flags) - set("nru"):
        return None
    lines = text.splitlines()
    lines = list(dict.fromkeys(lines)) if "u" in flags else lines

    def number(line: str) -> float:
        found = re.match(r"\s*-?\d+(\.\d+)?", line)
        return float(found[0]) if found else 0.0

    lines.sort()
    if "n" in flags:
        lines.sort(key=number)
    if "r" in flags:
        lines.reverse()
    return 0, "".join(line + "\n" for line in lines)


def uniq(words: Words, stdin: str, state: State) -> Result:
    if words:
        return None
    lines = stdin.splitlines()
    kept = [line for n, line in enumerate(lines) if n == 0 or line != lines[n - 1]]
    return 0, "".join(line + "\n" for line in kept)


def grep(words: Words, stdin: str, state: State) -> Result:
    flags, rest = _flags(words, "e")
    if set(flags) - set("qcvoiEFews") or (not rest and "e" not in flags):
        return None
    pattern = flags.get("e") or rest.pop(0)
    text = _input(rest, stdin, state)
    if text is None or len(rest) > 1:
        return None
    if "F" in flags:
        pattern = re.escape(pattern)
    elif "E" not in flags and re.search(r"[\\+?|(){}]", pattern):
        return None
    if "w" in flags:
        pattern = rf"\b(?:{pattern})\b"
    found = patterns.regex(pattern, re.I if "i" in flags else 0)
    lines = [
        line for line in text.splitlines() if bool(found.search(line[:4000])) != ("v" in flags)
    ]
    status = int(not lines)
    if "q" in flags:
        return status, ""
    if "c" in flags:
        return status, f"{len(lines)}\n"
    if "o" in flags:
        lines = [match[0] for line in lines for match in found.finditer(line)]
    return status, "".join(line + "\n" for line in lines)


def awk(words: Words, stdin: str, state: State) -> Result:
    """``awk [-F x] '{print $N}'``, ``{print NF}``: no other program of awk is known here."""
    flags, rest = _flags(words, "F")
    found = re.fullmatch(
        r"\s*\{\s*print\s+(\$\d+|\$NF|NF|\$0)\s*;?\s*\}\s*", rest[0] if rest else ""
    )
    text = _input(rest[1:], stdin, state)
    if set(flags) - {"F"} or not found or text is None:
        return None
    between = flags.get("F", "").replace("\\t", "\t")
    if len(between) > 1:
        return None
    lines = []
    for line in text.splitlines():
        pieces = line.split(between) if between else line.split()
        wanted = found[1]
        if wanted == "NF":
            lines.append(str(len(pieces)))
        elif wanted == "$0":
            lines.append(line)
        else:
            number = len(pieces) if wanted == "$NF" else int(wanted[1:])
            lines.append(pieces[number - 1] if 0 < number <= len(pieces) else "")
    return 0, "".join(line + "\n" for line in lines)


def sed(words: Words, stdin: str, state: State) -> Result:
    """``sed 's/a/b/g'`` of plain letters: nothing that writes or executes is known here."""
    flags, rest = _flags(words, "e")
    script = flags.get("e") or (rest.pop(0) if rest else "")
    found = re.fullmatch(r"s([/|,#:])((?:(?!\1)[\w .,:=*^$/@-])*)\1((?:(?!\1)[\w .,:=/@-])*)\1(g?)",
                         script)  # fmt: skip
    text = _input(rest, stdin, state)
    if set(flags) - {"e", "E", "r"} or not found or text is None:
        return None
    pattern = patterns.regex(found[2])
    lines = [pattern.sub(lambda _: found[3], line, 0 if found[4] else 1)
             for line in text.splitlines()]  # fmt: skip
    return 0, "".join(line + "\n" for line in lines)


def ls(words: Words, stdin: str, state: State) -> Result:
    flags, paths = _flags(words)
    if set(flags) - set("1Ad") or len(paths) > 1:
        return None
    path = state.path(paths[0] if paths else ".")
    if not os.path.isdir(path):
        return (0, paths[0] + "\n") if paths and state.kind(path) else (2, "")
    names = sorted(n for n in os.listdir(path) if "A" in flags or not n.startswith("."))
    return 0, "".join(name + "\n" for name in names)


def realpath(words: Words, stdin: str, state: State) -> Result:
    flags, paths = _flags(words)
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
    known = {("-u",): lambda: str(os.getuid()), ("-g",): lambda: str(os.getgid()),
             ("-un",): getpass.getuser}  # fmt: skip
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
