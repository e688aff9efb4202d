"""Released archives read without importing them, on a wheel and an sdist written here."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from tools.lab import defaults, releases, seamtable
from tools.lab.releases import Source

FILES = {
    "frame/__init__.py": "raise SystemExit('imported')",
    "frame/new/trainer.py": "class Trainer:\n    def train(self): ...\n",
    "frame/template.py": "{{ no python }} class Trainer",
}


@pytest.fixture(params=["wheel", "sdist", "sdist with src"])
def source(request, tmp_path):
    if request.param == "wheel":
        path = tmp_path / "frame-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
        return Source(path)
    path = tmp_path / "frame-1.0.tar.gz"
    inside = "frame-1.0/src/" if "src" in request.param else "frame-1.0/"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in FILES.items():
            member = tarfile.TarInfo(inside + name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return Source(path)


def framework(**more):
    return seamtable.Framework("frame", "frame", "none", "1", "2", **more)


def place(source, *targets, **more):
    return seamtable.place(source, framework(**more), "train", targets)


def test_modules_are_named_as_python_names_them(source):
    assert source.modules("frame") == ["frame", "frame.new.trainer", "frame.template"]
    assert source.module("frame.old") is None


def test_a_seam_is_found_at_its_first_target_that_is_there(source):
    there = "frame.new.trainer:Trainer.train"
    assert place(source, "frame.trainer:Trainer.train", there) == there


def test_a_seam_that_moved_is_named_with_where_it_went(source):
    moved = place(source, "frame.trainer:Trainer.train")
    assert moved == "→ frame.new.trainer:Trainer.train"


def test_a_seam_that_is_nowhere(source):
    assert place(source, "frame.trainer:Trainer.evaluate") == ""
    former = (("train", ("frame.new.trainer:Trainer",)),)
    assert place(source, "frame.trainer:Loop", former=former) == "→ frame.new.trainer:Trainer"


def test_releases_with_one_place_are_one_span():
    spans = seamtable.spans({"1.0": "a", "1.1": "a", "2.0": "b", "2.1": ""})
    assert spans == [
        {"at": "a", "from": "1.0", "to": "1.1"},
        {"at": "b", "from": "2.0", "to": "2.0"},
        {"at": "", "from": "2.1", "to": "2.1"},
    ]


def test_first_releases_of_minors_and_the_last():
    names = ["1.0.0", "1.0.1", "1.1.0", "1.1.1", "2.0.0", "2.0.1"]
    assert seamtable.first_of_minors(names) == ("1.0.0", "1.1.0", "2.0.0", "2.0.1")


def test_a_flip_within_a_minor_is_found_to_the_release(monkeypatch):
    """Only first releases of minors are read, and all between two that differ."""
    names = ("0.1.0", "0.1.1", "0.1.2", "0.2.0", "0.3.0")
    read = []
    monkeypatch.setattr(releases, "versions", lambda *_: names)
    monkeypatch.setattr(releases, "archive", lambda _, name: name)
    monkeypatch.setattr(defaults, "Source", lambda name: name)

    def value(name):
        read.append(name)
        return "old" if name < "0.1.2" else "new"

    row = defaults.measure(defaults.Default("x", "y", "0", "z", value), lambda _: None)
    assert [(s["value"], s["from"], s["to"]) for s in row["span"]] == [
        ("old", "0.1.0", "0.1.1"),
        ("new", "0.1.2", "0.3.0"),
    ]
    assert sorted(read) == list(names)


def test_a_shape_that_is_not_known_is_no_value():
    with pytest.raises(LookupError):
        defaults.deepspeed_clipping(type("Empty", (), {"module": lambda *_: ""})())
