"""Reading: bounded, nothing missed, the same with and without the compiled matcher."""

from __future__ import annotations

import io
import itertools
import random
import time

import pytest

from tests.explain import speed
from vlmguard_explain import command
from vlmguard_explain.source import log_reader, sources

MARK = b"Expected to mark a variable ready only once"


def read(data, size=log_reader.BLOCK, wanted=(MARK,)):
    file = io.BytesIO(data)
    return log_reader.read(sources.blocks(file, size), log_reader.finder(wanted, plain=True))


@pytest.mark.parametrize("size", [1000, 9000, 1 << 20])
def test_a_hit_that_crosses_blocks(size):
    data = b"x\n" * 100_000 + MARK + b"\n" + b"y\n" * 100_000
    (piece,) = (p for p in read(data, size) if MARK in p.data)
    assert piece.line == data[: piece.at].count(b"\n") + 1
    assert piece.data == data[piece.at : piece.end]


def test_windows_are_bounded_and_first_and_last_are_kept():
    one = MARK + b" " * 10_000 + b"\n"
    pieces = read(one * 2000)
    kept = [p for p in pieces if MARK in p.data]
    limit = log_reader.HEAD + log_reader.TAIL + (log_reader.FIRST + log_reader.LAST) * 8192
    assert sum(len(p.data) for p in pieces) <= limit
    assert kept[0].at == 0
    assert kept[-1].end == 2000 * len(one)


def test_pieces_do_not_overlap_and_are_what_the_log_has():
    draw = random.Random(1)
    data = b"".join(
        MARK + b"\n" if draw.random() < 0.01 else bytes(draw.choices(b"abc\n", k=97))
        for _ in range(12_000)
    )
    pieces = read(data, 50_000)
    for before, after in itertools.pairwise(pieces):
        assert before.end < after.at
    for piece in pieces:
        assert data[piece.at : piece.end] == piece.data


def test_one_line_of_100_mb():
    def blocks():
        for _ in range(100):
            yield b"z" * (1 << 20)
        yield MARK

    wanted = command.strings()[:4]
    start = time.process_time()
    pieces = log_reader.read(blocks(), log_reader.finder(wanted, plain=True))
    assert pieces[-1].end == (100 << 20) + len(MARK)
    assert sum(len(p.data) for p in pieces) < 2 << 20
    assert time.process_time() - start < 20


def test_both_matchers_agree():
    """Where the extra is not installed, the plain one is compared with the words' own places."""
    draw = random.Random(2)
    wanted = command.strings()[:60]
    data = b"".join(draw.choice([*wanted, b"noise ", b"Error", b"\n"]) for _ in range(1500))
    plain = log_reader.finder(wanted, plain=True)(data)
    expected = {at for word in wanted for at in range(len(data)) if data.startswith(word, at)}
    assert {at for at, _ in plain} == expected
    assert {at for at, _ in log_reader.finder(wanted)(data)} == expected


@pytest.mark.parametrize(("plain", "least"), [(True, 8), (False, 100)])
@pytest.mark.parametrize("colours", [False, True])
def test_speed(tmp_path, plain, least, colours):
    """MB of 20 MB a second of processor time, the best of three, start-up aside."""
    if not plain:
        pytest.importorskip("ahocorasick_rs")
    speed.mixed(tmp_path / "train.log", 20 << 20, colours)
    find = log_reader.finder(command.strings(), plain=plain)
    assert any(20 / speed.ours(tmp_path / "train.log", find) >= least for _ in range(3))


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
