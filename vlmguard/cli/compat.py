"""``vlmguard compat``: asks the measured tables from the command line.

Loads neither torch nor typer nor rich, so that a script may ask in a loop: about 0.1 s.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from vlmguard.compat import cases, verdicts
from vlmguard.compat import choice as compat
from vlmguard.compat.cases import Query
from vlmguard.compat.choice import Choice
from vlmguard.core.settings import nearest

PACKAGES = ("torch", "deepspeed", "transformers", "peft")
_AXES = {
    "strategy": cases.STRATEGIES,
    "tuning": cases.TUNING,
    "model": cases.MODELS,
    "batch": cases.BATCHES,
    "accumulation": tuple(map(str, cases.ACCUMULATION)),
    "checkpointing": ("on", "off", *cases.CHECKPOINTING[1:]),
}
_HELP = {
    "strategy": "how the model is distributed",
    "tuning": "what trains",
    "model": "a trait of the model; without, the plain and the real one",
    "batch": "what the batches of the ranks hold",
    "accumulation": "micro-batches before a step",
    "checkpointing": "on: which variant works; or one of them; or off",
}
_DEFAULTS = {"tuning": "full", "batch": "images", "accumulation": "1", "checkpointing": "on"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(message)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with status 2."""
    sys.stderr.write(f"vlmguard compat: {message}\n")
    raise SystemExit(2)


def main(words: Sequence[str] | None = None) -> int:
    """Answer one question. Status 0: something works; 1: nothing does; 2: not understood."""
    asked = _parse(sys.argv[2:] if words is None else words)
    query = _query(asked)
    choice = compat.answer(query)
    print("\n".join(_told(asked, query, choice)))
    return 1 if choice.verdict == "nothing" else 0


def _parse(words: Sequence[str]) -> dict[str, str]:
    parser = _Parser(prog="vlmguard compat", description=__doc__, allow_abbrev=False)
    for name in PACKAGES:
        parser.add_argument(f"--{name}", metavar="RELEASE", help="without: the installed one")
    for name, values in _AXES.items():
        parser.add_argument(f"--{name}", metavar="|".join(values), help=_HELP[name])
    known, unknown = parser.parse_known_args(list(words))
    if unknown:
        flags = [f"--{name}" for name in (*PACKAGES, *_AXES)]
        fail(f"unknown argument {unknown[0]}{nearest(unknown[0].partition('=')[0], flags)}")
    asked = {**_DEFAULTS, **{k: v.strip() for k, v in vars(known).items() if v is not None}}
    if "strategy" not in asked:
        fail(f"--strategy is missing{nearest('', cases.STRATEGIES)}")
    for name, values in _AXES.items():
        if name in asked and asked[name] not in values:
            fail(f"--{name}: {asked[name]!r} is none{nearest(asked[name].lower(), values)}")
    return asked


def _query(asked: dict[str, str]) -> Query:
    strategy = asked["strategy"]
    needed = ("torch", "deepspeed") if strategy.startswith("zero") else ("torch",)
    for name in PACKAGES:
        if name in asked:
            asked[name] = _release(name, asked[name])
        elif name in needed:
            asked[name] = _installed(name)
    variants = {"on": ("non_reentrant", "reentrant"), "off": ("none",)}
    wanted = asked["checkpointing"]
    return Query(
        releases={name: asked[name] for name in PACKAGES if name in asked},
        strategy="ddp" if strategy.startswith("ddp") else strategy,
        wrap=strategy,
        checkpointing=variants.get(wanted, (wanted,)),
        tuning=(asked["tuning"],),
        models=(asked["model"],) if "model" in asked else ("two_tower", "qwen2_vl"),
        batches=(asked["batch"],),
        accumulation=int(asked["accumulation"]),
    )


def _release(name: str, word: str) -> str:
    """A release as it was written, or the newest measured one of a minor ("4.51")."""
    version = verdicts.base(word)
    known = verdicts.releases_of(name)
    if version is None:
        fail(f"--{name}: {word!r} is no release{nearest(word, map(str, known))}")
    short = [v for v in known if len(version.release) < 3 and v.release[:2] == version.release[:2]]
    return str(max(short)) if short and version not in known else word


def _installed(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        known = map(str, verdicts.releases_of(name))
        fail(f"--{name} is missing, and none is installed{nearest('', known)}")


def _told(asked: dict[str, str], query: Query, choice: Choice) -> Iterator[str]:
    releases = [f"{name} {release}" for name, release in query.releases.items()]
    axes = [asked[name] for name in ("strategy", "tuning", "model", "batch") if name in asked]
    yield ", ".join([*releases, *axes, f"accumulation {asked['accumulation']}"])
    yield f"{choice.verdict}: {_answer(choice)}"
    if choice.evidence:
        yield f"  {choice.evidence}"
    if choice.untested:
        yield f"  not run by us: {', '.join(choice.untested)}"
    if choice.instead:
        yield f"  the nearest that works: {', '.join(choice.instead)}"
    for option in choice.options:
        seen = option.seen
        told = f"{seen.verdict}, {seen.how}" if seen is not None else "not known"
        yield f"  {option.wrap:17}{option.checkpointing:15}{told}"


def _answer(choice: Choice) -> str:
    if choice.verdict == "nothing":
        return "no variant of gradient checkpointing works"
    named = ("use_reentrant", "find_unused", "static_graph")
    values = {name: getattr(choice, name) for name in named if getattr(choice, name) is not None}
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "as it is"
