"""The blank input: a forward in which a tower did not run runs it on a blank image, video or audio.

    handle = install(model, when="always")     # ZeRO-3, FSDP; "training" for ZeRO-1 and ZeRO-2
    …
    handle.close()

Nothing is added to what the language model sees: no bit of the loss changes, the towers get
gradients of zero, and every rank runs the same modules in the same order. `hooks` says where.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from vlmguard_torch.blank.hooks import Blank, When
from vlmguard_torch.errors import CannotBlank
from vlmguard_torch.layout import model_layout
from vlmguard_torch.media import blank_media
from vlmguard_torch.module_calls import Did

__all__ = ["Blank", "Build", "CannotBlank", "When", "install", "possible"]

Build = Callable[[Any, str], Mapping[str, torch.Tensor]]
"""(module with ``get_{kind}_features``, kind) → that method's arguments. Raises `CannotBlank`."""

_installed: weakref.WeakKeyDictionary[Any, weakref.ref[Blank]] = weakref.WeakKeyDictionary()
_log = logging.getLogger("vlmguard")


def install(
    model: Any,
    towers: Mapping[str, tuple[str, ...]] | None = None,
    when: When = "always",
    build: Build | None = None,
    kinds: tuple[str, ...] | None = None,
    say: Callable[[str], None] = _log.warning,
    failed: Callable[[str], None] = lambda _: None,
    traced: bool = True,
    behind: Mapping[str, tuple[str, ...]] | None = None,
) -> Blank:
    """Put the hooks on ``model``, before or after PEFT, DDP, DeepSpeed or FSDP wrap it.

    towers: kind ("vision", "audio", "aligner") → plain module paths. None: by name.
    when: "always" for a model whose frozen parameters are partitioned too (ZeRO-3, FSDP): every
        forward, trained or frozen, with gradient or not. "training" (ZeRO-1, ZeRO-2): forwards with
        gradient in training mode, of towers that train. "evaluation": all forwards but those that
        train, where the rows of training are known to be text alone.
    build: None: `blank_media.from_config`.
    kinds: the kinds of input that some rank may have ("image", "video", "audio"); on every rank the
        same. None: the first of them that the model has.
    say: told once what went wrong, and that ``generate`` runs without ``synced_gpus``.
    failed: told the same in the forward in which it went wrong; may raise `Stop`
        (`rank_divergence.judge`).
    traced: whether torch.compile is to trace the hooks too, at the price of graph breaks. Without
        it a compiled model runs as without us, and on no blank input.
    behind: kind → paths of modules that are called with its features, one after the other, in the
        module that runs its towers: a trial has found them (`neutral.recipe`).

    Nothing is put on where `CannotBlank` is raised. What was put on before is closed.
    """
    found = model_layout.find(model, towers)
    made = _made(found, build, kinds)
    blank = Blank(found, made, when, say, failed, traced, behind or {})
    before = _installed.get(found.owner, lambda: None)()
    if before is not None:
        before.close()
    _installed[found.owner] = weakref.ref(blank)
    if type(blank.put_on()) is not Did:
        raise CannotBlank("its hooks are not on")
    return blank


def possible(
    model: Any,
    towers: Mapping[str, tuple[str, ...]] | None = None,
    build: Build | None = None,
    kinds: tuple[str, ...] | None = None,
) -> str:
    """Why `install` would raise; "" where it would not."""
    try:
        _made(model_layout.find(model, towers), build, kinds)
    except CannotBlank as error:
        return str(error)
    return ""


def guessed(model: Any) -> bool:
    """Whether it would run parts of the model that this puts together otherwise, for all that can
    be told: to be tried on a copy (`neutral`)."""
    try:
        return model_layout.find(model).guessed
    except CannotBlank:
        return False


def _made(
    found: model_layout.ModelLayout, build: Build | None, kinds: tuple[str, ...] | None
) -> dict[str, dict[str, Any]]:
    make = build or blank_media.from_config
    owner = found.owner
    wanted = {known_kind(found, kind) for kind in kinds or found.kinds[:1]}
    ordered = sorted(wanted, key=found.kinds.index)
    return {kind: blank_media.fit(owner, kind, make(owner, kind)) for kind in ordered}


def known_kind(found: model_layout.ModelLayout, kind: str) -> str:
    """The kind that the model takes it as: a video may be images (InternVL). Raises
    `CannotBlank` for a kind that it does not take."""
    if kind in found.kinds:
        return kind
    if kind == "video" and "image" in found.kinds:
        return "image"
    raise CannotBlank(f"{type(found.owner).__name__} has no get_{kind}_features")
