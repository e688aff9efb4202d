"""The plug-in host: takes rules in through one door, and keeps their faults to itself."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pluggy

from vlmguard.core import hookspecs
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Batch, Failure, Gradients, Run
from vlmguard.core.findings import Finding
from vlmguard.core.setting_values import POLICIES, nearest

GROUP = "vlmguard"
OTHERS = "third-party plug-in"
"""How what is not ours is called where it fails."""
JUDGING = ("pre_wrap", "pre_step")
HOOKS = (*JUDGING, "on_error")
_CODE = re.compile(r"^[A-Z]{2,8}\d{3,4}$")
_OF_A_RULE = ("CODE", "NAME", "DEFAULT")

Fault = Callable[[str, Exception, tuple[Any, ...]], None]
"""Told of what failed, how, and what it was given; never raises."""


class Manager(pluggy.PluginManager):
    """pluggy's manager; containment is put on each implementation when its plug-in registers."""

    def __init__(self, group: str, fault: Fault) -> None:
        super().__init__(group)
        self.fault = fault

    def register(self, plugin: Any, name: str | None = None) -> Any:
        registered = super().register(plugin, name)
        for caller in self.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is not plugin:
                    continue
                if implementation.wrapper or implementation.hookwrapper:
                    # A fault of a hook wrapper would also lose the answers of the hooks inside it.
                    self.unregister(plugin)
                    raise TypeError(f"{registered}: hook wrappers are not accepted")
                safe = contained(implementation.function, _label(plugin), self.fault)
                safe = in_phase(safe, phases(plugin), implementation.argnames)
                implementation.function = safe  # type: ignore[misc]
        return registered


def _marked(plugin: Any) -> Iterator[str]:
    """Names of all that is marked as a hook."""
    return (name for name in dir(plugin) if hasattr(getattr(plugin, name, None), f"{GROUP}_impl"))


def _label(plugin: Any) -> str:
    name = getattr(plugin, "CODE", None) or getattr(plugin, "__name__", None)
    return str(name or type(plugin).__name__)


def contained(function: Callable[..., Any], label: str, fault: Fault) -> Callable[..., Any]:
    """``function``, whose exceptions go to ``fault`` and are answered with None. `Stop` escapes."""

    @functools.wraps(function)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return _checked(function(*args, **kwargs))
        except Stop:
            raise
        except Exception as error:
            what = f"rule {label}" if label.startswith("VG") else f"{OTHERS}: rule {label}"
            fault(what, error, args)
            return None

    return safe


def phases(plugin: Any) -> tuple[str, ...]:
    """What a plug-in speaks for: its ``PHASES``; training alone if it does not say."""
    return tuple(getattr(plugin, "PHASES", ("train",)))


def in_phase(
    function: Callable[..., Any], spoken: tuple[str, ...], names: tuple[str, ...]
) -> Callable[..., Any]:
    """``function``, asked only about runs and batches of the phases that it speaks for, and where
    there is something of what it takes: a batch, gradients."""
    if "failure" in names:
        return function
    batch, run = (names.index(name) if name in names else None for name in ("batch", "run"))

    step = [names.index(name) for name in ("batch", "gradients") if name in names]

    @functools.wraps(function)
    def asked(*args: Any) -> Any:
        if step and all(args[at] is None for at in step):
            return []
        about = args[batch] if batch is not None else None
        if not isinstance(about, Batch):
            about = args[run] if run is not None else None
        return function(*args) if getattr(about, "phase", "train") in spoken else []

    return asked


def _checked(answer: Any) -> list[Finding]:
    findings = answer if isinstance(answer, list) else [] if answer is None else [answer]
    for finding in findings:
        if not isinstance(finding, Finding):
            raise TypeError(f"answered {type(finding).__name__}, not a Finding")
    return findings


