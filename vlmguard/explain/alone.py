"""Work that a script says one rank does alone, while the others go on to the next collective."""

from __future__ import annotations

import re

_ONLY = re.compile(
    r"(?im)^[^\n]{0,300}\b(?:(?:rank ?0|main process|rank zero) only|"
    r"only (?:on |in )?(?:the )?(?:rank ?0|rank zero|main process))\b[^\n]{0,80}$"
)
_EVALUATES = re.compile(r"(?i)generat|answer|evaluat|predict|infer|decod|caption|metric|validat")
# A bar with a name in front: "docvqa_val:  35%|███▌      | 1899/5349".
_BAR = re.compile(
    r"(?m)(?:^|[\r\]] ?)([A-Za-z_]\w{2,40}): {1,6}\d{1,3}%\|[^|\n]{0,300}\| (\d{1,9})/(\d{1,9}) \["
)
_USUAL = ("Train", "Map", "Epoch", "train", "epoch", "Loading", "Evaluating", "Generating")
_WORD = re.compile(r"[a-z]{2,20}")


def passing(text: str, said: dict[str, str]) -> None:
    """Adds that line's own words, by which its code is found, and the bar behind it."""
    for match in _ONLY.finditer(text):
        words = _run(match[0].partition("(")[0].split())
        if not _EVALUATES.search(match[0]) or " " not in words:
            continue
        said["alonewords"] = words
        bars = [bar for bar in _BAR.findall(text, match.end()) if bar[0] not in _USUAL]
        if bars:
            said["alonebar"], said["alonerows"] = bars[-1][0], bars[-1][2]


def _run(tokens: list[str]) -> str:
    """The longest run of plain words: names and numbers are the log's, not the code's."""
    best: list[str] = []
    run: list[str] = []
    for token in tokens:
        run = [*run, token] if _WORD.fullmatch(token) else []
        best = run if len(run) > len(best) else best
    return " ".join(best)
