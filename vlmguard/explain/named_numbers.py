"""Numbers of a failure's message: sizes that do not divide, ranks then and now."""

from __future__ import annotations

import re

_NUMBERS = re.compile(
    r"(\d{1,6})[^\d\n]{0,30}(?:divisible by|chunk)[^\d\n]{0,24}(\d{1,6})[^\d\n]{0,20}(\d{0,6})"
)
_WORLDS = re.compile(
    r"world size(?: of)?:? ?\(?(\d{1,5})\)?\D{1,60}world size(?: is| of)?:? ?\(?(\d{1,5})\b"
    r"|(\d{1,5}) (?:does not|doesn't) match (?:the )?current world size:? ?\(?(\d{1,5})\b"
)


def other_port(port: int) -> str:
    """The next one, or the usual one's next where there is none."""
    return str(port + 1) if 1023 < port < 65535 else "29501"


def divisors(said: str) -> str:
    """What the first of the numbers divides by, as a list."""
    match = re.match(r"\d{1,5}", numbers(said))
    whole = int(match[0]) if match else 0
    return ", ".join(str(n) for n in range(1, whole + 1) if whole % n == 0) if whole < 4096 else ""


def numbers(said: str) -> str:
    """The numbers of which one does not divide the other, as the message has them."""
    match = _NUMBERS.search(said)
    return ", ".join(n for n in match.groups() if n) if match else ""


def ranks(said: str) -> dict[str, str]:
    """Of how many ranks a checkpoint is, and how many are here."""
    match = _WORLDS.search(said)
    if match is None:
        return {}
    return {"savedranks": match[1] or match[3], "ranksnow": match[2] or match[4]}
