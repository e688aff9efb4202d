"""The blank input on a small model in plain torch that is built as transformers' are."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import re
import types
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run
from vlmguard.core.facts import Tower as Tower_
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard_torch import module_calls as forward_hooks
from vlmguard_torch import zero_contribution
from vlmguard_torch.blank import blank_input, hooks, rank_divergence
from vlmguard_torch.layout import cross_attention, towers
from vlmguard_torch.media import blank_media

SIDE, HIDDEN = 4, 8


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Conv2d(3, HIDDEN, SIDE // 2, SIDE // 2)
        self.norm = nn.BatchNorm2d(HIDDEN)
        self.dropout = nn.Dropout(0.5)
        self.gradient_checkpointing = False

    def forward(self, pixels):
        if self.gradient_checkpointing:
            return checkpoint(self.inner, pixels, use_reentrant=False)
        return self.inner(pixels)

    def inner(self, pixels):
        return self.dropout(self.norm(self.embeddings(pixels))).mean((2, 3))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(16, HIDDEN)
        self.layer = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.Dropout(0.5))

    def forward(self, inputs_embeds=None, past_key_values=None):
        return self.layer(inputs_embeds)


class Inner(nn.Module):
    """Embeds, sees, thinks: as LlavaModel."""

    def __init__(self):
        super().__init__()
        self.vision_tower = Tower()
        self.multi_modal_projector = nn.Linear(HIDDEN, HIDDEN)
        self.language_model = Decoder()
        self.asked = ""
        self.config = SimpleNamespace(
            model_type="toy", vision_config=SimpleNamespace(image_size=SIDE, num_channels=3)
        )

    def get_input_embeddings(self):
        return self.language_model.embed_tokens

    def get_image_features(self, pixel_values, mode="plain"):
        self.asked = mode
        return [self.multi_modal_projector(self.vision_tower(pixel_values))]

    def forward(self, input_ids=None, inputs_embeds=None, pixel_values=None, cache=None, mode=None):
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
        if pixel_values is not None:
            inputs_embeds = inputs_embeds + self.get_image_features(pixel_values)[0][:, None]
        return self.language_model(inputs_embeds=inputs_embeds, past_key_values=cache)


class Early(Inner):
    """Sees before it embeds: as GLM-Image."""

    def forward(self, input_ids=None, inputs_embeds=None, pixel_values=None, cache=None):
        features = None if pixel_values is None else self.get_image_features(pixel_values)
        embeds = self.get_input_embeddings()(input_ids)
        if features:
            embeds = embeds + features[0][:, None]
        return self.language_model(inputs_embeds=embeds, past_key_values=cache)


class Flat(Inner):
    """Has its layers itself: as Chameleon."""

    def __init__(self):
        super().__init__()
        decoder = self.language_model
        del self.language_model
        self.embed_tokens, self.layer = decoder.embed_tokens, decoder.layer

    def get_input_embeddings(self):
        return self.embed_tokens

    def forward(self, input_ids=None, inputs_embeds=None, pixel_values=None, cache=None):
        embeds = self.get_input_embeddings()(input_ids)
        if pixel_values is not None:
            embeds = embeds + self.get_image_features(pixel_values)[0][:, None]
        return self.layer(embeds)


class Filming(Inner):
    """Has a way of its own for videos, through the same tower: as Qwen-VL."""

    def get_video_features(self, pixel_values_videos):
        return self.get_image_features(pixel_values_videos)


class Hearing(Inner):
    """Hears and sees, by a tower each, in this order: as Qwen-Omni."""

    def __init__(self):
        super().__init__()
        self.audio_tower = nn.Linear(3, HIDDEN)

    def get_audio_features(self, input_features):
        return self.audio_tower(input_features)

    def forward(self, input_ids=None, inputs_embeds=None, pixel_values=None, sound=None):
        embeds = self.get_input_embeddings()(input_ids)
        if sound is not None:
            embeds = embeds + self.get_audio_features(sound)[:, None]
        if pixel_values is not None:
            embeds = embeds + self.get_image_features(pixel_values)[0][:, None]
        return self.language_model(inputs_embeds=embeds)


class Crossing(nn.Module):
    """Reads images through a layer of its language model, which text rows skip: as Mllama."""

    class Vision(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Linear(3 * SIDE * SIDE, HIDDEN)

        def forward(self, pixel_values, aspect_ratio_ids, aspect_ratio_mask):
            seen = self.patch(pixel_values.flatten(3))  # (rows, images, tiles, hidden)
            return SimpleNamespace(last_hidden_state=seen)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.look = nn.Linear(HIDDEN, HIDDEN)

        def forward(self, hidden, cross_attention_states=None, past_key_values=None):
            if cross_attention_states is None:
                return hidden + past_key_values.kept
            seen = self.look(cross_attention_states).mean(1, keepdim=True)
            if past_key_values is not None:
                past_key_values.kept = seen
            return hidden + seen

    class Language(nn.Module):
        cross_attention_layers = (0,)

        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(16, HIDDEN)
            self.layers = nn.ModuleList([Crossing.Layer()])

        def forward(self, input_ids=None, cross_attention_states=None, past_key_values=None):
            hidden = self.embed_tokens(input_ids)
            told = {
                "cross_attention_states": cross_attention_states,
                "past_key_values": past_key_values,
            }
            if cross_attention_states is None and not hasattr(past_key_values, "kept"):
                return hidden
            return self.layers[0](hidden, **told)

    def __init__(self):
        super().__init__()
        self.vision_model, self.language_model = Crossing.Vision(), Crossing.Language()
        self.multi_modal_projector = nn.Linear(HIDDEN, HIDDEN)
        vision = SimpleNamespace(image_size=SIDE, num_channels=3, max_num_tiles=1)
        self.config = SimpleNamespace(model_type="toy", vision_config=vision)

    def get_input_embeddings(self):
        return self.language_model.embed_tokens

    def forward(self, input_ids=None, pixel_values=None, cache=None):
        states = None
        if pixel_values is not None:
            seen = self.vision_model(pixel_values, None, None).last_hidden_state
            states = self.multi_modal_projector(seen).reshape(-1, 1, HIDDEN)
        return self.language_model(
            input_ids=input_ids, cross_attention_states=states, past_key_values=cache
        )


class Model(nn.Module):
    """What users hold: as LlavaForConditionalGeneration."""

    def __init__(self, inner=Inner):
        super().__init__()
        self.model = inner()
        self.lm_head = nn.Linear(HIDDEN, 16)

    def get_input_embeddings(self):
        return self.model.get_input_embeddings()

    def get_image_features(self, pixel_values):
        return self.model.get_image_features(pixel_values)

    def forward(self, **batch):
        return self.lm_head(self.model(**batch)).pow(2).mean()

    def _prepare_multimodal_encoder_kwargs_for_generation(self, kwargs):
        if "pixel_values" in kwargs:
            self.model.get_image_features(kwargs.pop("pixel_values"))
        return kwargs

    def generate(self, synced_gpus=None, encodes=True, **kwargs):
        if encodes:
            kwargs = self._prepare_multimodal_encoder_kwargs_for_generation(kwargs)
        self(**kwargs, cache=None if encodes else ())
        kwargs.pop("pixel_values", None)
        self(**kwargs, cache=(1,))


def build(inner: type = Inner) -> Model:
    torch.manual_seed(0)
    return Model(inner)


def text():
    return {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]])}


def picture():
    return {**text(), "pixel_values": torch.randn(2, 3, SIDE, SIDE)}


def ones(owner, kind):
    name = {"image": "pixel_values", "video": "pixel_values_videos"}[kind]
    return {name: torch.ones(2, 3, SIDE, SIDE)}


def step(model, batch):
    """The loss and every gradient, from one seed."""
    model.zero_grad()
    torch.manual_seed(3)
    loss = model(**batch)
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters()}


def of_tower(gradients):
    return {k: v for k, v in gradients.items() if "vision_tower" in k or "projector" in k}


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all((a is None and b is None) or torch.equal(a, b) for a, b in pairs)


def untouched(model):
    """The tower's parameters, without a gradient each."""
    return dict.fromkeys(of_tower(dict(model.named_parameters())))


