"""How each framework spells a change. The only place of `explain` that knows a framework's flags.

An action without an entry for a framework is said in the words of "", which hold for plain
transformers, torch or DeepSpeed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vlmguard.explain import given, inherited, named, spelling
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts
from vlmguard.explain.spelt import SPELT

# Frameworks whose command line is transformers' TrainingArguments and their own.
_HF = ("TRL", "transformers", "FlagEmbedding", "ms-swift")
# A command line that has flags: YAML's pairs are typed as such.
_FLAGGED = frozenset(("stage", "finetuning_type", "dataset", "model_name_or_path"))
_PAIR = re.compile(r"(?:^|, )([a-z_][a-z_0-9]{3,47}): ([\w./-]{1,60})")
_YAML = ("LLaMA-Factory", "axolotl")


def say(do: Do, facts: Facts) -> str:
    """``do`` as flags of the framework that the log shows, or as plain words."""
    values = named.of(facts)
    action = "resume_saved" if do.action == "resume" and "saved" in values else do.action
    if action == "ranks_saved" and "savedranks" not in values:
        action = "ranks_as_saved"
    spelt = SPELT.get(action)
    if spelt is None:
        return inherited.through_srun(named.filled(action, values), facts)
    name = facts.framework
    family = "hf" if name in _HF else "yaml" if name in _YAML else ""
    own = spelling.own(action, facts, values)
    words = own or spelt.get(name) or spelt.get(family) or spelt[""]
    strict = facts.said.get("strict", "").lower() == "true" and "strict" in facts.typed
    values["strict"] = " --strict false" if strict else ""  # swift raises for such a row otherwise
    values["newest"] = _newest(facts, values)
    values["hub"] = values.get("repo") or values.get("modelrepo") or "NAME"
    values.setdefault("starter", "SCRIPT.py")
    values.setdefault("experts", "CLASS_OF_THE_MOE_BLOCK")
    values["served"] = values.get("modelfolder") or values.get("modelrepo") or "MODEL"
    said = words.format_map(_Values({**_USUAL, **dict(do.values), **values}))
    said += dict(do.values).get("then", "")
    said = said.replace("DeepSpeed's config", values.get("dsfile", "DeepSpeed's config"))
    if name == "LLaMA-Factory" and facts.typed & _FLAGGED:
        said = _PAIR.sub(lambda m: f"{' ' if m.start() else ''}--{m[1]} {m[2]}", said)
    said = said if own else spelling.in_code(said, facts)
    return inherited.through_srun(_placed(said, facts, values), facts)


def _placed(said: str, facts: Facts, values: dict[str, str]) -> str:
    """``said`` with the user's own file, where it is an argument of the call that loads a model."""
    if not said.startswith("from_pretrained(…,"):
        return said
    own = named.quoted(given.place(facts.trace).rpartition(":")[0])
    main = values.get("main", own)
    folder = main.rpartition("/")[0]
    file = main if own in ("", main) else f"{folder} (grep -rn 'from_pretrained(' {folder})"
    ends = (n + 1 for n, sign in enumerate(said) if sign == ")" and _balanced(said[: n + 1]))
    at = next(ends, len(said))
    rest = f",{said[at:]}" if said[at:].startswith(" with ") else said[at:]
    return f"{said[:at]} in {file}{rest}" if main and main not in said else said


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")")


_USUAL = {"hours": "2", "seconds": "7200"}  # a longer wait for a collective


def _newest(facts: Facts, values: dict[str, str]) -> str:
    """The command that names the newest checkpoint; its number, where the log tells how often one
    is written."""
    output = values.get("output", "")
    deeper = "/*" if facts.framework == "ms-swift" and not _VERSION.search(output) else ""
    command = f"ls -td {output}{deeper}/checkpoint-* | head -1" if output else _NEWEST
    every, last = facts.number("save_steps"), (facts.steps or (0, 0))[0]
    number = last // every * every if every else 0
    return f"{command} (checkpoint-{number} by save_steps {every})" if number else command


_VERSION = re.compile(r"/v\d{1,4}-\d{8}-\d{6}$")  # ms-swift's folder of one run
# The newest checkpoint below this folder, where the log names no output folder.
_NEWEST = "ls -td ./*/checkpoint-* ./*/*/checkpoint-* | head -1"


class _Values(dict[str, str]):
    """A value that nobody tells is its name in capitals: OUTPUT."""

    def __missing__(self, name: str) -> str:
        return name.upper()


def known(actions: Iterable[str]) -> list[str]:
    """Those that the table spells, for tests."""
    return [action for action in actions if action in SPELT]
