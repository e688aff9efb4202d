"""What the sizes in torch's own words tell: of a position table, a packed weight, an empty one,
a cache that was switched off."""

from __future__ import annotations

import math
import re

CODES = ("VG523", "VG577", "VG511", "VG518", "VG524")
_MULTIPLIED = re.compile(
    r"mat1 and mat2 shapes cannot be multiplied \((\d{1,12})x(\d{1,12}) and (\d{1,12})x(\d{1,12})\)"
)
_ADDED = re.compile(
    r"The size of tensor a \((\d{1,9})\) must match the size of tensor b \((\d{1,9})\)"
    r"(?: at non-singleton dimension (\d))?"
)
_EXPANDED = re.compile(  # a table of positions of one row: RoBERTa's token types
    r"expanded size of the tensor \((\d{1,9})\) must match the existing size \((\d{1,9})\) at "
    r"non-singleton dimension 1\. {1,3}Target sizes: \[\d{1,9}, \d{1,9}\]\. {1,3}"
    r"Tensor sizes: \[1, \d{1,9}\]"
)
_NOTHING = re.compile(r"must match the existing size \(0\) .{0,120}Tensor sizes: \[0[,\]]")
_CONVOLVED = re.compile(r"input to conv2d, but got input of size: \[([\d, ]{1,80})\]")
_CHANNELS = re.compile(
    r"weight(?: of size )?\[\d{1,6}, \d{1,6}, ([\d, ]{1,40})\],? .{0,20}input\[([\d, ]{1,60})\] "
    r"to have (\d{1,6}) channels, but got (\d{1,6}) channels"
)
_COLOURS = (1, 2, 3, 4)
# A grey picture where three colours are wanted, or the other way round.
_GREY = re.compile(
    r"output with shape \[1, (\d{2,6}), (\d{2,6})\] doesn't match the broadcast shape \[3, \1, \2\]"
    r"|input array from shape \((\d{2,6}),(\d{2,6})(?:,[14])?\) into shape \(\3,\4,3\)"
)
_POSITIONS = re.compile(r"pos(?:ition(?:al)?)?_?(?:embed|emb|encod|bias|table)|\bwpe\b", re.I)
_TEXTS = (77, 512, 514)  # positions of CLIP's, BERT's and RoBERTa's text towers
PACKED = 50_000  # a matrix with one row of so many columns is a weight laid flat


def told(said: str, source: str) -> str | None:
    """The class that the sizes tell, by the line of ``source`` where that is known."""
    if match := _MULTIPLIED.search(said):
        return _product(tuple(map(int, match.groups())), source)
    if match := _ADDED.search(said):
        return _sum(int(match[1]), int(match[2]), match[3] or "", source)
    if match := _EXPANDED.search(said):
        return "VG511" if int(match[1]) > int(match[2]) else None
    if "self." in source + said and _NOTHING.search(said):
        return "VG523"  # a parameter of no rows
    if match := _CONVOLVED.search(said):
        sizes = [int(size) for size in match[1].split(",")]
        return "VG518" if len(sizes) > 4 and sizes[-3] in (1, 3, 4) else None
    if match := _CHANNELS.search(said):
        kernel, sizes = ([int(n) for n in match[k].split(",")] for k in (1, 2))
        return "VG518" if _coloured(kernel, sizes, int(match[3]), int(match[4])) else None
    return "VG518" if _GREY.search(said) else None


def _coloured(kernel: list[int], sizes: list[int], wanted: int, given: int) -> bool:
    """Whether a picture came with other colours, or with its colours last."""
    first = wanted in (1, 3) or (wanted == _COLOURS[-1] and max(kernel) > 1)
    return first and (given in _COLOURS or sizes[-1] == wanted)


def _product(sizes: tuple[int, ...], source: str) -> str | None:
    rows, columns = sizes[2:]
    if 0 in sizes[2:]:
        return "VG523"
    if 1 in (rows, columns) and max(rows, columns) >= PACKED:
        return "VG577"
    return "VG577" if "state.subB" in source else None


def _sum(a: int, b: int, dimension: str, source: str) -> str | None:
    """A row of a text, or of an image's patches, beside the table of positions."""
    if "rotate_half(" in source and abs(a - b) == 1:
        return "VG524"  # a step of generation without its cache
    placed = bool(_POSITIONS.search(source))
    if a == b or not (placed or dimension == "1"):
        return None
    if _patches(a, 1) and _patches(b, 1) and (placed or b >= 50):
        return "VG518"
    if placed and _patches(a, 0) and _patches(b, 0):
        return "VG518"
    if a > b and (placed or (b in _TEXTS and a % 64 and a % 100)):
        return "VG511"
    return None


def _patches(size: int, more: int) -> bool:
    """Whether ``size`` is a square of patches and ``more`` tokens."""
    return size > more and math.isqrt(size - more) ** 2 == size - more