@pytest.mark.parametrize("inner", [Inner, Early, Flat])
def test_with_an_image_nothing_is_done(inner):
    model, batch = build(inner), picture()
    loss, before = step(model, batch)
    handle = blank_input.install(model)
    again, after = step(model, batch)
    assert again == loss
    assert same(before.values(), after.values())
    assert handle.padded == 0


@pytest.mark.parametrize("inner", [Inner, Early, Flat])
def test_text_alone_gives_the_tower_zeros_and_changes_nothing_else(inner):
    model = build(inner)
    loss, before = step(model, text())
    assert set(map(type, of_tower(before).values())) == {type(None)}
    handle = blank_input.install(model)
    again, after = step(model, text())
    assert again == loss
    zeros = {name: torch.zeros_like(gradient) for name, gradient in of_tower(after).items()}
    assert same(after.values(), {**before, **zeros}.values())
    assert (handle.padded, handle.fault) == (1, "")


def test_layers_that_read_images_run_and_are_thrown_away():
    model = build(Crossing)
    picture_ = {**text(), "pixel_values": torch.randn(2, 1, 1, 3, SIDE, SIDE)}
    loss, before = step(model, text())
    seen = step(model, picture_)
    handle = blank_input.install(model)
    again, after = step(model, text())
    assert (again, handle.padded) == (loss, 1)
    idle = {name for name, gradient in before.items() if gradient is None}
    assert {name.split(".")[1] for name in idle} == {
        "vision_model", "language_model", "multi_modal_projector"
    }  # fmt: skip
    zeros = {name: torch.zeros_like(after[name]) for name in idle}
    assert same(after.values(), {**before, **zeros}.values())
    both = step(model, picture_)
    assert both[0] == seen[0]
    assert same(both[1].values(), seen[1].values())


