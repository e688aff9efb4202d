"""What the ColossalAI adapter reads of older releases' objects, shaped as their sources say."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vlmguard import hookimpl, registry
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run, Tower
from vlmguard.core.findings import Variant
from vlmguard.core.host import Host
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime.faults import fault
from vlmguard_colossalai import apply, batches, completer, dummy, gemini_chunks, translate
from vlmguard_colossalai.touched import Touched
from vlmguard_torch.layout import freezing


class Hook:
    """`GeminiZeROHook`, as far as it counts: called with the operation's parameters."""

    def __init__(self):
        self.called = 0

    def pre_forward(self, params):
        self.called += 1

    def pre_backward(self, params):
        self.called += 10


class Old(nn.Module):
    """`GeminiDDP` before 0.4.3: one hook, no list."""

    def __init__(self, module, manager):
        super().__init__()
        self.module, self.gemini_manager = module, manager
        self.param_op_hook = Hook()
        self.chunk_manager = SimpleNamespace(tensor_chunk_map={})


class Wrapper(nn.Module):
    """`GeminiModel` of 0.3.0 and 0.3.1: nothing of Gemini's but what is inside."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def manager(policy, **more):
    return SimpleNamespace(policy_name=policy, **more)


def test_the_engine_is_found_inside_the_oldest_releases_wrapper():
    old = Old(nn.Linear(2, 2), manager("auto"))
    assert gemini_chunks.engine(Wrapper(old)) is gemini_chunks.engine(old) is old


def test_operations_are_seen_beside_the_only_hook():
    model = Old(nn.Linear(2, 2), manager("static"))
    own, touched = model.param_op_hook, Touched(model)
    weight = torch.nn.Parameter(torch.zeros(1))
    own.pre_forward([weight])
    assert own.called == 1
    assert touched.seen == {id(weight)}
    touched.seen = None
    own.pre_forward([weight])
    assert own.called == 2, "a fault of ours does not keep Gemini's hook from working"
    assert not touched.sound


class Loose(nn.Module):
    """As LLaVA's: further keywords under a name of its own."""

    def forward(self, input_ids, pixel_values=None, **lm_kwargs):
        return input_ids, pixel_values, lm_kwargs


def test_a_positional_batch_is_named_and_put_back():
    ids = torch.zeros(1, 2)
    batch, rebuild = batches.arguments(Loose(), (ids,), {"labels": ids})
    assert set(batch) == {"input_ids", "labels"}
    args, kwargs = rebuild({**batch, "pixel_values": ids})
    assert Loose()(*args, **kwargs) == (ids, ids, {"labels": ids})
    assert batches.arguments(Loose(), ([1], 2, 3), {}) is None


def test_what_counts_as_visual():
    floats, whole = torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.long)
    batch = {"input_ids": whole, "patches": floats, "inputs_embeds": floats, "image_sizes": whole}
    assert batches.visual(batch) == ("patches", "image_sizes")
    assert batches.visual({"tiles": whole, "input_ids": whole}, known=("tiles",)) == ("tiles",)


class Checkpoints(nn.Module):
    """As transformers' models: towers that checkpoint or not, and a switch for all of them."""

    def __init__(self):
        super().__init__()
        self.vision, self.llm = nn.Linear(1, 1), nn.Linear(1, 1)
        for tower, on in ((self.vision, False), (self.llm, True)):
            tower.gradient_checkpointing = on
            tower._gradient_checkpointing_func = lambda *args: None  # a framework's own

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs):
        for tower in (self.vision, self.llm):
            tower.gradient_checkpointing = True
            tower._gradient_checkpointing_func = functools.partial(
                print, **gradient_checkpointing_kwargs
            )


def state(model):
    return [
        (tower.gradient_checkpointing, tower._gradient_checkpointing_func)
        for tower in (model.vision, model.llm)
    ]


def test_the_variant_checkpoints_no_tower_that_was_not_and_is_rolled_back(monkeypatch):
    model = Checkpoints()
    scene = SimpleNamespace(model=model, paths={}, ddp={})
    plan = Plan((Variant(use_reentrant=False),))
    apply.apply(scene, plan)
    assert [on for on, _ in state(model)] == [False, True]
    assert model.llm._gradient_checkpointing_func.keywords == {"use_reentrant": False}
    model = Checkpoints()
    before, scene.model = state(model), model
    monkeypatch.setattr(freezing, "obey", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        apply.apply(scene, plan)
    assert state(model) == before


def test_a_batch_that_has_an_image_is_never_given_another():
    """It would take the place of the user's own: found by `make faults`."""
    ids = torch.ones(1, 4, dtype=torch.long)
    block = dummy.Block({"input_ids": ids[:, :2]}, {"pixel_values": torch.zeros(2, 3)}, 0)
    batch = {"input_ids": ids, "labels": ids.clone(), "pixel_values": torch.ones(2, 3)}
    with pytest.raises(dummy.CannotComplete, match="pixel_values of its own"):
        dummy.complete(block, batch)


@pytest.mark.parametrize("completes", [True, False])
def test_a_batch_that_is_completed_in_the_data_is_heard_once(monkeypatch, completes):
    ids = torch.ones(1, 4, dtype=torch.long)
    tower = Tower("vision", total=1, trainable=1, paths=("visual",))
    run = Run("colossalai", strategy="gemini", towers=(tower,), may_be_unused="yes")
    scene = SimpleNamespace(
        model=nn.Linear(2, 2), family=None, config=None, paths={}, text_runs_towers=True,
        options=SimpleNamespace(processor=None),
    )  # fmt: skip
    complete = completer.Completer(scene, RunState(Settings(), run=run))
    complete.block = dummy.Block({"input_ids": ids[:, :2]}, {"pixel_values": torch.zeros(2, 3)}, 0)
    complete.lacks = ("pixel_values",)
    host = registry.load(Host(fault))
    monkeypatch.setattr(registry, "get", lambda: host)
    heard = []

    def pre_step(run, batch, gradients):
        heard.append(batch.kinds)

    about = {"CODE": "ZZ902", "NAME": "heard", "DEFAULT": "warn", "__name__": __name__}
    host.add(SimpleNamespace(**about, pre_step=hookimpl(pre_step)))
    batch = {"input_ids": ids, "labels": ids.clone()}
    if completes:
        assert "pixel_values" in complete(batch)
    else:
        with pytest.raises(Stop, match="no dummy image"):
            complete({"input_ids": ids})
    assert heard == [("text",)]


class HybridParallelPlugin:
    """As colossalai's is called."""


class Boosting:
    plugin = HybridParallelPlugin()


def test_a_plugin_of_which_only_freezing_is_judged_says_so(capsys):
    scene = translate.Scene(Boosting(), nn.Linear(2, 2))
    assert scene.strategy == "unknown"
    translate.say_limits(scene)
    said = "HybridParallelPlugin is not known to us: only freezing is judged, no batch and no"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (SimpleNamespace(), False),  # 0.3.0
        (SimpleNamespace(chunk_manager=SimpleNamespace(reuse_fp16_chunk=True)), True),
        (SimpleNamespace(chunk_manager=SimpleNamespace(reuse_fp16_chunk=False)), False),
    ],
)
def test_whether_gradients_lie_in_the_place_of_weights(engine, expected):
    assert gemini_chunks.overwrites(engine) is expected
