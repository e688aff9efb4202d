"""The edit that a line of the user's own code asks for, where Python's words and the line tell it.

Said in front of any look: each keeps what the line does wherever it did it before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"([A-Za-z_][\w.]{0,60}(?:\[[\w'\"]{1,40}\])?)"
_CALL = r"([\w.'\"\[\]]{1,60}(?:\(\))?)"  # a name, a key or a call without arguments


@dataclass(frozen=True)
class Edit:
    """Words of an exception, what the line holds, and the edit; groups of the line are {1}, {2}."""

    said: re.Pattern[str]
    code: re.Pattern[str]
    do: str


def _edit(said: str, code: str, do: str) -> Edit:
    return Edit(re.compile(said), re.compile(code), do)


_RESUME = "; then the same command (from the newest checkpoint, if there is one)"
_EDITS = (
    _edit(
        r"\b(?:max|min)\(\) (?:arg is an|iterable argument is) empty",
        rf"\b(max|min)\({_NAME}\)",
        "{where}: {1}({2}, default=0) in its place: {2} is empty here",
    ),
    _edit(
        r"list index out of range",
        rf"\b{_NAME}\[([a-z_]\w{{0,30}} ?\+ ?\d)\]",
        "{where}: {1}[min({2}, len({1}) - 1)] in its place: behind the last one there is no next",
    ),
    _edit(
        r"KeyError",
        rf"\b{_NAME}\.pop\({_CALL}\)",
        "{where}: {1}.pop({2}, None) in its place: it is not there (any more)",
    ),
    _edit(
        r"unsupported operand type\(s\) for [-+]=?: '\w{1,40}' and 'NoneType'",
        rf"[-+]=? ?{_NAME}\s*$",
        "{where}: ({1} or 0) in place of {1}, which is None; or give it a value where it is made",
    ),
    _edit(
        r"unsupported operand type\(s\) for [-+]=?: 'NoneType' and '\w{1,40}'",
        rf"(?:= ?|return ){_NAME} ?[-+] ",
        "{where}: ({1} or 0) in place of {1}, which is None; or give it a value where it is made",
    ),
    _edit(
        r"math range error",
        rf"\bmath\.exp\({_CALL}\)",
        "{where}: math.exp(min({1}, 50)) in its place: the number is too large for it",
    ),
    _edit(
        r"math domain error|expected a (?:positive|nonnegative) input",
        rf"\bmath\.(log\w{{0,3}})\({_CALL}\)",
        "{where}: math.{1}(max({2}, 1e-12)) in its place: there is no logarithm of 0 or less",
    ),
    _edit(
        r"math domain error|expected a (?:positive|nonnegative) input",
        rf"\bmath\.sqrt\({_CALL}\)",
        "{where}: math.sqrt(max({1}, 0)) in its place: it is a little below 0",
    ),
    _edit(
        r"could not convert string to float: ''|invalid literal for int\(\) with base 10: ''",
        rf"\b(float|int)\({_CALL}\)",
        "{where}: {1}({2} or 0) in its place: the text is empty here",
    ),
    _edit(
        r"^(?:\w{1,60}\.)?StopIteration",
        rf"(\w{{1,40}}) = next\({_NAME}\)",
        "{where}: {1} = next({2}, None), and if {1} is None: {2} = iter(LOADER); {1} = next({2}), "
        "with the loader that it was made of: it has no more batches",
    ),
    _edit(
        r"Sample larger than population",
        rf"\brandom\.sample\({_NAME}, ?{_CALL}\)",
        "{where}: random.sample({1}, min({2}, len({1}))) in its place: there are fewer",
    ),
    _edit(
        r"Total of weights must be greater than zero",
        rf"\bweights ?= ?{_NAME}",
        "{where}: weights={1} if sum({1}) > 0 else None in its place: all of them are 0",
    ),
    _edit(
        r"probabilities do not sum to 1|probabilities contain NaN",
        rf"\bp ?= ?{_NAME}",
        "{where}: p=np.asarray({1}, dtype=float) / np.sum({1}) in its place: rounded, they do not "
        "sum to 1 (a NaN among them: print({1}))",
    ),
    _edit(
        r"'NoneType' object has no attribute 'groups?'",
        r"\b([a-z_]\w{0,30})\.groups?\(",
        "if {1} is None: continue (return, outside of a loop), on a line in front of {where}: the "
        "pattern is not in this text",
    ),
    _edit(
        r"pop from (?:an )?empty (?:list|deque)",
        rf"\b{_NAME}\.(pop(?:left)?)\(\)",
        "{where}: {1}.{2}() if {1} else None, in its place, and what follows only where it is not "
        "None: nothing is left",
    ),
    _edit(
        r"modulo by zero|integer division",
        rf"(?:%|//) ?{_NAME}",
        "{where}: max({1}, 1) in its place: it is 0 here",
    ),
)


def edit(said: str, code: str, where: str) -> str:
    """The edit of ``code`` at ``where``, "" where none is known."""
    for one in _EDITS:
        if one.said.search(said) and (match := one.code.search(code.strip())):
            filled = one.do.replace("{where}", where).replace("{1}", match[1])
            return filled.replace("{2}", match[2] if one.code.groups > 1 else "") + _RESUME
    return ""
