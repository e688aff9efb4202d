"""Observations kept on disk: once per model, release and patch state on a machine.

A file that cannot be read, or holds anything but what we wrote for this very key, is as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from vlmguard_torch.observe import observed

LARGEST = 4 << 20
"""Bytes of a file that is still read."""


def folder() -> Path | None:
    """Where observations lie, as the XDG directories say; None without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base, "vlmguard", "observed")
    try:
        return Path(Path.home(), ".cache", "vlmguard", "observed")
    except RuntimeError:
        return None


def load(key: str) -> observed.Observed | None:
    """What was observed under this key, or None."""
    place = folder()
    try:
        path = place / f"{key}.json" if place else None
        if path is None or path.stat().st_size > LARGEST:
            return None
        data = json.loads(path.read_text("utf-8"))
        return observed.from_data(data["observed"]) if data["key"] == key else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def store(key: str, facts: observed.Observed) -> bool:
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
            json.dump({"key": key, "observed": observed.to_data(facts)}, file)
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
