"""Patterns that are compiled when they are first asked: most logs need few of the hundreds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast


class Lazy:
    """Stands for a compiled pattern, and takes its methods at the first use."""

    def __init__(self, text: str, flags: int) -> None:
        self._asked = (text, flags)

    def __getattr__(self, name: str) -> Any:
        made = re.compile(*self._asked)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, method, getattr(made, method))
        return getattr(made, name)


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """``re.compile(text, flags)``, later."""
    return cast("re.Pattern[str]", Lazy(text, flags))


class Words:
    """One table of ``tables/``, read when a name in it is first asked; lists become tuples."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        from vlmguard_explain.match.catalogue import table

        file, _, section = self._place.partition(".")
        found = self._made(table(file)[section][name])
        setattr(self, name, found)
        return found

    def _made(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._made(one) for key, one in value.items()}
        return tuple(map(self._made, value)) if isinstance(value, list) else value


class Patterns(Words):
    """The same of expressions, each compiled at its first use."""

    def _made(self, value: Any) -> Any:
        return lazy(value) if isinstance(value, str) else super()._made(value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> re.Pattern[str]: ...

    def list_of(self, name: str) -> tuple[re.Pattern[str], ...]:
        """A list of expressions."""
        return cast("tuple[re.Pattern[str], ...]", getattr(self, name))


# ``patterns("run.progress").loading`` is an expression of that module in ``tables/run.toml``;
# ``words`` are texts, lists of texts and look-up tables.
patterns, words = Patterns, Words
