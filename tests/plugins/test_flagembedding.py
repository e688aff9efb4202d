"""The FlagEmbedding adapter on small modules: names, words, changes, and containment."""

from __future__ import annotations

import contextlib
import types

import pytest
import torch
from torch import nn
from vlmguard_torch import freezing
from vlmguard_torch.gradients import Watch
from vlmguard_torch.transaction import Transaction

import vlmguard_flagembedding
from vlmguard import guard
from vlmguard.core.errors import SettingsError
from vlmguard.core.facts import Run
from vlmguard.core.findings import Variant
from vlmguard.core.plan import Plan
from vlmguard_flagembedding import apply, names, translate
from vlmguard_flagembedding.names import Named
from vlmguard_transformers import arguments, checkpointing, rehearse, steps


class Encoder(nn.Module):
    """Laid out as XLM-RoBERTa."""

    def __init__(self):
        super().__init__()
        words = {"word_embeddings": nn.Embedding(4, 2), "position_embeddings": nn.Embedding(4, 2)}
        self.embeddings = nn.ModuleDict(words)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})
        self.pooler = nn.Linear(2, 2)

    def get_input_embeddings(self):
        return self.embeddings["word_embeddings"]

    def get_output_embeddings(self):
        return None


class Decoder(nn.Module):
    """Laid out as a causal language model."""

    def __init__(self):
        super().__init__()
        body = {"embed_tokens": nn.Embedding(4, 2), "layers": nn.ModuleList([nn.Linear(2, 2)])}
        self.model = nn.ModuleDict(body)
        self.lm_head = nn.Linear(2, 4, bias=False)

    def get_input_embeddings(self):
        return self.model["embed_tokens"]

    def get_output_embeddings(self):
        return self.lm_head


class Around(nn.Module):
    """FlagEmbedding's module around the user's model."""

    def __init__(self, inner, **heads):
        super().__init__()
        self.model = inner
        self.cross_entropy = nn.CrossEntropyLoss()
        for name, head in heads.items():
            self.add_module(name, head)


class AbsEmbedderModel(Around):
    """Known by its name."""


def trainer_of(model, **args):
    accelerator = types.SimpleNamespace(sync_gradients=True)
    return types.SimpleNamespace(
        model=model, args=types.SimpleNamespace(**args), accelerator=accelerator
    )


def frozen_by(model, *wish):
    named = Named(model)
    found = parameters.matching(named, wish, named.parts())
    return {name for pairs in found.values() for name, _ in pairs}


def test_words_name_the_parts_of_an_encoder():
    model = AbsEmbedderModel(Encoder(), sparse_linear=nn.Linear(2, 1))
    assert {name.split(".")[0] for name in frozen_by(model, "embeddings")} == {"embeddings"}
    assert frozen_by(model, "head") == {"sparse_linear.weight", "sparse_linear.bias"}
    assert len(frozen_by(model, "*.position_embeddings.*")) == 1
    assert len(frozen_by(model, "encoder.layer.1")) == 2
    assert not frozen_by(AbsEmbedderModel(Encoder()), "head")


def test_words_name_the_parts_of_a_decoder():
    assert frozen_by(Around(Decoder()), "embeddings") == {"model.embed_tokens.weight"}
    assert frozen_by(Around(Decoder()), "head") == {"lm_head.weight"}
    assert {name.split(".")[1] for name in frozen_by(Around(Decoder()), "llm")} == {"layers"}


def test_the_language_model_is_all_but_its_heads(monkeypatch):
    monkeypatch.setenv("VLMGUARD_FREEZE", "LLM,*.bias,embeddings")
    assert translate.freeze_wish() == ("embeddings", "llm", "*.bias")
    model = AbsEmbedderModel(Encoder(), colbert_linear=nn.Linear(2, 2))
    left = {name for name, _ in Named(model).named_parameters()} - frozen_by(
        model, "embeddings", "llm"
    )
    assert left == {"colbert_linear.weight", "colbert_linear.bias"}


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (("embedings",), "'embedings' matches no parameter (did you mean embeddings?)"),
        (("head",), "'head' matches no parameter"),
        (("embeddings", "llm"), "leaves nothing to train"),
    ],
)
def test_a_wish_that_cannot_be_obeyed(wish, says):
    named = Named(AbsEmbedderModel(Encoder()))
    with pytest.raises(SettingsError) as caught:
        freezing.check(named, wish, named.parts())
    assert says in str(caught.value)


