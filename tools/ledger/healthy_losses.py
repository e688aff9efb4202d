"""Healthy: other objectives than plain cross-entropy."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from tools.ledger import training
from tools.ledger.healthy import variant
from tools.ledger.training import Batch, Run


def _logits(model: Any, batch: Batch) -> tuple[Any, Any]:
    logits = model(**{k: v for k, v in batch.items() if k != "labels"}).logits[:, :-1].float()
    return logits, batch["labels"][:, 1:]


def _logprobs(logits: Any, wanted: Any) -> Any:
    """Of each row's targets, summed."""
    chosen = logits.log_softmax(-1).gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
    return (chosen * (wanted >= 0)).sum(-1)


LOSSES = ("weighted", "focal", "smoothed rightly", "z-loss", "distilled", "less", "dpo", "orpo",
          "grpo", "ppo", "entropy", "contrastive", "reward", "chunked")  # fmt: skip


@variant(world=(1, 2), kind=LOSSES)
def objective(run: Run, kind: str) -> None:
    run.ddp["find_unused_parameters"] = kind in ("contrastive", "reward")
    run.rows = 4 if kind in ("dpo", "grpo", "contrastive") else 2
    taught: dict[str, Any] = {}
    run.loss = lambda run, model, batch, total: _loss(kind, run, model, batch, total, taught)


@variant()
def two_forwards(run: Run) -> None:
    """A consistency term: the same rows once more, at half the weight."""
    run.loss = lambda run, model, batch, total: _loss("two forwards", run, model, batch, total, {})


def _loss(kind: str, run: Run, model: Any, batch: Batch, total: int, kept: dict[str, Any]) -> Any:
    if kind == "chunked":
        return _chunked(run, model, batch, total)
    if kind in ("contrastive", "reward"):
        return _pooled(kind, model, batch)
    logits, wanted = _logits(model, batch)
    share = run.world / total
    each = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none").view(
        wanted.shape
    )
    there = wanted >= 0
    plain = each.sum() * share
    rows = _logprobs(logits, wanted)
    match kind:
        case "weighted":
            return (each * torch.where(wanted % 2 == 0, 1.0, 0.3)).sum() * share
        case "focal":
            return ((1 - (-each).exp()) ** 2 * each).sum() * share
        case "smoothed rightly":
            flat = logits.flatten(0, 1)
            return (
                functional.cross_entropy(
                    flat, wanted.flatten(), reduction="sum", label_smoothing=0.1
                )
                * share
            )
        case "z-loss":
            return plain + 1e-2 * (logits.logsumexp(-1) ** 2 * there).sum() * share
        case "distilled":
            teacher = kept.setdefault(
                "teacher",
                torch.randn(logits.shape[-1], generator=torch.Generator().manual_seed(1)).softmax(
                    -1
                ),
            )
            return (
                0.5 * plain - 0.5 * (logits.log_softmax(-1) * teacher).sum(-1)[there].sum() * share
            )
        case "less":
            return 0.7 * plain
        case "dpo":
            return -functional.logsigmoid(0.1 * (rows[:2] - rows[2:])).mean()
        case "orpo":
            odds = rows - torch.log1p(-rows.exp().clamp(max=0.999))
            return plain - 0.1 * functional.logsigmoid(odds[:1] - odds[1:]).mean()
        case "grpo":
            advantages = torch.tensor([1.0, -1.0, 0.5, -0.5])
            return -(advantages * rows / there.sum(-1)).mean()
        case "ppo":
            ratio = (rows - rows.detach()).exp()
            return -torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean() + 0.01 * plain
        case "entropy":
            logp = logits.log_softmax(-1)
            return plain + 0.01 * ((logp.exp() * logp).sum(-1) * there).sum() * share
        case "two forwards":
            return plain + 0.5 * training.summed(model, batch) * share
    raise KeyError(kind)


def _hidden(model: Any, batch: Batch) -> Any:
    """The last layer's, by the model's forward, so that wrappers take part."""
    told = {k: v for k, v in batch.items() if k != "labels"}
    return model(**told, output_hidden_states=True).hidden_states[-1]


def _pooled(kind: str, model: Any, batch: Batch) -> Any:
    """Of an embedder or a reward model: one vector a row, its last token's."""
    hidden = _hidden(model, batch)
    last = batch["attention_mask"].sum(-1) - 1
    pooled = hidden[torch.arange(len(hidden)), last]
    if kind == "reward":
        chosen, rejected = pooled.mean(-1).chunk(2)
        return -functional.logsigmoid(chosen - rejected).mean()
    queries, passages = functional.normalize(pooled, dim=-1).chunk(2)
    return functional.cross_entropy(queries @ passages.T / 0.05, torch.arange(len(queries)))


def _chunked(run: Run, model: Any, batch: Batch, total: int) -> Any:
    """Cross-entropy a few tokens at a time, from hidden states; logits are never whole."""
    inner = getattr(model, "module", model)
    if inner is not model:  # DDP's own forward must run
        return training.by_tokens(run, model, batch, total)
    told = {k: v for k, v in batch.items() if k != "labels"}
    hidden = inner.model(**told).last_hidden_state[:, :-1].flatten(0, 1)
    wanted = batch["labels"][:, 1:].flatten()
    parts = zip(hidden.split(16), wanted.split(16), strict=True)
    return (
        sum(functional.cross_entropy(inner.lm_head(h), y, reduction="sum") for h, y in parts)
        / total
    )
