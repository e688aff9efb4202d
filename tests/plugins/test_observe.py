"""Observation on toys, with nothing but torch: what is found, what is "may", what remains."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import logging
import os
import random
import sys
import threading
import types
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.plugins.toys import Config, Layer, Tower, Toy, config  # noqa: E402
from vlmguard_torch.observe import (  # noqa: E402
    measure,
    observed,
    observer,
    rebind,
    row_trace,
    shrink,
)
from vlmguard_torch.observe.counterparts import (  # noqa: E402
    NoCounterpart,
    cover,
    modules,
    parameters,
)
from vlmguard_torch.observe.isolated_state import isolated_state  # noqa: E402
from vlmguard_torch.observe.stacks import Stack, cut, keep  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Many threads on few processors only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "vlmguard" / "observed"


def full(kind=Toy, **changed):
    """The user's model at its full size, without memory."""
    with torch.device("meta"):
        return kind(config(**changed))


# What is observed


def test_what_each_kind_of_row_uses():
    facts = observer.observe(full())
    assert facts
    assert [kind.kind for kind in facts.kinds] == ["text", "image", "images"]
    assert facts.of("text").unused == ("aligner", "tower")
    assert facts.of("image").unused == ("tower.layers.23",)
    assert facts.of("image").towers == ("tower", "aligner")
    assert facts.of("image").towers_first is False
    assert facts.never_used == ("tower.layers.23",)
    assert facts.stacks == (
        ("tower.layers", 24, (0, 1, 2, 21, 22, 23)),
        ("layers", 20, (0, 1, 2, 17, 18, 19)),
    )
    assert facts.unused("tower.layers.7.linear.weight", ["text", "image"]) is True
    assert facts.unused("tower.layers.7.linear.weight", ["image"]) is False
    assert facts.unused("layers.7.linear.weight", ["text", "image"]) is False
    assert facts.unused("layers.7.linear.weight", ["text", "video"]) is None
    assert facts.repeats(["text", "image", "images"]) is False


@pytest.mark.parametrize("feature_layer", [-5, 9, 24, -1])
def test_layers_behind_any_feature_layer_in_a_cut_stack(feature_layer):
    facts = observer.observe(full(vision_feature_layer=feature_layer))
    first = feature_layer if feature_layer >= 0 else 25 + feature_layer
    assert facts.never_used == tuple(f"tower.layers.{n}" for n in range(first, 24))


def test_a_tower_that_runs_once_for_each_image():
    facts = observer.observe(full(per_image=True))
    assert facts.per_item == ("tower",)
    assert facts.of("image").repeats == ()
    assert facts.of("images").repeats == (("tower", 2),)
    assert facts.repeats(["images"]) is True


def test_layers_that_text_rows_pass_over():
    facts = observer.observe(full(cross_attention_layers=[3, 8, 13]))
    assert facts.skipped == ("layers.3", "layers.8", "layers.13")
    assert facts.never_used == ("tower.layers.23",)


def test_a_model_with_a_dummy_of_its_own_leaves_nothing_unused_in_text_rows():
    facts = observer.observe(full(own_dummy=True))
    assert facts.of("text").unused == ("tower.layers.23",)
    assert facts.of("image") is not None  # seen by its loss, since text rows run the tower as well


def test_a_row_whose_pixels_the_model_drops_is_no_observation():
    class Deaf(Toy):
        def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
            return super().forward(input_ids, attention_mask, None, labels)

    facts = observer.observe(full(Deaf))
    assert facts.of("image") is None
    assert "ignored" in facts.kinds[1].reason
    assert facts.never_used is None
    assert facts.unused("tower.embed.weight", ["image"]) is None
    assert facts.unused("tower.embed.weight", ["text"]) is True


def test_what_an_unknown_input_may_call_is_not_called_unused():
    class Third(Toy):
        def __init__(self, config):
            super().__init__(config)
            self.touch = torch.nn.Linear(4, 4)

    facts = observer.observe(full(Third))
    assert facts.never_called == ("touch",)
    assert facts.never_used == ("tower.layers.23",)