def test_each_row_gets_all_tiles_of_the_blank_image():
    """As `MllamaTextCrossAttention` reads them: ``view(rows, -1, …)``."""
    tiles = torch.arange(4 * 5 * 2.0).reshape(4, 5, 2)
    given = cross_attention.give({}, tiles, 3)["cross_attention_states"]
    for row in given.view(3, -1, 2):
        assert row.equal(tiles.view(-1, 2))


def test_what_a_cache_keeps_of_a_blank_image_is_thrown_away_too():
    model = build(Crossing).eval()
    with torch.no_grad():
        expected = model(**text()).item()
        handle = blank_input.install(model)
        cache = SimpleNamespace(get_seq_length=lambda: 0)
        assert model(**text(), cache=cache).item() == expected
        cache.get_seq_length = lambda: 3
        assert cache.kept.any()
        assert model(**text(), cache=cache).item() == expected
    assert handle.padded == 1


def test_buffers_stay():
    model = build()
    before = copy.deepcopy(dict(model.named_buffers()))
    blank_input.install(model)
    step(model, text())
    assert same(before.values(), dict(model.named_buffers()).values())
    assert model.model.vision_tower.norm.training


def test_closed_it_leaves_nothing():
    model = build()
    plain = {name: {*vars(module)} for name, module in model.named_modules()}
    handle = blank_input.install(model)
    step(model, text())
    handle.close()
    assert {name: {*vars(module)} for name, module in model.named_modules()} == plain
    for module in model.modules():
        assert not module._forward_pre_hooks
        assert not module._forward_hooks
    assert of_tower(step(model, text())[1]) == untouched(model)


def test_it_keeps_no_model_alive():
    model = build()
    handle = blank_input.install(model)
    step(model, text())
    held = weakref.ref(model.model)
    del model, handle
    gc.collect()
    assert held() is None


def test_put_on_twice_it_runs_once():
    model = build()
    first = blank_input.install(model)
    handle = blank_input.install(model)
    step(model, text())
    assert (first.fault, first.padded, handle.padded) == ("closed", 0, 1)
    handle.close()
    assert not model.model._forward_pre_hooks


def test_inference_mode_leaves_nothing_that_training_cannot_use():
    model = build()
    with torch.inference_mode():
        made = blank_media.from_config(model.model, "image")
        handle = blank_input.install(model, build=lambda *_: made)
        model(**text())
    step(model, text())
    assert (handle.padded, handle.fault) == (2, "")


