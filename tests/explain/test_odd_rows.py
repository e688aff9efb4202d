"""``vlmguard rows``: what it finds in rows, and what it writes."""

# ruff: noqa: E501
from __future__ import annotations

import json
import sys
import types

import pytest

from vlmguard_explain.bad_rows import main

SOUND = {
    "messages": [{"role": "user", "content": "<image>what?"}, {"role": "assistant", "content": "x"}],
    "images": ["a.png"],
}
TEXT = {"messages": [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "x"}]}
ODD = {
    "2 placeholders (<image>), 1 images": {**SOUND, "messages": [{"role": "user", "content": "<image><image>"}]},
    "two turns of user": {**TEXT, "messages": [TEXT["messages"][0], TEXT["messages"][0]]},
    "the first turn is assistant's": {**TEXT, "messages": TEXT["messages"][::-1]},
}  # fmt: skip


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_sound_rows(tmp_path, capsys):
    parts = {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "x"}]}], "images": ["a.png"]}  # fmt: skip
    assert main([lines(tmp_path / "d.jsonl", [SOUND, TEXT, SOUND])]) == 0
    assert main([lines(tmp_path / "p.jsonl", [parts])]) == 0
    (tmp_path / "d.json").write_text(json.dumps([SOUND, TEXT]))
    assert main([str(tmp_path / "d.json")]) == 0
    assert "2 rows, 0 findings" in capsys.readouterr().out


@pytest.mark.parametrize("told", ODD)
def test_odd_rows(tmp_path, capsys, told):
    assert main([lines(tmp_path / "d.jsonl", [SOUND, ODD[told]])]) == 1
    assert f"row 2: {told}" in capsys.readouterr().out


def test_long_rows_and_keys(tmp_path, capsys, monkeypatch):
    """By characters; with a tokenizer by its tokens."""
    words = types.SimpleNamespace(from_str=lambda text: types.SimpleNamespace(encode=str.split))
    monkeypatch.setitem(sys.modules, "tokenizers", types.SimpleNamespace(Tokenizer=words))
    data = lines(tmp_path / "d.jsonl", [TEXT, {"text": "x " * 50}])
    assert main([data, "--longest", "6"]) == main([data, "--longest", "9"]) == 1
    with pytest.raises(SystemExit, match="2"):  # it is not there
        main([data, "--longest", "9", "--tokenizer", str(tmp_path)])
    (tmp_path / "tokenizer.json").write_text("{}")
    assert main([data, "--longest", "9", "--tokenizer", str(tmp_path)]) == 1
    by_characters, fewer, tokens = capsys.readouterr().out.split("findings\n  ")[1:]
    assert by_characters.startswith("row 1: 7 characters, ")
    assert fewer.startswith("row 2: 112 characters, ")
    assert tokens.startswith("row 2: 52 tokens, ")
    assert "keys: messages text" in tokens


def test_no_json_and_several_types(tmp_path, capsys):
    path = tmp_path / "d.jsonl"
    path.write_text('{"id": 1}\n{"id": "2"}\n{"id": \n')
    assert main([str(path)]) == 1
    out = capsys.readouterr().out
    assert "row 3: no JSON" in out
    assert "several types: /id: int from row 1 on, str from row 2 on" in out


def test_images_and_what_is_kept(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    image.new("RGB", (2, 900)).save(tmp_path / "thin.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "thin.png").read_bytes()[:60])
    rows = [SOUND, *({**SOUND, "images": [name]} for name in ("thin.png", "cut.png", "none.png"))]
    kept = tmp_path / "kept.json"
    words = ["--images", "--root", str(tmp_path), "--kept", str(kept)]
    assert main([lines(tmp_path / "d.jsonl", rows), *words]) == 1
    assert json.loads(kept.read_text()) == [SOUND]
    out = capsys.readouterr().out
    assert [f"row {n}:" in out for n in (1, 2, 3, 4)] == [False, True, True, True]


def test_a_blank_image_in_rows_of_text(tmp_path):
    pytest.importorskip("PIL.Image")
    to = tmp_path / "blank.json"
    assert main([lines(tmp_path / "d.jsonl", [SOUND, TEXT]), "--blank", str(to)]) == 0
    assert main([str(to), "--images"]) == 1  # a.png is not here; the blank one is
    first, second = json.loads(to.read_text())
    assert first == SOUND
    assert second["messages"][0]["content"] == "<image>what?"
    assert second["images"] == [str(tmp_path / "blank.png")]
