"""``vlmguard compat``: asks the measured tables, for any releases, without torch.

Costs about 0.2 s over ``python -c pass``, so that a script may ask in a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vlmguard.cli import messages
from vlmguard.compat import cases
from vlmguard.compat.cases import Query

if TYPE_CHECKING:
    from vlmguard.compat.choice import Choice

PACKAGES = ("torch", "deepspeed", "transformers", "peft")
CHECKPOINTING = ("on", "off", *cases.CHECKPOINTING[1:])
_AXES: Mapping[str, tuple[str, ...]] = {
    "strategy": cases.STRATEGIES,
    "tuning": cases.TUNING,
    "model": cases.MODELS,
    "batch": cases.BATCHES,
    "accumulation": tuple(map(str, cases.ACCUMULATION)),
    "checkpointing": CHECKPOINTING,
}
TRAINS = (
    "what trains: everything; LoRA on the language model; LoRA on it and on the vision tower; "
    "everything but the tower"
)
MODEL = (
    "a small model with a vision tower; transformers' Qwen2-VL; a tower that runs once for each "
    "image; a weight that two blocks share; two forwards before a backward, as in DPO (default: "
    "the first two)"
)
BATCH = (
    "what the batches hold: images on all ranks; text on all; images on one and text on another; "
    "the same, with a dummy image beside the text; a step of images, then one of text"
)
VARIANT = (
    "on: say which variant works; off: say whether training without it works; the others: say "
    "whether that variant works"
)
_Release = Annotated[str, typer.Option(metavar="RELEASE", help="default: the installed one")]
_Open = Annotated[str, typer.Option(metavar="RELEASE", help="default: it is not looked at")]


def _option(axis: str, what: str) -> Any:
    return typer.Option(metavar="|".join(_AXES[axis]), help=what)


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("compat")(compat)


def compat(
    strategy: Annotated[str, _option("strategy", "how the model is distributed")] = "",
    torch: _Release = "",
    deepspeed: _Release = "",
    transformers: _Open = "",
    peft: _Open = "",
    tuning: Annotated[str, _option("tuning", TRAINS)] = "full",
    model: Annotated[str, _option("model", MODEL)] = "",
    batch: Annotated[str, _option("batch", BATCH)] = "images",
    accumulation: Annotated[str, _option("accumulation", "micro-batches before a step")] = "1",
    checkpointing: Annotated[str, _option("checkpointing", VARIANT)] = "on",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON for another program")] = False,
) -> None:
    """Say which gradient checkpointing works with given releases.

    The answer comes from tables that were measured. Reentrant and non-reentrant are the two
    variants of gradient checkpointing in torch.

    Example: `vlmguard compat --strategy zero3 --tuning lora --deepspeed 0.16.9`

    Exit status: 0, it works; 1, nothing that was asked for works; 2, an option was not understood.
    """
    given = {"strategy": strategy, "tuning": tuning, "model": model, "batch": batch,
             "accumulation": accumulation, "checkpointing": checkpointing}  # fmt: skip
    asked = {axis: _value(axis, word.strip()) for axis, word in given.items() if word.strip()}
    if "strategy" not in asked:
        messages.fail(f"--strategy is missing; there is: {', '.join(cases.STRATEGIES)}")
    releases = {"torch": torch, "deepspeed": deepspeed, "transformers": transformers, "peft": peft}
    query = _query(asked, _releases(asked["strategy"], releases))
    from vlmguard.compat import choice

    answer = choice.answer(query)
    if as_json:
        messages.show_json(_data(asked, query, answer))
    else:
        typer.echo("\n".join(_told(asked, query, answer)))
    raise typer.Exit(int(_fails(answer)))


def _value(axis: str, word: str) -> str:
    """The word if the axis has it; leaves with the nearest one if not."""
    if word in _AXES[axis]:
        return word
    near = strategies_like(word) if axis == "strategy" else ()
    if near:
        messages.fail(f"--strategy: {word!r} is not one of the table's: did you mean {_or(near)}?")
    if axis == "strategy" and _plain(word) in ("zero0", "stage0", "0"):
        messages.fail("--strategy: zero0 (DeepSpeed without partitioning) was not measured")
    from vlmguard.core.settings import nearest

    hint = nearest(word.lower(), _AXES[axis])
    messages.fail(f"--{axis}: {word!r} is not one of its values{hint}")


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _or(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def strategies_like(word: str) -> tuple[str, ...]:
    """What somebody means who writes "deepspeed", "ZeRO-3", "stage2" or "fsdp"."""
    plain = _plain(word)
    exact = tuple(s for s in cases.STRATEGIES if _plain(s) == plain)
    stage = re.fullmatch(r"(?:deepspeed)?(?:zero|stage)*([123])(?:offload)?", plain)
    if exact or stage:
        return exact or (f"zero{stage[1]}",) if stage else exact
    if plain.startswith(("deepspeed", "ds")) or plain == "zero":
        return tuple(s for s in cases.STRATEGIES if s.startswith("zero") and "_" not in s)
    if plain.startswith("fsdp"):
        return ("fsdp2",)
    if plain in ("dataparallel", "distributeddataparallel", "dp", "multigpu"):
        return ("ddp",)
    return ()


def _releases(strategy: str, given: Mapping[str, str]) -> dict[str, str]:
    """Releases as they were written, a minor's newest measured one, or the installed ones."""
    needed = ("torch", "deepspeed") if strategy.startswith("zero") else ("torch",)
    found = {name: _release(name, word.strip()) for name, word in given.items() if word.strip()}
    missing = {name: _installed(name) for name in needed if name not in found}
    return {name: {**found, **missing}[name] for name in PACKAGES if name in {**found, **missing}}


