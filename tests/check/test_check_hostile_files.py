"""Configs, data and scripts of any size and shape: a clear answer in seconds, and no memory."""

from __future__ import annotations

import json
import os
import time
import tracemalloc

import pytest

from vlmguard.check import script
from vlmguard.check.reading import model_config, row_kinds
from vlmguard.check.reading.named_files import Files, Unreadable

MEGA = 1 << 20
TEXT = {"messages": [{"role": "user", "content": "a"}]}


CONFIGS = {
    "deep.json": ("[" * 100_000, "nested"),
    "tables.json": ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested"),
    "long.json": (json.dumps({"a": list(range(200_000))}), "cannot be read|more than"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_hostile_config_is_refused_in_words(name, tmp_path):
    text, told = CONFIGS[name]
    (tmp_path / name).write_text(text)
    begun = time.process_time()
    with pytest.raises(Unreadable, match=told):
        Files(str(tmp_path)).data(name)
    assert time.process_time() - begun < 5


def _measured(path) -> tuple[row_kinds.Rows, float, int]:
    tracemalloc.start()
    begun = time.process_time()
    try:
        found, _ = row_kinds.of([path.name], Files(str(path.parent)))
        return found, time.process_time() - begun, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LARGE = {
    "line.jsonl": lambda f: f.write('{"a":"' + "x" * (40 * MEGA) + '"}\n'),
    "wide.csv": lambda f: f.write("x" * (40 * MEGA)),
    "array.json": lambda f: f.write("[" + ",".join([json.dumps(TEXT)] * 400_000) + "]"),
    "zeros.jsonl": lambda f: f.truncate(100_000 * MEGA),
    "zeros.json": lambda f: f.truncate(100_000 * MEGA),
}


@pytest.mark.parametrize("name", LARGE)
def test_data_of_any_size(name, tmp_path):
    """Not whole, and told so; four more files of this size would not take longer."""
    with open(tmp_path / name, "w") as file:
        LARGE[name](file)
    found, seconds, memory = _measured(tmp_path / name)
    assert not found.complete
    assert seconds < 5
    assert memory < 60 * MEGA


@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json"])
def test_deep_rows_are_refused(name, tmp_path):
    (tmp_path / name).write_text("[" * 100_000)
    with pytest.raises(Unreadable, match="nested too deeply"):
        row_kinds.of([name], Files(str(tmp_path)))


def test_an_array_is_read_row_by_row_and_whole(tmp_path):
    many = [TEXT] * 5 + [{**TEXT, "images": ["a"], "pad": "x" * (2 * MEGA)}] + [TEXT] * 5
    (tmp_path / "a.json").write_text("\n [" + " ,\n".join(map(json.dumps, many)) + " ]\n")
    found, _ = row_kinds.of(["a.json"], Files(str(tmp_path)))
    assert found == row_kinds.Rows(frozenset({"text", "image"}), True, 11)
    (tmp_path / "b.json").write_text("[" + json.dumps(TEXT) + ", {")
    with pytest.raises(Unreadable):
        row_kinds.of(["b.json"], Files(str(tmp_path)))
    (tmp_path / "c.json").write_text(json.dumps({"data": many}))
    assert row_kinds.of(["c.json"], Files(str(tmp_path)))[0].seen == 11


def test_a_pipe_for_a_script_or_a_config_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.sh")
    with pytest.raises(OSError, match="cannot be read as a script"):
        script.of_file(str(tmp_path / "pipe.sh"), [], {})
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(Unreadable):
        model_config.of(str(tmp_path), Files("/"), {})
