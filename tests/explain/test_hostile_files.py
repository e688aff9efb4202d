"""Files and folders made to hurt: no hang, no crash, nothing raw shown, nothing outside read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import resource
import time

import pytest

from tests.explain import compose, wrapped
from vlmguard_explain.command import explain, main
from vlmguard_explain.source import sources

LOG = "".join(f"{text}\n" for _, text in wrapped.run(wrapped.ERRORS["VG506"]))


@pytest.mark.parametrize("pack", [gzip, lzma, bz2])
def test_a_bomb_ends_early(tmp_path, pack, monkeypatch):
    """Of what unpacks to 300 times its size 1 GB is read; here 16 MB of 40."""
    monkeypatch.setattr(sources, "GROWN", 16 << 20)
    path = tmp_path / "x.log"
    with pack.open(path, "wb") as file:
        for _ in range(40):
            file.write(b"a" * (1 << 20))
    with sources.stream(sources.find([str(path)])[0]) as file:
        blocks = [len(block) for block in sources.blocks(file, 1 << 20)]
    assert sum(blocks) < 18 << 20
    assert path.stat().st_size * sources.RATIO < sum(blocks)


@pytest.mark.parametrize("pack", [gzip, lzma, bz2])
def test_a_log_that_repeats_itself_is_no_bomb(tmp_path, pack, monkeypatch):
    monkeypatch.setattr(sources, "GROWN", 1 << 20)
    path = tmp_path / "x.log"
    with pack.open(path, "wb") as file:
        for step in range(300):
            file.write(compose.failing(step, "ValueError: x").encode())
    with sources.stream(sources.find([str(path)])[0]) as file:
        assert b"cannot be read" not in b"".join(sources.blocks(file, 1 << 20))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_devices_are_no_logs(device, capfd):
    assert main([device]) == 2
    assert "not a log" in capfd.readouterr().err


def test_a_folder_with_pipes_links_and_sockets(tmp_path):
    os.mkfifo(tmp_path / "rank_0.log")
    (tmp_path / "rank_1.log").symlink_to(compose.__file__)
    (tmp_path / "rank_2.log").symlink_to("/dev/zero")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "rank_3.log").write_text(LOG)
    answer, digests = explain([str(tmp_path)])
    assert [d.source.path.name for d in digests] == ["rank_3.log"]
    assert answer.known.code == "VG506"


def test_more_files_than_are_read(tmp_path, monkeypatch):
    """The time is bounded by the number of files that are read: an eighth of it here."""
    monkeypatch.setattr(sources, "MAX_FILES", sources.MAX_FILES // 8)
    for number in range(625):
        (tmp_path / f"rank_{number}.log").write_text(f"step {number} loss 0.5\n")
    (tmp_path / "rank_77.log").write_text(compose.traced("KeyError: 'boxes'", None))
    start = time.process_time()
    answer, digests = explain([str(tmp_path)])
    assert time.process_time() - start < 2.5
    assert len(digests) == sources.MAX_FILES == 512
    assert (answer.verdict, answer.ranks) == ("unknown", (77,))


def test_names_and_frames_with_escapes(tmp_path, capfd):
    path = tmp_path / "\x1b[31mred\n\x1b]8;;x\x07.log"
    path.write_text(
        'Traceback (most recent call last):\n  File "\x1b[2J", line 1, in \x1b]0;title\x07f\n'
        "ValueError: \x1b]8;;file:///etc/passwd\x1b\\click\x1b]8;;\x1b\\ \u202egnp.exe \x9b31m\n"
    )
    for form in ("text", "json", "github"):
        for target in (path, tmp_path):
            assert main([str(target), "--format", form]) == 3
            out = capfd.readouterr().out
            assert not set(out) & set("\x1b\x07\x9b\u202e")
            assert "\nred" not in out


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_with_carriage_returns(tmp_path, encoding):
    path = tmp_path / "x.log"
    path.write_bytes(LOG.replace("\n", "\r\n").encode(encoding))
    answer, _ = explain([str(path)])
    assert (answer.known.code, answer.ranks) == ("VG506", (1,))


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (os.urandom(300_000), 2),
        (b"\x89PNG\r\n\x1a\n" + os.urandom(5000), 2),
        (b"", 4),
        (b"\n" * 5000, 4),
        (gzip.compress(LOG.encode() * 2000)[:3000], None),
        (gzip.compress(gzip.compress(LOG.encode() * 10)), None),
        (b"\x1f\x8b", None),
        (b"\xfd7zXZ\x00nothing", None),
    ],
)
def test_what_is_no_text(tmp_path, data, status, capfd):
    path = tmp_path / "x.log"
    path.write_bytes(data)
    told = main([str(path)])
    assert told == status if status is not None else told in (0, 1, 2, 3, 4)
    assert "Traceback" not in capfd.readouterr().err


def test_a_line_of_10_mb_of_tracebacks_keeps_memory(tmp_path):
    """Nearly 300,000 marks of exceptions in one line; memory and time bounded in proportion."""
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        for _ in range(10):
            file.write(b"Traceback (most recent call last): " * 30_000)
        file.write(b"\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    answer, _ = explain([str(path)])
    assert time.process_time() - start < 7.5
    assert answer.known.code == "VG512"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 25 << 10
