"""Programs that turn text into text: ``cut``, ``tr``, ``grep``, … in their plain forms."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.check.shell import patterns
from vlmguard.check.shell.state import LONGEST, State

Result = tuple[int, str] | None
Words = Sequence[str]


def wc(words: Words, stdin: str, state: State) -> Result:
    flags, paths = flags_of(words)
    text = input_of(paths, stdin, state)
    if text is None or set(flags) - set("lwcm") or len(flags) != 1:
        return None
    kind = next(iter(flags))
    count = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode()),
             "m": len(text)}[kind]  # fmt: skip
    return 0, f"{count}{' ' + paths[0] if paths else ''}\n"


def cat(words: Words, stdin: str, state: State) -> Result:
    if any(word.startswith("-") and word != "-" for word in words):
        return None
    text = input_of(words, stdin, state)
    return None if text is None else (0, text)


def head(words: Words, stdin: str, state: State, last: bool = False) -> Result:
    words = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in words]
    flags, paths = flags_of(words, "nc")
    count = flags.get("n", flags.get("lines", "10"))
    text = input_of(paths, stdin, state)
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
    flags, paths = flags_of(words, "dfc")
    text = input_of(paths, stdin, state)
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
    flags, sets = flags_of(words)
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
    flags, paths = flags_of(words)
    text = input_of(paths, stdin, state)
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
    flags, rest = flags_of(words, "e")
    if set(flags) - set("qcvoiEFews") or (not rest and "e" not in flags):
        return None
    pattern = flags.get("e") or rest.pop(0)
    text = input_of(rest, stdin, state)
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
    flags, rest = flags_of(words, "F")
    found = re.fullmatch(
        r"\s*\{\s*print\s+(\$\d+|\$NF|NF|\$0)\s*;?\s*\}\s*", rest[0] if rest else ""
    )
    text = input_of(rest[1:], stdin, state)
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
    flags, rest = flags_of(words, "e")
    script = flags.get("e") or (rest.pop(0) if rest else "")
    found = re.fullmatch(r"s([/|,#:])((?:(?!\1)[\w .,:=*^$/@-])*)\1((?:(?!\1)[\w .,:=/@-])*)\1(g?)",
                         script)  # fmt: skip
    text = input_of(rest, stdin, state)
    if set(flags) - {"e", "E", "r"} or not found or text is None:
        return None
    pattern = patterns.regex(found[2])
    lines = [pattern.sub(lambda _: found[3], line, 0 if found[4] else 1)
             for line in text.splitlines()]  # fmt: skip
    return 0, "".join(line + "\n" for line in lines)


def flags_of(words: Words, valued: str = "") -> tuple[dict[str, str], list[str]]:
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


def input_of(paths: Words, stdin: str, state: State) -> str | None:
    texts = [stdin if path == "-" else state.read(path) for path in paths] if paths else [stdin]
    if any(text is None for text in texts):
        return None
    return "".join(text or "" for text in texts)[:LONGEST]
