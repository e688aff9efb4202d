"""The words of settings → values: policies, rule codes, what to freeze. Errors say what to type."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from vlmguard.core.errors import SettingsError

_READ = 40  # words of a list
POLICIES = ("off", "warn", "fix", "error")
ON = ("on", "1", "true", "yes")
OFF = ("off", "0", "false", "no")
_LEDGER = ("off", "first")
_FALSE = {"false", "no", "0"}  # YAML's bare `off` reaches a command line as "False"
_LOOKALIKE = str.maketrans("OIL", "011")


_LOOK_ALIKE = str.maketrans("OIl", "011")


def nearest(word: str, valid: Iterable[str]) -> str:
    """`` (did you mean X?)`` or what there is, but for a list that nobody reads; "" then."""
    valid = sorted(valid)
    meant = word.translate(_LOOK_ALIKE) if re.search(r"\d", word) else word
    close = [meant] if meant in valid else difflib.get_close_matches(word, valid, n=1, cutoff=0.4)
    if close:
        return f" (did you mean {close[0]}?)"
    return f" (there is: {', '.join(valid)})" if len(valid) <= _READ else ""


def read_policy(value: object, where: str) -> str:
    """A policy word; booleans and their words read as ``off`` where false."""
    word = str(value).strip().lower()
    word = "off" if word in _FALSE else word
    if word not in POLICIES:
        raise SettingsError(f"{where}: invalid policy {value!r}; use off, warn, fix or error.")
    return word


def read_rules(values: Mapping[str, object], where: str) -> dict[str, str]:
    """Code (or prefix) → policy, with codes in capitals."""
    rules = {}
    for code, value in values.items():
        name = code.strip().upper()
        if not re.fullmatch(r"[A-Z]{2,8}\d{0,4}", name):
            raise SettingsError(
                f"{where}: {code!r} is not a rule code, as VG101, nor the beginning of one"
                f"{_meant(name)}"
            )
        rules[name] = read_policy(value, f"{where}: {name}")
    return rules


def _meant(name: str) -> str:
    """A letter typed for a digit: ``VG1O1``."""
    code = name[:2] + name[2:].translate(_LOOKALIKE)
    return f" (did you mean {code}?)" if re.fullmatch(r"[A-Z]{2}\d{1,4}", code) else ""


def read_pairs(text: str, where: str) -> dict[str, str]:
    """``VG101=warn,VG2=error`` → policies. Commas, semicolons or spaces part the pairs."""
    pairs: dict[str, object] = {}
    for item in re.split(r"[,;\s]+", text.strip()):
        if not item:
            continue
        code, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"{where}: {item!r} is not CODE=POLICY, as in VG101=warn.")
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
    if word not in (*ON, *OFF):
        raise SettingsError(f"{where}: invalid value {value!r}; use true or false.")
    return word in ON


def read_seconds(value: object, where: str) -> float:
    """A number of seconds from 0 to an hour."""
    try:
        found = -1.0 if isinstance(value, bool) else float(str(value))
    except ValueError:
        found = -1.0
    if not 0 <= found <= 3600:
        raise SettingsError(f"{where}: invalid value {value!r}; use seconds from 0 to 3600.")
    return found


def read_ledger(value: object, where: str) -> str | int:
    """``off``, ``first``, or N for every Nth step."""
    word = str(value).strip().lower()
    word = "off" if word in _FALSE else word
    if word in _LEDGER:
        return word
    if re.fullmatch("[0-9]{1,9}", word):
        return int(word) or "off"
    meant = nearest(word, _LEDGER) if word.isalpha() else ""
    raise SettingsError(
        f"{where}: invalid value {value!r}{meant}; use off, first, or N for every Nth step."
    )
