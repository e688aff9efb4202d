"""The reader of the station "targets" on small language models of plain torch, each trained with
and without it."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.plugins.toys import Config
from vlmguard.ledger.judged_window import Judge
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.readers import head as heads
from vlmguard_torch.ledger.readers.targets import FEW, MANY, POSITIONS, Targets
from vlmguard_torch.ledger.watcher import Watcher, account_of

WORDS, WIDTH, LONG = 61, 16, 12


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids):
        hidden = self.words(input_ids)
        return SimpleNamespace(last_hidden_state=hidden + self.layer(hidden).tanh())


class Language(nn.Module):
    """As transformers' are; what it does to logits its config says."""

    def __init__(self, bias=False, tied=False, head=None, **told):
        super().__init__()
        self.config = Config(**told)
        self.decoder = Decoder()
        self.head = head or nn.Linear(WIDTH, WORDS, bias=bias)
        if tied:
            self.head.weight = self.decoder.words.weight

    def get_decoder(self):
        return self.decoder

    def get_input_embeddings(self):
        return self.decoder.words

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, labels=None):
        logits = self.behind(self.head(self.decoder(input_ids).last_hidden_state))
        loss = None if labels is None else ce(logits, labels)
        return SimpleNamespace(logits=logits, loss=loss)

    def behind(self, logits):
        told = vars(self.config)
        logits = logits * told.get("logit_scale", 1) / told.get("logits_scaling", 1)
        cap = told.get("final_logit_softcapping")
        return logits if cap is None else cap * torch.tanh(logits / cap)


class Own(nn.Module):
    """A loop's own class: no method tells its parts."""

    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids, labels):
        return SimpleNamespace(loss=ce(self.out(self.layer(self.words(input_ids))), labels))


class Adapter(nn.Module):
    """LoRA around a head."""

    def __init__(self):
        super().__init__()
        self.base_layer = nn.Linear(WIDTH, WORDS, bias=False)
        self.a, self.b = nn.Linear(WIDTH, 4, bias=False), nn.Linear(4, WORDS, bias=False)

    @property
    def weight(self):
        return self.base_layer.weight

    def forward(self, hidden):
        return self.base_layer(hidden) + 2 * self.b(self.a(hidden))


def ce(logits, labels, shift=1, **how):
    flat = logits[:, : logits.shape[1] - shift].flatten(0, 1).float()
    return functional.cross_entropy(flat, labels[:, shift:].flatten(), **how)


def plain(model, batch, parts):
    return model(**batch).loss / parts


def batches(seed=0, size=2):
    chance = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(5, WORDS, (size, LONG), generator=chance)
        yield {"input_ids": ids, "labels": ids.masked_fill(torch.arange(LONG) < 5, -100)}


def train(make, loss=plain, parts=1, windows=2, watched=True, cast=None, scaler=None, lost=()):
    """Verdicts, pages and weights."""
    torch.manual_seed(0)
    model = make()
    optimizer, pages = torch.optim.SGD(model.parameters(), 0.5), []
    account, rows = account_of(model, optimizer), batches()
    if watched:
        extra = {"accumulation": parts}
        subject = Subject(model, optimizer, tuple(model.parameters()), account, extra=extra)
        Watcher(subject, [Targets], pages.append, windows)
    for number in range(windows + len(lost)):
        for _ in range(parts):
            with torch.autocast("cpu", cast) if cast else contextlib.nullcontext():
                found = loss(model, next(rows), parts)
            (scaler.scale(found) if scaler else found).backward()
        if number in lost:
            next(model.parameters()).grad.view(-1)[0] = float("inf")
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
    judge = Judge(account, ["targets"])
    verdicts = [judge.window([page])[0] for page in pages]
    return verdicts, pages, [p.detach() for p in model.parameters()]


def balanced(make, **told):
    """Trains with and without the reader; the first verdict."""
    verdicts, pages, weights = train(make, **told)
    _, _, alone = train(make, watched=False, **told)
    assert all(torch.equal(a, b) for a, b in zip(weights, alone, strict=True))
    for verdict in verdicts:
        assert (verdict.state, verdict.reason, verdict.entries) == ("balances", "", ())
        assert verdict.shown["sum"] == pytest.approx(1, abs=0.01)
    return verdicts[0], pages[0]["targets"]


class Inside(nn.Module):
    """A model in another's attribute, as value heads and remote code have it."""

    def __init__(self):
        super().__init__()
        self.pretrained_model = Language(logits_scaling=4.0)

    def forward(self, **told):
        return self.pretrained_model(**told)


HEADS = {
    "plain": Language,
    "bias": lambda: Language(bias=True),
    "tied": lambda: Language(tied=True),
    "softcap": lambda: Language(final_logit_softcapping=2.0),
    "scaled down": lambda: Language(logits_scaling=8.0),
    "scaled up": lambda: Language(logit_scale=3.0),
    "adapter": lambda: Language(head=Adapter()),
    "own class": Own,
    "inside": Inside,
}


