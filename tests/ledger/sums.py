"""A small model, windows of it in one process, and what stations say of them."""

from __future__ import annotations

import torch

from vlmguard.ledger.judged_window import Judge
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.readers.reduce import Reduce
from vlmguard_torch.ledger.watcher import Watcher, account_of

WIDTH = 24


class Net(torch.nn.Module):
    """A tower and what is behind it."""

    def __init__(self):
        super().__init__()
        linear = torch.nn.Linear
        self.visual = torch.nn.Sequential(linear(WIDTH, WIDTH), torch.nn.GELU())
        self.model = torch.nn.Sequential(linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH))
        self.head = linear(WIDTH, 7)

    def forward(self, x=None, image=True):
        return self.head(self.model(self.visual(x) if image else x)).logsumexp(-1).mean()


class Tied(torch.nn.Module):
    """An embedding that is the head as well, used without the head's forward."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(9, WIDTH)
        self.inner = torch.nn.Linear(WIDTH, WIDTH)
        self.head = torch.nn.Linear(WIDTH, 9, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x=None):
        hidden = self.inner(self.embed(x[:, :3].abs().long() % 9))
        return torch.nn.functional.linear(hidden, self.head.weight).logsumexp(-1).mean()


def batch(model, rows=4):
    """Random rows in the model's precision."""
    return torch.randn(rows, WIDTH, dtype=next(model.parameters()).dtype)


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1)


def pages(body, windows=3, optimizer=sgd, dtype=torch.float32, net=Net, watched=True, **extra):
    """The model after so many calls of ``body(model, optimizer, number)``, and their pages."""
    torch.manual_seed(0)
    model = net().to(dtype)
    moves, found = optimizer(model), []
    account = account_of(model, moves)
    subject = Subject(model, moves, tuple(model.parameters()), account, extra=extra)
    if watched:
        Watcher(subject, extra.get("readers", [Reduce]), found.append, windows)
    for number in range(windows):
        body(model, moves, number)
    return model, account, found


def verdicts(body, station="reduce", **how):
    """What a station says of each window."""
    _, account, found = pages(body, **how)
    judge = Judge(account, (station,))
    return [judge.window([page])[0] for page in found]


def said(each):
    """Codes with levels, of a verdict or of several."""
    several = each if isinstance(each, list) else [each]
    return [f"{entry.code} {entry.level}" for found in several for entry in found.entries]
