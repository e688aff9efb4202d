"""Settings: what each rule may do, what is to be frozen, where the report goes.

Precedence: defaults < file < environment < command line. Resolved once a process tree: what a rank
resolved travels to its children (dataloader workers) in ``VLMGUARD_RESOLVED``.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vlmguard.core.errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POLICIES = ("off", "warn", "fix", "error")
_FALSE = {"false", "no", "0"}  # YAML's bare `off` reaches a command line as "False"
RESOLVED = "VLMGUARD_RESOLVED"
_KEYS = ("rules", "freeze", "report", "dry_step")


@dataclass(frozen=True)
class Settings:
    """Attributes:
    rules: code or prefix of codes → policy; the longest matching prefix wins.
    freeze: tower words ("vision", "aligner", "llm") or name patterns.
    report: path for JSON lines, one file a process; "" for none.
    dry_step: one forward and backward on a batch before training.
    sources: where values came from, for the first line.
    """

    rules: Mapping[str, str] = field(default_factory=dict)
    freeze: tuple[str, ...] = ()
    report: str = ""
    dry_step: bool = False
    sources: tuple[str, ...] = ()

    def policy(self, code: str, default: str) -> str:
        """The policy for one code: its own, its longest prefix's, or ``default``."""
        prefixes = [prefix for prefix in self.rules if code.startswith(prefix)]
        return self.rules[max(prefixes, key=len)] if prefixes else default

    @property
    def digest(self) -> str:
        """Short hash of what decides: equal on all ranks, or they will not decide alike."""
        values = json.dumps([dict(self.rules), self.freeze, self.dry_step], sort_keys=True)
        return hashlib.sha256(values.encode()).hexdigest()[:8]


def nearest(word: str, valid: Iterable[str]) -> str:
    """`` (did you mean X?)`` or the list of what there is."""
    valid = sorted(valid)
    close = difflib.get_close_matches(word, valid, n=1, cutoff=0.4)
    return f" (did you mean {close[0]}?)" if close else f" (there is: {', '.join(valid)})"


def read_policy(value: object, where: str) -> str:
    """A policy word; booleans and their words read as ``off`` where false."""
    word = str(value).strip().lower()
    word = "off" if word in _FALSE else word
    if word not in POLICIES:
        raise SettingsError(f"{where}: {value!r} is no policy{nearest(word, POLICIES)}")
    return word


def read_rules(values: Mapping[str, object], where: str) -> dict[str, str]:
    """Code (or prefix) → policy, with codes in capitals."""
    rules = {}
    for code, value in values.items():
        name = code.strip().upper()
        if not re.fullmatch(r"[A-Z]{2,8}\d{0,4}", name):
            raise SettingsError(f"{where}: {code!r} is no rule code, nor the beginning of one")
        rules[name] = read_policy(value, f"{where}: {name}")
    return rules


def read_pairs(text: str, where: str) -> dict[str, str]:
    """``VG101=warn,VG2=error`` → policies. Commas, semicolons or spaces part the pairs."""
    pairs: dict[str, object] = {}
    for item in re.split(r"[,;\s]+", text.strip()):
        if not item:
            continue
        code, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"{where}: {item!r} is not CODE=POLICY, as in VG101=warn")
        pairs[code] = value
    return read_rules(pairs, where)


def read_freeze(value: object, where: str) -> tuple[str, ...]:
    """Words or patterns; ``none`` clears what came before."""
    if isinstance(value, str):
        value = re.split(r"[,\s]+", value.strip())
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise SettingsError(f"{where}: freeze must be a list of strings, not {value!r}")
    words = tuple(str(word) for word in value if word)
    return () if [w.lower() for w in words] == ["none"] else words


def read_bool(value: object, where: str) -> bool:
    word = str(value).strip().lower()
    if word not in {"true", "false", "1", "0", "yes", "no", "on", "off"}:
        raise SettingsError(f"{where}: {value!r} is neither true nor false")
    return word in {"true", "1", "yes", "on"}


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's data; raises what `tomllib` and the file system raise."""
    return tomllib.loads(path.read_text("utf-8"))


def _table(path: Path) -> Mapping[str, Any] | None:
    """vlmguard's table in a TOML file, None if it has none."""
    try:
        data = read_toml(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if path.name == "pyproject.toml":
            return None  # somebody else's file, not ours to judge
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
        (where,),
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
    """All sources merged; the arguments are what the command line gave.

    Raises:
        SettingsError: a source cannot be read. It names the source, the word and the nearest one.
    """
    found = find_file(folder or Path.cwd())
    settings = from_table(found[1], found[0].name) if found else Settings()
    env = os.environ
    settings = _overlay(
        settings,
        "environment",
        rules=read_pairs(env["VLMGUARD_RULES"], "VLMGUARD_RULES")
        if env.get("VLMGUARD_RULES")
        else None,
        freeze=read_freeze(env["VLMGUARD_FREEZE"], "VLMGUARD_FREEZE")
        if env.get("VLMGUARD_FREEZE")
        else None,
        report=env.get("VLMGUARD_REPORT") or None,
        dry_step=read_bool(env["VLMGUARD_DRY_STEP"], "VLMGUARD_DRY_STEP")
        if env.get("VLMGUARD_DRY_STEP")
        else None,
    )
    return _overlay(settings, "command line", rules=rules or None, freeze=freeze, dry_step=dry_step)


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
    os.environ[RESOLVED] = json.dumps(
        [
            dict(settings.rules),
            settings.freeze,
            settings.report,
            settings.dry_step,
            settings.sources,
        ]
    )
    _load.cache_clear()


def get() -> Settings:
    """The settings in force: published by this process or a parent, else resolved now."""
    return _load(os.environ.get(RESOLVED, ""))


@functools.cache
def _load(published: str) -> Settings:
    if not published:
        return resolve()
    rules, freeze, report, dry_step, sources = json.loads(published)
    return Settings(rules, tuple(freeze), report, dry_step, tuple(sources))