@pytest.mark.parametrize("head", HEADS)
def test_the_models_real_head_is_used(head):
    verdict, _ = balanced(HEADS[head])
    assert verdict.shown["residual"]["next"] < 1e-5
    assert verdict.shown["residual"]["same"] > 0.5
    assert verdict.shown["tokens"] == 14


def test_a_nested_config_tells_what_follows_the_head():
    model = Language()
    model.config = Config(get_text_config=lambda: Config(final_logit_softcapping=30.0))
    assert heads.find(model).softcap == 30


@pytest.mark.parametrize("parts", [4, MANY + 2])
def test_micro_batches(parts):
    _, page = balanced(Language, parts=parts)
    assert page["rounds"] == [*range(parts)]
    used = [numbers[2] for numbers in page["forwards"]]
    assert used[0] == 14
    assert used[-1] == (14 if parts <= MANY else FEW)


def test_bfloat16_weights_and_autocast():
    short = lambda: Language().bfloat16()  # noqa: E731
    for make, cast in ((short, None), (Language, torch.bfloat16)):
        verdict, page = balanced(make, cast=cast)
        assert page["precision"] == "bfloat16"
        assert verdict.shown["residual"]["next"] < 0.02


def chunked(model, batch, parts):
    """The head's weight alone; logits never are whole."""
    hidden = model.decoder(batch["input_ids"]).last_hidden_state[:, :-1].flatten(0, 1)
    wanted = batch["labels"][:, 1:].flatten()
    logits = (functional.linear(part, model.head.weight) for part in hidden.split(5))
    each = [functional.cross_entropy(made, y, ignore_index=-100, reduction="sum")
            for made, y in zip(logits, wanted.split(5), strict=True)]  # fmt: skip
    return sum(each) / (wanted >= 0).sum()


def test_a_loss_that_never_calls_the_head():
    """The model's own forward is not called either: ids are those of the embedding."""
    verdict, _ = balanced(Language, loss=chunked)
    assert verdict.shown["tokens"] == 14


def test_a_scalers_scale_is_divided_out_and_steps_that_it_leaves_out_are_none():
    for lost in ((), (0,)):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
        verdicts, pages, _ = train(Language, parts=2, scaler=scaler, lost=lost)
        assert pages[0]["targets"]["scale"] == 2.0 ** (12 - len(lost))
        assert [verdict.shown["sum"] for verdict in verdicts] == [pytest.approx(1)] * 2


def test_forwards_without_gradients_are_none():
    def loss(model, batch, parts):
        with torch.no_grad():
            model(**batch)
        return model(**batch).loss

    _, page = balanced(Language, loss=loss)
    assert len(page["forwards"]) == 1


def test_two_forwards_of_one_backward():
    verdict, page = balanced(Language, loss=lambda *told: (plain(*told) + plain(*told)) / 2)
    assert page["rounds"] == [0, 0]
    assert verdict.shown["tokens"] == 28


def test_whole_models_that_are_checkpointed():
    def loss(model, batch, parts):
        whole = lambda ids: model.decoder(ids).last_hidden_state  # noqa: E731
        hidden = checkpoint(whole, batch["input_ids"], use_reentrant=False)
        return ce(model.head(hidden), batch["labels"])

    balanced(Language, loss=loss)


def of(shift, **how):
    return lambda model, batch, parts: ce(
        model(batch["input_ids"]).logits, batch["labels"], shift, **how
    )


def test_wrong_targets_are_told():
    for loss, word in ((of(0, label_smoothing=0.1), "itself"), (of(2), "after the next")):
        verdicts, _, _ = train(Language, loss=loss)
        assert [entry.code for verdict in verdicts for entry in verdict.entries] == ["VG620"] * 2
        assert word in verdicts[0].entries[0].why


def test_a_loss_that_does_not_divide_by_micro_batches_is_told():
    verdicts, _, _ = train(Language, loss=of(1), parts=4)
    assert [(e.code, e.level) for e in verdicts[1].entries] == [("VG622", "warning")]
    assert verdicts[1].shown["sum"] == pytest.approx(4)


def test_preferences_have_both_signs():
    def loss(model, batch, parts):
        logits = model(batch["input_ids"]).logits
        good, bad = (ce(logits[n : n + 1], batch["labels"][n : n + 1]) for n in (0, 1))
        return -functional.logsigmoid(bad - good)

    verdicts, _, _ = train(Language, loss=loss)
    assert "both signs (50% negative)" in verdicts[0].reason


def test_what_cannot_be_read_says_so():
    class Regressor(nn.Linear):
        def forward(self, **batch):
            return SimpleNamespace(loss=super().forward(torch.ones(2)).sum())

    dropped = Language(head=nn.Sequential(nn.Dropout(0.1), nn.Linear(WIDTH, WORDS)))
    for make, word in ((lambda: Regressor(2, 1), "no language-model head"),
                       (lambda: dropped, "dropout"),
                       (lambda: Language(is_encoder_decoder=True), "not its rows' next tokens"),
                       ):  # fmt: skip
        verdicts, pages, _ = train(make)
        assert verdicts[0].state == "cannot tell"
        assert word in verdicts[0].reason
        assert "targets" not in pages[0]


