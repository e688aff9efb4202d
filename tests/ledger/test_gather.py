"""Pages of all ranks come to one of them through a store, and nobody waits."""

from __future__ import annotations

import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from vlmguard.ledger.between_ranks import packed
from vlmguard.ledger.between_ranks.gather import LARGEST, LOOKS, Gather
from vlmguard.ledger.between_ranks.packed import Block
from vlmguard.runtime import ballot
from vlmguard.runtime.mailbox import Mailbox

LOCK = threading.Lock()


class Store:
    """What a TCPStore answers."""

    def __init__(self):
        self.kept, self.asked, self.down = {}, 0, False

    def _call(self):
        self.asked += 1
        if self.down:
            raise RuntimeError("gone")

    def set(self, key, value):
        self._call()
        self.kept[key] = value

    def check(self, keys):
        self._call()
        return all(key in self.kept for key in keys)

    def add(self, key, number):
        self._call()
        with LOCK:
            self.kept[key] = self.kept.get(key, 0) + number
            return self.kept[key]

    def compare_set(self, key, expected, value):
        self._call()
        return self.kept.setdefault(key, value)

    def get(self, key):
        self._call()
        return self.kept[key]

    def has_extended_api(self):
        return True

    def multi_get(self, keys):
        self._call()
        return [self.kept[key] for key in keys]

    def multi_set(self, keys, values):
        self._call()
        self.kept.update(zip(keys, values, strict=True))


def block(*numbers, shape=None):
    data = struct.pack(f"{len(numbers)}f", *numbers)
    return Block("f", shape or (len(numbers),), data)


def ranks(store, world=3):
    return [Gather(lambda: Mailbox(store, "p"), place, world) for place in range(world)]


def page(rank, **more):
    return {"rank": rank, "sums": block(rank, 0.5, -1.0, 2.0, shape=(2, 2)), **more}


def test_a_page_comes_back_as_lists():
    seven = Block("q", (), b"\x07" + bytes(7))
    found = {"a": [block(1, 2), {"b": block(1, 2, 3, 4, shape=(2, 2))}], "c": seven, 3: None}
    lists = {"a": [[1, 2], {"b": [[1, 2], [3, 4]]}], "c": 7, "3": None}
    assert packed.plain(found) == lists
    assert packed.unpack(packed.pack(found)) == lists


def test_the_first_rank_gets_all_pages_once_all_are_there():
    store = Store()
    zero, one, two = ranks(store)
    zero.leave(0, page(0))
    assert list(zero.step()) == []
    one.leave(0, page(1))
    assert list(zero.step()) == []
    two.leave(0, page(2))
    [(window, pages)] = zero.step()
    assert window == 0
    assert [each["sums"] for each in pages] == [[[n, 0.5], [-1.0, 2.0]] for n in (0, 1, 2)]
    assert not any(store.kept.values()), "emptied"
    assert list(zero.step()) == []
    assert zero.idle()


def test_messages_of_a_window_are_few():
    store = Store()
    zero, one, _ = ranks(store)
    zero.leave(0, page(0))
    for _ in range(100):
        list(zero.step())
    assert store.asked <= 8
    store.asked = 0
    one.leave(1, page(1))
    assert store.asked == 1


@pytest.mark.parametrize("late", [0, 2, 9])
def test_messages_with_a_meeting_are_twelve_at_most(late):
    """As under ZeRO-3, with pages that come ``late`` steps after the judging rank's own."""
    kept, stores = {}, [Store() for _ in range(3)]
    for each in stores:
        each.kept = kept
    every = [Gather(lambda s=s: Mailbox(s, "p"), n, 3) for n, s in enumerate(stores)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda rank: rank.agree(0), every)) == [True] * 3
    every[0].leave(0, page(0))
    found = []
    for step in range(20):
        if step == late:
            for rank in every[1:]:
                rank.leave(0, page(rank.place))
        found += every[0].step()
    for rank in every:
        rank.wishes.look(0)
    [(_, pages)] = found
    assert [each["rank"] for each in pages] == [0, 1, 2]
    assert max(each.asked for each in stores) <= 12