def _release(name: str, word: str) -> str:
    """A release as it was written, or the newest measured one of a minor ("4.51")."""
    from vlmguard.compat import verdicts

    version = verdicts.base(word)
    known = verdicts.releases_of(name)
    if version is None:
        messages.fail(f"--{name}: {word!r} is no release; measured: {', '.join(map(str, known))}")
    short = [v for v in known if len(version.release) < 3 and v.release[:2] == version.release[:2]]
    return str(max(short)) if short and version not in known else word


def _installed(name: str) -> str:
    from importlib import metadata

    from vlmguard.compat import verdicts

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        known = ", ".join(map(str, verdicts.releases_of(name)))
        messages.fail(f"--{name} is missing, and none is installed; measured: {known}")


def _query(asked: Mapping[str, str], releases: Mapping[str, str]) -> Query:
    strategy, wanted = asked["strategy"], asked["checkpointing"]
    variants = {"on": ("non_reentrant", "reentrant"), "off": ("none",)}
    return Query(
        releases=releases,
        strategy="ddp" if strategy.startswith("ddp") else strategy,
        wrap=strategy,
        checkpointing=variants.get(wanted, (wanted,)),
        tuning=(asked["tuning"],),
        models=(asked["model"],) if "model" in asked else ("two_tower", "qwen2_vl"),
        batches=(asked["batch"],),
        accumulation=int(asked["accumulation"]),
    )


def _told(asked: Mapping[str, str], query: Query, choice: Choice) -> Iterator[str]:
    releases = [f"{name} {release}" for name, release in query.releases.items()]
    axes = [asked[name] for name in ("strategy", "tuning", "model", "batch") if name in asked]
    yield ", ".join([*releases, *axes, f"accumulation {asked['accumulation']}"])
    yield f"{choice.verdict}: {_answer(choice)}"
    if choice.evidence:
        yield f"  {choice.evidence}"
    if choice.untested:
        yield f"  not run by us: {', '.join(choice.untested)}"
    for note in choice.notes:
        yield f"  also: {note}"
    if choice.instead:
        yield f"  the nearest that works: {', '.join(choice.instead)}"
    yield from messages.columns(
        (option.wrap, option.checkpointing, f"{option.seen.verdict}, {option.seen.how}"
         if option.seen is not None else "not known")
        for option in choice.options
    )  # fmt: skip


def _answer(choice: Choice) -> str:
    if choice.verdict == "nothing":
        return "no variant of gradient checkpointing works"
    if _fails(choice):
        return "no variant of gradient checkpointing works on the nearest releases"
    named = ("use_reentrant", "find_unused", "static_graph")
    values = {name: getattr(choice, name) for name in named if getattr(choice, name) is not None}
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "as it is"


def _fails(choice: Choice) -> bool:
    """Whether nothing works, certainly or as far as is known."""
    broken = [option.broken for option in choice.options]
    return choice.verdict == "nothing" or (bool(broken) and all(broken))


def _data(asked: Mapping[str, str], query: Query, choice: Choice) -> dict[str, Any]:
    return {"asked": {**asked, "releases": dict(query.releases)}, **asdict(choice)}