def test_weights_with_two_names():
    model = full()
    model.head.weight = model.words.weight
    assert observer.observe(model).shared == (("words.weight", "head.weight"),)


def test_a_forward_replaced_on_the_instance_is_run_in_the_copy(cache):
    model = full()
    old, tower, users = model.forward, model.tower, id(model)

    def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
        assert id(self) != users
        assert tower is self.tower  # from the closure
        if pixel_values is None:
            input_ids = input_ids + 0 * tower(torch.zeros(1, 3, 56, 56)).sum().long()
        return old(input_ids, attention_mask, pixel_values, labels)

    model.old_forward = old
    model.forward = types.MethodType(forward, model)
    model.head.forward = lambda hidden: pytest.fail("a kernel")
    facts = observer.observe(model)
    assert facts.patched == ("head",)
    assert facts.of("text").unused == ("aligner", "tower")  # called, but no gradient comes back
    assert observer.observe(full()).patched == ()
    assert len(list(cache.iterdir())) == 2


class Holding:
    """As accelerate wraps a forward: an object that holds the bound method."""

    def __init__(self, forward):
        self.forward = forward

    def __call__(self, *args, **inputs):
        return self.forward(*args, **inputs)


def test_a_forward_held_by_an_object_is_bound_to_the_copy():
    model = Toy(config(hidden_size=16))
    held = Holding(model.forward)

    def forward(input_ids, attention_mask=None, pixel_values=None, labels=None):
        return held(input_ids, attention_mask, pixel_values, labels)

    for model.forward in (forward, held):
        facts = observer.observe(model, cache=False)
        assert facts.never_used == ("tower.layers.23",)
    assert all(weight.grad is None for weight in model.parameters())
    assert held.forward.__self__ is model


def test_an_activation_that_exists_once_in_the_process_runs_in_both():
    once = torch.nn.GELU()

    class Sharing(Toy):
        def __init__(self, config):
            super().__init__(config)
            self.activation = once

        def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
            self.activation(torch.zeros(1))
            return super().forward(input_ids, attention_mask, pixel_values, labels)

    assert observer.observe(full(Sharing)).of("image") is not None


HIDDEN_AWAY = {}
CALLS, DICE, STEPS = 0, random.Random(3), itertools.count()


class Dropping(Toy):
    """Drops images at random and by count, as a modality dropout of the user's own does."""

    calls, seen = 0, []

    def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
        global CALLS
        CALLS += 1
        Dropping.calls += 1
        self.seen.append((next(STEPS), DICE.random()))
        return super().forward(input_ids, attention_mask, pixel_values, labels)


def counting(old, dice, seen):
    calls = 0

    def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
        nonlocal calls
        calls += 1
        forward.calls = calls
        seen.append((calls, dice.random()))
        return old(input_ids, attention_mask, pixel_values, labels)

    return forward, lambda: calls


def test_what_a_forward_counts_and_draws_is_as_before():
    """Of a class, of a closure, of a partial: the first real step must find the first number."""
    model = full(Dropping)
    assert observer.observe(model, cache=False).of("image")
    assert (CALLS, Dropping.calls, Dropping.seen) == (0, 0, [])
    assert (next(STEPS), DICE.random()) == (0, random.Random(3).random())
    dice, seen, model = random.Random(5), [], full()
    forward, calls = counting(model.forward, dice, seen)
    for patch in (types.MethodType(forward, model), functools.partial(forward, model)):
        model.forward = patch
        assert observer.observe(model, cache=False).of("image")
        assert (calls(), seen, vars(forward)) == (0, [], {})
    assert dice.random() == random.Random(5).random()


def test_a_class_of_functions_among_what_a_class_holds():
    """timm's models hold one: its globals are a descriptor and no dict."""

    class Holder(Toy):
        kind = types.FunctionType

    assert observer.observe(full(Holder))


def test_what_cannot_be_copied_is_not_run():
    model = full()
    lines = (line for line in "abc")
    model.forward = lambda input_ids, pixel_values=None, labels=None: next(lines)
    assert "holds a generator" in observer.observe(model, cache=False).reason
    assert next(lines) == "a"


