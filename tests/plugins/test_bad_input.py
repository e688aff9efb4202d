"""A processor that fails, remote code that is not there: one line says which trial was not made and
what that means, and the run goes on."""

from __future__ import annotations

import importlib
import linecache
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.plugins.test_blank_trial import Seeing, full
from tests.plugins.test_padding import KINDS, opened, put_in
from vlmguard.core import runstate
from vlmguard.core.facts import Tower as TowerFacts
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard_swift.profile import PROFILE as SWIFT
from vlmguard_transformers import translate
from vlmguard_transformers.model import padding
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.shared_rows import Meets
from vlmguard_transformers.watch import first_steps


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Hearing(Seeing):
    """With a tower of each kind, as Qwen-Omni."""

    def __init__(self, config):
        super().__init__(config)
        self.audio_tower = nn.Linear(3, config.hidden_size)


def is_deepspeed_enabled():
    return True


class OmniTemplate:
    """As ms-swift's for Qwen2.5-Omni: under DeepSpeed it runs a tower on a picture of its own,
    which its processor makes."""

    def __init__(self, processor):
        self.processor = processor

    def _post_encode(self, model, inputs):
        if is_deepspeed_enabled():
            pixels = self.processor(images=["a picture"])["pixel_values"]
            model.get_image_features(pixels)
        return inputs


def absent(images):
    raise OSError("preprocessor_config.json is not there")


def made(images):
    return {"pixel_values": torch.zeros(1, 3, 8, 8)}


def read_by_swift(processor, rows):
    """Whether towers may be unused under ZeRO-2, as ms-swift's run is read; asked twice."""
    model = full(Hearing)
    trainer = SimpleNamespace(
        model=model, template=OmniTemplate(processor), args=SimpleNamespace(world_size=2),
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
    )  # fmt: skip
    state = RunState(Settings())
    runstate.bind(trainer, state)
    read = Reading(trainer, SWIFT)
    vars(read)["strategy"] = "zero2"
    towers = (
        TowerFacts("vision", ("vision_tower",), 2, 2),
        TowerFacts("audio", ("audio_tower",), 2, 2),
    )
    meets = Meets(frozenset(rows))
    first, second = (translate._may_be_unused(read, towers, meets) for _ in range(2))
    assert first == second
    return first


@pytest.mark.parametrize("rows", [{"text", "image"}, {"text", "image", "audio"}])
def test_a_processor_that_fails_in_ms_swifts_trial_is_said_once_and_the_run_goes_on(rows, capsys):
    assert read_by_swift(absent, rows) == ("no", "no", "no")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "vlmguard: what ms-swift's template runs for a row of text could not be tried on a small "
        "copy (OSError: preprocessor_config.json is not there): its source is believed, and "
        "ranks would wait for a tower that it leaves out"
    )


def test_where_the_processor_runs_the_trial_sees_the_tower_that_is_left_out(capsys):
    assert read_by_swift(made, {"text", "image"}) == ("no", "no", "no")
    assert read_by_swift(made, {"text", "image", "audio"}) == ("yes", "yes", "no")
    assert capsys.readouterr().err == ""


WHOLE = """
from tests.plugins.test_blank_trial import Seeing

class Remote(Seeing):
    pass
"""
LAZY = """
from tests.plugins.test_blank_trial import Seeing

class Remote(Seeing):
    def __init__(self, config):
        from remote_adapter import Adapter
        super().__init__(config)
        self.adapter = Adapter()
"""
ADAPTER = """
from torch import nn

class Adapter(nn.Identity):
    pass
"""


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Makes a trainer whose model's class was loaded from files that are gone by now, and maybe
    nobody remembers to have imported."""

    def make(source, forgotten):
        folder = tmp_path / "remote"
        folder.mkdir()
        files = {"remote_modeling": source, "remote_adapter": ADAPTER}
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(str(folder))
        kind = importlib.import_module("remote_modeling").Remote
        trainer, state = opened(kind)
        for name in files:
            (folder / f"{name}.py").unlink()
            if forgotten:
                sys.modules.pop(name, None)
        for kept in folder.rglob("*.pyc"):
            kept.unlink()
        linecache.clearcache()
        importlib.invalidate_caches()
        return trainer, state

    return make


def text_step(trainer):
    trainer.model.train()(torch.arange(4)[None]).logits.sum().backward()
    return trainer.model.multi_modal_projector.weight.grad


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_class_whose_source_is_gone_is_tried_all_the_same(forgotten, remote, capsys):
    trainer, state = remote(WHOLE, forgotten)
    assert padding.obstacle(trainer, KINDS) == ""
    put_in(trainer)
    assert capsys.readouterr().err == ""
    assert text_step(trainer) is not None
    assert first_steps.padded(state) == 1


def test_remote_code_that_is_not_there_any_more_is_said_once_and_the_run_goes_on(remote, capsys):
    trainer, state = remote(LAZY, True)
    assert padding.obstacle(trainer, KINDS) == ""
    put_in(trainer)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "vlmguard: the blank input could not be tried on a small copy of the model (Remote could "
        "not be observed: ModuleNotFoundError: No module named 'remote_adapter'): it is made as "
        "the class names its parts, and ranks would wait for a part that it left out"
    )
    assert text_step(trainer) is not None
    assert first_steps.padded(state) == 1
