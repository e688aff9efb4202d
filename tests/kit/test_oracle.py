"""The oracle itself: it must reject what looks right and refuse what proves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.kit.oracle import Vacuous, bitwise, compare
from tests.kit.standins.vlmguard_capture import Rank, digest, plain, read, write

NAMES = ("language.weight", "visual.weight")


def ranks(update: float = 1e-2, vision: float = 1e-5, **changes: object) -> list[Rank]:
    """Two equal ranks that moved the language weight by `update`, the vision weight by `vision`."""
    start = {name: torch.full((4, 4), 0.5) for name in NAMES}
    moves = dict(zip(NAMES, (update, vision), strict=True))
    end = {name: start[name] + moves[name] for name in NAMES}
    one = Rank(
        rank=0,
        world=2,
        wrapped="DistributedDataParallel",
        initial=start,
        final=end,
        losses=[2.0, 1.5],
        digests={name: digest(end[name]) for name in NAMES},
    )
    return [replace(one, rank=number, **changes) for number in (0, 1)]


def test_equal_runs_are_right() -> None:
    verdict = compare(ranks(), ranks())
    assert verdict
    assert verdict.judged == 2


def test_a_small_tower_that_is_off_is_seen_though_the_weights_are_close() -> None:
    wrong = ranks(vision=2e-5)
    assert torch.allclose(wrong[0].final[NAMES[1]], ranks()[0].final[NAMES[1]], 1e-3, 1e-4)
    verdict = compare(wrong, ranks())
    assert not verdict
    assert "visual.weight: update off by" in str(verdict)


@pytest.mark.parametrize(("vision", "right"), [(1.001e-2, True), (1.003e-2, False)])
def test_tolerance(vision: float, right: bool) -> None:
    assert bool(compare(ranks(vision=vision), ranks(vision=1e-2))) is right


def test_a_parameter_that_stood_still_is_wrong() -> None:
    verdict = compare(ranks(vision=0.0), ranks())
    assert "did not move" in str(verdict)


def test_a_parameter_that_should_stand_still_is_wrong() -> None:
    verdict = compare(ranks(), ranks(vision=0.0))
    assert "in the reference not at all" in str(verdict)


def test_not_a_number_is_wrong() -> None:
    assert not compare(ranks(update=float("nan")), ranks())


def test_ranks_that_drifted_apart_are_wrong() -> None:
    run = [ranks()[0], ranks(update=1.00001e-2)[1]]
    assert "ranks 0 and 1 differ" in str(compare(run, ranks()))


def test_another_start_is_wrong() -> None:
    run = ranks(initial={name: torch.full((4, 4), 0.4) for name in NAMES})
    assert "initial weights differ" in str(compare(run, ranks()))


def test_a_frozen_parameter_is_named() -> None:
    run = ranks(initial={NAMES[0]: torch.full((4, 4), 0.5)})
    assert "visual.weight (only in one)" in str(compare(run, ranks()))


@pytest.mark.parametrize(
    "useless",
    [
        ranks()[:1],
        ranks(wrapped="none"),
        ranks(world=1),
        ranks(update=0.0, vision=0.0),
        ranks(losses=[]),
        ranks(log=[{"reward_std": 0.0}]),
    ],
    ids=["rank missing", "not wrapped", "alone", "nothing moved", "no step", "equal rewards"],
)
def test_useless_evidence_is_refused(useless: list[Rank]) -> None:
    with pytest.raises(Vacuous):
        compare(ranks(), useless)
    with pytest.raises(Vacuous):
        bitwise(useless, useless)


def test_bitwise() -> None:
    assert bitwise(ranks(), ranks())
    assert not bitwise(ranks(losses=[2.0, 1.5000001]), ranks())
    assert not bitwise(ranks(update=1.00001e-2), ranks())
    frozen = {**ranks()[0].digests, "frozen.weight": "0"}
    assert "frozen.weight" in str(bitwise(ranks(digests=frozen), ranks()))


def test_round_trip(tmp_path) -> None:
    for rank in reversed(ranks()):
        write(tmp_path, rank)
    assert bitwise(read(tmp_path), ranks())


def test_plain_names() -> None:
    assert plain("module.module.visual.weight") == "visual.weight"


def test_what_lora_draws_is_the_same_in_each_run_also_of_an_embedding(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "standins"))
    from vlmguard_train import _same_adapters

    names = ("lin.lora_A.d", "lin.lora_B.d", "emb.lora_embedding_A.d", "emb.lora_embedding_B.d")
    models = [_Named({name: torch.randn(4, 2) for name in names}) for _ in range(2)]
    for model in models:
        _same_adapters(model)
    one, two = (dict(model.named_parameters()) for model in models)
    same = [name for name in names if torch.equal(one[name], two[name])]
    assert same == ["lin.lora_A.d", "emb.lora_embedding_B.d"]


class _Named:
    """Of a model, the names of its parameters."""

    def __init__(self, held: dict[str, torch.Tensor]) -> None:
        self.held = held

    def named_parameters(self) -> list[tuple[str, torch.Tensor]]:
        return list(self.held.items())