class Host:
    """All rules, and the three calls to them."""

    def __init__(self, fault: Fault) -> None:
        self.manager = Manager(GROUP, fault)
        self.manager.add_hookspecs(hookspecs)
        self.rules: dict[str, Any] = {}  # code → plug-in
        self._asked: dict[tuple[str, bool, bool, bool], bool] = {}

    def add(self, plugin: Any, name: str | None = None) -> None:
        """Register a plug-in: an object with hooks, or one that lists them in ``RULES``.

        Raises:
            ValueError: what makes a rule a rule is missing or malformed, or the code is taken.
            TypeError: a hook wrapper.
        """
        if any(each is plugin for _, each in self.manager.list_name_plugin()):  # not by equality
            return
        for rule in getattr(plugin, "RULES", ()):
            self.add(rule)
        code = self._code(plugin)
        self._asked.clear()
        try:
            self.manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            raise ValueError(" ".join(str(error).split())) from None
        if code is not None:
            self.rules[code] = plugin

    def _hooks(self, plugin: Any, names: Iterable[str] = HOOKS) -> bool:
        parse = self.manager.parse_hookimpl_opts
        return any(hasattr(plugin, name) and parse(plugin, name) for name in names)

    def _code(self, plugin: Any) -> str | None:
        """The code of a rule; None for a plug-in that has no hook of its own."""
        hooks = self._hooks(plugin)
        for name in _marked(plugin):
            if name not in HOOKS:
                raise ValueError(f"{_label(plugin)}: no hook {name!r}{nearest(name, HOOKS)}")
        missing = [name for name in _OF_A_RULE if not isinstance(getattr(plugin, name, None), str)]
        if len(missing) == len(_OF_A_RULE) and not hooks:
            return None
        if missing:
            raise ValueError(f"{_label(plugin)} has no {' and no '.join(missing)}")
        code = str(plugin.CODE)
        if plugin.DEFAULT not in POLICIES:
            raise ValueError(
                f"{code}: DEFAULT {plugin.DEFAULT!r}{nearest(plugin.DEFAULT, POLICIES)}"
            )
        if not _CODE.match(code):
            raise ValueError(f"{code!r} is no code: capitals and three digits, like XY101")
        if code in self.rules:
            raise ValueError(f"two rules have the code {code}")
        return code

    def applying(self, framework: str) -> list[Any]:
        """The rules that judge runs of a framework, for it or for any; not those that only explain
        an exception."""
        return [
            rule
            for rule in self.rules.values()
            if self._hooks(rule, JUDGING) and framework in getattr(rule, "FRAMEWORKS", (framework,))
        ]

    def pre_wrap(self, run: Run) -> list[Finding]:
        return _flat(self.manager.hook.pre_wrap(run=run))

    def pre_step(
        self, run: Run, batch: Batch | None = None, gradients: Gradients | None = None
    ) -> list[Finding]:
        rows = batch is not None and bool(batch.samples)
        if not self.asks(run.framework, batch is not None, rows, gradients is not None):
            return []  # this runs for each batch of each step
        return _flat(self.manager.hook.pre_step(run=run, batch=batch, gradients=gradients))

    def asks(
        self, framework: str, batch: bool = False, rows: bool = False, gradients: bool = False
    ) -> bool:
        """Whether a rule judges such steps of a framework.

        Args:
            batch: the step's batch is given.
            rows: its rows are given one by one. A rule with ``ROWS = True`` reads nothing else.
            gradients: a window's gradients are given.
        """
        key = (framework, batch, rows, gradients)
        if key not in self._asked:
            self._asked[key] = any(
                self._wants(each.plugin, each.argnames, batch, rows, gradients)
                for each in self.manager.hook.pre_step.get_hookimpls()
                if framework in getattr(each.plugin, "FRAMEWORKS", (framework,))
            )
        return self._asked[key]

    @staticmethod
    def _wants(
        plugin: Any, names: tuple[str, ...], batch: bool, rows: bool, gradients: bool
    ) -> bool:
        if gradients and "gradients" in names:
            return True
        return batch and "batch" in names and (rows or not getattr(plugin, "ROWS", False))

    def on_error(self, run: Run | None, batch: Batch | None, failure: Failure) -> list[Finding]:
        return _flat(self.manager.hook.on_error(run=run, batch=batch, failure=failure))


def _flat(answers: Iterable[list[Finding]]) -> list[Finding]:
    return sorted((f for answer in answers for f in answer), key=lambda f: f.code)
