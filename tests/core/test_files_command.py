"""``vlmguard files``: cut and broken files of a model, a data set and a hub's cache."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from vlmguard.cli import files
from vlmguard.cli.app import app


def _needs(name):
    if name.endswith(".yaml"):
        pytest.importorskip("yaml", reason="not judged without it; each framework brings it")


def run(*words, **variables):
    return subprocess.run(
        [sys.executable, "-m", "vlmguard", "files", *map(str, words)],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def safetensors(path, cut=0):
    header = json.dumps({"__metadata__": {"format": "pt"},
                         "a.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
                         "b": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + bytes(24)
    path.write_bytes(whole[: len(whole) - cut])


def torch_file(path, cut=0, legacy=False):
    torch.save({"x": torch.zeros(99)}, path, _use_new_zipfile_serialization=not legacy)
    path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])


def picture(path, cut=0):
    Image.new("RGB", (64, 64), "red").save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])


WHOLE = {
    "m.safetensors": safetensors, "m.bin": torch_file, "a.png": picture, "b.jpg": picture,
    "config.json": lambda path: path.write_text('{"a": 1}'),
    "run.yaml": lambda path: path.write_text("a: [1, 2]"),
}  # fmt: skip
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:1\n"
BROKEN = {
    "cut.safetensors": (lambda path: safetensors(path, 4), "bytes of"),
    "odd.safetensors": (lambda path: path.write_bytes(b"\xff" * 40), "header would be"),
    "none.safetensors": (lambda path: path.write_bytes(b"\2" + bytes(7) + b"[]"), "cannot be read"),
    "page.safetensors": (lambda path: path.write_text("<!DOCTYPE html>"), "a web page"),
    "lfs.safetensors": (lambda path: path.write_text(POINTER), "git lfs pull"),
    "cut.pt": (lambda path: torch_file(path, 40), "cut: the end"),
    "cut.png": (lambda path: picture(path, 60), "no image"),
    "cut.json": (lambda path: path.write_text('{"a": '), "line 1 column"),
    "odd.yaml": (lambda path: path.write_text("a: 1\n b: 2"), "line 2"),
    "empty.bin": (lambda path: path.touch(), "empty"),
    "gone.json": (lambda path: path.symlink_to("nowhere"), "No such file"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_files(tmp_path, name):
    _needs(name)
    WHOLE[name](tmp_path / name)
    assert files.check(tmp_path / name)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(tmp_path, name):
    _needs(name)
    make, said = BROKEN[name]
    make(tmp_path / name)
    with pytest.raises(files.BrokenError, match=said):
        files.check(tmp_path / name)


def test_what_cannot_be_judged_is_not(tmp_path):
    torch_file(tmp_path / "old.bin", legacy=True)
    (tmp_path / "notes.txt").write_text("{")
    assert not files.check(tmp_path / "old.bin")
    assert not files.check(tmp_path / "notes.txt")


def test_the_command_names_what_fetches_a_hubs_file_again(tmp_path):
    model = tmp_path / "hub" / "models--Qwen--Qwen2-VL-2B-Instruct" / "snapshots" / "1" / "inner"
    data = tmp_path / "hub" / "datasets--a--b" / "snapshots" / "2"
    for folder in (model, data):
        folder.mkdir(parents=True)
    safetensors(model / "x.safetensors", 4)
    safetensors(model / "y.safetensors")
    picture(data / "a.png", 60)
    done = run(HF_HUB_CACHE=str(tmp_path / "hub"), MODELSCOPE_CACHE=str(tmp_path / "none"))
    assert done.returncode == 1
    assert "hf download Qwen/Qwen2-VL-2B-Instruct inner/x.safetensors --force-download\n" in (
        done.stdout
    )
    assert "hf download a/b a.png --repo-type dataset --force-download\n" in done.stdout
    assert f"3 files judged, 2 broken: {tmp_path / 'hub'}" in done.stdout


def test_the_command_on_whole_files_and_on_nothing(tmp_path):
    safetensors(tmp_path / "m.safetensors")
    done = run(tmp_path, "--keys")
    assert done.returncode == 0
    assert "  a.weight\n  b\n" in done.stdout
    assert "1 files judged, 0 broken" in done.stdout
    done = run(tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere: no such file or folder" in done.stderr
    none = str(tmp_path / "none")
    assert run(HF_HUB_CACHE=none, MODELSCOPE_CACHE=none).returncode == 0


@pytest.mark.parametrize("fails", [False, True])
def test_why_a_processor_does_not_load(monkeypatch, fails):
    class AutoProcessor:
        @staticmethod
        def from_pretrained(name):
            if fails:
                raise OSError(f"{name} has no preprocessor_config.json")
            return AutoProcessor()

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoProcessor=AutoProcessor))
    told = CliRunner().invoke(app, ["files", "--processor", "some/model"])
    assert told.exit_code == int(fails)
    said = "broken: the processor of some/model: OSError: some/model has no preprocessor_config"
    assert (said if fails else "some/model: AutoProcessor loads") in told.stdout
