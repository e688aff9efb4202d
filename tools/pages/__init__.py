"""Makers of the pages in docs/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def reasons(head: str, names: Iterable[str], why: Mapping[str, str]) -> Iterator[str]:
    """Lines of a page: each name with what is known of it; none where there are no names."""
    ordered = sorted(names)
    if ordered:
        yield f"{head}\n"
        yield from (f"- {each}: {why.get(each, 'not examined.')}" for each in ordered)
        yield ""
