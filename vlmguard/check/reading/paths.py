"""Files and folders that a command names and that are not on this disk."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from vlmguard.check import redact
from vlmguard.check.reading import model_config
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import known


def _word(*names: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|_)(?:{'|'.join(names)})(?:_|$)")


_MADE = _word(
    "outputs?", "out", "logs?", "logging", "saved?", "saves", "cache", "exports?", "reports?",
    "run", "work", "tmp", "temp", "offload", "profiler?", "dump", "ckpt", "tb", "tensorboard",
    "results?", "project", "tokenized", "wandb", "swanlab", "hub",
)  # fmt: skip
"""Words of flags of what the run itself makes."""
_TEXT = _word(
    "system", "prompt", "prefix", "suffix", "instruction", "url", "stop", "words", "regex",
    "pattern", "comment", "tags?",
)  # fmt: skip
"""Words of flags whose value is no path, even if it begins like one."""
_WEIGHTS = _word("adapters?", "models?", "checkpoint", "resume", "lora")
_LOCAL = re.compile(r"(?:\.{1,2}|~)?/")
_FILE = re.compile(r"\.(?:py|jsonl?|jinja2?|ya?ml|csv|tsv|parquet|txt)$")
_NAME = re.compile(r"[\w./~@+-]+")
_PART = re.compile(r"(?::[\w./-]+)?(?:#\d+)?$")
"""What ms-swift has behind a data set: a subset, a number of rows."""


def absent(given: Mapping[str, Any], files: Files, told: Collection[str]) -> list[str]:
    """Files and folders that flags name and that are not here: adapters, a reward model, code, a
    checkpoint.

    Args:
        given: flag → its value.
        told: flags and values that are told elsewhere.
    """
    told = frozenset(told)
    found: dict[str, None] = {}
    for name, value in given.items():
        if name in told or redact.secret(name) or _MADE.search(name) or _TEXT.search(name):
            continue
        for each in _places(name, value, files):
            if each not in told and not files.there(each):
                found[f"--{name} {each}: not on this disk"] = None
    return list(found)


def _places(name: str, value: Any, files: Files) -> Iterator[str]:
    """Each path of a value; none of a value that is here as it stands."""
    for each in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(each, str) or not known(each) or files.there(each):
            continue
        parts = each.split(",") if "{" not in each else ()
        for part in (_PART.sub("", part) for part in parts):
            if _NAME.fullmatch(part) and _is_path(name, part):
                yield part


def _is_path(name: str, value: str) -> bool:
    if _LOCAL.match(value) or _FILE.search(value):
        return True
    return bool(_WEIGHTS.search(name)) and model_config.local(value)
