"""What a log says of its run: framework, releases, strategy, world, the values of arguments.

Nothing is guessed: a fact that the log does not state stays empty, and texts say so. What is looked
for stands in ``tables/run.toml`` under ``logfacts``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vlmguard_explain.advice import packages
from vlmguard_explain.lazy import lazy, patterns, words
from vlmguard_explain.tracebacks.event import Event, flat

_P, _T = patterns("run.logfacts"), words("run.logfacts")
CARDS = 8  # of one machine, at most
MOST = 100_000  # ranks, or rows of a step


@dataclass(frozen=True)
class Facts:
    """Facts of a run, from its log or (`rules`) from the guard's own `Run`."""

    # "ms-swift", "LLaMA-Factory", "TRL", "FlagEmbedding", "ColossalAI", "axolotl",
    # "accelerate", "transformers", or "" where the log does not tell
    framework: str = ""
    releases: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    world: int | None = None
    micro: int | None = None
    accumulation: int | None = None
    use_reentrant: bool | None = None
    find_unused: bool | None = None
    static_graph: bool | None = None
    checkpointing: bool | None = None
    tuning: str = ""
    model: str = ""
    freeze_tower: bool | None = None
    kinds: tuple[str, ...] = ()
    # where the failure happened: "load", "forward", "backward", "step", "evaluation",
    # "generation", "save", "data", or ""
    phase: str = ""
    message: str = ""  # the failure's own text, `flat`
    trace: str = ""
    frames: tuple[tuple[str, int, str], ...] = ()  # the traceback's: file, line, function
    steps: tuple[int, int] | None = None
    log: str = ""  # the file that tells the failure, as it was given; empty for standard input
    # lower-case names of arguments → their text, as printed
    fields: Mapping[str, str] = field(default_factory=dict)
    typed: frozenset[str] = frozenset()  # those that the log's command line has
    # what the lines of all ranks show: "all wait" (each in a collective), "everywhere"
    # (all ranks failed alike), "alone" (the others wait for the main process), "none killed"
    # (the launcher ended them); "rank files": each rank's output was read from its own file
    seen: frozenset[str] = frozenset()
    run: object = None

    @property
    def zero(self) -> int | None:
        return int(self.strategy[4]) if re.fullmatch(r"zero[0-3]", self.strategy) else None

    @property
    def vision(self) -> bool:
        """Whether the log tells that the model sees: an argument of a tower, or its name."""
        told = self.kinds or self.freeze_tower is not None or self.fields.keys() & set(_T.seeing)
        names = f"{self.model} {self.fields.get('model_type', '')}"
        return bool(told) or _P.seeing_model.search(names) is not None

    def at(self, message: str, phase: str, raised: Event | None = None) -> Facts:
        """The same run, at one failure."""
        trace = flat(" ".join(raised.trace)) if raised else ""
        found = tuple(raised.frames) if raised else ()
        return replace(self, message=message, trace=trace, frames=found, phase=phase)

    def number(self, *names: str, most: int = 10**12) -> int | None:
        """The first of these arguments that was printed as a whole number, no higher than most."""
        printed = (self.fields.get(name, "") for name in names)
        value = next((int(one) for one in printed if re.fullmatch(r"\d{1,12}", one)), None)
        return value if value is not None and value <= most else None


def of_text(texts: Iterable[str]) -> Facts:
    """The facts that these parts of a log state."""
    said: dict[str, str] = {}
    releases: dict[str, str] = {}
    typed: set[str] = set()
    votes = {name: 0 for name, _ in _T.frameworks}
    strategy = ""
    wanted = frozenset((*_T.wanted, *_T.aliases))
    for whole in texts:
        text = _P.advised.sub("", whole) if "use_reentrant" in whole else whole
        for match in (*_P.flag.finditer(text), *_P.value.finditer(text), *_P.dotted.finditer(text)):
            name = match[1].lower().replace("-", "_")
            if name in wanted:
                said.setdefault(name, match[match.lastindex or 2].strip("'\"` "))
        typed |= wanted & {match[1].replace("-", "_") for match in _P.typed.finditer(text)}
        _by_rules(whole, said)
        for match in _P.release.finditer(text):
            if not _P.asked.search(text, max(match.start() - 24, 0), match.start()):
                name = match[1].lower().replace("_", "-")
                releases.setdefault(name, match[2].rstrip("."))
        for name, pattern in _T.frameworks:
            votes[name] += sum(1 for _ in zip(range(50), re.finditer(pattern, text), strict=False))
        strategy = strategy or _strategy_seen(text)
    _other_names(said)
    return _from(said, releases, votes, strategy, frozenset(typed))