def test_a_rank_that_is_not_heard_is_left_out():
    store = Store()
    zero, _, two = ranks(store)
    zero.leave(0, page(0))
    two.leave(0, page(2))
    found = [each for _ in range(LOOKS[-1] + 1) for each in zero.step()]
    [(_, pages)] = found
    assert [each and each["rank"] for each in pages] == [0, None, 2]


def test_at_the_end_of_a_run_it_waits_a_little():
    store = Store()
    zero, one, _ = ranks(store)
    zero.leave(0, page(0))
    one.leave(0, page(1))
    began = time.monotonic()
    [(_, pages)] = zero.rest(0.1)
    assert 0.1 <= time.monotonic() - began < 5
    assert [each and each["rank"] for each in pages] == [0, 1, None]
    assert list(one.rest(9)) == [], "others do not wait"


def test_without_a_store_it_has_its_own_page():
    lonely = Gather(lambda: None, 0, 2)
    lonely.leave(0, page(0))
    [(_, pages)] = lonely.rest(9)
    assert pages[1] is None


def test_a_store_that_fails_stops_nothing():
    store = Store()
    store.down = True
    zero, one, _ = ranks(store)
    one.leave(0, page(1))
    zero.leave(0, page(0))
    [(_, pages)] = zero.rest(0.05)
    assert pages[1:] == [None, None]


def test_one_process_needs_no_store():
    alone = Gather(lambda: pytest.fail("asked"), 0, 1)
    alone.leave(0, page(0))
    assert [window for window, _ in alone.step()] == [0]


def test_a_page_that_is_too_large_is_thinned():
    count = LARGEST // 16
    store = Store()
    zero, one = ranks(store, 2)
    rows = Block("f", (count, 8), struct.pack("8f", *range(8)) * count)
    few = Block("f", (3,), bytes(12))
    one.leave(0, {"sums": rows, "few": few})
    zero.leave(0, {"sums": Block("f", (count, 0), b"")})
    [(_, pages)] = zero.step()
    kept = [row for row in pages[1]["sums"] if row[0] == row[0]]
    assert pages[1]["thinned"] == 3
    assert len(kept) == -(-count // 3)
    assert kept[0] == list(range(8))
    assert pages[1]["few"] == [0, 0, 0]


def test_a_window_that_one_rank_wishes_is_watched_by_all():
    store = Store()
    every = [each.wishes for each in ranks(store)]
    due = []
    for window in range(40):
        if window == 6:
            every[2].wish(window)
            every[1].wish(window)
        for each in every:
            each.look(window)
        due.append([each.due(window) for each in every])
    assert [n for n, each in enumerate(due) if all(each)] == [14]
    assert not any(any(each) for n, each in enumerate(due) if n != 14)
    assert store.asked < 3 * 12 + 8


def test_wishes_need_no_store():
    alone = Gather(lambda: None, 0, 2).wishes
    alone.wish(3)
    alone.look(4)
    assert not any(alone.due(n) for n in range(40))


def places(world):
    """A gather a rank, on one store."""
    store = Store()
    return [Gather(lambda: Mailbox(store, "ledger"), place, world) for place in range(world)]


def test_ranks_that_all_come_agree_in_each_window():
    ranks = places(3)
    with ThreadPoolExecutor(3) as pool:
        for window in (0, 1, 1):
            assert list(pool.map(lambda rank: rank.agree(window), ranks)) == [True] * 3  # noqa: B023


def test_a_rank_that_does_not_come_is_waited_for_once_and_finds_a_no():
    one, two, late = places(3)
    assert not one.agree(0, 0.05)
    assert (two.agree(0, 0.05), late.agree(0, 0.05)) == (False, False)
    began = time.monotonic()
    assert not any(rank.agree(1) for rank in (one, two, late))
    assert time.monotonic() - began < 1


def test_a_decision_of_an_earlier_membership_is_no_answer(monkeypatch):
    """Its keys are still there when ranks join again: one that comes alone is not let through."""
    every = places(2)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda rank: rank.agree(0), every)) == [True] * 2
    store = every[0]._box().store
    monkeypatch.setattr(ballot, "_began", lambda: time.time() + 1)
    alone = Gather(lambda: Mailbox(store, "ledger"), 0, 2)
    assert not alone.agree(0, 0.05)
