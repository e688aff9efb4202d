"""Rules whose file is imported where it is wanted: for its page, or for a run that it may concern.

Until then a `Page` stands for it in a list of rules. What that says of the rule is what the file
says; a test compares them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from vlmguard.core.facts import Batch, Gradients, Run
from vlmguard.core.hookspecs import Answer, hookimpl


class Page:
    # ``vg610_odd_rows.py`` is VG610 ``odd-rows``, unless a name is given. ``more`` holds the rule's
    # other constants and its hooks.

    def __init__(self, module: str, default: str = "warn", name: str = "", **more: Any) -> None:
        code, _, words = module.rpartition(".")[2].partition("_")
        self.CODE, self.NAME = code.upper(), name or words.replace("_", "-")
        self.DEFAULT, self.module, self._more = default, module, tuple(more)
        vars(self).update(more)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The rule's page."""
        return importlib.import_module(self.module).__doc__

    def __dir__(self) -> Iterable[str]:
        """What a plug-in host looks at."""
        return ("CODE", "DEFAULT", "NAME", *self._more)


def of_runs(
    module: str,
    default: str,
    name: str = "",
    concerns: Callable[[Run], bool] = lambda run: True,
    **more: Any,
) -> Page:
    """A rule that judges runs.

    Args:
        concerns: whether it may have something to say about a run. If not, it is not asked.
        more: its constants, such as ``PHASES``.
    """

    @hookimpl
    def pre_wrap(run: Run) -> Answer:
        return importlib.import_module(module).pre_wrap(run) if concerns(run) else None

    return Page(module, default, name, pre_wrap=pre_wrap, **more)


def of_batches(module: str, default: str, name: str = "", **more: Any) -> Page:
    """A rule that judges batches."""

    @hookimpl
    def pre_step(run: Run, batch: Batch | None) -> Answer:
        found: Answer = importlib.import_module(module).pre_step(run, batch)
        return found

    return Page(module, default, name, pre_step=pre_step, **more)


def of_gradients(
    module: str, default: str, name: str, concerns: Callable[[Gradients], Any], **more: Any
) -> Page:
    """A rule that judges gradients; ``concerns`` as above."""

    @hookimpl
    def pre_step(run: Run, gradients: Gradients | None) -> Answer:
        if gradients is not None and not concerns(gradients):
            return None
        found: Answer = importlib.import_module(module).pre_step(run, gradients)
        return found

    return Page(module, default, name, pre_step=pre_step, **more)
