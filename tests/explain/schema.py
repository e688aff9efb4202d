"""The schema of the catalogue: what a file may hold; errors name file, line and the nearest key."""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import tomllib
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from vlmguard_explain.advice import flags, values
from vlmguard_explain.match import catalogue
from vlmguard_explain.match.catalogue import HERE, WHERE, Known

Text = Annotated[str, Field(min_length=1)]
Some = Annotated[list[Text], Field(min_length=1)]
Do = Annotated[str, Field(pattern="^(not sure: )?(`[^`]+`[^`]*|[^`]+)$")]  # typed, then words
CODE = r"VG(?:5\d\d|600|7\d\d)"  # VG6 from VG610 on is the ledger's
RUN = re.compile(r"!?(?:[\w -]+|([\w -]+)(?:=[\w|./( -]*|~.+))")
OF_RUN = {*flags._OF_RUN, "batch", "typed", "since"}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Conditions(Strict):
    when: Some = []
    unless: Some = []
    run: Some = []

    @field_validator("run")
    @classmethod
    def conditions(cls, run: list[str]) -> list[str]:
        known = OF_RUN | values.names()
        for one in run:
            name = (found := RUN.fullmatch(one)) and found[1]
            assert found, f"no condition of a run: {one}"
            near = _nearest(name, known) if name else ""
            assert name is None or name in known, f"no fact of a run is called {name}{near}"
        return run


class Cause(Conditions):
    do: Text


class Step(Conditions):
    do: Do
    cost: Text = "?"
    values: dict[str, str] = {}
    kind: Text = "?"
    silent: bool = False


class Pattern(Strict):
    message: Text = ""
    trace: Text = ""
    line: Text = ""
    raised: Text = ""
    all: Some = []
    none: Some = []
    near: Some = []
    unlike: Text  # it has the pattern's text, and is not told, by its conditions
    origin: Text = "written by hand"

    @model_validator(mode="after")
    def one_place(self) -> Pattern:
        assert sum(bool(getattr(self, w)) for w in WHERE if w != "type") == 1, "one place, no more"
        assert self.all or self.none or self.near, "without conditions: one of the plain lists"
        return self


class Case(Strict):
    said: Some
    trace: Some = []
    unless: Some = []
    since: str = ""
    mended: str = ""
    cause: str = ""
    more: bool = False
    unlike: str = ""  # it has the first text, and is not told, by the others
    origin: Text = "written by hand"
    steps: list[Do | list[Do]]

    @model_validator(mode="after")
    def with_its_like(self) -> Case:
        asked = bool(self.said[1:] or self.trace or self.unless)
        assert asked == bool(self.unlike), "unlike: where a case has several texts, and only there"
        return self


class Example(Strict):
    text: Text
    origin: Text


class Failure(Strict):
    title: Text
    zh: Text
    cause: Text
    wrong: Text
    order: Literal["cause", "hang", "peer", "end"] = "cause"
    narrow: int = 0
    prevented: Some = []
    evidence: Text
    was: Annotated[str, Field(pattern=CODE)] = ""
    message: Some = []
    trace: Some = []
    line: Some = []
    raised: Some = []
    type: Some = []
    pattern: list[Pattern] = []
    cause_if: list[Cause] = []
    step: Annotated[list[Step], Field(min_length=1)]
    case: list[Case] = []
    example: Annotated[list[Example], Field(min_length=1)]


class Package(Strict):
    case: Annotated[list[Case], Field(min_length=1)]


PARTS = {"step": Step, "cause_if": Cause, "pattern": Pattern, "case": Case, "example": Example}
FILES = [path for name in ("catalogue", "cases") for path in sorted((HERE / name).glob("*"))]


def errors(path: Path) -> list[str]:
    """What is wrong in a file, each as ``file:line: what``."""
    text = path.read_text(encoding="utf-8")
    model = Package if path.parent.name == "cases" else Failure
    found = []
    if model is Failure and not re.fullmatch(rf"{CODE}-[a-z0-9-]+", path.stem):
        found.append(f"{path.name}: a failure's file is VG701-short-name.toml, from VG701 on")
    twins = path.parent.glob(f"{path.stem[:5]}-*") if model is Failure else ()
    found += [f"{path.name}: {p.name} has the same code" for p in twins if p.name < path.name]
    try:
        model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        return [f"{path.name}:{line[1] if line else 1}: {error}"]
    except ValidationError as error:
        found += [_told(path, text, one) for one in error.errors()]
    known = values.names()
    for number, line in enumerate(text.splitlines(), 1):
        for name in values.wants(line) - known:
            found.append(f"{path.name}:{number}: no value is called {name}{_nearest(name, known)}")
        word = re.fullmatch(r'do = "([a-z_0-9]+)"', line)
        if word and word[1] not in (changes := catalogue.table("changes")):
            near = _nearest(word[1], changes)
            found.append(f"{path.name}:{number}: no change is called {word[1]}{near}")
    return found


def _told(path: Path, text: str, error: Any) -> str:
    loc = error["loc"]
    key, line = str(loc[-1]), _line(text.splitlines(), loc)
    if error["type"] != "extra_forbidden":
        return f"{path.name}:{line}: {'.'.join(map(str, loc))}: {error['msg']}"
    inside = [part for part in loc[:-1] if part in PARTS]
    known = (PARTS[inside[0]] if inside else Failure).model_fields
    return f"{path.name}:{line}: no key is called {key}{_nearest(key, known)}"


def _line(lines: list[str], loc: tuple[str | int, ...]) -> int:
    """The line of a key: in its own part, of several ``[[step]]`` the one that is meant."""
    heads = [n for n, one in enumerate(lines, 1) if one.startswith("[[")] + [len(lines) + 1]
    mine = [n for n in heads[:-1] if lines[n - 1] == f"[[{loc[0]}]]"]
    part = mine[int(loc[1])] if mine and len(loc) > 1 else 1
    end = next(n for n in heads if n > part)
    words, inside = [one for one in reversed(loc) if isinstance(one, str)], range(part, end)
    found = (n for word in words for n in inside if re.match(rf"{word}\b", lines[n - 1]))
    return next(found, part)


def _nearest(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, sorted(known), 1)
    return f"; {near[0]}?" if near else ""


@functools.cache
def load() -> tuple[Known, ...]:
    """The catalogue, if its files are as they must be; else what is wrong in each."""
    wrong = [error for path in FILES for error in errors(path)]
    if wrong:
        raise ValueError("\n".join(wrong))
    return catalogue.load()
