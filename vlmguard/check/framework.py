"""What `check` needs to know of a framework; each plug-in folder gives one in ``check.py``."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlmguard.check import options
from vlmguard.check.drafted_run import Draft
from vlmguard.check.launcher import Job
from vlmguard.check.reading import python_files, scripts
from vlmguard.check.reading.fields import Field, Values, Wrong, leftover, of, parse
from vlmguard.check.reading.named_files import Files
from vlmguard.core.findings import Advice, FindUnused, FreezeTower, SetVariant, StaticGraph, Variant
from vlmguard.core.plan import Plan


class CannotTell(Exception):
    """No verdict is possible; says why and, where there is one, what would make it possible."""


@dataclass(frozen=True)
class Edit:
    """One flag of the command as it would have to be; ``after`` None takes it out."""

    flag: str
    after: str | None


@dataclass(frozen=True)
class Parsed:
    """A parsed command.

    Attributes:
        job: as its config completes it (its ranks may stand there).
        rest: words that no field takes.
        mine: vlmguard's own flags.
    """

    values: Values
    job: Job
    rest: list[str]
    mine: dict[str, list[str]]


class Framework:
    """Base of all descriptions.

    Attributes:
        name: as rules and messages call it.
        package: import name; its sources are read, it is not imported.
        distribution: what pip calls it.
        install: the line that provides it.
        beside: other distributions whose releases matter.
        own_code: whether scripts that make its arguments in their own code are judged by them.
    """

    name = ""
    package = ""
    distribution = ""
    install = ""
    beside: tuple[str, ...] = ("torch", "transformers", "peft", "deepspeed", "accelerate")
    own_code = False

    def entry(self, job: Job, files: Files) -> str:
        """The framework's own entry that a job runs ("sft"); "" if the job is not its."""
        raise NotImplementedError

    def trains(self, entry: str) -> str:
        """ "" if that entry trains under guard, else why there is nothing to judge."""
        return ""

    def classes(self, entry: str) -> list[python_files.Class]:
        """Its argument classes. Raises `CannotTell`."""
        raise NotImplementedError

    def argv(self, job: Job, files: Files) -> tuple[list[str], Job]:
        """The words that its parser gets: configs are turned into flags, as it does itself."""
        return list(job.argv), job

    def config(self, job: Job, files: Files) -> tuple[Mapping[str, Any], str]:
        """What it reads from a config by its keys, and its own words for those that no field
        has: "" where it leaves them out. What it turns into flags is none of this: a parser takes
        these."""
        return {}, ""

    def draft(self, values: Values, job: Job, files: Files, entry: str) -> Draft:
        """The run. Raises `Unreadable` and `CannotTell`."""
        raise NotImplementedError

    def refused(self, rest: Sequence[str], fields: Mapping[str, Field]) -> str:
        """Its own message for words that no field takes."""
        return f"Some specified arguments are not used by the HfArgumentParser: {list(rest)}"

    def values(self, job: Job, files: Files, entry: str) -> Parsed:
        """Parse a job. Raises `fields.Wrong`."""
        made = scripts.made(entry) if "." in entry else None
        if made is not None and self.own_code:
            taken = options.take(job.argv)[0]
            return Parsed(_written(made), job, [], taken)
        try:
            classes = tuple(self.classes(entry))
        except LookupError as missing:
            raise CannotTell(
                f"its argument class {missing.args[0]} is not installed here"
            ) from None
        absent = [name for one in classes for name in python_files.lacking(one)]
        if absent:
            raise CannotTell(f"its argument class {absent[0]} was not found in the sources")
        fields = of(classes)
        keys, refusal = self.config(job, files)
        unused = sorted(str(key) for key in keys if key not in fields)
        if unused and refusal:
            raise Wrong(refusal.format(unused[:9]) + leftover(fields, [f"--{unused[0]}"]))
        argv, job = self.argv(job, files)
        mine, argv = options.take(without(argv, unused))
        values, rest = parse(fields, argv)
        return Parsed(values, job, rest, mine)

    def edits(self, plan: Plan, values: Values) -> list[Edit]:
        """The plan as flags of this framework."""
        found: list[Edit] = []
        variant = plan.variant
        if variant is not None:
            found += self.variant(variant, values)
        for word in plan.freeze:
            found += self.frozen(word)
        return found

    def variant(self, variant: Variant, values: Values) -> list[Edit]:
        import json

        found = []
        if variant.use_reentrant is not None:
            name = "gradient_checkpointing_kwargs"
            given = values.get(name)
            kwargs = given if isinstance(given, dict) else {}
            if isinstance(given, str) and given.strip().startswith("{"):
                kwargs = json.loads(given)
            kwargs = {**kwargs, "use_reentrant": variant.use_reentrant}
            found.append(Edit(f"--{name}", json.dumps(kwargs)))
        for flag, value in (("--ddp_find_unused_parameters", variant.find_unused),
                            ("--ddp_static_graph", variant.static_graph)):  # fmt: skip
            if value is not None:
                found.append(Edit(flag, str(value).lower()))
        return found

    def spell(self, advice: Advice) -> str:
        """A piece of advice in this framework's flags; "" where it has none."""
        none = Values({})
        if isinstance(advice, SetVariant):
            edits = self.variant(Variant(use_reentrant=advice.use_reentrant), none)
        elif isinstance(advice, FindUnused):
            edits = self.variant(Variant(find_unused=advice.value), none)
        elif isinstance(advice, StaticGraph):
            edits = self.variant(Variant(static_graph=advice.value), none)
        elif isinstance(advice, FreezeTower):
            edits = [edit for tower in advice.tower.split(",") for edit in self.frozen(tower)]
        else:
            return ""
        return " ".join(f"{edit.flag} {shlex.quote(edit.after or '')}" for edit in edits)

    def words(self, edit: Edit, job: Job) -> list[str]:
        """An edit as words of the command."""
        return [] if edit.after is None else [edit.flag, edit.after]

    def frozen(self, word: str) -> list[Edit]:
        """How a tower is frozen; [] where only the guard can."""
        return []

    def hint(self, rest: Sequence[str], fields: Mapping[str, Field]) -> str:
        return leftover(fields, rest)


