"""Settings: what each rule may do, what is to be frozen, where the report goes.

Precedence: defaults < file < environment < command line. A rank passes the resolved settings to its
children (dataloader workers) in ``VLMGUARD_RESOLVED``, together with their sources. If the
environment has changed since, as in a notebook before its second training, they are resolved again
under the same command line.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vlmguard.core.errors import SettingsError
from vlmguard.core.setting_values import OFF, ON
from vlmguard.core.setting_values import nearest as nearest
from vlmguard.core.setting_values import read_bool as read_bool
from vlmguard.core.setting_values import read_freeze as read_freeze
from vlmguard.core.setting_values import read_ledger as read_ledger
from vlmguard.core.setting_values import read_pairs as read_pairs
from vlmguard.core.setting_values import read_policy as read_policy
from vlmguard.core.setting_values import read_rules as read_rules
from vlmguard.core.setting_values import read_seconds as read_seconds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RESOLVED = "VLMGUARD_RESOLVED"
_KEYS = ("rules", "freeze", "report", "dry_step", "wait", "ledger", "log")
_READ = ("VLMGUARD_RULES", "VLMGUARD_FREEZE", "VLMGUARD_REPORT", "VLMGUARD_DRY_STEP",
         "VLMGUARD_WAIT", "VLMGUARD_LEDGER", "VLMGUARD_LOG", "VLMGUARD_CONFIG")  # fmt: skip
_SWITCHES = ("VLMGUARD", "VLMGUARD_OBSERVE", "VLMGUARD_TRACEBACK")
NAMES = (*_SWITCHES, *_READ, "VLMGUARD_LANG", "VLMGUARD_TABLES")
"""What a user may set."""
_OWN = (RESOLVED, "VLMGUARD_RUN", "VLMGUARD_COMPLETE", "VLMGUARD_ENVS", "VLMGUARD_RECORDS",
        "VLMGUARD_LAB", "VLMGUARD_DRAW", "VLMGUARD_PATH", "VLMGUARD_ANY_PYTHON",
        "VLMGUARD_RANKS_AS_GLOO", "VLMGUARD_ALONE", "VLMGUARD_PLAIN_MATCHER")  # fmt: skip
_OF_TESTS = "VLMGUARD_TEST_"
WAIT = 5.0
"""Seconds that ranks wait for each other before a run, unless a setting says otherwise."""
LEDGER = 1000
"""After the first ones the ledger watches one window in so many."""


Command = tuple[Mapping[str, str] | None, tuple[str, ...] | None, bool | None]


@dataclass(frozen=True)
class Settings:
    """Attributes:
    rules: code or prefix of codes → policy; the longest matching prefix wins.
    freeze: tower words ("vision", "aligner", "llm") or name patterns.
    report: path for JSON lines, one file a process; "" for none.
    dry_step: one forward and backward on a batch before training.
    wait: seconds that ranks wait for each other before a run, at most. Who waits longest does not
        matter: all act on what one of them publishes.
    ledger: which windows the ledger watches: "off", "first" (the first ones and those of a new kind
        of row), or these and one in so many.
    log: whether the ledger's numbers go into the trainer's own logs.
    sources: where values came from, for the first line.
    command: rules, freeze and dry_step as the command line gave them.
    """

    rules: Mapping[str, str] = field(default_factory=dict)
    freeze: tuple[str, ...] = ()
    report: str = ""
    dry_step: bool = False
    wait: float = WAIT
    sources: tuple[str, ...] = ()
    ledger: str | int = LEDGER
    log: bool = False
    command: Command = field(default=(None, None, None), compare=False, repr=False)

    def policy(self, code: str, default: str) -> str:
        """The policy for one code: its own, its longest prefix's, or ``default``."""
        prefixes = [prefix for prefix in self.rules if code.startswith(prefix)]
        return self.rules[max(prefixes, key=len)] if prefixes else default

    @property
    def digest(self) -> str:
        """Short hash of what decides: equal on all ranks, or they will not decide alike."""
        values = json.dumps([dict(self.rules), self.freeze, self.dry_step], sort_keys=True)
        return hashlib.sha256(values.encode()).hexdigest()[:8]


def check_environment(env: Mapping[str, str]) -> None:
    """Raise `SettingsError` for an unknown ``VLMGUARD…`` name, or value of a switch."""
    for name in sorted(env):
        if not name.startswith("VLMGUARD") or name in (*NAMES, *_OWN):
            continue
        if not name.startswith(_OF_TESTS):
            raise SettingsError(f"unknown environment variable {name}{nearest(name, NAMES)}")
    for name in _SWITCHES:
        word = env.get(name, "").strip().lower()
        if word and word not in (*ON, *OFF):
            raise SettingsError(f"{name}: invalid value {env[name]!r}; use on or off.")


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's data; raises what `tomllib` and the file system raise."""
    data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    return data


