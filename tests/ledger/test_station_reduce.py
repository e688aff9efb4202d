"""What follows from the numbers of station reduce: tables, without torch."""

from __future__ import annotations

import random

import pytest

from vlmguard.ledger.account import Account, Tensor
from vlmguard.ledger.judged_window import Judge

KINDS = ("vision", "vision", "llm", "llm", "llm", "llm")


def account(world=2, strategy="ddp"):
    tensors = (Tensor(f"t{n}", kind, 100, "float32", True, 0) for n, kind in enumerate(KINDS))
    return Account(tuple(tensors), world, strategy)


def vectors(seed):
    drawn = random.Random(seed)
    return [[drawn.gauss(0, 1) for _ in range(16)] for _ in KINDS]


def mean(ranks):
    return [
        [sum(at) / len(at) for at in zip(*rows, strict=True)] for rows in zip(*ranks, strict=True)
    ]


def times(rows, factor):
    return [[x * factor for x in row] for row in rows]


def plus(a, b, factor=1.0):
    return [[x + factor * y for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def page(made, given, step=1, rank=0, **other):
    """One rank's page: what its backward made, and what its optimizer gets."""
    count = range(len(made))
    square = [[sum(x * x for x in row)] for row in given]
    read = {
        "index": list(count),
        "parts": [1 for _ in count],
        "eps": [1e-7 for _ in count],
        "read": [1 for _ in count],
        "step": made,
        "none": made,
        "first": made,
        "energy": [[sum(x * x for x in row)] for row in made],
        "carried": [[0.0] for _ in count],
        "given": given,
        "square": square,
        "peak": [[max(map(abs, row))] for row in given],
        "later": True,
        "unread": [],
    }
    return {"window": step, "step": step, "rank": rank, "unread": {}, "reduce": {**read, **other}}


def judged(pages, **of):
    return Judge(account(**of), ("reduce",)).window(pages)[0]


def two(given, made=None, **other):
    """Both ranks, given the same."""
    ranks = made or [vectors(1), vectors(2)]
    return [page(ranks[r], given(*ranks), rank=r, **other) for r in range(2)]


def only(rows, changed, kinds=("vision",)):
    """``changed`` for tensors of some towers, ``rows`` for the others."""
    return [changed[n] if kind in kinds else rows[n] for n, kind in enumerate(KINDS)]


HEALTHY = {
    "averaged": lambda a, b: mean([a, b]),
    "clipped to 1": lambda a, b: times(mean([a, b]), 1 / norm(mean([a, b]))),
}


def norm(rows):
    return sum(x * x for row in rows for x in row) ** 0.5


@pytest.mark.parametrize("given", HEALTHY.values(), ids=HEALTHY)
def test_healthy(given):
    found = judged(two(given))
    assert (found.state, found.entries) == ("balances", ())
    assert found.shown["off"] < 1e-6


def test_numbers_too_small_to_have_digits_are_no_error():
    tiny = [times(vectors(1), 1e-42), times(vectors(2), 0.0)]
    for precision in ({}, {"eps": [2.0**-7] * 6, "sent": 2.0**-7}):
        ranks = [only(vectors(n), tiny[n - 1]) for n in (1, 2)]
        found = judged(two(lambda a, b: only(mean([a, b]), times(a, 0.47)), ranks, **precision))
        assert (found.state, found.entries) == ("balances", ())


@pytest.mark.parametrize("how", [{"strategy": "ddp"}, {"strategy": "zero3"}])
@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_and_tell_no_factor(how, factor):
    """Four of six tensors have no digits, and all are clipped."""
    ranks = [only(times(vectors(n), 1e-42), vectors(n), ("vision",)) for n in (1, 2)]
    noise = times(vectors(7), 1e-42)
    given = [only(noise, times(mean(ranks), factor))] * 2
    pages = [page(ranks[r], given[r], rank=r, max_norm=factor * norm(mean(ranks))) for r in (0, 1)]
    found = judged(pages, **how)
    assert (found.state, found.entries) == ("balances", ())
    assert found.shown["factor"] == pytest.approx(factor)


def test_of_fp16_that_are_more_than_of_fp32():
    """The smallest number of fp16 is 6e-8: 1e-3 has all its digits, 1e-7 has one."""
    for size, state in ((1e-7, "balances"), (1e-2, "differs")):
        other = times(vectors(9), 2 * size)
        for eps, known in ((2.0**-10, state), (2.0**-23, "differs")):
            ranks = [only(vectors(n), times(vectors(n), size)) for n in (1, 2)]
            given = only(mean(ranks), other)
            pages = [page(made, given, rank=r, eps=[eps] * 6) for r, made in enumerate(ranks)]
            assert judged(pages).state == known, (size, eps)


WRONG = {
    "vision of rank 1 is missing": (
        lambda a, b: only(mean([a, b]), times(a, 0.5)),
        "rank 1's part of the gradient is missing",
    ),
    "vision of rank 0 twice": (
        lambda a, b: only(mean([a, b]), plus(mean([a, b]), a, 0.5)),
        "rank 0's part of the gradient counts twice",
    ),
    "vision twice": (lambda a, b: only(mean([a, b]), times(mean([a, b]), 2)), "gradient twice"),
    "vision negated": (lambda a, b: only(mean([a, b]), times(mean([a, b]), -1)), "negated"),
    "vision from elsewhere": (
        lambda a, b: only(mean([a, b]), plus(mean([a, b]), vectors(9), 5)),
        "another gradient",
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong(wrong):
    given, words = wrong
    found = judged(two(given))
    assert found.state == "differs"
    [entry] = found.entries
    assert (entry.code, entry.level, entry.what) == ("VG640", "warning", "2 of 2 vision tensors")
    assert words in entry.why
    assert entry.size > 0.1
    assert entry.advice


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_hook_of_the_user_may_mean_it(wrong):
    for mine in ({"hooked": [0, 1]}, {"comm_hooks": ["powerSGD_hook"]}):
        found = judged(two(wrong[0], **mine))
        assert found.state == "balances"
        assert [entry.level for entry in found.entries] == ["note"]
        assert "hook" in found.entries[0].why


def test_a_sketch_in_which_the_rows_cancel_is_rounding():
    """128 entries of an adapter after its first step: a gradient of 0.04, a sketch of 1e-8."""
    pages = two(lambda a, b: mean([a, b]))
    for page, noise in zip(pages, (1e-8, 3e-8), strict=True):
        read = page["reduce"]
        for name in ("step", "none", "first", "given"):
            read[name] = [*read[name]]
            read[name][2] = [noise * (n - 7) for n in range(16)]
        read["given"][2] = [2e-8 * n for n in range(16)]
        read["square"] = [*read["square"]]
        read["square"][2] = [0.0016]
        read["energy"] = [*read["energy"]]
        read["energy"][2] = [1e-14]
    found = judged(pages)
    assert (found.state, found.entries) == ("balances", ())
    assert found.shown["factor"] == pytest.approx(1.0)


def test_gradients_that_somebody_put_there_may_be_meant():
    elsewhere, _ = WRONG["vision from elsewhere"]
    found = judged(two(elsewhere, replaced=[0, 1]))
    assert [entry.level for entry in found.entries] == ["note"]
    assert judged(two(elsewhere, replaced=[0])).state == "differs"


FACTORS = {
    2.0: ("warning", "as if summed over 2 ranks"),
    0.5: ("warning", "as if averaged twice over 2 ranks"),
    -1.0: ("warning", "negated"),
    7.3: ("note", "nothing explains"),
}


@pytest.mark.parametrize("factor", FACTORS)
def test_a_common_factor_is_never_swallowed(factor):
    level, words = FACTORS[factor]
    found = judged(two(lambda a, b: times(mean([a, b]), factor)))
    [entry] = found.entries
    assert (entry.code, entry.level) == ("VG641", level)
    assert words in entry.why
    assert entry.size == pytest.approx(factor)


def test_a_factor_of_an_own_loop_is_no_alarm():
    given = lambda a, b: times(mean([a, b]), 2)  # noqa: E731
    assert judged(two(given), strategy="").state == "balances"


def test_a_known_scale_is_taken_out():
    def at(factor):
        return judged(two(lambda a, b: times(mean([a, b]), factor), scale=1024.0))

    assert at(1 / 1024).entries == ()
    assert "still carry the loss scale of 1024" in at(1.0).entries[0].why
    assert "divided by the loss scale of 1024 twice" in at(1 / 1024**2).entries[0].why
    assert "as if summed over 2 ranks" in at(2 / 1024).entries[0].why


def test_clipping_to_an_unknown_norm_shows_in_the_second_window():
    judge = Judge(account(), ("reduce",))
    said = []
    for step in range(3):
        ranks = [vectors(10 * step), vectors(10 * step + 1)]
        whole = mean(ranks)
        given = times(whole, 0.337 / norm(whole))
        pages = [page(ranks[r], given, step, r) for r in range(2)]
        said.append(judge.window(pages)[0])
    assert [each.entries for each in said] == [(), (), ()]
    assert [each.shown["clipped"] for each in said] == [None, *[pytest.approx(0.337)] * 2]


def test_clipping_to_a_known_norm():
    given = lambda a, b: times(mean([a, b]), 0.337 / norm(mean([a, b])))  # noqa: E731
    assert judged(two(given, max_norm=0.337)).shown["clipped"] == pytest.approx(0.337)


def test_each_rank_gets_its_own():
    ranks = [vectors(1), vectors(2)]
    pages = [page(ranks[r], ranks[r], rank=r, forwards=[""]) for r in range(2)]
    [entry] = judged(pages).entries
    assert (entry.code, entry.level) == ("VG640", "warning")
    assert "not averaged" in entry.why
    assert "past the DDP wrapper" in entry.why
    assert entry.what == "2 of 2 vision tensors, 4 of 4 llm tensors"


@pytest.mark.parametrize(
    ("forwards", "level"), [(["ddp", "no_sync"], "warning"), (["no_sync"], "note")]
)
def test_local_sgd_is_meant(forwards, level):
    ranks = [vectors(1), vectors(2)]
    pages = [page(ranks[r], ranks[r], rank=r, forwards=forwards) for r in range(2)]
    [entry] = judged(pages).entries
    assert entry.level == level
    assert "under no_sync()" in entry.why


def test_gradients_that_the_backward_uses():
    pages = two(lambda a, b: times(a, 0), read=[0] * len(KINDS))
    assert "the backward itself" in judged(pages).reason


def test_some_of_two_parts_are_lost():
    first, second = [vectors(1), vectors(2)], [vectors(3), vectors(4)]
    made = [plus(a, b) for a, b in zip(first, second, strict=True)]
    for kept, words in ((first, "only the first of several"), (second, "the first of several")):
        given = only(mean(made), mean(kept))
        pages = [
            page(made[r], given, rank=r, first=first[r], parts=[2] * len(KINDS)) for r in range(2)
        ]
        [entry] = judged(pages).entries
        assert words in entry.why
        assert entry.level == "warning"


def test_an_earlier_gradient_comes_again():
    judge = Judge(account(strategy="zero3"), ("reduce",))
    old = [vectors(1), vectors(2)]
    assert not judge.window([page(old[r], mean(old), 0, r) for r in range(2)])[0].entries
    zeros = times(vectors(0), 0)
    new = [only(vectors(3), zeros), only(vectors(4), zeros)]
    parts = [0 if kind == "vision" else 1 for kind in KINDS]
    given = only(mean(new), mean(old))
    [entry] = judge.window([page(new[r], given, 1, r, parts=parts) for r in range(2)])[0].entries
    assert (entry.why, entry.since) == ("the optimizer gets the gradient of an earlier step", 1)
    given = plus(mean(new), only(zeros, mean(old)))
    both = [plus(each, only(zeros, vectors(5))) for each in new]
    pages = [page(both[r], plus(given, only(zeros, vectors(5))), 1, r) for r in range(2)]
    assert "is added to this one's" in judge.window(pages)[0].entries[0].why


def test_shards_are_added_up():
    ranks = [vectors(1), vectors(2)]
    whole = mean(ranks)
    halves = [[row[:8] + [0.0] * 8 for row in whole], [[0.0] * 8 + row[8:] for row in whole]]
    pages = [page(ranks[r], times(halves[r], 2), rank=r, read=[2] * len(KINDS)) for r in range(2)]
    assert judged(pages, strategy="fsdp2").entries == ()


CANNOT = {
    "1 of 2 ranks were heard": lambda pages: [pages[0], None],
    "gradients are not finite": lambda pages: [
        {**pages[0], "reduce": {**pages[0]["reduce"], "given": times(vectors(1), float("nan"))}},
        pages[1],
    ],
    "no backward was seen": lambda pages: [
        {**each, "reduce": {**each["reduce"], "parts": [0] * len(KINDS)}} for each in pages
    ],
    "too many parts were added in low precision": lambda pages: [
        {**each, "reduce": {**each["reduce"], "eps": [2.0**-7] * 6, "parts": [1000] * 6}}
        for each in pages
    ],
}


@pytest.mark.parametrize("reason", CANNOT)
def test_what_cannot_be_told(reason):
    found = judged(CANNOT[reason](two(lambda a, b: mean([a, b]))))
    assert (found.state, found.reason, found.entries) == ("cannot tell", reason, ())


def test_rounding_of_many_parts_is_no_difference():
    """256 parts in bf16 are 2 to 9 percent off."""
    drawn = random.Random(0)
    given = lambda a, b: [  # noqa: E731
        [x * (1 + drawn.gauss(0, 0.05)) for x in row] for row in mean([a, b])
    ]
    coarse = {"eps": [2.0**-7] * len(KINDS), "parts": [256] * len(KINDS)}
    assert judged(two(given, **coarse)).entries == ()
    assert judged(two(given)).entries


def test_a_tower_whose_gradients_are_whole_says_that_the_others_are_scaled():
    """Most tensors are halved: they are odd, and not the rest, which would seem doubled."""
    verdict = judged(two(lambda a, b: only(mean([a, b]), times(mean([a, b]), 0.5), ("llm",))))
    assert [(each.code, each.what) for each in verdict.entries] == [("VG640", "4 of 4 llm tensors")]