def test_when():
    model = build()
    handle = blank_input.install(model, when="training")
    with torch.no_grad():
        model(**text())
    model.eval()
    model(**text())
    model.train()
    model.model.vision_tower.requires_grad_(False)
    model.model.multi_modal_projector.requires_grad_(False)
    model(**text())
    assert handle.padded == 0
    model.model.multi_modal_projector.requires_grad_(True)
    model(**text())
    assert handle.padded == 1
    handle.close()
    handle = blank_input.install(model.eval(), when="always")
    with torch.no_grad():
        model(**text())
    assert handle.padded == 1
    handle.close()
    handle = blank_input.install(model.train(), when="evaluation")
    model(**text())
    assert handle.padded == 0
    with torch.no_grad():
        model.eval()(**text())
    assert handle.padded == 1


def test_a_framework_may_run_the_tower_before_the_forward():
    model = build(Filming)
    handle = blank_input.install(model, kinds=("image", "video"), build=ones)
    embeds = model.get_input_embeddings()(text()["input_ids"])
    model.model.vision_tower(picture()["pixel_values"])
    model(inputs_embeds=embeds)
    assert handle.padded == 0
    model(inputs_embeds=embeds)  # and here it did not
    assert handle.padded == 1


def test_every_kind_of_input_runs_its_tower():
    model = build(Filming)
    calls = []
    model.model.vision_tower.register_forward_hook(lambda *_: calls.append(1))
    handle = blank_input.install(model, kinds=("image", "video"), build=ones)
    for batch, padded in ((picture(), 1), (text(), 2)):
        calls.clear()
        step(model, batch)
        assert (len(calls), handle.padded) == (2, padded)


def hear(owner, kind):
    return ones(owner, kind) if kind == "image" else {"input_features": torch.ones(2, 3)}


def test_towers_run_in_the_models_order_whichever_the_row_has():
    model = build(Hearing)
    sound = {"sound": torch.ones(2, 3)}
    handle = blank_input.install(model, kinds=("image", "audio"), build=hear)
    order = []
    names = ("audio_tower", "vision_tower", "multi_modal_projector", "language_model")
    for name in names:
        getattr(model.model, name).register_forward_pre_hook(lambda *_, n=name: order.append(n))
    for number, batch in enumerate((text(), {**text(), **sound}, picture(), picture() | sound)):
        order.clear()
        _, gradients = step(model, batch)
        assert tuple(order) == names
        assert all(gradient is not None for gradient in gradients.values())
        assert handle.padded == min(number + 1, 3)


def test_what_a_forward_is_asked_goes_to_the_tower():
    model = build()
    blank_input.install(model)
    for mode in ("coarse", None):
        model(**text(), mode=mode)
        assert model.model.asked == (mode or "plain")


def test_decoding_needs_none():
    model = build().eval()
    handle = blank_input.install(model)
    with torch.no_grad():
        model.generate(**text())  # the tower ran before the first forward
        assert handle.padded == 1
        model.generate(**picture())
        assert handle.padded == 1
        model.generate(**text(), encodes=False)  # in the first forward
        assert handle.padded == 2
        model(**text(), cache=(1,))
        assert handle.padded == 2
        model(**text())
        assert handle.padded == 3


class Encoding(Inner):
    """Calls its tower by a method of its own: as Emu3."""

    class Codes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Tower()

        def encode(self, pixels):
            return self.layer(pixels)

    def __init__(self):
        super().__init__()
        self.vision_tower = self.Codes()

    def get_image_features(self, pixel_values, mode="plain"):
        return [self.multi_modal_projector(self.vision_tower.encode(pixel_values))]


def test_a_tower_that_is_called_by_another_method_is_seen():
    model, calls = build(Encoding), []
    model.model.multi_modal_projector.register_forward_pre_hook(lambda *_: calls.append(1))
    handle = blank_input.install(model)
    for batch, padded in ((picture(), 0), (text(), 1), (picture(), 1)):
        calls.clear()
        step(model, batch)
        assert (len(calls), handle.padded, handle.fault) == (1, padded, "")


