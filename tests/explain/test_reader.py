"""Reading: bounded, nothing missed, the same with and without the compiled matcher."""

# ruff: noqa: E501
from __future__ import annotations

import io
import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vlmguard.explain import command, matcher, reader, sources
from vlmguard.explain.catalogue import load

MARK = b"Expected to mark a variable ready only once"


def read(data, size=reader.BLOCK, wanted=(MARK,)):
    file = io.BytesIO(data)
    return reader.read(sources.blocks(file, size), wanted, matcher.finder(wanted, plain=True))


@pytest.mark.parametrize("size", [1000, 9000, 1 << 20])
def test_a_hit_that_crosses_blocks(size):
    data = b"x\n" * 100_000 + MARK + b"\n" + b"y\n" * 100_000
    reading = read(data, size)
    assert reading.hits[MARK] == 1
    assert (reading.size, reading.lines) == (len(data), data.count(b"\n"))
    piece = next(p for p in reading.pieces if MARK in p.data)
    assert piece.line == data[: piece.at].count(b"\n") + 1
    assert piece.data == data[piece.at : piece.end]


def test_windows_are_bounded_and_first_and_last_are_kept():
    one = MARK + b" " * 10_000 + b"\n"
    reading = read(one * 2000)
    kept = [p for p in reading.pieces if MARK in p.data]
    assert reading.hits[MARK] == 2000
    limit = reader.HEAD + reader.TAIL + (reader.FIRST + reader.LAST) * 8192
    assert sum(len(p.data) for p in reading.pieces) <= limit
    assert kept[0].at == 0
    assert kept[-1].end == 2000 * len(one)


def test_pieces_do_not_overlap_and_are_what_the_log_has():
    draw = random.Random(1)
    data = b"".join(
        MARK + b"\n" if draw.random() < 0.01 else bytes(draw.choices(b"abc\n", k=97))
        for _ in range(30_000)
    )
    pieces = read(data, 50_000).pieces
    for before, after in itertools.pairwise(pieces):
        assert before.end < after.at
    for piece in pieces:
        assert data[piece.at : piece.end] == piece.data


def test_one_line_of_100_mb():
    def blocks():
        for _ in range(100):
            yield b"z" * (1 << 20)
        yield MARK

    wanted = command.strings(load())[:4]
    start = time.process_time()
    reading = reader.read(blocks(), wanted, matcher.finder(wanted, plain=True))
    assert reading.size == (100 << 20) + len(MARK)
    assert sum(len(p.data) for p in reading.pieces) < 2 << 20
    assert time.process_time() - start < 20


def test_both_matchers_agree():
    """Where the extra is not installed, the plain one is compared with the words' own places."""
    draw = random.Random(2)
    wanted = command.strings(load())[:60]
    data = b"".join(draw.choice([*wanted, b"noise ", b"Error", b"\n"]) for _ in range(4000))
    plain = matcher.finder(wanted, plain=True)(data)
    expected = sorted(
        (at, number)
        for number, word in enumerate(wanted)
        for at in range(len(data))
        if data.startswith(word, at)
    )
    assert plain == expected
    assert matcher.finder(wanted)(data) == plain


def test_needs_neither_torch_nor_typer():
    code = (
        "import sys; from vlmguard.explain import command; "
        "print([m for m in ('torch', 'typer', 'rich', 'numpy', 'transformers') if m in sys.modules])"
    )
    quiet = {**os.environ, "VLMGUARD": "off"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=quiet)
    assert done.stdout.strip() == "[]", done.stderr


def mixed(path: Path, size: int, colours: bool = False) -> None:
    """A plain log: progress bars, losses, warnings; a failure at its end."""
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        written = number = 0
        while written < size:
            number += 1
            line = (
                f"{{'loss': {draw.random():.4f}, 'grad_norm': {draw.random():.4f}, 'learning_rate': "
                f"{draw.random():.3e}, 'epoch': {number / 1e4:.2f}}}\n"
                if number % 3 == 0
                else f"\rTrain:  {number % 100:2d}%|{'█' * (number % 10)}| {number}/99999999 [00:01<00:10]"
            )
            if number % 50 == 0:
                line += "\nInvalidate trace cache @ step 12 and module 871: cache has only 871 modules\n"
            if colours:
                line = f"\x1b[36m{line.rstrip()}\x1b[0m\n"
            written += file.write(line)
        file.write("\n[rank1]: RuntimeError: Expected to mark a variable ready only once. This error\n")


@pytest.mark.frameworks
@pytest.mark.parametrize("colours", [False, True])
def test_speed_beside_grep(tmp_path, colours):
    """20 MB, the same strings. Processor time, start-up aside; without the extra, seconds alone."""
    path, words = tmp_path / "train.log", tmp_path / "words"
    mixed(path, 20 << 20, colours)
    wanted = command.strings(load())
    words.write_bytes(b"\n".join(wanted) + b"\n")
    find = matcher.finder(wanted)
    compiled = find.__qualname__.startswith("_compiled")

    def grep() -> float:
        before = os.times().children_user
        call = ["grep", "-aFc", "-f", str(words), str(path)]
        subprocess.run(call, env={"LC_ALL": "C", "PATH": os.environ["PATH"]}, stdout=subprocess.DEVNULL)
        return os.times().children_user - before

    def ours() -> float:
        start = time.process_time()
        with path.open("rb") as file:
            reader.read(sources.blocks(file, reader.BLOCK), wanted, find)
        return time.process_time() - start

    theirs, mine = min(grep() for _ in range(3)), min(ours() for _ in range(3))
    assert mine < (6 if compiled else 400) * max(theirs, 0.02), (mine, theirs, compiled)


def test_a_spoilt_stream_is_read_as_far_as_it_goes():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            block = super().read(size)
            if not block:
                raise OSError("stale file handle")
            return block

    blocks = list(sources.blocks(Broken(b"abc"), 10))
    assert blocks[0] == b"abc"
    assert b"cannot be read beyond here" in blocks[1]