def test_the_users_own_model_never_runs():
    model = Toy(config(hidden_size=16))
    HIDDEN_AWAY["forward"] = model.forward  # where nobody looks

    def forward(input_ids, attention_mask=None, pixel_values=None, labels=None):
        return HIDDEN_AWAY["forward"](input_ids, attention_mask, pixel_values, labels)

    model.forward = forward
    facts = observer.observe(model)
    assert not facts
    assert "the user's own model" in facts.reason
    assert all(weight.grad is None for weight in model.parameters())
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_thread_of_the_users_own_goes_on_while_a_copy_is_observed():
    model, done = torch.nn.Linear(2, 2), []
    with rebind.idle(model, torch.nn.Linear(2, 2)):
        thread = threading.Thread(target=lambda: done.append(model(torch.ones(1, 2))))
        thread.start()
        thread.join()
        with pytest.raises(rebind.NotRebound):
            model(torch.ones(1, 2))
    assert done


def test_a_replaced_forward_that_holds_a_layer_cut_off_is_not_run():
    model = full()
    layer = model.layers[7]
    model.forward = types.MethodType(lambda self, **inputs: layer(inputs), model)
    facts = observer.observe(model)
    assert facts.of("text") is None or facts.stacks == ()


def test_the_answer_is_the_same_each_time_and_whatever_the_seed():
    torch.manual_seed(1)
    first = observer.observe(full(), cache=False)
    torch.manual_seed(2)
    assert observer.observe(full(), cache=False) == first


# "May"


def test_switched_off(monkeypatch):
    monkeypatch.setenv("VLMGUARD_OBSERVE", "off")
    facts = observer.observe(full())
    assert not facts
    assert "VLMGUARD_OBSERVE" in facts.reason
    assert facts.unused("words.weight", ["text"]) is None
    assert facts.repeats(["text"]) is None


def broken(where):
    class Broken(Toy):
        def __init__(self, config):
            super().__init__(config)
            if where == "build" and config.hidden_size < 1000:
                raise RuntimeError("Triton needs a GPU")

        def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
            if where == "run":
                raise RuntimeError("Triton needs a GPU")
            return super().forward(input_ids, attention_mask, pixel_values, labels)

    return full(Broken)


@pytest.mark.parametrize("where", ["build", "run"])
def test_a_class_that_does_not_run_here(where):
    facts = observer.observe(broken(where))
    assert not facts
    assert "Triton needs a GPU" in facts.reason


def test_no_config_and_no_model():
    assert "no config" in observer.observe(torch.nn.Linear(1, 1)).reason
    assert not observer.observe(None)
    assert not observer.observe(object())


def test_a_width_nobody_knows_is_stopped_before_its_memory_is_used():
    class Wide(Toy):
        def __init__(self, config):
            super().__init__(config)
            self.wide = torch.nn.Linear(config.strange_size, config.strange_size)

    facts = observer.observe(full(Wide, strange_size=20_000))
    assert not facts
    assert "million weights" in facts.reason


def test_time_that_runs_out_is_not_kept(monkeypatch, cache):
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    facts = observer.observe(full())
    assert not facts
    assert "TooLong" in facts.reason
    assert not cache.exists()


# Nothing is left behind


def test_random_states_defaults_and_modes_are_as_before(monkeypatch):
    numpy = pytest.importorskip("numpy")
    torch.manual_seed(5), random.seed(5), numpy.random.seed(5)
    before = torch.get_rng_state(), random.getstate(), str(numpy.random.get_state())
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"), torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
            assert observer.observe(full()).of("image") is not None
            assert torch.empty(1).device.type == "meta"
            assert torch.is_autocast_enabled("cpu")
            assert torch.is_inference_mode_enabled()
            assert not torch.is_grad_enabled()
        assert torch.get_default_dtype() == torch.bfloat16
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), str(numpy.random.get_state()))


