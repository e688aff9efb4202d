"""The plug-in host: loads rules and adapters through one door, and keeps their faults to itself."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Callable, Iterable
from typing import Any

import pluggy

from vlmguard import hookspecs
from vlmguard.facts import Batch, Failure, Finding, Gradients, Run
from vlmguard.faults import fault
from vlmguard.stop import Stop

GROUP = "vlmguard"
_CODE = re.compile(r"^[A-Z]{2,8}\d{3,4}$")


class Manager(pluggy.PluginManager):
    """pluggy's manager; containment is put on each implementation when its plug-in registers."""

    def register(self, plugin: Any, name: str | None = None) -> Any:
        registered = super().register(plugin, name)
        for caller in self.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is not plugin:
                    continue
                if implementation.wrapper or implementation.hookwrapper:
                    # A generator around others' answers cannot be contained on its own.
                    self.unregister(plugin)
                    raise TypeError(f"{registered}: hook wrappers are not accepted")
                safe = contained(implementation.function, _label(plugin))
                implementation.function = safe  # type: ignore[misc]
        return registered


def _label(plugin: Any) -> str:
    name = getattr(plugin, "CODE", None) or getattr(plugin, "__name__", None)
    return str(name or type(plugin).__name__)


def contained(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    """``function``, whose exceptions are reported once and answered with None. `Stop` escapes."""

    @functools.wraps(function)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return _checked(function(*args, **kwargs))
        except Stop:
            raise
        except Exception as error:
            fault(f"rule {label}", error)
            return None

    return safe


def _checked(answer: Any) -> list[Finding]:
    findings = answer if isinstance(answer, list) else [] if answer is None else [answer]
    for finding in findings:
        if not isinstance(finding, Finding):
            raise TypeError(f"answered {type(finding).__name__}, not a Finding")
    return findings


class Host:
    """All rules, and the three calls to them."""

    def __init__(self) -> None:
        self.manager = Manager(GROUP)
        self.manager.add_hookspecs(hookspecs)
        self.rules: dict[str, Any] = {}  # code → plug-in

    def load(self) -> Host:
        """Register every plug-in of the entry-point group, each contained."""
        for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
            try:
                self.add(entry.load(), entry.name)
            except Exception as error:
                fault(f"plug-in {entry.name}", error)
        return self

    def add(self, plugin: Any, name: str | None = None) -> None:
        """Register a plug-in: an object with hooks, or one that lists them in ``RULES``."""
        for rule in getattr(plugin, "RULES", ()):
            self.add(rule)
        code = getattr(plugin, "CODE", None)
        if code is not None:
            if not _CODE.match(code):
                raise ValueError(f"{code!r} is no code: capitals and three digits, like XY101")
            if code in self.rules:
                raise ValueError(f"two rules have the code {code}")
        self.manager.register(plugin, name)
        if code is not None:
            self.rules[code] = plugin

    def pre_wrap(self, run: Run) -> list[Finding]:
        return _flat(self.manager.hook.pre_wrap(run=run))

    def pre_step(
        self, run: Run, batch: Batch | None = None, gradients: Gradients | None = None
    ) -> list[Finding]:
        return _flat(self.manager.hook.pre_step(run=run, batch=batch, gradients=gradients))

    def on_error(self, run: Run | None, batch: Batch | None, failure: Failure) -> list[Finding]:
        return _flat(self.manager.hook.on_error(run=run, batch=batch, failure=failure))


def _flat(answers: Iterable[list[Finding]]) -> list[Finding]:
    return sorted((f for answer in answers for f in answer), key=lambda f: f.code)


@functools.cache
def get() -> Host:
    """The process's host, loaded at the first use: entry points are never scanned at start-up."""
    return Host().load()