class Projecting(Inner):
    """Its forward calls the projector, also for features that were encoded before: as Llama4."""

    def get_image_features(self, pixel_values, mode="plain"):
        return [self.vision_tower(pixel_values)]

    def forward(self, input_ids=None, pixel_values=None, encoded=None, cache=None):
        embeds = self.get_input_embeddings()(input_ids)
        if pixel_values is not None:
            encoded = self.get_image_features(pixel_values)
        if encoded is not None:
            embeds = embeds + self.multi_modal_projector(encoded[0])[:, None]
        return self.language_model(inputs_embeds=embeds, past_key_values=cache)


class Handing(Model):
    """Hands the encoded features to every forward of a ``generate``."""

    def _prepare_multimodal_encoder_kwargs_for_generation(self, kwargs):
        if "pixel_values" in kwargs:
            kwargs["encoded"] = self.model.get_image_features(kwargs.pop("pixel_values"))
        return kwargs


def test_encoded_features_are_projected_where_the_model_does_it():
    torch.manual_seed(0)
    model, order = Handing(Projecting).eval(), []
    blank_input.install(model, behind={"image": ("multi_modal_projector",)})
    names = ("vision_tower", "language_model.embed_tokens", "multi_modal_projector")
    for name in (*names, "language_model.layer"):
        module = model.model.get_submodule(name)
        module.register_forward_pre_hook(lambda *_, n=name: order.append(n))
    found = []
    for batch in (picture(), text(), picture()):
        order.clear()
        with torch.no_grad():
            model.generate(**batch)
        found.append(tuple(order))
    assert found[0].count("multi_modal_projector") == 2, "once a forward"
    assert found[1] == found[0] == found[2]


def test_a_copy_and_a_pickle_do_nothing_of_ours():
    model = build()
    handle = blank_input.install(model)
    step(model, text())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert of_tower(step(other, text())[1]) == untouched(other)
        other.generate(**text())
    assert handle.padded == 1


def test_a_pickle_is_read_where_we_are_not():
    """A model that a script saves whole, its hooks and its `generate` included."""
    model = build()
    blank_input.install(model)
    forward_hooks.ForwardHook().on(model)
    forward_hooks.Witness().on(model)
    assert b"vlmguard" not in pickle.dumps(model)


def test_a_generate_of_the_models_own_is_called_and_stays():
    """ms-swift, LLaMA-Factory and PEFT put one on the model."""
    called = []

    def put(self, *args, **kwargs):
        called.append(self)
        return Model.generate(self, *args, **kwargs)

    model = build()
    for own in (types.MethodType(put, model), functools.partial(put, model)):
        model.generate = own
        signature, called[:] = inspect.signature(own), []
        handle = blank_input.install(model)
        assert inspect.signature(model.generate) == signature
        model.generate(**text())
        copy.deepcopy(model).generate(**text())
        assert (called[0], len(called), handle.padded) == (model, 2, 1)
        handle.close()
        assert model.generate is own


def test_what_a_compiler_makes_of_a_model():
    """The graphs that it makes without us, where a blank is not known to be needed."""
    from torch._dynamo.utils import counters

    def compiled(on):
        model, told = build(), []
        if on:
            blank_input.install(model, traced=False)
            forward_hooks.ForwardHook("watching", lambda *_: told.append(1)).on(model.model)
        torch._dynamo.reset()
        counters.clear()
        run = torch.compile(model, backend="eager")
        loss = [float(run(**row).detach().sum()) for row in (picture(), text(), text())]
        return loss[1:], counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())

    assert compiled(on=True) == compiled(on=False)


def test_a_compiler_traces_nothing_of_the_hooks():
    """Where a blank is needed: graph breaks where it may run, and few frames more."""
    from torch._dynamo.utils import counters

    def compiled(on):
        model = build()
        handle = blank_input.install(model) if on else None
        torch._dynamo.reset()
        counters.clear()
        run = torch.compile(model, backend="eager")
        loss = [float(run(**row).detach().sum()) for row in (picture(), text(), picture(), text())]
        return loss, counters["frames"]["total"], handle and handle.padded

    (without, few, _), (loss, frames, padded) = compiled(on=False), compiled(on=True)
    assert loss == without
    assert padded == 2
    assert frames <= few + 10  # 84 more where the hooks' own frames are traced