def test_threads_are_few_beside_a_gpu_and_then_as_before(monkeypatch):
    torch.set_num_threads(2)
    with isolated_state():
        assert torch.get_num_threads() == 2  # training may be on the CPU
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with isolated_state():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_the_users_model_is_not_touched():
    model = Toy(config(hidden_size=16, vocab_size=1000)).eval()
    given = json.dumps(model.config.to_dict())
    assert observer.observe(model)
    assert json.dumps(model.config.to_dict()) == given
    assert not model.training
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert all(weight.grad is None for weight in model.parameters())


def noisy():
    class Noisy(Toy):
        def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
            logger = logging.getLogger("toy")
            logger.error("said")
            getattr(logger, "warning_once", logger.error)("said once")
            warnings.warn("warned", stacklevel=1)
            return super().forward(input_ids, attention_mask, pixel_values, labels)

    return full(Noisy)


def test_nothing_is_said_nor_remembered_as_said(caplog, recwarn, monkeypatch):
    said = []

    def warning_once(self, text):
        said.append(text)

    monkeypatch.setattr(logging.Logger, "warning_once", warning_once, raising=False)
    assert observer.observe(noisy())
    assert not said
    assert not caplog.records
    assert not recwarn.list
    assert logging.Logger.warning_once is warning_once
    assert logging.root.manager.disable == logging.NOTSET


def test_what_python_said_once_it_does_not_say_again():
    def says(text):
        warnings.warn(text, stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        says("before")
        with isolated_state():
            says("before")
            says("inside")
        for text in ("before", "inside", "inside"):
            says(text)
    assert [str(one.message) for one in heard] == ["before", "inside"]


def test_hooks_on_every_module_see_nothing_and_stay():
    seen = []
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *args: seen.append(args))
    try:
        assert observer.observe(full())
        assert not seen
        torch.nn.Identity()(1)
        assert len(seen) == 1
    finally:
        hook.remove()


def test_no_process_group_is_found_and_all_is_restored(monkeypatch):
    class Together(Toy):
        def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
            assert not torch.distributed.is_initialized()
            return super().forward(input_ids, attention_mask, pixel_values, labels)

    def initialized():
        return True

    monkeypatch.setattr(torch.distributed, "is_initialized", initialized)
    assert observer.observe(full(Together))
    assert torch.distributed.is_initialized is initialized


def test_zero3_is_set_aside_and_put_back(monkeypatch):
    calls = []
    ours: Any = types.ModuleType("transformers.integrations.deepspeed")
    told = types.SimpleNamespace(is_zero3=lambda: True)
    ours._hf_deepspeed_config_weak_ref = reference = lambda: told
    zero: Any = types.ModuleType("deepspeed.runtime.zero.partition_parameters")
    zero.top_level_context = types.SimpleNamespace(patched=True)
    zero.shutdown_init_context = lambda: calls.append("down")
    zero.restore_init_context = lambda: calls.append("up")
    monkeypatch.setitem(sys.modules, ours.__name__, ours)
    monkeypatch.setitem(sys.modules, zero.__name__, zero)

    class Asks(Toy):
        def __init__(self, config):
            super().__init__(config)
            if config.hidden_size < 1000:
                assert ours._hf_deepspeed_config_weak_ref is None

        def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
            assert ours._hf_deepspeed_config_weak_ref is reference
            return super().forward(input_ids, attention_mask, pixel_values, labels)

    assert observer.observe(full(Asks), cache=False)
    assert calls == ["down", "up"]
    assert ours._hf_deepspeed_config_weak_ref is reference


def leave(error):
    torch.rand(3), random.random()
    raise error


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_all_is_restored_behind_an_error(error):
    state = torch.get_rng_state()
    with pytest.raises(error), isolated_state():
        leave(error)
    assert torch.equal(torch.get_rng_state(), state)
    assert logging.root.manager.disable == logging.NOTSET


# Kept on disk


def test_observed_once(cache, monkeypatch):
    first = observer.observe(full())
    monkeypatch.setattr(measure, "measure", lambda *_: pytest.fail("measured again"))
    assert observer.observe(full()) == first
    assert [file.suffix for file in cache.iterdir()] == [".json"]


