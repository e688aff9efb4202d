"""Fields are read from sources and parsed as Hugging Face's parser does; rows and configs too."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys

import pytest

from vlmguard.check import drafted_run, framework, hf
from vlmguard.check.drafted_run import Draft
from vlmguard.check.launcher import Job
from vlmguard.check.reading import fields, model_config, python_files, row_kinds, scripts
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import Call
from vlmguard.rules import vg409_empty_group

BASE = """
from dataclasses import dataclass, field
from typing import List, Literal, Optional, Union

RAISES = 1 / 1

@dataclass
class Base:
    lr: float = 1e-4
    kind: Literal["a", "b"] = "a"
    on: bool = True
    names: List[str] = field(default_factory=lambda: ["x"])
    deep: Optional[Union[dict, str]] = None
    count: Optional[int] = None
    many: str = field(default=None, metadata={"help": "h", "nargs": "+"})
    way: Literal["l", "r"] | None = field(default=None)
    ways: Optional[list[Literal[1, 2]]] = None
    told: str = field(default="a", metadata={"choices": ["a", "b"]})

    def __post_init__(self):
        raise SystemExit("ran")
"""
TOP = """
from dataclasses import dataclass, field
from .base import Base as Renamed

Chosen = Renamed

@dataclass
class Mixin:
    lr: float = 2.0
    extra: str = field(default="e", metadata={"help": "h"})
    secret: int = field(default=0, init=False)

@dataclass
class Args(Mixin, Chosen):
    count: int = 3
    computed: str = field(default_factory=lambda: str(1))
"""
SCRIPT = """
from toyfields.top import Args
from transformers import HfArgumentParser, TrainingArguments
CLASSES = (Args,)
parser = HfArgumentParser(CLASSES)
(args,) = parser.parse_args_into_dataclasses()
args.deep = {"use_reentrant": True}
args.count = len("x")
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    folder = tmp_path / "toyfields"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "base.py").write_text(BASE)
    (folder / "top.py").write_text(TOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    for cached in (*python_files._CACHES, fields.of):
        cached.cache_clear()
    return fields.of((python_files.find("toyfields.top", "Args"),)), folder


def test_defaults_are_those_of_the_real_class(toy, monkeypatch):
    found, folder = toy
    assert "toyfields" not in sys.modules
    (folder / "__init__.py").write_text("")
    importlib.invalidate_caches()
    real = importlib.import_module("toyfields.top").Args
    for one in dataclasses.fields(real):
        if not one.init:
            assert one.name not in found
        elif one.name != "computed":
            made = one.default_factory is not dataclasses.MISSING
            assert found[one.name].default == (one.default_factory() if made else one.default)
    assert found["computed"].default is fields.COMPUTED
    for name in [name for name in sys.modules if name.startswith("toyfields")]:
        monkeypatch.delitem(sys.modules, name)


def test_parsed_as_hugging_face_does(toy):
    found, _ = toy
    words = ["--lr", "3", "--names", "a", "b", "--no_on", "--count=4", "--kind", "b", "--odd", "1"]
    values, rest = fields.parse(found, words)
    assert (values.get("lr"), values.get("names"), values.get("on")) == (3.0, ["a", "b"], False)
    assert (values.get("count"), values.get("kind"), values.get("extra")) == (4, "b", "e")
    assert rest == ["--odd", "1"]
    assert fields.parse(found, ["--on"])[0].get("on") is True
    assert fields.parse(found, ["--on", "False"])[0].get("on") is False


def test_what_a_fields_metadata_says_of_its_words(toy):
    words = ["--many", "a", "b", "--way", "r", "--ways", "1", "2", "--told", "b"]
    values, rest = fields.parse(toy[0], words)
    assert rest == []
    assert [values.get(name) for name in ("many", "way", "ways", "told")] == [
        ["a", "b"], "r", [1, 2], "b"]  # fmt: skip


class Keyed(framework.Framework):
    """Reads its config by keys, as LLaMA-Factory and TRL do."""

    def classes(self, entry):
        return [python_files.find("toyfields.top", "Args")]

    def config(self, job, files):
        return files.data(job.argv[0]), "Some keys are not used: {}"

    def argv(self, job, files):
        return hf.flags(files.data(job.argv[0])), job


@pytest.mark.parametrize(
    ("text", "told"),
    [({"count": 4, "lr": 1}, ""), ({"cou": 4}, "'cou'"), ({"a": 4, "count": 1}, "'a'")],
)
def test_a_config_is_read_by_its_keys(toy, tmp_path, text, told):
    """argparse would take "cou" for "count"; the framework does not."""
    (tmp_path / "c.json").write_text(json.dumps(text))
    job = Job(Call((), {}, str(tmp_path), 1, "x"), "x", ("c.json",))
    asked = lambda: Keyed().values(job, Files(str(tmp_path)), "")  # noqa: E731
    if not told:
        assert asked().values.get("count") == 4
        return
    with pytest.raises(fields.Wrong, match=told):
        asked()


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--count", "x"], "invalid int value: 'x'"), (["--kind", "c"], "invalid choice: 'c'"),
     (["--way", "up"], "invalid choice: 'up'"), (["--ways", "1", "3"], "invalid choice"),
     (["--told", "c"], "invalid choice: 'c'"),
     (["--on", "maybe"], "Truthy value expected"), (["--lr"], "expected one argument")],
)  # fmt: skip
def test_wrong_values_get_argparses_words(toy, words, told):
    with pytest.raises(fields.Wrong, match=told):
        fields.parse(toy[0], words)