def test_rows_without_targets_carry_nothing():
    def masked(model, batch, parts):
        return of(1, reduction="sum")(model, batch | {"labels": batch["labels"] * 0 - 100}, parts)

    verdicts, _, _ = train(Language, loss=masked)
    assert (verdicts[0].state, "no position" in verdicts[0].reason) == ("cannot tell", True)


def test_many_positions_are_sampled_evenly():
    reader = Targets(SimpleNamespace(model=Language(), parameters=(), engine=None, extra={}))
    reader.open()
    ids = torch.randint(5, WORDS, (4, 200))
    reader.batch({"input_ids": ids})
    ce(reader.subject.model(ids).logits, ids).backward()
    reader.batch({})
    page = reader.page()
    reader.close()
    places = page["places"][0]
    assert len(set(places.tolist())) == len(places) == POSITIONS
    assert torch.histc(places.float(), 4, 0, 800).min() > POSITIONS // 8
    assert page["forwards"][0][0] == 4 * 199


def test_hooks_go_with_no_copy_and_off_after_the_window():
    model = Language()
    reader = Targets(SimpleNamespace(model=model, parameters=(), engine=None, extra={}))
    reader.open()
    copied, loaded = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for other in (copied, loaded):
        other(**next(batches())).loss.backward()
    reader.batch({})
    assert reader.page() == "no gradient in front of the head was seen"
    reader.close()
    hooks = [h for m in model.modules() for h in (*m._forward_hooks, *m._forward_pre_hooks)]
    assert hooks == []


def test_no_random_number_is_drawn():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    reader = Targets(SimpleNamespace(model=Language(), parameters=(), engine=None, extra={}))
    torch.set_rng_state(state)
    reader.open()
    reader.batch(batch := next(batches()))
    reader.subject.model(**batch).loss.backward()
    reader.batch({})
    assert len(reader.page()["forwards"]) == 1
    assert torch.equal(torch.get_rng_state(), state)


def test_a_fault_of_ours_does_not_end_the_backward(monkeypatch):
    monkeypatch.setattr("vlmguard_torch.ledger.readers.targets._sample", lambda *told: 1 / 0)
    verdicts, _, weights = train(Language)
    _, _, alone = train(Language, watched=False)
    assert all(torch.equal(a, b) for a, b in zip(weights, alone, strict=True))
    assert verdicts[0].state == "cannot tell"


class Narrow(Language):
    """Its head knows fewer words than its embedding, as mllama's does."""

    def __init__(self):
        super().__init__(head=nn.Linear(WIDTH, WORDS - 30, bias=False))

    def forward(self, input_ids, labels):
        return super().forward(input_ids, labels.masked_fill(input_ids >= WORDS - 30, -100))


def test_ids_that_the_head_does_not_know_are_no_index():
    verdicts, pages, _ = train(Narrow)
    assert {verdict.state for verdict in verdicts} == {"balances"}
    assert all(torch.tensor(page["targets"]["forwards"]).isfinite().all() for page in pages)


@pytest.mark.parametrize(("together", "agreed"), [(False, True), (True, False)])
def test_no_head_is_gathered_before_all_ranks_have_come(monkeypatch, together, agreed):
    monkeypatch.setattr(heads.Head, "gathered", True)
    monkeypatch.setattr(heads.Head, "together", lambda head: pytest.fail("gathered"))
    engine = SimpleNamespace(optimizer=SimpleNamespace(loss_scale=1.0))
    reader = Targets(SimpleNamespace(model=Language(), parameters=(), engine=engine))
    reader.together, reader.agree = together, lambda: agreed
    reader.open()
    reader.batch(batch := next(batches()))
    reader.subject.model(**batch).loss.backward()
    reader.before()
    assert "not all ranks" in reader.page()


def test_a_forward_without_a_backward_leaves_no_graph_behind():
    model = Language()
    reader = Targets(SimpleNamespace(model=model, parameters=(), engine=None, extra={}))
    kept = []
    model.decoder.layer.register_forward_hook(lambda *told: kept.append(weakref.ref(told[2])))
    reader.open()
    reader.batch(batch := next(batches()))
    gc.disable()
    try:
        model(**batch)
        reader.close()
        assert kept[0]() is None
    finally:
        gc.enable()


def test_a_large_vocabulary_goes_through_the_head_in_parts(monkeypatch):
    whole = balanced(Language)[1]["forwards"]
    monkeypatch.setattr(heads, "BLOCK", 1)
    parts = balanced(Language)[1]["forwards"]
    assert torch.tensor(parts) == pytest.approx(torch.tensor(whole), abs=1e-5)
    monkeypatch.setattr("vlmguard_torch.ledger.readers.targets.TRIED", (POSITIONS, 3, 9))
    assert torch.tensor(balanced(Language)[1]["forwards"])[:, -2:].min() > 0.5