def test_what_is_another_model_is_observed_anew(cache):
    observer.observe(full())
    observer.observe(full(vision_feature_layer=-3))  # another config
    model = full()
    model.head.weight = model.words.weight  # the same classes, put together differently
    observer.observe(model)

    class Other(Toy):
        pass

    observer.observe(full(Other))
    assert len(list(cache.iterdir())) == 4


def test_a_patched_forward_is_another_class(monkeypatch):
    model = full()
    before = observer.key(model, model.config)
    forward = Toy.forward

    def patched(self, *args, **inputs):
        return forward(self, *args, **inputs)

    monkeypatch.setattr(Toy, "forward", patched)
    assert observer.key(model, model.config) != before


@pytest.mark.parametrize("kind", [Toy, Layer, Tower])
def test_a_class_with_a_kernel_for_gpus_alone_is_answered_as_may(monkeypatch, kind):
    """As Liger patches a class: the copy gets the same forward, and it does not run here."""

    def kernel(self, *args, **inputs):
        raise RuntimeError("0 active drivers ([]). There should only be one.")  # Triton's words

    monkeypatch.setattr(kind, "forward", kernel)
    facts = observer.observe(full())
    text, image = facts.of("text"), facts.of("image")
    assert image is None
    assert facts.unused("layers.7.linear.weight", ["text", "image"]) is None
    if kind is Tower:  # text does not run it, and is known
        assert text.unused == ("aligner", "tower")
        assert "0 active drivers" in facts.kinds[1].reason
        return
    assert text is None
    assert not facts
    assert facts.provenance == "may"
    assert "text: RuntimeError: 0 active drivers" in facts.reason


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"{}", b"[]", b"null", b'{"key": 1}', b"[" * 100_000,
        b'{"key": "KEY", "observed": {"provenance": "observed"}}',
        b'{"key": "KEY", "observed": []}', b'{"key": "KEY", "observed": null}',
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_measured_anew(cache, content):
    first = observer.observe(full())
    (file,) = cache.iterdir()
    file.write_bytes(content.replace(b"KEY", file.stem.encode()))
    assert observer.observe(full()) == first
    assert json.loads(file.read_text())["key"] == file.stem  # and written again


@pytest.mark.parametrize("wrong", [{"x": 1}, [[1]], object()])
def test_a_field_of_another_type_is_refused(wrong):
    data = observed.to_data(observed.may("a reason"))
    assert observed.from_data(dict(data)) == observed.may("a reason")
    for field in data:
        with pytest.raises((TypeError, ValueError)):
            observed.from_data({**data, field: wrong})


def test_another_models_file_is_not_taken(cache):
    observer.observe(full())
    (file,) = cache.iterdir()
    assert observer.load(file.stem) is not None
    file.rename(file.with_stem("0" * 40))
    assert observer.load("0" * 40) is None


def test_to_data_and_back_through_json():
    facts = observer.observe(full(per_image=True), cache=False)
    assert observed.from_data(json.loads(json.dumps(observed.to_data(facts)))) == facts