def test_the_nearest_flag_is_named(toy):
    assert fields.leftover(toy[0], ["--nmaes", "x"]) == " (did you mean names?)"


def test_a_script_names_its_classes(toy, tmp_path):
    (tmp_path / "t.py").write_text(SCRIPT)
    module = scripts.module("t.py", Files(str(tmp_path)))
    assert [one.name for one in scripts.classes(module)] == ["Args"]
    assert scripts.imports(module) == {"toyfields", "transformers"}
    assert scripts.overrides(module) == ({"deep": {"use_reentrant": True}}, ["count"])


def test_a_script_that_reads_its_command_itself_asks_no_modules_parser(toy, tmp_path):
    (tmp_path / "theirs.py").write_text(SCRIPT)
    (tmp_path / "t.py").write_text(
        "import argparse\nfrom theirs import main\nargparse.ArgumentParser().parse_args()\n"
    )
    (tmp_path / "thin.py").write_text("from theirs import main\nmain()\n")
    python_files.look_beside([str(tmp_path)])
    try:
        files = Files(str(tmp_path))
        assert scripts.classes(scripts.module("t.py", files)) == []
        found = scripts.classes(scripts.module("thin.py", files))
        assert [one.name for one in found] == ["Args"]
    finally:
        python_files.look_beside([])


TEXT = {"messages": [{"role": "user", "content": "a"}]}
ROWS = [
    (TEXT, "text"), ({**TEXT, "images": []}, "text"), ({**TEXT, "images": ["a"]}, "image"),
    ({**TEXT, "image": "a", "videos": ["b"]}, "image+video"), ({"query": "<image>x"}, "image"),
    ({"messages": [{"content": [{"type": "image", "image": "a"}]}]}, "image"),
    ({"conversations": [{"from": "human", "value": "<video> what"}]}, "video"),
    ({"messages": [{"content": [{"type": "text", "text": "a"}]}]}, "text"),
    ({"prompt": "a", "audios": ["x"]}, "audio"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "kind"), ROWS)
def test_kinds_of_rows(row, kind):
    assert row_kinds.kind(row) == kind


def test_rows_of_files(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row, _ in ROWS[:3]))
    (tmp_path / "b.json").write_text(json.dumps([ROWS[4][0]]))
    (tmp_path / "c.csv").write_text("query,image\nx,\ny,\n")
    files = Files(str(tmp_path))
    found, doubts = row_kinds.of(["a.jsonl#2", "b.json", "c.csv"], files)
    assert (found.kinds, found.complete, found.seen) == ({"text", "image"}, True, 6)
    assert not doubts
    assert row_kinds.of(["org/name"], files)[1]
    assert row_kinds.of(["gone.jsonl"], files)[0].missing == ("gone.jsonl",)
    (tmp_path / "bad.jsonl").write_text('{"a": ')
    with pytest.raises(Unreadable, match=r"bad\.jsonl"):
        row_kinds.of(["bad.jsonl"], files)


