"""What follows from the numbers of station reach: tables, without torch."""

from __future__ import annotations

import pytest

from vlmguard.ledger.account import Account, Tensor
from vlmguard.ledger.judged_window import Judge

KINDS = ("vision", "vision", "llm", "llm")


def windows(*every, world=1):
    """The verdicts; a window is what each tensor got, and what is known of towers and modules."""
    tensors = tuple(Tensor(f"t{n}", kind, 9, "float32", True, 0) for n, kind in enumerate(KINDS))
    judge = Judge(Account(tensors, world), ("reach",))
    found = []
    for step, window in enumerate(every, 1):
        pages = [_page(step, **rank) for rank in (window if world > 1 else [window])]
        found.append(judge.window(pages)[0])
    return found


def _page(step, parts, tower=(), owners=(), kinds=("image",), index=None, off=()):
    index = list(range(len(KINDS))) if index is None else index
    read = {
        "index": index,
        "parts": [parts[n] for n in index],
        "towers": {"vision": list(tower), "llm": ["got"]},
        "owners": [[n, list(notes)] for n, notes in owners],
        "eval": list(off),
    }
    return {"step": step, "kinds": list(kinds), "unread": {}, "reach": read}


ALL, NONE, HALF = (1, 1, 1, 1), (0, 0, 1, 1), (1, 0, 1, 1)
IMAGE = {"parts": ALL, "tower": ["got", "needs"]}
DARK = {"parts": NONE, "tower": ["off"]}
CUT = {"parts": NONE, "tower": ["blind"]}
TEXT = {"parts": NONE, "kinds": ("text",)}
DROPPED = {"parts": NONE, "tower": ["needs"]}
SKIPPED = {"parts": (0, 0, 0, 0), "tower": ["off"]}
FROZEN = {"parts": ALL, "index": [2, 3], "tower": ["frozen"]}


def layer(*notes):
    return {"parts": HALF, "tower": ["got", "needs"], "owners": [(1, notes)]}


UNKNOWN = {"parts": HALF, "tower": ["got", "needs"]}

HEALTHY = {
    "reached": [IMAGE] * 3,
    "text alone": [TEXT] * 4,
    "frozen": [FROZEN, IMAGE, FROZEN],
    "skipped": [SKIPPED] * 3,
    "once without": [IMAGE, DARK, IMAGE, DARK, IMAGE],
    "dropped at random": [IMAGE, DROPPED, DROPPED, DROPPED],
    "a layer that does not run": [UNKNOWN] * 4,
    "a module that holds no floating output": [layer("odd")] * 4,
}


@pytest.mark.parametrize("every", HEALTHY.values(), ids=HEALTHY)
def test_healthy(every):
    assert not [entry for each in windows(*every) for entry in each.entries]


WRONG = {
    "no_grad": ([DARK] * 3, 2, "2 of 2 vision tensors", "switched off"),
    "cut": ([CUT] * 3, 2, "2 of 2 vision tensors", "does not reach them"),
    "text between": ([DARK, TEXT, DARK], 3, "2 of 2 vision tensors", "switched off"),
    "trained before": ([IMAGE, DARK, DARK], 3, "2 of 2 vision tensors", "in an earlier window"),
    "a layer": ([UNKNOWN, layer("off"), layer("off")], 3, "1 of 2 vision tensors", "switched off"),
    "a layer, cut": ([layer("got")] * 2, 2, "1 of 2 vision tensors", "does not reach them"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong(wrong):
    every, since, what, why = wrong
    found = windows(*every)
    [entry] = found[-1].entries
    assert (entry.code, entry.level, entry.what, entry.since) == ("VG630", "warning", what, since)
    assert why in entry.why
    assert entry.advice
    assert not any(each.entries for each in found[: since - 1])


def test_what_is_about_whole_towers_names_them():
    assert windows(*[DARK] * 3)[-1].entries[0].towers == ("vision",)
    assert windows(*[layer("got")] * 2)[-1].entries[0].towers == ()


def test_what_is_unused_by_construction_is_one_note():
    found = windows(*[layer("needs")] * 4)
    assert [[entry.level for entry in each.entries] for each in found] == [[], ["note"], [], []]
    assert {each.state for each in found} == {"balances"}


def test_what_another_rank_reached_is_reached():
    assert not windows([IMAGE, DARK], [DARK, IMAGE], [IMAGE, DARK], world=2)[-1].entries


def test_a_rank_that_was_not_heard():
    [found] = windows([IMAGE], world=2)
    assert found.state == "cannot tell"


def test_numbers_for_the_line():
    [found] = windows({**UNKNOWN, "off": ["vision"]})
    assert found.shown == {
        "trained": {"vision": 1, "llm": 2},
        "missed": {"vision": 1},
        "eval": ["vision"],
    }
