"""One repository a file: what is run, on which rows and model, and what is changed for the CPU."""

from __future__ import annotations

import importlib
import pkgutil

from tools.repositories.recipe import Recipe


def every() -> list[Recipe]:
    """All, by name."""
    names = [each.name for each in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    made = [each for one in modules for each in getattr(one, "RECIPES", ()) or [one.RECIPE]]
    return sorted(made, key=lambda recipe: recipe.name)