def _table(path: Path) -> Mapping[str, Any] | None:
    """vlmguard's table in a TOML file, None if it has none."""
    try:
        data = read_toml(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if path.name == "pyproject.toml":
            return None  # it is another program's file: that one will report it
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    if path.name != "pyproject.toml":
        return data
    tool = data.get("tool", {})
    return tool.get("vlmguard") if isinstance(tool, dict) else None


def find_file(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """``vlmguard.toml`` or a pyproject.toml with ``[tool.vlmguard]``, here or in a parent."""
    named = os.environ.get("VLMGUARD_CONFIG")
    if named:
        return Path(named), _table(Path(named)) or {}
    for parent in (folder, *folder.parents):
        for name in ("vlmguard.toml", "pyproject.toml"):
            path = parent / name
            if path.is_file():
                table = _table(path)
                if table is not None:
                    return path, table
    return None


def from_table(table: Mapping[str, Any], where: str) -> Settings:
    """Settings of a file. An unknown key is an error that names the nearest one."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{where}: a table was read as {type(table).__name__}")
    for key in table:
        if key not in _KEYS:
            raise SettingsError(f"{where}: unknown key {key!r}{nearest(key, _KEYS)}")
    rules = table.get("rules", {})
    if not isinstance(rules, Mapping):
        raise SettingsError(f'{where}: rules must be a table, as in [rules] VG101 = "warn"')
    report = table.get("report", "")
    if not isinstance(report, str):
        raise SettingsError(f"{where}: report must be a path, not {report!r}")
    return Settings(
        read_rules(rules, where),
        read_freeze(table.get("freeze", ()), where),
        report,
        read_bool(table.get("dry_step", False), f"{where}: dry_step"),
        read_seconds(table.get("wait", WAIT), f"{where}: wait"),
        (where,),
        read_ledger(table.get("ledger", LEDGER), f"{where}: ledger"),
        read_bool(table.get("log", False), f"{where}: log"),
    )


def _overlay(below: Settings, where: str, **values: Any) -> Settings:
    given = {key: value for key, value in values.items() if value is not None}
    if not given:
        return below
    if "rules" in given:
        given["rules"] = {**below.rules, **given["rules"]}
    return replace(below, **given, sources=(*below.sources, where))


def resolve(
    rules: Mapping[str, str] | None = None,
    freeze: tuple[str, ...] | None = None,
    dry_step: bool | None = None,
    folder: Path | None = None,
) -> Settings:
    """All sources merged, as they are now; the arguments are what the command line gave.

    Raises:
        SettingsError: a source cannot be read. It names the source, the word and the nearest one.
    """
    check_environment(os.environ)
    found = find_file(folder or Path.cwd())
    settings = from_table(found[1], found[0].name) if found else Settings()
    settings = _overlay(settings, "environment", **_from_environment(os.environ))
    settings = _overlay(
        settings, "command line", rules=rules or None, freeze=freeze, dry_step=dry_step
    )
    return replace(settings, command=(rules or None, freeze, dry_step))


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """Field → value for each variable that is set and not empty."""
    readers: tuple[tuple[str, Callable[[object, str], Any]], ...] = (
        ("rules", lambda value, name: read_pairs(str(value), name)),
        ("freeze", read_freeze),
        ("report", lambda value, name: str(value)),
        ("dry_step", read_bool),
        ("wait", read_seconds),
        ("ledger", read_ledger),
        ("log", read_bool),
    )
    given = ((key, f"VLMGUARD_{key.upper()}", read) for key, read in readers)
    return {key: read(env[name], name) for key, name, read in given if env.get(name)}


def check_codes(settings: Settings, known: Iterable[str]) -> None:
    """Raise `SettingsError` for a code that no loaded rule has, or a prefix that fits none."""
    known = set(known)
    for code in settings.rules:
        if not any(rule.startswith(code) for rule in known):
            raise SettingsError(
                f"{' and '.join(settings.sources)}: no rule has the code {code}"
                f"{nearest(code, known)}"
            )


def publish(settings: Settings) -> None:
    """Make ``settings`` this process's, and its children's."""
    shown = {key: getattr(settings, key) for key in (*_KEYS, "sources", "command")}
    shown["rules"] = dict(settings.rules)
    os.environ[RESOLVED] = json.dumps([_inputs(), shown])
    _load.cache_clear()


def get() -> Settings:
    """The settings in force: as published by this process or a parent while the environment is as
    it was then, else resolved now."""
    published = os.environ.get(RESOLVED, "")
    return _load(published, json.dumps(_inputs()), "" if published else os.getcwd())


def renew() -> Settings:
    """The settings for a training that begins now, published: files and environment are read
    again, what the command line gave stays. Only in the process that resolved; a dataloader
    worker, which begins no training, takes `get`.

    Raises:
        SettingsError: as `resolve`.
    """
    known = get()
    settings = resolve(*known.command)
    if any(source not in settings.sources for source in known.sources):
        settings = known  # a program gave them: there is no file to read again
    publish(settings)
    return settings


def _inputs() -> dict[str, str]:
    """The variables that settings are resolved from."""
    return {name: os.environ[name] for name in _READ if os.environ.get(name)}


@functools.cache
def _load(published: str, inputs: str, folder: str) -> Settings:
    if not published:
        return resolve()
    try:
        then, shown = json.loads(published)
        rules, freeze, dry = shown["command"]
        command: Command = (rules, None if freeze is None else tuple(freeze), dry)
        known = Settings(
            shown["rules"],
            tuple(shown["freeze"]),
            shown["report"],
            shown["dry_step"],
            shown["wait"],
            tuple(shown["sources"]),
            shown["ledger"],
            shown["log"],
            command,
        )
    except (ValueError, TypeError, KeyError):  # another release wrote it, or a person did
        return resolve()
    return known if then == json.loads(inputs) else resolve(*command)
