"""Files and folders that flags name and that are not here: exit 0 would mean they were seen."""

from __future__ import annotations

from vlmguard.check.reading import paths
from vlmguard.check.reading.files import Files


def absent(tmp_path, told=(), **given):
    (tmp_path / "here").mkdir(exist_ok=True)
    return paths.absent(given, Files(str(tmp_path)), told)


def test_each_is_named_once_with_its_flag(tmp_path):
    given = {"adapters": ["./here", "./gone", "./gone"], "reward_model": "/no/where"}
    assert absent(tmp_path, **given) == [
        "--adapters ./gone: not on this disk", "--reward_model /no/where: not on this disk",
    ]  # fmt: skip


def test_what_is_made_or_told_elsewhere_or_no_place_is_none(tmp_path):
    given = {
        "output_dir": "./out", "logging_dir": "/runs", "cache_path": "./c", "save_dir": "../s",
        "model": "./gone", "dataset": ["./rows.jsonl", "name/of-the-hub"], "number": 3,
        "reward_funcs": ["accuracy"], "url": "https://host/x", "path": "‹output of x›",
        "none": None,
    }  # fmt: skip
    assert absent(tmp_path, ("model", "./rows.jsonl"), **given) == []
