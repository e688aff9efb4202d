"""Our own flags in a checked command, and the settings that it would run under."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard.core.setting_values import OFF
from vlmguard.core.settings import Settings

_READ = ("VLMGUARD_RULES", "VLMGUARD_FREEZE", "VLMGUARD_CONFIG")
FLAGS = ("--vlmguard", "--vlmguard-freeze", "--vlmguard-dry-step", "--vlmguard-dry-run")


def take(argv: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Part our flags, with their values, from the rest."""
    mine: dict[str, list[str]] = {}
    rest: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        flag = name.replace("_", "-")
        if not flag.startswith("--vlmguard"):
            rest.append(word)
            continue
        values = [value] if equals else []
        while not equals and words and not words[0].startswith("-"):
            values.append(words.pop(0))
        mine.setdefault(flag, []).extend(values)
    return mine, rest


def is_off(env: Mapping[str, str]) -> bool:
    """Whether the command's own environment switches the guard off."""
    return env.get("VLMGUARD", "").strip().lower() in OFF


def settings_of(mine: Mapping[str, Sequence[str]], folder: str, env: Mapping[str, str]) -> Settings:
    """The settings as the command would resolve them: file, environment, flags.

    Raises:
        SettingsError: as in the run.
    """
    for flag in mine:
        if flag not in FLAGS:
            raise SettingsError(f"unknown flag {flag}{settings.nearest(flag, FLAGS)}")
    rules: dict[str, str] = {}
    for word in mine.get("--vlmguard", ()):
        if word.strip().startswith("{"):
            rules.update(settings.read_rules(json.loads(word), "--vlmguard"))
        elif "=" in word:
            rules.update(settings.read_pairs(word, "--vlmguard"))
    freeze = None
    if "--vlmguard-freeze" in mine:
        freeze = settings.read_freeze(list(mine["--vlmguard-freeze"]), "--vlmguard-freeze")
    given = {name: env[name] for name in _READ if name in env}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        return settings.resolve(rules or None, freeze, None, Path(folder))
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
