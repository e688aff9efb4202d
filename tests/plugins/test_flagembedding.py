"""The FlagEmbedding adapter on small modules: names, words, changes, and containment."""

from __future__ import annotations

import contextlib
import types

import pytest
import torch
from torch import nn

from vlmguard.core.errors import SettingsError
from vlmguard.core.findings import Variant
from vlmguard.core.plan import Plan
from vlmguard_flagembedding import profile
from vlmguard_flagembedding.names import Named
from vlmguard_flagembedding.profile import PROFILE
from vlmguard_torch.layout import freezing, parameters
from vlmguard_torch.transaction import Transaction
from vlmguard_torch.watch import gradients
from vlmguard_transformers import apply, checkpointing
from vlmguard_transformers.model_reading import Reading


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
    assert PROFILE.policy() == ("embeddings", "llm", "*.bias")
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
        return {
            t.kind: t.trainable for t in parameters.towers(named, named.towers(), lambda kind: True)
        }

    assert kinds(AbsEmbedderModel(Encoder())) == {"llm": 6, "pooler": 2}
    assert kinds(Around(Encoder())) == {"llm": 8}, "a reranker calls it"
    assert kinds(AbsEmbedderModel(Decoder())) == {"llm": 4}


@pytest.mark.parametrize("blind", [False, True])
def test_its_parts_are_watched_by_their_names_in_the_checkpoint(blind):
    model = AbsEmbedderModel(Encoder())
    layer = model.model.encoder["layer"][0]
    if blind:
        layer.forward = torch.no_grad()(layer.forward)
    named, head = Named(model), nn.Linear(2, 1)
    watch = gradients.Watch(named, {"llm": ("encoder.layer.0",)}, top=model)
    told = []
    for _ in range(gradients.AGREE):
        head(layer(torch.ones(1, 2))).sum().backward()
        told.append(watch.end())
        model.zero_grad()
    later = [{}] * 6 + [{"llm": "cut"}] if blind else [None] * 7
    assert [found and dict(found.wiring) for found in told] == [{}, *later]


def test_checkpointed_blocks_count_where_they_train():
    model = AbsEmbedderModel(Encoder(), colbert_linear=nn.Linear(2, 2))
    assert profile._trains_blocks(Named(model))
    model.model.requires_grad_(False)  # as m3's --fix_encoder does
    assert not profile._trains_blocks(Named(model))


@pytest.mark.parametrize("prefix", ["gradient", "activation"])
def test_the_variant_is_written_under_every_name(prefix):
    old = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": None}
    new = {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"offload": True}}
    args = types.SimpleNamespace(**(old if prefix == "gradient" else {**old, **new}))
    assert checkpointing.flagged(args)
    assert checkpointing.asked(args) is None
    with Transaction() as transaction:
        checkpointing.set_variant(args, True, False, transaction)
    assert transaction.changes["variant"] == ["use_reentrant: True → False"]
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
    trainer.args.gradient_checkpointing = True
    monkeypatch.setattr(checkpointing, "effective", lambda args, inner: True)
    plan = Plan((Variant(use_reentrant=False, find_unused=True),), (), (), ())
    assert apply.apply(Reading(trainer, PROFILE), plan) == {
        "variant": ["use_reentrant: True → False", "find_unused_parameters: False → True"]
    }
    trainer.args.gradient_checkpointing_kwargs = kwargs
    trainer.args.ddp_find_unused_parameters = False
    monkeypatch.setattr(freezing, "obey", lambda named, transaction: 1 / 0)
    with contextlib.suppress(ZeroDivisionError):
        apply.apply(Reading(trainer, PROFILE), plan)
    assert trainer.args.gradient_checkpointing_kwargs is kwargs
    assert trainer.args.ddp_find_unused_parameters is False


def test_freezing_is_taken_back():
    named = Named(AbsEmbedderModel(Encoder()))
    found = parameters.matching(named, ("embeddings",), named.parts())
    with contextlib.suppress(OSError), Transaction() as transaction:
        freezing.obey(found, transaction)
        assert transaction.changes["freeze"] == [
            "embeddings: 2 parameter tensors trainable → frozen"
        ]
        assert freezing.unfrozen(named, ("embeddings",), named.parts()) == ()
        raise OSError
    assert len(freezing.unfrozen(named, ("embeddings",), named.parts())) == 2
