"""What a run says of its own choices: the file of its settings, its card, what it draws at random.

Read for `logfacts`, as `told` is.
"""

from __future__ import annotations

import re

_SETTINGS = re.compile(
    r"(?:llamafactory-cli train|src/train(?:_bash)?\.py|run_(?:sft|dpo|orpo|cpt)\.py) "
    r"([\w./~][\w./@+~-]{0,200}\.ya?ml)\b"
)
_H20 = re.compile(r"(?i)(?<![a-z0-9])h20(?![a-z0-9])")
_UNKEPT = re.compile(r"preserve_rng_state['\"]?\s?[=:]\s?False\b")
# Tokens that are left out by chance within a block.
_DROPPED = re.compile(
    r"(?i)\bbernoulli\b|\brandom(?:ly)? (?:drop|mask)(?:s|ped|ping|ed|ing)? "
    r"|\b(?:token|patch)[ _-]drop(?:ping|out)?\b|\bkeep_tokens random\b"
)

# DeepSpeed's words of a checkpoint's file, before it is read and behind that.
_READ = re.compile(r"\] Load(ing|ed) checkpoint from (?:\S{1,300}/)?([\w.-]{1,120}\.pt)\b")


def passing(text: str, said: dict[str, str]) -> None:
    """Adds what this part of a log says of them to the arguments that it printed."""
    if found := _SETTINGS.search(text):
        said.setdefault("settings", found[1])
    if _H20.search(text):
        said.setdefault("h20", "true")
    if _UNKEPT.search(text):
        said.setdefault("preserve_rng_state", "false")
    if _DROPPED.search(text):
        said.setdefault("dropped", "true")
    if "alignment/data.py" in text:  # the alignment-handbook, of before it left this to TRL
        said.setdefault("handbook", "true")
    for begun, name in _READ.findall(text):
        names = said.get("unread", "").split()
        names = [*names, name] if begun == "ing" else [n for n in names if n != name]
        said["unread"] = " ".join(dict.fromkeys(names))