def test_it_stays_in_front_of_hooks_that_come_later():
    model = build()
    handle = blank_input.install(model)
    step(model, text())
    order = []
    model.model.vision_tower.register_forward_pre_hook(lambda *_: order.append("tower"))
    model.model.language_model.register_forward_pre_hook(
        lambda *_: order.append("gather"), prepend=True
    )
    step(model, text())
    assert order == ["tower", "gather"]
    assert handle.padded == 2


def test_a_recomputation_is_no_run():
    model = build()
    model.model.vision_tower.gradient_checkpointing = True
    handle = blank_input.install(model)
    calls = []
    model.model.vision_tower.embeddings.register_forward_hook(lambda *_: calls.append(1))
    step(model, picture())
    assert len(calls) == 2
    step(model, text())
    assert (len(calls), handle.padded) == (4, 1)


def test_an_infinite_feature_is_no_harm():
    model = build()
    loss, _ = step(model, text())
    nn.init.constant_(model.model.multi_modal_projector.bias, float("inf"))
    handle = blank_input.install(model)
    again, after = step(model, text())
    assert (again, handle.padded) == (loss, 1)
    assert not any(gradient.isnan().any() for gradient in after.values())


def test_a_fault_of_ours_is_told_once_and_changes_nothing():
    model = build()
    loss, before = step(model, text())
    said = []
    ones = {"pixel_values": torch.ones(1)}
    handle = blank_input.install(model, build=lambda *_: ones, say=said.append)
    for _ in range(2):
        again, after = step(model, text())
        assert again == loss
        assert same(before.values(), after.values())
    assert "RuntimeError" in handle.fault
    assert len(said) == 1


def broken(absent, monkeypatch, rules=None):
    """A step of text with a blank that fails, on rank 0 of 3; where it did not, by the store."""
    model, said, waited = build(), [], []
    asked = lambda *args: waited.append(args[-1]) or absent  # noqa: E731
    monkeypatch.setattr(rank_divergence.exchange, "roll_call", asked)
    run = Run("x", {}, "zero3", 3, towers=(Tower_("vision", total=1),), may_be_unused="yes")
    state = RunState(Settings(rules or {}), run=run)
    runstate.opened(state)
    monkeypatch.setattr(guard, "abort", lambda _: None)
    bad = lambda *_: {"pixel_values": torch.ones(1)}  # noqa: E731
    failed = functools.partial(rank_divergence.judge, state, 0)
    handle = blank_input.install(model, build=bad, say=said.append, failed=failed)
    try:
        for _ in range(2):
            step(model, text())
    finally:
        runstate.closed(state)
        assert "Error: " in handle.fault
        assert (len(said), waited) == (1, [rank_divergence.WAIT])


@pytest.mark.parametrize("absent", [None, []])
def test_a_blank_that_fails_on_all_ranks_or_where_none_can_be_asked_stops_nothing(
    absent, monkeypatch
):
    broken(absent, monkeypatch)


def test_a_blank_that_fails_on_one_rank_alone_stops_it_with_the_reason(monkeypatch):
    with pytest.raises(Stop, match=r"VG106: rank 2 would hang: the blank .* \(RuntimeError: "):
        broken([2], monkeypatch)
    with pytest.raises(Stop, match="2 other ranks"):
        broken([None, None], monkeypatch)
    broken([None, None], monkeypatch, {"VG106": "warn"})


QUIET = ("_begin", "_go_first", "_before", "_is_settled", "_needed", "_missing", "_run")


@pytest.mark.parametrize("name", QUIET)
@pytest.mark.parametrize("answer", [None, "a word"])
def test_a_hook_that_does_nothing_on_one_rank_alone_stops_it_too(name, answer, monkeypatch):
    monkeypatch.setattr(hooks.Blank, name, lambda *_: answer)
    with pytest.raises(Stop) as stopped:
        broken([None, None], monkeypatch)
    told = stopped.value.in_full
    assert re.search(r"VG106: 2 other ranks .* the blank .* \(\w+Error: .*\)", told)
    broken([], monkeypatch)


