"""Files and folders that flags name and that are not here: exit 0 would mean they were seen."""

from __future__ import annotations

from vlmguard.check.reading import paths
from vlmguard.check.reading.named_files import Files


def absent(tmp_path, told=(), **given):
    (tmp_path / "here").mkdir(exist_ok=True)
    return paths.absent(given, Files(str(tmp_path)), told)


def test_each_is_named_once_with_its_flag(tmp_path):
    given = {"adapters": ["./here", "./gone", "./gone"], "reward_model": "/no/where"}
    assert absent(tmp_path, **given) == [
        "--adapters ./gone: not on this disk", "--reward_model /no/where: not on this disk",
    ]  # fmt: skip


def test_a_path_needs_no_dot_where_only_a_file_fits(tmp_path):
    given = {"external_plugins": "gone.py", "adapters": "output/v0/checkpoint-1",
             "val_dataset": "data/gone.jsonl", "cached_dataset": "/no/where",
             "chat_template_path": "./gone.jinja", "adapter": "./here,./gone"}  # fmt: skip
    assert len(absent(tmp_path, **given)) == len(given)
    assert "--adapter ./gone: not on this disk" in absent(tmp_path, **given)


def test_a_part_of_a_data_set_is_here_with_it(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    given = {"dataset": ["./a.jsonl#100", "./a.jsonl:sub#5", "owner/name#100", "./gone.jsonl#3"]}
    assert absent(tmp_path, **given) == ["--dataset ./gone.jsonl: not on this disk"]
    assert absent(tmp_path, ["./gone.jsonl"], **given) == []


def test_a_secret_is_no_path(tmp_path):
    assert absent(tmp_path, hub_token="/secret", swanlab_token="/x", aws_secret_key="/y") == []


def test_what_the_script_makes_is_here():
    made = Files("/w", {"/w/dd/dataset_info.json": "{}"})
    assert paths.absent({"dataset_dir": "./dd", "other": "./d"}, made, ()) == [
        "--other ./d: not on this disk"
    ]


def test_what_is_made_or_told_elsewhere_or_no_place_is_none(tmp_path):
    given = {
        "output_dir": "./out", "logging_dir": "/runs", "cache_path": "./c", "save_dir": "../s",
        "model": "./gone", "dataset": ["./rows.jsonl", "name/of-the-hub"], "number": 3,
        "reward_funcs": ["accuracy"], "url": "https://host/x", "path": "‹output of x›",
        "none": None, "tokenized_path": "./tok", "out_dir": "./o", "system": "/no_think",
        "vllm_server_base_url": "/v1", "text": "./a b", "kwargs": '{"a": "./b"}',
    }  # fmt: skip
    assert absent(tmp_path, ("model", "./rows.jsonl"), **given) == []
