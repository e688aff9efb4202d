"""Finds any of some thousand strings in a block of bytes.

By an Aho-Corasick automaton in Rust where its wheel is there (all but musl), about as fast as grep;
else by one regular expression in which strings share their beginnings: slower, the same answers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

Find = Callable[[bytes], list[tuple[int, int]]]  # block → (start, number of the string), by start


def finder(strings: Sequence[bytes], plain: bool = False) -> Find:
    """A function that finds every occurrence of every string, overlapping ones too.

    None of ``strings`` may hold another one.
    """
    if not plain:
        try:
            return _compiled(tuple(strings))
        except ImportError:
            pass
    return _plain(strings)


@functools.cache
def _compiled(strings: tuple[bytes, ...]) -> Find:
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    automaton = BytesAhoCorasick(list(strings), implementation=Implementation.ContiguousNFA)

    def find(block: bytes) -> list[tuple[int, int]]:
        matches = automaton.find_matches_as_indexes(block, overlapping=True)
        return sorted([(start, number) for number, start, _ in matches])

    return find


def _plain(strings: Sequence[bytes]) -> Find:
    root: dict[int, Any] = {}
    for string in strings:
        node = root
        for byte in string:
            node = node.setdefault(byte, {})
    numbers = {string: number for number, string in enumerate(strings)}
    search = re.compile(_expression(root)).search

    def find(block: bytes) -> list[tuple[int, int]]:
        hits = []
        match = search(block)
        while match is not None:
            hits.append((match.start(), numbers[match[0]]))
            match = search(block, match.start() + 1)
        return hits

    return find


def _expression(node: dict[int, Any]) -> bytes:
    """One expression for all strings below ``node``, which share their beginnings."""
    ways = [re.escape(bytes([byte])) + _expression(below) for byte, below in sorted(node.items())]
    return b"".join(ways) if len(ways) < 2 else b"(?:" + b"|".join(ways) + b")"
