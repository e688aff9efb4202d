"""The schema of the catalogue: what a file may hold; errors name file, line and the nearest key."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import tomllib
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from vlmguard_explain.advice import values
from vlmguard_explain.match.catalogue import WHERE, table

Text = Annotated[str, Field(min_length=1)]
Some = Annotated[list[Text], Field(min_length=1)]
Do = Annotated[str, Field(pattern="^(not sure: )?(`[^`]+`[^`]*|[^`]+)$")]  # typed, then words
CHANGES = table("changes")
CODE = r"VG(?:5\d\d|600|7\d\d)"  # VG6 from VG610 on is the ledger's
RUN = re.compile(
    r"!?(?:[\w -]+|(?:framework|phase|strategy|zero|tuning|batch|trace|world|use_reentrant|"
    r"checkpointing)=[\w|./( -]*|(?:trace|model|message)~.+)"
)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Conditions(Strict):
    when: Some = []
    unless: Some = []
    run: Some = []

    @model_validator(mode="after")
    def conditions(self) -> Conditions:
        odd = [one for one in self.run if not RUN.fullmatch(one)]
        assert not odd, f"no condition of a run: {odd}"
        return self


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
    code: str = ""
    more: bool = False
    steps: list[Do | list[Do]]


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


def errors(path: Path) -> list[str]:
    """What is wrong in a file, each as ``file:line: what``."""
    text = path.read_text(encoding="utf-8")
    model = Package if path.parent.name == "cases" else Failure
    found = []
    if model is Failure and not re.fullmatch(rf"{CODE}-[a-z0-9-]+", path.stem):
        found.append(f"{path.name}: a failure's file is VG701-short-name.toml, from VG701 on")
    try:
        model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        return [f"{path.name}: {error}"]
    except ValidationError as error:
        found += [_told(path, text, one) for one in error.errors()]
    known = values.names()
    for number, line in enumerate(text.splitlines(), 1):
        for name in values.wants(line) - known:
            found.append(f"{path.name}:{number}: no value is called {name}{_nearest(name, known)}")
    return found


def _told(path: Path, text: str, error: Any) -> str:
    key = str(error["loc"][-1])
    lines = text.splitlines()
    line = next((n for n, one in enumerate(lines, 1) if re.match(rf"(\[\[)?{key}\b", one)), 1)
    if error["type"] != "extra_forbidden":
        return f"{path.name}:{line}: {'.'.join(map(str, error['loc']))}: {error['msg']}"
    models = (Failure, Step, Pattern, Case, Example)
    known = {name for model in models for name in model.model_fields}
    return f"{path.name}:{line}: no key is called {key}{_nearest(key, known)}"


def _nearest(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, sorted({*known, *CHANGES}), 1)
    return f"; {near[0]}?" if near else ""