def test_where_observations_lie(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert observer.folder() == tmp_path / "x" / "vlmguard" / "observed"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert observer.folder() == tmp_path / ".cache" / "vlmguard" / "observed"


def test_a_home_that_takes_no_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert observer.observe(full())
    assert (tmp_path / "file").read_text() == ""


def test_a_write_that_fails_leaves_nothing_half(cache, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    assert observer.observe(full())
    assert list(cache.iterdir()) == []


# Layers and names


def test_the_layers_that_are_kept():
    assert keep(6, 12, [], []) == tuple(range(6))
    assert keep(40, 12, [], []) == (0, 1, 2, 37, 38, 39)
    assert keep(40, 12, [], [10]) == (0, 1, 2, 9, 10, 11, 37, 38, 39)
    kinds = ["linear", "linear", "linear", "full"] * 10
    assert keep(40, 12, [kinds], []) == (0, 1, 2, 3, 37, 38, 39)


def test_what_names_layers_still_names_the_same_ones():
    own = {
        "num_hidden_layers": 40, "layer_types": ["a", "a", "b", "a"] * 10,
        "deepstack_visual_indexes": [8, 20], "first_k_dense_replace": 3, "hidden_size": 64,
    }  # fmt: skip
    around = {"vision_feature_layer": -4, "num_hidden_layers": 9, "vision_config": None}
    (stack,) = cut(own, 12, around)
    assert {7, 8, 9, 19, 20, 21, 35, 36, 37} <= set(stack.kept)
    assert own["num_hidden_layers"] == len(stack.kept)
    assert own["layer_types"] == [["a", "a", "b", "a"][index % 4] for index in stack.kept]
    assert [stack.kept[index] for index in own["deepstack_visual_indexes"]] == [8, 20]
    assert stack.kept[around["vision_feature_layer"]] == 36
    assert own["first_k_dense_replace"] == 3
    assert around["num_hidden_layers"] == 9


def test_a_config_is_copied_and_its_widths_keep_their_proportions():
    vision = Config(
        hidden_size=1280, intermediate_size=5120, vision_output_dim=7680, image_size=560,
        patch_size=14, num_attention_heads=16, rope_parameters={"mrope_section": [16, 24, 24]},
    )  # fmt: skip
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    given = config(vision_config=vision, dtype="bf16", **heads)
    tiny = shrink.shrink(given).config
    assert given.hidden_size == 4096
    assert (tiny.hidden_size, tiny.vision_config.hidden_size) == (32, 32)
    assert tiny.vision_config.intermediate_size == 4 * 32
    assert tiny.vision_config.vision_output_dim == 6 * 32
    assert tiny.vision_config.image_size == 4 * 14
    assert (tiny.num_attention_heads, tiny.num_key_value_heads) == (2, 1)
    assert sum(tiny.vision_config.rope_parameters["mrope_section"]) == shrink.HEAD // 2
    assert (tiny.vocab_size, tiny.image_token_id, tiny.dtype) == (1000, 900, None)


@dataclasses.dataclass(frozen=True)
class Overrides:
    per_layer_overrides: dict


def test_what_layers_have_of_their_own_follows_them_into_the_cut():
    """Gemma 4's full attention has wider heads, told by the layer's number."""
    told = Overrides({5: {"head_dim": 512}, 11: {"head_dim": 512}, 29: {"head_dim": 512}})
    types = ["full" if at in (5, 11, 29) else "sliding" for at in range(30)]
    full = Config(num_hidden_layers=30, hidden_size=4096, head_dim=256, layer_types=types,
                  _heterogeneity_spec=told)  # fmt: skip
    tiny = shrink.shrink(full).config
    wide = [at for at, kind in enumerate(tiny.layer_types) if kind == "full"]
    assert tiny._heterogeneity_spec.per_layer_overrides == {
        at: {"head_dim": tiny.head_dim} for at in wide
    }
    assert told.per_layer_overrides[5] == {"head_dim": 512}


def test_a_config_that_names_another_librarys_model_stays_as_it_is():
    """timm's: its widths follow from the architecture that it names."""
    vision = Config(model_type="timm_wrapper", architecture="vit", hidden_size=3072, num_layers=24)
    tiny = shrink.shrink(Config(hidden_size=896, num_layers=24, vision_config=vision)).config
    assert vars(tiny.vision_config) == vars(vision)
    assert (tiny.hidden_size, tiny.num_layers) == (shrink.HIDDEN, shrink.MOST_LAYERS // 2)


def test_queries_by_the_number_of_patches_are_of_the_fewer_patches():
    """Aria's projector."""
    queries = {"1225": 128, "4900": 256}
    vision = Config(hidden_size=1152, image_size=980, patch_size=14)
    full = Config(hidden_size=2560, vision_config=vision, queries=queries, other={"1225": 3})
    tiny = shrink.shrink(full).config
    side = tiny.vision_config.image_size // 14
    assert max(tiny.queries) == side**2
    assert min(tiny.queries) == side**2 // 4
    assert (tiny.other, queries["4900"]) == ({"1225": 3}, 256)


@pytest.mark.parametrize(
    ("rate", "side"), [("4/8", 16), ("1/4", 4), (0.5, 4), ("4/0", 4), (None, 4)]
)
def test_an_image_has_whole_windows(rate, side):
    """Granite 4 Vision's projector."""
    vision = Config(hidden_size=1152, image_size=384, patch_size=16)
    full = Config(hidden_size=2560, vision_config=vision, downsample_rate=rate)
    assert shrink.shrink(full).config.vision_config.image_size == side * 16


def test_stacks_whose_layers_are_named_in_pairs_are_not_cut():
    """Granite 4 Vision: which layer of the tower goes into which of the language model."""
    vision = Config(hidden_size=1152, num_hidden_layers=27)
    text = Config(hidden_size=2560, num_hidden_layers=40)
    pairs = [(-19, 9), (-13, 6), (-7, 3), (-1, 0)]
    full = Config(vision_config=vision, text_config=text, layer_map=pairs, target_layers=[12, 15])
    tiny = shrink.shrink(full).config
    layers = tiny.vision_config.num_hidden_layers, tiny.text_config.num_hidden_layers
    assert (layers, tiny.layer_map, tiny.target_layers) == ((27, 40), pairs, [12, 15])


def test_an_adapters_layers_are_those_of_the_tower():
    """Molmo 2 names them in the adapter's config."""
    vision = Config(hidden_size=1152, num_hidden_layers=25)
    text = Config(hidden_size=2560, num_hidden_layers=40)
    adapter = Config(hidden_size=1152, vision_feature_layer=[24, 18])
    full = Config(vision_config=vision, text_config=text, adapter_config=adapter)
    found = shrink.shrink(full)
    stack = next(stack for stack in found.stacks if stack.total == 25)
    assert [stack.kept[at] for at in found.config.adapter_config.vision_feature_layer] == [24, 18]
    assert full.adapter_config.vision_feature_layer == [24, 18]


@pytest.mark.parametrize(("positions", "left"), [(27**2, shrink.SIDE**2), (2304, 2304)])
def test_a_position_for_each_patch(positions, left):
    """Molmo 2; a table that is interpolated stays as it is."""
    vision = Config(image_size=[378, 378], patch_size=14, num_position_embeddings=positions)
    tiny = shrink.shrink(Config(vision_config=vision)).config.vision_config
    assert (tiny.image_size, tiny.num_position_embeddings) == ([56, 56], left)


def test_the_part_of_a_head_that_is_turned_follows_the_widths():
    """Dots 3 tells it twice; where it is told once, it stays."""
    ropes = {kind: {"rope_theta": 1e4, "partial_rotary_factor": 0.25} for kind in ("a", "b")}
    twice = Config(head_dim=256, qk_rope_head_dim=64, rope_parameters=ropes)
    once = Config(head_dim=256, qk_rope_head_dim=128, rope_parameters=ropes)
    for full, part in ((twice, 1.0), (once, 0.25)):
        tiny = shrink.shrink(full).config
        told = [rope["partial_rotary_factor"] for rope in tiny.rope_parameters.values()]
        assert told == [part, part]
    assert ropes["a"]["partial_rotary_factor"] == 0.25


def test_an_adapter_between_two_widths():
    """Dots 3."""
    vision = Config(hidden_size=1536, adapter_in_dim=1536, adapter_out_dim=5120)
    tiny = shrink.shrink(Config(hidden_size=5120, vision_config=vision)).config.vision_config
    assert (tiny.adapter_in_dim, tiny.adapter_out_dim) == (shrink.HIDDEN, shrink.HIDDEN)


def test_channels_are_joined_to_the_width_they_had():
    """DeepSeek-OCR 2's tower ends in channels of the width of what follows it."""
    vision = Config(hidden_size=768, downsample_channels=[512, 896])
    encoder = Config(hidden_size=896)
    full = Config(hidden_size=1280, vision_config=vision, encoder_config=encoder)
    tiny = shrink.shrink(full).config
    assert tiny.vision_config.downsample_channels[-1] == tiny.encoder_config.hidden_size


@pytest.mark.parametrize("total", [1, 2, 3, 4, 8])
def test_rotary_sections_add_up(total):
    for sections in ([16, 24, 24], [24, 20, 20], [11, 11, 10], [8, 12, 12], [1, 1, 100]):
        parts = shrink.scaled(sections, total)
        assert sum(parts) == total
        assert min(parts) >= 0


def stack_of(*layers):
    return torch.nn.ModuleDict({"layers": torch.nn.ModuleList(layers)})


def linear():
    return torch.nn.Linear(1, 1)


def test_a_layer_cut_off_is_stood_for_by_its_like_on_both_sides():
    norm = torch.nn.LayerNorm
    model = stack_of(*(linear() if n % 2 else norm(1) for n in range(10)))
    copy = stack_of(norm(1), linear(), norm(1), linear())
    found = modules(model, copy, [Stack(10, (0, 1, 8, 9))])
    assert found["layers.0"] == ("layers.0",)
    assert found["layers.4"] == ("layers.0", "layers.2")
    assert found["layers.5"] == ("layers.1", "layers.3")
    assert found["layers.9"] == ("layers.3",)


def test_stacks_that_differ_in_build_are_refused():
    with pytest.raises(NoCounterpart, match=r"layers\.3 is built differently"):
        modules(
            stack_of(linear(), linear(), linear(), torch.nn.LayerNorm(1)),
            stack_of(linear(), linear()),
            [Stack(4, (0, 3))],
        )
    with pytest.raises(NoCounterpart, match="4 layers, its copy 2"):
        modules(stack_of(*(torch.nn.LayerNorm(1) for _ in range(4))), stack_of(linear(), linear()))


def test_all_experts_are_stood_for_by_one():
    found = modules(stack_of(*(linear() for _ in range(8))), stack_of(linear(), linear()))
    assert set(found["layers.7"]) == {"layers.0"}


def test_what_peft_puts_in_is_stood_for_by_what_it_changes():
    adapted = torch.nn.Module()
    adapted.base_layer = linear()
    adapted.lora_A = torch.nn.ModuleDict({"default": linear()})
    model = torch.nn.ModuleDict({"tower": adapted, "extra": linear()})
    copy = torch.nn.ModuleDict({"tower": linear()})
    found = modules(model, copy)
    names = ["tower.base_layer.weight", "tower.lora_A.default.weight", "extra.weight"]
    assert parameters(names, found, copy) == {
        "tower.base_layer.weight": ("tower.weight",),
        "tower.lora_A.default.weight": ("tower.weight",),
        "extra.weight": (),
    }
    assert observed.plain("base_model.model.tower.lora_A.default.weight").startswith("tower.")


def test_names_are_covered_by_the_fewest_paths():
    everything = ["a.b.w", "a.b.v", "a.c.w", "d.w", "a.layers.10.w", "a.layers.9.w"]
    assert cover(["a.b.w", "a.b.v"], everything) == ("a.b",)
    assert cover(["a.b.w"], everything) == ("a.b.w",)
    assert cover(["a.layers.10.w", "a.layers.9.w", "d.w"], everything) == ("a.layers", "d")
    assert cover([], everything) == ()


def test_a_trace_leaves_neither_hooks_nor_gradients():
    model = Toy(config(hidden_size=16, vision_config=Config(
        hidden_size=8, num_hidden_layers=2, image_size=56, patch_size=14)))  # fmt: skip
    row = {"input_ids": torch.tensor([[5, 6]]), "labels": torch.tensor([[5, 6]])}
    traced = row_trace.trace(model, row, row_trace.NO_LIMIT)
    assert traced.calls["layers.0"] == 1
    assert "tower" not in traced.calls
    assert traced.order[0] == "words"
    assert "words.weight" in traced.reached
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert all(weight.grad is None for weight in model.parameters())
    with pytest.raises(row_trace.TooLong):
        row_trace.trace(model, row, row_trace.Limit(0.0))
    assert not any(part._forward_pre_hooks for part in model.modules())
