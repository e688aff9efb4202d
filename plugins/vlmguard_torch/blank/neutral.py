"""What a blank input was seen to do on a tiny copy of the model, and how it is made accordingly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from vlmguard_torch.blank import blank_input
from vlmguard_torch.layout import model_layout
from vlmguard_torch.layout.towers import without_adapters
from vlmguard_torch.media import blank_media
from vlmguard_torch.observe import example_media, observer
from vlmguard_torch.observe.observed import Observed, Tried, name_of


def kinds(model: Any) -> tuple[str, ...]:
    """All kinds of input of which a blank can be made from the config, in the model's own order."""
    found = model_layout.find(model).kinds
    return tuple(kind for kind in found if not blank_input.possible(model, kinds=(kind,)))


@contextmanager
def _on(model: Any, tries: Sequence[Tried]) -> Iterator[blank_input.Blank]:
    """``model`` with these blanks, for the time of a trial. Raises RuntimeError at the end where
    one failed."""
    put = blank_input.install(
        model,
        when="always",
        kinds=tuple(each.kind for each in tries),
        say=lambda _: None,
        **_recipe(model, tries),
    )
    try:
        yield put
        if put.fault:
            raise RuntimeError(put.fault)
    finally:
        put.close()


def observed(model: Any, wanted: tuple[str, ...] | None = (), reentrant: bool = False) -> Observed:
    """What rows use of ``model``, and what a blank input of these kinds does in it (None: of the
    first kind that it has; (): of each). ``reentrant``: as `observer.observe` takes it."""
    media = None if wanted == () else tuple(_single(model, wanted))
    return observer.observe(model, blank=_on, media=media, reentrant=reentrant)


def recipe(model: Any, facts: Observed | None) -> dict[str, Any]:
    """``build`` and ``behind`` of `blank_input.install`, as proven for the class of ``model``."""
    if not facts:
        return {}
    _, whole = observer.subject(observer.bare(without_adapters(model)))
    return _recipe(model, facts.blanks if facts.model == name_of(whole) else ())


def _recipe(model: Any, tries: Sequence[Tried]) -> dict[str, Any]:
    numbers = {each.kind: each.candidate for each in tries if each.proven}
    behind = {each.kind: each.behind for each in tries if each.proven and each.behind}

    def build(owner: Any, kind: str) -> Any:
        number = numbers.get(kind)
        if number is None:
            return blank_media.from_config(owner, kind)
        _, whole = observer.subject(observer.bare(without_adapters(model)))
        with torch.random.fork_rng(devices=[]):
            return blank_media.emptied(example_media.numbered(whole, kind, number))

    return {"build": build, "behind": behind}


def why_not(
    model: Any,
    facts: Observed | None,
    wanted: tuple[str, ...] | None = None,
) -> str:
    """Why the model can run no blank input of these kinds by itself (None: of the first that it
    has); "" where it was seen to, and where nothing could be tried (`untried` says so)."""
    tries = _asked(model, facts, wanted)
    refuted = [each for each in tries if each.proven is False]
    if refuted:
        return f"tried on a small copy of {type(model).__name__}: {refuted[0].reason}"
    if reason := blank_input.possible(model, build=recipe(model, facts).get("build"), kinds=wanted):
        return reason
    if blank_input.guessed(model) and (why := untried(model, facts, wanted)):
        return f"{why}, and the class names no method for the features"
    return ""


def untried(model: Any, facts: Observed | None, wanted: tuple[str, ...] | None = None) -> str:
    """Why some of these kinds could not be tried on a copy; "" where all were."""
    name = type(model).__name__
    if not facts:
        return f"{name} could not be observed: {facts.reason if facts is not None else 'our fault'}"
    tries = _asked(model, facts, wanted)
    if not tries:
        return f"no blank input was tried for {name}"
    return next((f"{each.kind}: {each.reason}" for each in tries if each.proven is None), "")


def _asked(model: Any, facts: Observed | None, wanted: tuple[str, ...] | None) -> list[Tried]:
    """The answers for these kinds, and for those of them that were tried together."""
    if facts is None:
        return []
    single = _single(model, wanted)
    found = [each for kind in single if (each := facts.blank(kind))]
    several = [each for each in facts.blanks if "+" in each.kind]
    return [*found, *(each for each in several if {*each.kind.split("+")} <= {*single})]


def _single(model: Any, wanted: tuple[str, ...] | None) -> list[str]:
    """Each kind as the model takes it; [] where it takes one of them not at all."""
    try:
        found = model_layout.find(model)
        single = [blank_input.known_kind(found, kind) for kind in wanted or found.kinds[:1]]
    except blank_input.CannotBlank:
        return []
    return list(dict.fromkeys(single))