@functools.cache
def _rules() -> list[tuple[dict[str, Any], re.Pattern[str] | None]]:
    """The rules of the table; what has a name and a pattern alone is one, too."""
    short = [{"pattern": p, "say": {name: r"\1"}} for name, p in _T.first.items()]
    short += [{"pattern": p, "say": {name: "true"}} for name, p in _T.there.items()]
    return [(r, lazy(r["pattern"]) if "pattern" in r else None) for r in (*_T.rule, *short)]


def _by_rules(text: str, said: dict[str, str]) -> None:
    """Adds to the printed arguments what the rules find in this part of the log."""
    for rule, pattern in _rules():
        if any(one in text for one in rule.get("unless", ())):
            continue
        if pattern is None:
            if any(one in text for one in rule["text"]):
                for name, value in rule["say"].items():
                    said.setdefault(name, value)
            continue
        keep = rule.get("keep", "first")
        found: dict[str, list[str]] = {}
        for match in pattern.finditer(text):
            for name, value in rule["say"].items():
                found.setdefault(match.expand(name), []).append(match.expand(value))
            if keep == "first":
                break
        for name, values in found.items():
            values = [v.lower() for v in values] if rule.get("lower") else values
            if keep == "last":
                said[name] = values[-1]
            elif keep == "all":
                said[name] = " ".join(dict.fromkeys([*said.get(name, "").split(), *values]))
            elif keep != "alone" or len(set(values)) == 1:
                said.setdefault(name, values[0])


def _other_names(said: dict[str, str]) -> None:
    """Other projects' names of what we know, under the names that we know."""
    for name, (ours, contrary) in _T.aliases.items():
        value = said.get(name, "").lower()
        if value in _TRUTH:
            said.setdefault(ours, str(_TRUTH[value] is not contrary).lower())
    if "crashpackage" in said:
        said["crashpackage"] = packages.of(said["crashpackage"])


_TRUTH = {"true": True, "false": False, "1": True, "0": False}
# Frameworks built on others: their own marks count, whatever else is printed.
_OWN = ("ms-swift", "LLaMA-Factory", "FlagEmbedding", "ColossalAI", "axolotl")


def _from(
    said: dict[str, str],
    releases: dict[str, str],
    votes: dict[str, int],
    seen: str,
    typed: frozenset[str],
) -> Facts:
    own = max(_OWN, key=lambda name: votes[name])
    framework = own if votes[own] else next((name for name in votes if votes[name]), "")
    if own_release := said.get("guarded_release"):
        releases = {**releases, said["guarded"]: own_release}
    facts = Facts(said.get("guarded", framework), releases, fields=said, typed=typed)
    found: dict[str, Any] = {}
    for name, names in _T.truths.items():
        found[name] = next((_TRUTH.get(said[n].lower()) for n in names if n in said), None)
    for name, names in _T.numbers.items():
        found[name] = facts.number(*names, most=MOST)
    found["world"] = found["world"] or _started(facts)
    if within := _P.reentrant.search(said.get("gradient_checkpointing_kwargs", "")):
        found["use_reentrant"] = _TRUTH[within[1].lower()]
    if (off := _TRUTH.get(said.get("disable_gradient_checkpointing", "").lower())) is not None:
        found["checkpointing"] = not off  # of LLaMA-Factory
    models = (said.get(name, "") for name in _T.models)
    return replace(
        facts,
        **found,
        strategy=said.get("guarded_strategy") or _strategy(said) or seen,
        tuning=next((said[name] for name in _T.tunings if said.get(name)), ""),
        model=next((name for name in models if name and not _P.call.fullmatch(name)), ""),
    )


def _started(facts: Facts) -> int | None:
    """Ranks by torchrun's own arguments: those of a machine, times the machines."""
    each, machines = facts.number("nproc_per_node"), facts.fields.get("nnodes", "1")
    ranks = (each or 0) * int(machines) if re.fullmatch(r"[1-9]\d{0,3}", machines) else 0
    return ranks if 0 < ranks <= MOST else None


def _strategy_seen(text: str) -> str:
    """What the frames and the words of this part of the log show."""
    for pattern, strategy in _T.strategies:
        if (match := re.search(pattern, text)) is not None:
            return str(match.expand(strategy))
    return ""


def _strategy(said: dict[str, str]) -> str:
    """What the arguments say: a stage, or the name of DeepSpeed's or accelerate's file."""
    stage = said.get("zero_stage") or said.get("zero_optimization_stage")
    stage = stage or (said.get("stage", "") if "deepspeed" in said else "")
    if stage in ("1", "2", "3"):
        return f"zero{stage}"
    files = f"{said.get('deepspeed', '')} {said.get('config_file', '')}"
    match = _P.stage.search(files)
    return f"zero{match[1]}" if match else ""
