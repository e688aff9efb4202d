"""Makes functions of the guard raise in a real run: VLMGUARD_TEST_FAULT=module:name,module:name.

Each says in standard error that it was reached, `made to fail: module:name`, before it raises.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any

import vlmguard_imports


def install() -> None:
    """Replace each named function once its module has been imported."""
    wanted: dict[str, list[str]] = {}
    for target in os.environ["VLMGUARD_TEST_FAULT"].split(","):
        module, _, name = target.partition(":")
        wanted.setdefault(module, []).append(name)
    for module, names in wanted.items():
        if module in sys.modules:
            _break(names, sys.modules[module])
        else:
            vlmguard_imports.after(module, functools.partial(_break, names))


def _break(names: list[str], module: ModuleType) -> None:
    for name in names:
        *parents, last = name.split(".")
        owner = functools.reduce(getattr, parents, module)
        if not hasattr(owner, last):
            raise AttributeError(f"{module.__name__} has no {name}: this fault would test nothing")
        kept = vars(owner).get(last)
        raises = functools.partial(_raises, f"{module.__name__}:{name}")
        if isinstance(kept, property):
            setattr(owner, last, property(raises))
        else:
            setattr(owner, last, staticmethod(raises) if parents else raises)


def _raises(name: str, *_: Any, **__: Any) -> Any:
    sys.stderr.write(f"made to fail: {name}\n")
    raise RuntimeError("made to fail by the tests")
