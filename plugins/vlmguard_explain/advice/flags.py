"""A change as the run itself would say it: flags of its framework, of its release, or code.

``tables/changes.toml`` has each change in each framework's words; ``own.toml`` what one run's log
adds to that: scripts of model makers, flags that its command line had, its files, its launcher.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vlmguard_explain.advice import packages
from vlmguard_explain.advice.values import Values, filled, known, of
from vlmguard_explain.lazy import lazy
from vlmguard_explain.match.catalogue import Step, table
from vlmguard_explain.run.logfacts import Facts

# Frameworks whose flags are transformers' TrainingArguments and some of their own.
_FAMILY = dict.fromkeys(("TRL", "transformers", "FlagEmbedding", "ms-swift"), "hf")
_FAMILY |= dict.fromkeys(("LLaMA-Factory", "axolotl"), "yaml")
# Programs with flags of no framework: they take the flags that their command line had.
_FREE = ("", "transformers", "accelerate", "TRL", "ColossalAI")
# If a LLaMA-Factory command line has one of these as a flag, advice has flags, not YAML.
_FLAGGED = frozenset(("stage", "finetuning_type", "dataset", "model_name_or_path"))
_PAIR = lazy(r"(?:^(`?)|, )([a-z_][a-z_0-9]{3,47}): ([\w./-]{1,60})")


def say(step: Step, facts: Facts) -> str:
    """``step`` in this run's words."""
    return plain(marked(step, facts))


def plain(said: str) -> str:
    """``said`` without the back-ticks round what is typed; no value of a log has any."""
    return said.replace("`", "")


def marked(step: Step, facts: Facts) -> str:
    """The same, what is typed of it in back-ticks."""
    values, changes = of(facts), table("changes")
    action = step.do
    while action in changes and "otherwise" in changes[action]:
        if known(changes[action]["usual"], values):
            break
        action = changes[action]["otherwise"]
    words = _own(action, facts, values) if action in changes else action
    if action in changes and not words:
        spelt, name = changes[action], facts.framework
        words = spelt.get(name) or spelt.get(_FAMILY.get(name, "")) or spelt["usual"]
    said = filled(words, values, step.values)
    if facts.framework == "LLaMA-Factory" and action in changes and facts.typed & _FLAGGED:
        said = _PAIR.sub(lambda m: f"{' ' if m[1] is None else m[1]}--{m[2]} {m[3]}", said)
    return said


def _own(action: str, facts: Facts, values: Values) -> str:
    """``action`` by what this run was started with, as the first spelling of ``tables/own.toml``
    says whose conditions hold; those for any framework come first. "" where that tells nothing."""
    for one in sorted(table("own")["own"], key=lambda one: "any" not in one):
        if action not in one["action"] or ("any" not in one and facts.framework not in _FREE):
            continue
        typed = next((name for name in one.get("typed", ()) if name in facts.typed), "")
        asked = all(holds(condition, facts, values) for condition in one.get("run", ()))
        if asked and (typed or "typed" not in one):
            words = str(one["do"]).replace("{typed}", typed).replace("{stage}", action[4:5])
            return words.replace("{launcher}", facts.fields.get("launcher", ""))
    return ""


_COMPARED = re.compile(r"([\w -]+?)([=~])(.*)", re.S)
_OF_RUN = "framework phase strategy zero tuning model message trace world".split()
_OF_RUN += "use_reentrant find_unused static_graph checkpointing freeze_tower".split()


def holds(condition: str, facts: Facts, values: Mapping[str, str]) -> bool:
    """Whether ``condition`` holds in this run.

    A word: the run's facts or values have it. "phase=save|load": a value is one of these.
    "model~smol": a value has the pattern. "trace=…": the traceback has the text. "typed=a|b": one
    of these is on the command line. "since=package 1.2": the release that is told is no older.
    "!…": the contrary; "… & …": both.
    """
    if " & " in condition:
        return all(holds(one, facts, values) for one in condition.split(" & "))
    if condition.startswith("!"):
        return not holds(condition[1:], facts, values)
    compared = _COMPARED.fullmatch(condition)
    if compared is None:
        return condition in facts.seen or condition in facts.fields or condition in values
    name, sign, wanted = compared.groups()
    if sign == "~":
        return re.search(wanted, _value(name, facts, values), re.I) is not None
    if name in ("typed", "batch"):
        return bool(set(wanted.split("|")) & set(facts.typed if name == "typed" else facts.kinds))
    if name == "since":
        return packages.older(wanted, facts.releases) is False
    if name == "trace":
        return wanted in facts.trace
    return _value(name, facts, values) in wanted.split("|")


def _value(name: str, facts: Facts, values: Mapping[str, str]) -> str:
    if name in _OF_RUN:
        value = getattr(facts, name)
        return "" if value is None else str(value)
    return facts.fields.get(name, "") or values.get(name, "")
