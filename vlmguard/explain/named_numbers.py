"""Numbers of a failure's message: sizes that do not divide, ranks then and now, what would fit."""

from __future__ import annotations

import math
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


_ROUND = re.compile(r"found (\d{1,7}), which is not a round multiple of (\d{1,7})")
_LONGEST = re.compile(r"estimated maximum model length is (\d{2,7})")
_FREE = re.compile(r"Free memory on device \S{0,8} ?\(([\d.]{1,8})/([\d.]{1,8}) GiB\)")
_ASSIGNED = re.compile(
    r"Attempted to assign (?:[\d+ ]{1,200}= )?(\d{1,7}) multimodal tokens to (\d{1,7}) placeholders"
)
_PARALLEL = re.compile(r"tensor_parallel_size \((\d{1,4})\) must divide world size \((\d{1,5})\)")
_CARDS = re.compile(r"n_gpu: (\d{1,3}), local_world_size: 1\b")
HELD = 0.25  # of a card; with less of it free no engine starts


def fitting(said: str) -> dict[str, str]:
    """The numbers that a check would take in place of those that it refuses."""
    found = {}
    if match := _ROUND.search(said):
        steps, each = int(match[1]), max(int(match[2]), 1)
        found["savesteps"] = str(max(round(steps / each), 1) * each)
    if match := _CARDS.search(said):
        found["cardsseen"] = match[1]
    if match := _LONGEST.search(said):
        found["fitlength"] = match[1]
    if match := _FREE.search(said):
        share = float(match[1]) / max(float(match[2]), 0.1) - 0.02
        found["freeshare" if share >= HELD else "heldcard"] = f"{int(share * 100) / 100:.2f}"
    if match := _ASSIGNED.search(said):
        more = int(match[2]) > int(match[1])
        found["expanded" if more else "cutprompt"] = f"{match[2]}, {match[1]}"
    if match := _PARALLEL.search(said):
        found["tensorranks"] = str(math.gcd(int(match[1]), int(match[2])))
    return found