def test_models(tmp_path):
    files = Files(str(tmp_path))
    for name, config in (("vl", {"model_type": "qwen2_vl", "vision_config": {}}),
                         ("llm", {"model_type": "qwen2"})):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        assert model_config.of(name, files, {}).sees is (name == "vl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unreadable, match=r"empty: a folder without config\.json"):
        model_config.of("empty", files, {})
    snapshot = tmp_path / "hub" / "models--a--b" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"model_type": "llava"}')
    assert model_config.of("a/b", files, {"HF_HUB_CACHE": str(tmp_path / "hub")}).sees is True
    assert model_config.of("a/c", files, {"HOME": str(tmp_path)}).sees is None
    assert model_config.of("a/Qwen2.5-VL-3B", files, {"HOME": str(tmp_path)}).sees is True


STRATEGIES = [
    ({"ACCELERATE_USE_FSDP": "true"}, "fsdp"),
    ({"ACCELERATE_USE_FSDP": "True", "FSDP_VERSION": "2"}, "fsdp2"),
    ({"ACCELERATE_USE_DEEPSPEED": "true"}, "zero2"),
    ({"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}, "zero3"),
    ({"ACCELERATE_USE_DEEPSPEED": "1", "ACCELERATE_DEEPSPEED_CONFIG_FILE": "z3.json"}, "zero3"),
    ({"ACCELERATE_USE_FSDP": "false", "FSDP_VERSION": "2"}, "ddp"), ({}, "ddp"),
]  # fmt: skip


@pytest.mark.parametrize(("env", "strategy"), STRATEGIES)
def test_a_strategy_from_the_environment(env, strategy, tmp_path):
    (tmp_path / "z3.json").write_text('{"zero_optimization": {"stage": 3}}')
    call = Call((), env, str(tmp_path), 1, "x")
    job = Job(call, "t.py", (), per_node=2, launched=True, chain=("torchrun",))
    draft = Draft("x")
    hf.strategy(fields.Values({}), job, Files(str(tmp_path)), draft)
    assert draft.strategy == strategy
    flags = fields.Values({}, {"deepspeed": {"zero_optimization": {"stage": 1}}})
    hf.strategy(flags, job, Files(str(tmp_path)), draft)
    assert draft.strategy == "zero1"


@pytest.mark.parametrize("zero", ["3", [3], {"stage": [3]}, {"stage": "3"}, {"stage": 4}])
def test_what_is_no_stage_of_zero_is_no_stage_1(zero):
    with pytest.raises(Unreadable, match="no stage of ZeRO"):
        hf.stage({"zero_optimization": zero})
    assert [hf.stage({"zero_optimization": one}) for one in ({"stage": 3}, {}, True)] == [
        "zero3", "zero1", "zero1"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "config", "tuning", "told"),
    [("TRL", {}, "lora", "possible"), ("TRL", {}, "full", "no"),
     ("TRL", {"scheduler": {}}, "lora", "no"), ("ms-swift", {}, "lora", "no")],
)  # fmt: skip
def test_lora_under_deepspeed_may_have_an_empty_group(name, config, tuning, told, tmp_path):
    """VG409: DeepSpeed drops it, and torch's schedule has counted it. ms-swift drops it before."""
    job = Job(Call((), {}, str(tmp_path), 1, "x"), "t.py", (), launched=True, chain=("torchrun",))
    flags = fields.Values({}, {"deepspeed": {"zero_optimization": {"stage": 3}, **config}})
    draft = Draft(name, tuning=tuning)
    hf.strategy(flags, job, Files(str(tmp_path)), draft)
    releases = {"torch": "2.13.0", "transformers": "4.57.6"}
    run = dataclasses.replace(drafted_run.run(draft), releases=releases)
    assert (run.strategy, run.empty_group) == ("zero3", told)
    assert (vg409_empty_group.pre_wrap(run) is not None) is (told == "possible")
