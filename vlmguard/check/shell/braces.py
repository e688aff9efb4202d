"""``{a,b}`` and ``{1..4}``: one word becomes several, before anything else."""

from __future__ import annotations

import re

from vlmguard.check.shell.tree import NotUnderstood, Part, Text, Word

MOST = 10_000
"""Words that one may become."""
OPEN, LONGEST = 100, 20_000
"""Braces that one word may open, and its characters then."""


def braces(word: Word) -> list[Word]:
    """``{a,b}`` and ``{1..4}`` outside of quotes."""
    if not any(isinstance(p, Text) and not p.quoted and "{" in p.value for p in word.parts):
        return [word]
    atoms: list[Part] = []
    for part in word.parts:
        if isinstance(part, Text) and not part.quoted:
            atoms.extend(Text(c) for c in part.value)
        else:
            atoms.append(part)
    if len(atoms) > LONGEST or sum(_bare(atom, "{") for atom in atoms) > OPEN:
        raise NotUnderstood(f"more than {OPEN} braces in one word, or a long one with braces")
    made = [Word(_glued(one)) for one in _braces(atoms)]
    return made


def _glued(atoms: list[Part]) -> tuple[Part, ...]:
    made: list[Part] = []
    for atom in atoms:
        last = made[-1] if made else None
        if (
            isinstance(atom, Text)
            and not atom.quoted
            and isinstance(last, Text)
            and not last.quoted
        ):
            made[-1] = Text(last.value + atom.value)
        else:
            made.append(atom)
    return tuple(made)


def _bare(atom: Part, text: str) -> bool:
    return isinstance(atom, Text) and not atom.quoted and atom.value == text


def _braces(atoms: list[Part]) -> list[list[Part]]:
    for start, atom in enumerate(atoms):
        if not _bare(atom, "{"):
            continue
        depth = 0
        commas = [start]
        for end in range(start, len(atoms)):
            depth += _bare(atoms[end], "{") - _bare(atoms[end], "}")
            if depth == 1 and _bare(atoms[end], ","):
                commas.append(end)
            if depth == 0:
                break
        else:
            continue
        inside = _choices(atoms, start, end, commas)
        if inside is None:
            continue
        rests = _braces(atoms[end + 1 :])
        if len(inside) * len(rests) > MOST:
            raise NotUnderstood("braces that give too many words")
        return [atoms[:start] + one + rest for one in inside for rest in rests]
    return [atoms]


def _choices(atoms: list[Part], start: int, end: int, commas: list[int]) -> list[list[Part]] | None:
    if len(commas) > 1:
        stops = [*commas[1:], end]
        pieces = [atoms[a + 1 : b] for a, b in zip(commas, stops, strict=True)]
        return [one for piece in pieces for one in _braces(piece)]
    text = Word(tuple(atoms[start + 1 : end])).literal
    found = re.fullmatch(r"(-?\d+|\w)\.\.(-?\d+|\w)(?:\.\.(-?\d+))?", text or "")
    if not found:
        return None
    first, last = found[1], found[2]
    numbers = first.lstrip("-").isdigit() and last.lstrip("-").isdigit()
    a, b = (int(first), int(last)) if numbers else (ord(first), ord(last))
    step = abs(int(found[3] or 1)) or 1
    if abs(a - b) // step > MOST:
        raise NotUnderstood("braces that give too many words")
    row = range(a, b + 1, step) if a <= b else range(a, b - 1, -step)
    width = max(len(first), len(last)) if numbers and re.match(r"-?0\d", first) else 0
    return [[Text(f"{n:0{width}d}" if numbers else chr(n))] for n in row]
