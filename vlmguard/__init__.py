"""vlmguard checks, mends and explains vision-language fine-tuning runs.

Importing this package is cheap (standard library only): it happens at every interpreter start,
through ``vlmguard.pth``. Public names load on first use.
"""

__version__ = "0.2.0"

_PUBLIC = {
    "Batch": "core.facts",
    "Checkpointing": "core.facts",
    "Choose": "core.findings",
    "Failure": "core.facts",
    "Finding": "core.findings",
    "Gradients": "core.facts",
    "Run": "core.facts",
    "Tower": "core.facts",
    "guard_model": "by_hand",
    "hookimpl": "core.hookspecs",
    "hookspec": "core.hookspecs",
}

__all__ = [
    "Batch",
    "Checkpointing",
    "Choose",
    "Failure",
    "Finding",
    "Gradients",
    "Run",
    "Tower",
    "__version__",
    "guard_model",
    "hookimpl",
    "hookspec",
]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        import importlib

        return getattr(importlib.import_module(f"vlmguard.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'vlmguard' has no attribute {name!r}")
