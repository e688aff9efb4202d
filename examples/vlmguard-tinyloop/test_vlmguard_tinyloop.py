"""Two real gloo ranks on this CPU: without the guard DDP fails, with it every rank trains as one
process does. Run with pytest; torch is needed, a GPU is not."""

from __future__ import annotations

import vlmguard.auto  # noqa: F401  (both lines: what the .pth files do, where they are installed)
from vlmguard import _bootstrap

_bootstrap.watch("tinyloop", "vlmguard_tinyloop")

import tinyloop  # noqa: E402
import torch  # noqa: E402

from vlmguard.ranks import run  # noqa: E402


def rows(rank: int) -> list[torch.Tensor]:
    return list(torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(rank)))


def model() -> tinyloop.Model:
    torch.manual_seed(0)
    return tinyloop.Model()


def weights(trained: torch.nn.Module) -> list[float]:
    return torch.cat([p.detach().flatten() for p in trained.parameters()]).tolist()


def train(rank: int) -> list[float]:
    """What each rank does: ``run`` has made its process group."""
    made = model()
    tinyloop.Loop(made).fit(rows(rank))
    return weights(made)


def alone(_: int) -> list[float]:
    """The same in one process: both ranks' rows in one batch, no DDP, no checkpointing."""
    made = model()
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    for pair in zip(rows(0), rows(1), strict=True):
        made(torch.cat(pair)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(made)


def test_without_the_guard_it_fails(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    ended = run(train)
    assert ended.verdict == "crash"
    assert "Expected to mark a variable ready only once" in ended.cause.message


def test_with_it_every_rank_trains_as_one_process_does():
    ended = run(train)
    assert ended.verdict == "ok", ended
    (told,) = run(alone, ranks=1, group="none").outcomes
    for outcome in ended.outcomes:
        torch.testing.assert_close(torch.tensor(outcome.value), torch.tensor(told.value))
