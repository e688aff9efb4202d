"""The process of `deep`: a framework's argument classes, with sockets and foreign files refused."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.check.deep import outside, sandbox
from vlmguard.ranks.rank_environment import RankEnvironment

REFUSED = "vlmguard check --deep does not let it"


def main() -> int:
    """One question on standard input, one answer in ``answer.json`` of its folder."""
    asked = json.loads(sys.stdin.read())
    folder = Path(asked["folder"])
    outside.refuse((folder,), REFUSED)
    try:
        told: dict[str, Any] = {"values": _plain(_constructed(asked, folder))}
    except (Exception, SystemExit) as error:
        told = _failed(error)
    (folder / "answer.json").write_text(json.dumps(told), "utf-8")
    return 0


def _constructed(asked: Mapping[str, Any], folder: Path) -> list[Any]:
    """The argument objects, as rank 0 of the real number of ranks makes them."""
    owner = importlib.import_module(f"{asked['plugin']}.check").FRAMEWORK
    classes = [
        getattr(importlib.import_module(one.module), one.name)
        for one in owner.classes(asked["entry"])
    ]
    node = importlib.import_module("vlmguard_transformers.rehearsal.in_rank")
    if asked["world"] > 1:
        from vlmguard.ranks import alone

        environment = RankEnvironment(0, asked["world"], asked["local"], folder / "tape")
        os.environ.update(environment.variables())
        alone.enter(environment)
    node.answers(fsdp=any(word.startswith("--fsdp") for word in asked["argv"]))
    argv = [*asked["argv"], "--output_dir", str(folder / "out")]
    parser = importlib.import_module("transformers").HfArgumentParser
    parsed = parser(classes).parse_args_into_dataclasses(
        argv, look_for_args_file=False, return_remaining_strings=True
    )
    return list(parsed[: len(classes)])


def _plain(made: Sequence[Any]) -> dict[str, Any]:
    """Fields that JSON can say."""
    found: dict[str, Any] = {}
    for one in made:
        for each in dataclasses.fields(one):
            value = getattr(one, each.name, None)
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                continue
            found.setdefault(each.name, value)
    return found


def _failed(error: BaseException) -> dict[str, str]:
    """The framework's refusal, or why it says nothing of the command."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
    chain = _chain(error)
    ours = any(REFUSED in str(each) for each in chain)
    absent = any(isinstance(each, (ImportError, OSError)) for each in chain)
    if ours or absent or sandbox.lacking(text) or isinstance(error, SystemExit):
        return {"doubt": f"--deep: could not be constructed here: {text}"}
    return {"refused": text}


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


if __name__ == "__main__":
    sys.exit(main())
