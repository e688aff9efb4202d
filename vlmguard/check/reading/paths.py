"""Files and folders that a command names and that are not on this disk."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any

from vlmguard.check.reading.files import Files
from vlmguard.check.shell.state import known

_MADE = re.compile(r"output|log|save|cache|export|report|run_name|work_dir|te?mp|offload|profil")
"""Flags of what the run itself makes."""
_LOCAL = re.compile(r"(\.{1,2}|~)?/")


def absent(given: Mapping[str, Any], files: Files, told: Collection[str]) -> list[str]:
    """Files and folders that flags name and that are not here: adapters, a reward model, code, a
    checkpoint.

    Args:
        given: flag → its value.
        told: flags and values that are told elsewhere.
    """
    found: dict[str, None] = {}
    for name, value in given.items():
        if name in told or _MADE.search(name):
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            local = isinstance(each, str) and known(each) and _LOCAL.match(each)
            if local and each not in told and not files.there(os.path.expanduser(each)):
                found[f"--{name} {each}: not on this disk"] = None
    return list(found)
