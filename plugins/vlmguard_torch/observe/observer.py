"""What each kind of row uses of a model, observed on a tiny copy of it.

    facts = observe(model)
    facts.unused("model.visual.blocks.0.norm1.weight", ["text", "image"])   # True, False or None

The copy is of the user's own class, from its own config, on the CPU, and leaves no trace. What
cannot be copied or run is answered as "may", with the reason; nothing here raises.

What was observed is kept on disk: once per model, release and patch state on a machine. A file that
cannot be read, or holds anything but what we wrote for this very key, is as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vlmguard_torch.layout.parameters import Parameters
from vlmguard_torch.observe.isolated_state import isolated_state, strategy
from vlmguard_torch.observe.observed import Observed, from_data, may, reason, to_data
from vlmguard_torch.observe.reached import kept

if TYPE_CHECKING:
    from vlmguard_torch.observe.blank_trial import Blank

LARGEST = 4 << 20
"""Bytes of a file that is still read."""


def observe(
    model: Any,
    blank: Blank | None = None,
    cache: bool = True,
    media: tuple[str, ...] | None = None,
    reentrant: bool = False,
) -> Observed:
    """Observe a model, bare or under PEFT, DDP or torch.compile, on whatever device its weights
    are, partitioned or not: only its class, its config and its names are read.

    media: kinds of blank input to be tried; None: all that the model computes features of.
    reentrant: whether to see what reentrant checkpointing leaves without a gradient.

    The answer is the same in every process, but where one ran out of time; compare before acting
    on it together.
    """
    begun = time.monotonic()
    if os.environ.get("VLMGUARD_OBSERVE", "").strip().lower() in ("off", "0", "false", "no"):
        return may("switched off by VLMGUARD_OBSERVE")
    name = type(bare(model)).__qualname__
    try:
        with isolated_state(), kept(bare(model)):
            return _observe(bare(model), blank, cache, media, reentrant)
    except Exception as error:
        return may(reason(error), name, time.monotonic() - begun)


def bare(model: Any) -> Any:
    """The model without what was put around it."""
    for _ in range(5):
        inner = getattr(model, "_orig_mod", None)
        if inner is None and hasattr(model, "get_base_model"):
            inner = model.get_base_model()
        if inner is None and type(model).__module__.startswith("torch.nn.parallel"):
            inner = model.module
        if inner is None:
            return model
        model = inner
    return model


def _observe(
    model: Any,
    blank: Blank | None,
    cache: bool,
    media: tuple[str, ...] | None,
    reentrant: bool,
) -> Observed:
    part, model = subject(model)
    extra = [part, str((blank is not None, media, reentrant)), strategy()]
    named = Parameters(model)
    name = key(model, model.config, extra, named) if cache else ""
    known = load(name) if cache else None
    if known is not None:
        return known
    from vlmguard_torch.observe import measure

    facts = measure.cut_or_whole(model, part, blank, media, reentrant, named)
    reasons = (facts.reason, *(one.reason for one in (*facts.kinds, *facts.blanks)))
    over = any("TooLong" in one for one in reasons)
    if cache and not over:
        store(name, facts)
    return facts


def subject(model: Any) -> tuple[str, Any]:
    """The model that has a forward, and its path: of Qwen-Omni's several, the one that is trained.

    Raises TypeError for what has neither forward nor config.
    """
    for path, part in (("", model), *model.named_children()):
        if hasattr(part, "config") and type(part).forward is not torch.nn.Module.forward:
            return path, part
    raise TypeError(f"{type(model).__qualname__} has no config to copy it from")


def folder() -> Path | None:
    """Where observations lie, as the XDG directories say; None without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base, "vlmguard", "observed")
    try:
        return Path(Path.home(), ".cache", "vlmguard", "observed")
    except RuntimeError:
        return None


def load(key: str) -> Observed | None:
    """What was observed under this key, or None."""
    place = folder()
    try:
        path = place / f"{key}.json" if place else None
        if path is None or path.stat().st_size > LARGEST:
            return None
        data = json.loads(path.read_text("utf-8"))
        return from_data(data["observed"]) if data["key"] == key else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def store(key: str, facts: Observed) -> bool:
    """Written beside and moved into place; whether it was written."""
    place = folder()
    if place is None:
        return False
    try:
        place.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=place, suffix=".part")
    except OSError:
        return False
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump({"key": key, "observed": to_data(facts)}, file)
        os.replace(name, place / f"{key}.json")
        return True
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        return False


def key(model: Any, config: Any, extra: Iterable[str] = (), named: Any = None) -> str:
    """A digest of all that an observation depends on: our source, the releases, the config, the
    source of every class in the model with the functions that are its forwards now, and the
    model's own structure. ``named`` has the model's parameters, if they have been walked over."""
    parts = [
        _own_source(),
        *_releases(),
        _stable(config),
        *_classes(model),
        *_structure(model, model if named is None else named),
        *_replaced(model),
        *extra,
    ]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:40]


def _own_source() -> str:
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _releases() -> list[str]:
    names = ("torch", "transformers", "peft", "liger_kernel")
    found = []
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name}=={metadata.version(name)}")
    return [sys.version.split()[0], *found]


def _stable(config: Any) -> str:
    data = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    return json.dumps(data, sort_keys=True, default=str)


def _classes(model: Any) -> list[str]:
    """Each class with its file's content, and each forward with its code: a patched class is
    another one."""
    found = {}
    for part in model.modules():
        for kind in type(part).__mro__:
            found[kind] = None
    return sorted(_describe(kind) for kind in found)


_files: dict[str, str] = {}


def _describe(kind: type) -> str:
    forward = inspect.unwrap(vars(kind).get("forward", kind), stop=lambda one: not callable(one))
    code = getattr(forward, "__code__", None)
    body = "" if code is None else hashlib.sha256(code.co_code).hexdigest()
    where = "" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return f"{kind.__module__}.{kind.__qualname__} {_source(kind)} {where} {body}"


def _source(kind: type) -> str:
    name = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if not isinstance(name, str):
        return ""
    if name not in _files:
        try:
            _files[name] = hashlib.sha256(Path(name).read_bytes()).hexdigest()
        except OSError:
            _files[name] = ""
    return _files[name]


def _structure(model: Any, named: Any) -> list[str]:
    """Names, classes, and which names are one weight."""
    first: dict[int, str] = {}
    names = [
        f"{name}={first.setdefault(id(weight), name)}"
        for name, weight in named.named_parameters(remove_duplicate=False)
    ]
    return [*names, *(f"{path}:{type(part).__qualname__}" for path, part in model.named_modules())]


def _replaced(model: Any) -> list[str]:
    """Functions that stand on modules themselves, by their code."""
    found = []
    for path, part in model.named_modules():
        for key, one in vars(part).items():
            function = getattr(one, "__func__", getattr(one, "func", one))
            code = getattr(function, "__code__", None)
            if code is not None:
                found.append(f"{path}.{key} {code.co_filename}:{code.co_firstlineno}")
                found.append(hashlib.sha256(code.co_code).hexdigest())
    return found