def test_ranks_that_generate_alone_are_told(monkeypatch):
    model, said = build(), []
    blank_input.install(model, say=said.append)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    model.generate(**text())  # whole parameters: each rank may end when it likes
    next(model.parameters()).ds_status = SimpleNamespace(name="NOT_AVAILABLE")
    model.generate(**text(), synced_gpus=True)
    assert not said
    model.generate(**text())
    model.generate(**text(), synced_gpus=False)
    assert [("synced_gpus" in line) for line in said] == [True]


def test_what_cannot_be_made_is_said_and_nothing_is_put_on():
    model = build()
    del model.model.config.vision_config.image_size
    assert "image_size" in blank_input.possible(model)
    with pytest.raises(blank_input.CannotBlank):
        blank_input.install(model)
    assert not model.model._forward_pre_hooks
    assert "Linear" in blank_input.possible(nn.Linear(1, 1))
    assert "audio" in blank_input.possible(build(), kinds=("image", "audio"))
    assert blank_input.possible(build(), kinds=("image", "video")) == ""  # as images: as InternVL
    assert blank_input.possible(build()) == ""


class Output(dict):
    """As transformers' ModelOutput: a field that its class does not name is an attribute alone."""

    def to_tuple(self):
        return tuple(self.values())


def test_what_the_language_model_reads_of_an_output():
    seen, layer, pooled, deep = (torch.ones(1) * n for n in range(4))
    output = Output(last_hidden_state=seen, hidden_states=(layer,))
    assert zero_contribution.used(output) == [seen]
    output.pooler_output = [pooled]
    assert zero_contribution.used(output) == [pooled]
    output["deepstack_features"] = [deep]
    assert sorted(map(float, zero_contribution.used(output))) == [2, 3]
    assert zero_contribution.used((pooled, [deep])) == [pooled, deep]


def test_from_config():
    made = blank_media.from_config(build().model, "image")
    assert made["pixel_values"].shape == (1, 3, SIDE, SIDE)


def module(*paths: str) -> nn.Module:
    """A model that has a Linear at each path."""
    root = nn.Module()
    for path in paths:
        at = root
        for name in path.split(".")[:-1]:
            if not hasattr(at, name):
                at.add_module(name, nn.Module())
            at = getattr(at, name)
        at.add_module(path.rsplit(".", 1)[-1], nn.Linear(1, 1))
    return root


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (
            ("model.visual.blocks", "model.visual.merger.mlp", "model.language_model.layers",
             "lm_head"),
            {
                "vision": ("model.visual",), "aligner": ("model.visual.merger",),
                "llm": ("model.language_model", "lm_head"),
            },
        ),
        (
            ("base_model.model.model.vision_tower.vision_model.encoder",
             "base_model.model.model.multi_modal_projector.linear_1",
             "base_model.model.model.language_model.layers"),
            {
                "vision": ("model.vision_tower",), "aligner": ("model.multi_modal_projector",),
                "llm": ("model.language_model",),
            },
        ),
        (
            ("audio_tower.layers", "visual.merger", "multi_modal_projector", "model.layers"),
            {
                "vision": ("visual",), "audio": ("audio_tower",),
                "aligner": ("visual.merger", "multi_modal_projector"), "llm": ("model",),
            },
        ),
        (("model.layers", "lm_head"), {}),
        (("language_model.visual.x", "lm_head"), {}),
    ],
)  # fmt: skip
def test_towers_by_name(paths, found):
    named = towers.by_name(module(*paths))
    assert named == found
    for kind, where in named.items():
        for path in where:
            assert towers.kind_of(path + ".weight", named) == kind


def test_plain_names():
    for name in (
        "base_model.model.visual.qkv.base_layer.weight",
        "module.visual._checkpoint_wrapped_module.qkv.weight",
        "_fsdp_wrapped_module.visual._fsdp_wrapped_module.qkv.weight",
        "base_model.model.visual.qkv.modules_to_save.default.weight",
    ):
        assert towers.plain(name) == "visual.qkv.weight"
