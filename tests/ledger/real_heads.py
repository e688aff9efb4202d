"""Trains a tiny model of each class two steps, with the stations "rows" and "targets" and without,
and prints a line of JSON for each: run by test_real_heads.py where transformers are."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

import peft
import torch
import transformers
from torch.nn import functional

from tests.kit.vlms import TEXT
from tools.matrix import families, rows
from vlmguard.ledger.judged_window import Judge
from vlmguard_torch.ledger.accounts import account_of
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.readers.rows import Rows
from vlmguard_torch.ledger.readers.targets import Targets
from vlmguard_torch.ledger.watcher import Watcher

STEPS, PARTS = 2, 2
Loss = Callable[[Any, dict[str, Any], int], Any]


def vision(name: str) -> tuple[Any, list[dict[str, Any]]]:
    """A vision-language model and its batches."""
    family = families.of(name)
    model = family.model()
    collate = rows.Collate(family, model)
    kinds = ("one", "text", "text", "one")
    return model, [collate([(number, kind)]) for number, kind in enumerate(kinds)]


def language(kind: str = "Llama", **told: Any) -> tuple[Any, list[dict[str, Any]]]:
    """A language model, and batches of other lengths."""
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{kind}Config")(**{**TEXT, **told})
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    ids = torch.randint(5, 290, (4, 2, 40), generator=torch.Generator().manual_seed(1))
    cut = torch.arange(40) < torch.tensor([10, 20, 30, 15])[:, None, None]
    return model.train(), [
        {"input_ids": each, "attention_mask": torch.ones_like(each), "labels": labels}
        for each, labels in zip(ids, ids.masked_fill(cut, -100), strict=True)
    ]


def adapted(**told: Any) -> tuple[Any, list[dict[str, Any]]]:
    """LoRA, on the head too."""
    model, batches = language()
    torch.manual_seed(3)
    lora = peft.LoraConfig(r=4, init_lora_weights=False, **told)
    return peft.get_peft_model(model, lora).train(), batches


def short() -> tuple[Any, list[dict[str, Any]]]:
    model, batches = language()
    return model.bfloat16(), batches


def own(shift: int = 1, smoothing: float = 0.0) -> Loss:
    """A loss of the user's, on logits."""

    def loss(model: Any, batch: dict[str, Any], total: int) -> Any:
        logits = model(**{k: v for k, v in batch.items() if k != "labels"}).logits
        flat = logits[:, : logits.shape[1] - shift].flatten(0, 1).float()
        wanted = batch["labels"][:, shift:].flatten()
        how = {"label_smoothing": smoothing, "reduction": "sum"}
        return functional.cross_entropy(flat, wanted, **how) / total

    return loss


def models_own(model: Any, batch: dict[str, Any], total: int) -> Any:
    return model(**batch, num_items_in_batch=total).loss


def means(model: Any, batch: dict[str, Any], total: int) -> Any:
    """Of a class that takes no notice of num_items_in_batch, a loop that divides."""
    return model(**batch).loss / PARTS


HEAD = ["q_proj", "lm_head"]
VARIANTS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    **{name: (lambda name=name: vision(name), {}) for name in families._all()},
    "qwen2_audio": (lambda: vision("qwen2_audio"), {"loss": means}),
    "tied": (lambda: language(tie_word_embeddings=True), {}),
    "softcap": (lambda: language("Gemma2", final_logit_softcapping=5.0), {}),
    "logits_scaling": (lambda: language("Granite", logits_scaling=4.0), {}),
    "logit_scale": (lambda: language("Cohere", logit_scale=0.5), {}),
    "bias": (lambda: language("Phi", num_key_value_heads=2), {}),
    "LoRA on the head": (lambda: adapted(target_modules=HEAD), {}),
    "DoRA on the head": (lambda: adapted(target_modules=HEAD, use_dora=True), {}),
    "a trained copy": (lambda: adapted(target_modules=["q_proj"], modules_to_save=["lm_head"]), {}),
    "bfloat16": (short, {}),
    "autocast": (language, {"cast": torch.bfloat16}),
    "own loss": (language, {"loss": own()}),
    "wrong: not shifted": (language, {"loss": own(0, 0.1)}),
    "wrong: shifted twice": (language, {"loss": own(2)}),
    "wrong: a careless class": (lambda: vision("qwen2_audio"), {}),
}


def train(make: Callable[[], Any], watched: bool, loss: Loss = models_own, cast: Any = None) -> Any:
    """Verdicts, and the weights in the end."""
    model, batches = make()
    optimizer, pages = torch.optim.SGD(model.parameters(), 0.05), []
    account = account_of(model, optimizer)
    if watched:
        extra = {"accumulation": PARTS}
        subject = Subject(
            model, optimizer, tuple(model.parameters()), account, extra=extra
        )
        Watcher(subject, [Rows, Targets], pages.append, STEPS)
    for step in range(STEPS):
        window = batches[PARTS * step : PARTS * (step + 1)]
        total = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in window)
        for batch in window:
            with torch.autocast("cpu", cast) if cast else contextlib.nullcontext():
                found = loss(model, batch, total)
            found.backward()
        optimizer.step()
        optimizer.zero_grad()
    judge = Judge(account, ["rows", "targets"])
    return [judge.window([page]) for page in pages], [p.detach() for p in model.parameters()]


def told(name: str) -> dict[str, Any]:
    make, how = VARIANTS[name]
    windows, weights = train(make, True, **how)
    _, alone = train(make, False, **how)
    return {
        "name": name,
        "same": all(torch.equal(a, b) for a, b in zip(weights, alone, strict=True)),
        "states": [[v.state, v.reason] for verdicts in windows for v in verdicts],
        "entries": [[e.code, e.level] for verdicts in windows for v in verdicts for e in v.entries],
        "residual": max(v.shown["residual"]["next"] for *_, v in windows),
        "sums": [v.shown.get("sum") for *_, v in windows],
    }


if __name__ == "__main__":
    for variant in sys.argv[1:] or VARIANTS:
        print(json.dumps(told(variant)), flush=True)
