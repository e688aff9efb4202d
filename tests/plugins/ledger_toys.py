"""Small models and loops for the ledger's readers."""

from __future__ import annotations

import torch
from torch import nn

from vlmguard_torch.ledger.accounts import account_of
from vlmguard_torch.ledger.reader import Reader, Subject


class Toy(nn.Module):
    """A vision tower, an aligner and a language model, as far as names go."""

    def __init__(self, tied=False):
        super().__init__()
        self.visual = nn.Linear(4, 8)
        self.merger = nn.Linear(8, 8)
        self.embed = nn.Embedding(12, 8)
        self.layer = nn.Linear(8, 8)
        self.lm_head = nn.Linear(8, 12, bias=False)
        if tied:
            self.lm_head.weight = self.embed.weight

    def forward(self, ids, pixel_values=None, labels=None):
        x = self.embed(ids)
        if pixel_values is not None:
            x = x + self.merger(self.visual(pixel_values)).mean(0)
        return self.lm_head(torch.tanh(self.layer(x))).logsumexp(-1).mean() - x.mean()


def batch(number=0, image=True):
    made = torch.Generator().manual_seed(number)
    found = {"ids": torch.randint(0, 12, (2, 5), generator=made)}
    if image:
        found["pixel_values"] = torch.randn(3, 4, generator=made)
    return found


def subject(model, optimizer, world=1, strategy="", **more):
    account = account_of(model, optimizer, world, strategy)
    return Subject(model, optimizer, tuple(model.parameters()), account, **more)


def step(model, optimizer, number=0, micro=1, image=True):
    for each in range(micro):
        model(**batch(number * 10 + each, image)).backward()
    optimizer.step()
    optimizer.zero_grad()


class Counts(Reader):
    """Counts what it is asked."""

    name = "update"
    made = 0

    def __init__(self, subject):
        super().__init__(subject)
        type(self).made += 1
        self.calls = []
        self.hooked = False

    def open(self):
        self.calls.append("open")
        self.hooked = True

    def batch(self, inputs):
        self.calls.append("batch")

    def before(self):
        self.calls.append("before")

    def after(self):
        self.calls.append("after")

    def page(self):
        return {"calls": list(self.calls), "sums": torch.arange(4.0).reshape(2, 2)}

    def close(self):
        self.calls = []
        self.hooked = False