def test_an_embedders_pooler_is_a_tower_of_its_own():
    def kinds(model):
        named = Named(model)
        return {t.kind: t.trainable for t in parameters.towers(named, named.towers(), lambda kind: True)}

    assert kinds(AbsEmbedderModel(Encoder())) == {"llm": 6, "pooler": 2}
    assert kinds(Around(Encoder())) == {"llm": 8}, "a reranker calls it"
    assert kinds(AbsEmbedderModel(Decoder())) == {"llm": 4}


def test_checkpointed_blocks_count_where_they_train():
    model = AbsEmbedderModel(Encoder(), colbert_linear=nn.Linear(2, 2))
    assert translate._trains_blocks(Named(model))
    model.model.requires_grad_(False)  # as m3's --fix_encoder does
    assert not translate._trains_blocks(Named(model))


@pytest.mark.parametrize("prefix", ["gradient", "activation"])
def test_the_variant_is_written_under_every_name(prefix):
    old = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": None}
    new = {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"offload": True}}
    args = types.SimpleNamespace(**(old if prefix == "gradient" else {**old, **new}))
    assert checkpointing.flagged(args)
    assert checkpointing.asked(args) is None
    with Transaction() as transaction:
        checkpointing.set_variant(args, True, False, transaction)
    assert transaction.said == ["use_reentrant: True → False"]
    assert checkpointing.asked(args) is False
    assert args.gradient_checkpointing_kwargs["use_reentrant"] is False
    if prefix == "activation":
        assert args.activation_checkpointing_kwargs == {"offload": True, "use_reentrant": False}


def test_the_new_flag_decides_where_both_are():
    args = types.SimpleNamespace(activation_checkpointing=False, gradient_checkpointing=True)
    assert not checkpointing.flagged(args)
    assert not checkpointing.flagged(types.SimpleNamespace())


def test_apply_is_all_or_nothing(monkeypatch):
    model = AbsEmbedderModel(Encoder())
    kwargs = {"use_reentrant": True}
    trainer = trainer_of(
        model, gradient_checkpointing_kwargs=kwargs, ddp_find_unused_parameters=False
    )
    monkeypatch.setattr(checkpointing, "effective", lambda args, inner: True)
    plan = Plan((Variant(use_reentrant=False, find_unused=True),), (), (), ())
    assert apply.apply(trainer, plan) == (
        "use_reentrant: True → False",
        "find_unused_parameters: False → True",
    )
    trainer.args.gradient_checkpointing_kwargs = kwargs
    trainer.args.ddp_find_unused_parameters = False
    monkeypatch.setattr(freezing, "obey", lambda named, transaction: 1 / 0)
    with contextlib.suppress(ZeroDivisionError):
        apply.apply(trainer, plan)
    assert trainer.args.gradient_checkpointing_kwargs is kwargs
    assert trainer.args.ddp_find_unused_parameters is False


def test_freezing_is_taken_back():
    named = Named(AbsEmbedderModel(Encoder()))
    found = parameters.matching(named, ("embeddings",), named.parts())
    with contextlib.suppress(OSError), Transaction() as transaction:
        freezing.obey(found, transaction)
        assert transaction.said == ["embeddings: 2 parameters trainable → frozen"]
        assert freezing.freed(named, ("embeddings",), named.parts()) == ()
        raise OSError
    assert len(freezing.freed(named, ("embeddings",), named.parts())) == 2


