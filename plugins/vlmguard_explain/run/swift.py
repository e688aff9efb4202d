"""Which ms-swift a log is of, and what that release calls its arguments.

2 had sft_type and lora_target_modules, 3 train_type, 4 tuner_type; each refuses the others' names.
"""

from __future__ import annotations

from vlmguard_explain.lazy import words
from vlmguard_explain.run.logfacts import Facts

_T = words("run.swift")
_TYPE = {"2": "sft_type", "3": "train_type", "4": "tuner_type"}


def release(facts: Facts) -> str:
    """2, 3 or 4; "" where nothing tells: no release, and no argument that one alone has."""
    number = (facts.releases.get("ms-swift") or facts.releases.get("swift") or "").partition(".")[0]
    if number in _TYPE:
        return number
    if found := facts.said.get("swift", ""):
        return found
    if "preprocess_num_proc" in facts.typed:
        return "2"
    typed = [number for number, name in _TYPE.items() if name in facts.typed]
    refused = len(typed) == 1 and _TYPE[typed[0]] in facts.message
    return typed[0] if len(typed) == 1 and not refused else ""


def own(action: str, facts: Facts) -> str:
    """``action`` as this release spells it, "" where all of them do so alike."""
    spelt = _T.spelt.get(release(facts), {}) if facts.framework == "ms-swift" else {}
    return str(spelt.get(action, ""))


def renamed(argument: str, facts: Facts) -> str:
    """What this release calls an argument that it refused, "" where nothing tells."""
    if facts.framework != "ms-swift" or argument not in _TYPE.values():
        return ""
    new = _TYPE.get(release(facts), "")
    return new if new != argument else ""