def _written(made: scripts.Made) -> Values:
    """The arguments that stand in a script's own code. Raises `Wrong`."""
    fields = of((made.one,))
    unused = [name for name in (*made.given, *made.other) if name not in fields]
    if unused:
        raise Wrong(f"{made.one.name}.__init__() got an unexpected keyword argument {unused[0]!r}"
                    + leftover(fields, [f"--{unused[0]}"]))  # fmt: skip
    return Values(fields, dict(made.given))


def without(argv: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words but for these flags and their values."""
    kept: list[str] = []
    dropping = False
    for word in argv:
        if word.startswith("--"):
            dropping = word[2:].partition("=")[0].replace("-", "_") in names
        if not dropping:
            kept.append(word)
    return kept


MODULES = ("vlmguard_swift", "vlmguard_llamafactory", "vlmguard_flagembedding", "vlmguard_trl",
           "vlmguard_transformers")  # fmt: skip
"""Plug-in folders that may have a ``check.py``; those come last that take what others build on."""


def all_() -> list[Framework]:
    """Every description that is there."""
    found = []
    for name in MODULES:
        try:
            found.append(importlib.import_module(f"{name}.check").FRAMEWORK)
        except ModuleNotFoundError as error:
            if error.name not in (name, f"{name}.check"):
                raise
    return found


def of_job(job: Job, files: Files) -> tuple[Framework, str] | None:
    """Whose job it is, and its entry."""
    for framework in all_():
        entry = framework.entry(job, files)
        if entry:
            return framework, entry
    return None
