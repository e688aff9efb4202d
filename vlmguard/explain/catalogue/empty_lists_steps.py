"""Rows whose list has nothing in it (VG554), where the line of code names the key."""

from __future__ import annotations

import re

from vlmguard.explain import given, looks
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

_EMPTY = ("division by zero", "list index out of range", "Cannot choose from an empty sequence")
_KEYS = r"(?:\[|\.get\()['\"](\w{1,40})['\"][\])]"
# random.choice(row["pos"]), row["images"][0]
_TAKEN = (
    re.compile(rf"\b(?:choices?|sample)\([^()\n]{{0,80}}?{_KEYS}"),
    re.compile(rf"{_KEYS}\[(?:0|-1)\]"),
)
_DIVIDED = re.compile(rf"/ ?len\([^()\n]{{0,80}}?{_KEYS}")  # (size - 1) / len(row["neg"])
_CHOSEN = re.compile(r'random\.py", line \d{1,5}, in choice')
_FLAGS = ("train_data", "train_file", "data_path", "dataset_path", "data_files")
_OF_ROWS = ("__getitem__", "arrow_dataset.py", "ollat")
# FlagEmbedding's rows have both: it chooses of the first, and divides by the second's number.
_BOTH = {"pos": "pos neg", "neg": "pos neg"}


def steps(facts: Facts) -> tuple[Do, ...]:
    """The rows without it, and a file of the others: by the key in the log's own line."""
    rows = facts.phase == "data" or any(words in facts.trace for words in _OF_ROWS)
    if not rows or not any(words in facts.message for words in _EMPTY):
        return ()
    line = given.own_line(facts.trace)
    ways = (_DIVIDED,) if "division" in facts.message else _TAKEN
    key = next((found[1] for p in ways if (found := p.search(line))), "")
    if not key or ("list index" in facts.message and not _plain(line, facts)):
        return ()
    keys = _BOTH.get(key, key) if facts.framework == "FlagEmbedding" else key
    data = given.files(facts).get("data", "")
    kept = "kept.jsonl" if data.endswith(".jsonl") else "kept.json"
    flag = next(
        (f"--{name} {kept}" for name in _FLAGS if name in facts.typed), f"{kept} as the data"
    )
    why = f"it names the rows in which {key} is empty, {kept} has the others: then {flag}"
    return (
        Do(f"{looks.WITHOUT_EMPTY}{{data}} {keys} > {kept}: {why}", "none", kind="rows"),
        Do(
            f"{looks.WITHOUT_EMPTY}FILE.json {keys} > {kept}: FILE.json: the run's data; {why}",
            "none",
            kind="rows",
        ),
    )


def _plain(line: str, facts: Facts) -> bool:
    """Whether nothing but the list's own emptiness can be out of range."""
    return _CHOSEN.search(facts.trace) is not None or line.count("[") <= 3
