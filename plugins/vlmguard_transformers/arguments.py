"""Our own command-line flags, taken out before the framework's parser rejects them.

Also under ``VLMGUARD=off``, or a command with our flags would fail with the guard switched off.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlmguard import guard
from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard.runtime.faults import contain
from vlmguard.runtime.stub import is_off

FLAGS = ("--vlmguard", "--vlmguard-freeze", "--vlmguard-dry-step")


@dataclass
class Taken:
    """What stood on the command line for us, and the rest of it."""

    rest: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    freeze: list[str] | None = None
    dry_step: str | None = None
    unknown: str = ""


def take(argv: Sequence[str]) -> Taken:
    """Part ``argv``. A flag's values are the words up to the next flag; ``--flag=value`` works."""
    taken = Taken()
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        flag = name.replace("_", "-")
        if not flag.startswith("--vlmguard"):
            taken.rest.append(word)
            continue
        values = [value] if equals else []
        while not equals and words and not words[0].startswith("-"):
            values.append(words.pop(0))
        if flag == "--vlmguard":
            taken.rules += values
        elif flag == "--vlmguard-freeze":
            taken.freeze = (taken.freeze or []) + values
        elif flag == "--vlmguard-dry-step":
            taken.dry_step = values[0] if values else "true"
        else:
            taken.unknown = taken.unknown or name
    return taken


def read_rules(words: Sequence[str]) -> tuple[dict[str, str], bool]:
    """``VG101=off``, JSON (a table in a YAML config) or a bare ``off`` → policies, "all off"."""
    rules: dict[str, str] = {}
    off = False
    for word in words:
        if word.strip().startswith("{"):
            rules.update(settings.read_rules(json.loads(word), "--vlmguard"))
        elif "=" in word:
            rules.update(settings.read_pairs(word, "--vlmguard"))
        elif word.lower() in ("true", "on", "yes"):
            off = False
        else:
            off = settings.read_policy(word, "--vlmguard") == "off"
            if not off:
                raise SettingsError(f"--vlmguard: {word!r} names no rule, as in VG101={word}")
    return rules, off


def resolve(taken: Taken) -> None:
    """Make the merged settings this process's. Raises `SettingsError` before training."""
    if taken.unknown:
        raise SettingsError(f"unknown flag {taken.unknown}{settings.nearest(taken.unknown, FLAGS)}")
    rules, off = read_rules(taken.rules)
    if off:
        os.environ["VLMGUARD"] = "off"
        return
    freeze = None if taken.freeze is None else settings.read_freeze(taken.freeze, FLAGS[1])
    dry = None if taken.dry_step is None else settings.read_bool(taken.dry_step, FLAGS[2])
    settings.publish(settings.resolve(rules, freeze, dry))
    guard.checked()


def parse(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Take our flags out, then let the framework parse what is left."""
    given = args[0] if args else kwargs.get("args")
    source = sys.argv[1:] if given is None else given
    rest = contain("taking our flags out", settle, source)
    if not isinstance(rest, list):
        rest = source  # a fault of vlmguard: the framework's parser gets all flags
    if len(rest) == len(source):
        parsed = wrapped(*args, **kwargs)
    elif args:
        parsed = wrapped(rest, *args[1:], **kwargs)
    else:
        parsed = wrapped(**{**kwargs, "args": rest})
    contain("checking the freeze policy early", check_freeze, parsed)
    return parsed


def parse_dict(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same of a YAML or JSON file, whose keys ``vlmguard``, ``vlmguard_freeze``, … are ours."""
    told = args[0] if args else kwargs.get("args")
    if not isinstance(told, Mapping):
        return wrapped(*args, **kwargs)
    contain("taking our keys out", _settle_keys, told)
    left = {
        key: value for key, value in told.items() if not str(key).startswith("vlmguard")
    }  # written here, because our keys must go whatever else fails
    parsed = wrapped(left, *args[1:], **kwargs) if args else wrapped(**{**kwargs, "args": left})
    contain("checking the freeze policy early", check_freeze, parsed)
    return parsed


def _settle_keys(told: Mapping[str, Any]) -> None:
    settle(words(told))


def settle(source: Sequence[str]) -> list[str]:
    """Resolve the settings with our flags in ``source``; what is left of it.

    Raises:
        SettingsError: a flag that cannot be read. torchrun has been told.
    """
    taken = contain("reading the command line", take, source)
    if not isinstance(taken, Taken):
        taken = Taken(rest=list(source))
    if not is_off():
        _raised("resolving settings", resolve, taken)
    return taken.rest


def check_freeze(parsed: Any) -> None:
    """Raise `SettingsError` for a freeze policy that the model named in the parsed arguments cannot
    obey: before its weights are loaded."""
    if is_off() or not settings.get().freeze:
        return
    from vlmguard_transformers.model import early_freezing

    _raised("checking the freeze policy early", early_freezing.check, parsed)


def _raised(what: str, call: Callable[..., Any], *args: Any) -> None:
    try:
        contain(what, call, *args)
    except SettingsError as error:
        contain("telling torchrun", guard.abort, error)
        from vlmguard.runtime.refusal import in_one_line

        contain("preparing to say it in one line", in_one_line)
        raise


def words(told: Mapping[str, Any]) -> list[str]:
    """Our keys of a file as the command line would give them: ``vlmguard: {VG101: warn}``,
    ``vlmguard: off``, ``vlmguard_freeze: [vision, aligner]``."""
    found: list[str] = []
    for key, value in told.items():
        if _ours(key) and value is not None:
            found += ["--" + key.replace("_", "-"), *_values(value)]
    return found


def _ours(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("vlmguard")


def _values(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [json.dumps(value)]
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return [str(value)]  # YAML reads a bare off as False; so False means off