def test_a_step_is_watched_until_training_ends(monkeypatch):
    model = AbsEmbedderModel(Decoder())
    named, trainer, seen = Named(model), trainer_of(model), []
    monkeypatch.setattr(guard, "pre_step", lambda run, gradients: seen.append(gradients))

    def training_step(_model, _inputs):
        model.model.lm_head(model.model.model["embed_tokens"](torch.tensor([1]))).sum().backward()
        return "loss"

    steps.start(trainer, Run("FlagEmbedding", strategy="ddp"), Watch(named, named.towers()))
    trainer.accelerator.sync_gradients = False
    assert steps.step(training_step, trainer, (model, {"queries": 1}), {}) == "loss"
    assert not seen, "the window is not over"
    trainer.accelerator.sync_gradients = True
    steps.step(training_step, trainer, (model, {"queries": 1}), {})
    assert seen[0].unreached == {"llm": ("model.layers.0.weight", "model.layers.0.bias")}
    steps.end(trainer)
    steps.step(training_step, trainer, (model, {"queries": 1}), {})
    assert len(seen) == 1
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())


def test_fsdps_parameters_are_not_hooked():
    steps.start(trainer := trainer_of(Decoder()), Run("FlagEmbedding", strategy="fsdp2"), None)
    assert id(trainer) not in steps._watched


class Ours:
    """A trainer that the adapter takes for FlagEmbedding's."""

    __module__ = "FlagEmbedding.abc.finetune.embedder.AbsTrainer"


class Hostile(Ours):
    """Anything asked of it raises."""

    __module__ = __name__

    def __getattribute__(self, name):
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        raise RuntimeError("boom")


WRAPPERS = [seam.wrapper for seam in vlmguard_flagembedding.SEAMS]
FUNCTIONS = [
    (vlmguard_flagembedding, "_ours"),
    (vlmguard_flagembedding, "_before"),
    (names, "Named"),
    (translate, "run"),
    (translate, "freeze_wish"),
    (apply, "apply"),
    (freezing, "check"),
    (checkpointing, "effective"),
    (rehearse, "rehearse"),
    (steps, "start"),
    (steps, "end"),
    (steps, "_before"),
    (steps, "_after"),
    (arguments, "take"),
    (arguments, "resolve"),
    (guard, "on_error"),
]


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
def test_hostile_objects(wrapper):
    calls = []
    answer = wrapper(lambda *a, **k: calls.append(a) or "framework", Hostile(), (["--x"],), {})
    assert (answer, len(calls)) == ("framework", 1)


@pytest.mark.parametrize(("owner", "name"), FUNCTIONS, ids=lambda x: getattr(x, "__name__", x))
def test_each_function_may_fail(owner, name, monkeypatch):
    def boom(*args, **kwargs):
        raise RuntimeError("boom")

    calls, trainer = [], Ours()
    watched = steps._Watched(Run("FlagEmbedding"), Hostile())
    monkeypatch.setitem(steps._watched, id(trainer), watched)
    monkeypatch.setattr(owner, name, boom)
    for wrapper in WRAPPERS:
        answer = wrapper(lambda *a, **k: calls.append(a) or "framework", trainer, (["--x"],), {})
        assert answer == "framework"
    assert len(calls) == len(WRAPPERS)


def test_the_frameworks_own_exception_goes_on_unchanged():
    error = ValueError("theirs")

    def wrapped(*args, **kwargs):
        raise error

    for wrapper in WRAPPERS:
        with pytest.raises(ValueError, match="theirs") as caught:
            wrapper(wrapped, Ours(), (["--x"],), {})
        assert caught.value is error


def test_another_frameworks_trainer_is_left_alone(monkeypatch):
    monkeypatch.setattr(vlmguard_flagembedding, "_before", lambda trainer: 1 / 0)
    assert vlmguard_flagembedding.train(lambda: "trained", object(), (), {}) == "trained"


def test_a_stop_is_not_contained(monkeypatch):
    def stop(trainer):
        raise SettingsError("no")

    monkeypatch.setattr(vlmguard_flagembedding, "_before", stop)
    with pytest.raises(SettingsError):
        vlmguard_flagembedding.train(lambda: "trained", Ours(), (), {})
