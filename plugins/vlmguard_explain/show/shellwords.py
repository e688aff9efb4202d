"""What is typed of a step, and the words about it: words are printed as a comment, behind "#"."""

from __future__ import annotations

import re

from vlmguard_explain.lazy import lazy, patterns, words

_P = patterns("show.shellwords")
_T = words("show.shellwords")

_CALL, _SET = lazy(r"[A-Za-z_][\w.]*\("), lazy(r"[A-Za-z_][\w.]* = ")
_MARKS = (": ", ", ", " (", "; ")


def split(said: str) -> tuple[str, str]:
    """(what is typed, the words about it); the first is empty where all of it is words."""
    said = codes(said)
    at = _typed(said)
    return said[:at].rstrip(), said[at:].lstrip(":,; ") if at else said


def codes(said: str) -> str:
    """``said`` with the command that shows a code's page beside each bare code."""
    said = _P.bracketed.sub(r"(vlmguard rule \1)", said)
    return _P.code.sub(r"\1 (vlmguard rule \1)", said)


def folded(typed: str, width: int) -> list[str]:
    """A command on lines of at most ``width``, where its spaces allow that."""
    spaces = [n for n, sign in enumerate(_P.quoted.sub(_mask, typed)) if sign == " "]
    lines, start = [], 0
    while len(typed) - start > width:
        at = max((n for n in spaces if start < n <= start + width - 2), default=0)
        if not at:
            break
        lines.append(f"{typed[start:at]} \\")
        start = at + 1
    return [*lines, typed[start:]]


def _typed(said: str) -> int:
    """How much of it is typed: a command, flags, a call, an assignment, pairs of YAML."""
    if _is_command(said):
        return _end(said, "shell")
    if said.startswith("--"):
        return _end(said, "flags")
    if _CALL.match(said):
        return _end(said, "call")
    if _P.setting.match(said):
        match = _P.in_front.search(said)
        return match.end() if match is not None else 0
    if _SET.match(said):
        return _end(said, "set") % len(said)
    match = _P.yaml.match(said)
    return match.end() if match is not None else 0


def _is_command(said: str) -> bool:
    """Whether a shell's command stands there: a program's name that is no English word here."""
    if _P.english.match(said):
        return True
    while setting := _P.setting.match(said):
        said = said[setting.end() :]
    match = _P.word.match(said)
    return match is not None and match[1] in _T.programs and _P.prose.match(said) is None


def _end(said: str, kind: str) -> int:
    """Where the words begin; 0 where a quote is left open in front of them."""
    bare = _masked(said)
    marked = (n for n, sign in enumerate(bare) if sign in ":,; " and _ends(said, n, kind))
    end = next(marked, len(said))
    return 0 if "'" in bare[:end] or '"' in bare[:end] else end


def _ends(said: str, n: int, kind: str) -> bool:
    """Whether what is typed is over at this sign."""
    if said[n : n + 2] in _MARKS or (kind == "call" and said[n] == " "):
        return not _goes_on(said[n], said[n + 2 :], kind)
    return said[n] == " " and _P.words.match(said, n) is not None


def _masked(said: str) -> str:
    """``said`` with "_" for what is inside of quotes and brackets."""
    said, before = _P.quoted.sub(_mask, said), ""
    while said != before:
        said, before = _P.brackets.sub(_mask, said), said
    return said


def _mask(match: re.Match[str]) -> str:
    return "_" * len(match[0])


def _goes_on(sign: str, behind: str, kind: str) -> bool:
    """Whether what stands behind this mark is typed, too."""
    if sign == ";" and kind == "shell":
        return _is_command(behind) or behind.startswith(("do ", "done"))
    if sign == ";" and kind == "set":
        return _SET.match(behind) is not None
    return sign == "," and kind == "flags" and behind.startswith("--")
