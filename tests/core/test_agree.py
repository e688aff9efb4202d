"""Whether ranks act on one decision, and whether they have planned alike."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from vlmguard import agree, guard
from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run
from vlmguard.core.findings import DummyImage, Freeze, MeanLoss, PadWithBlank, Variant, as_data
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import ballot, exchange
from vlmguard.runtime.ballot import Ballot, decide

WAIT = 0.3


class Memory:
    """A store in this process: what a ballot uses of torch's, counted."""

    def __init__(self):
        self.kept, self.lock, self.asked = {}, threading.RLock(), 0

    def __getattribute__(self, name):
        if name in ("add", "set", "check", "get", "compare_set"):
            self.asked += 1
        return object.__getattribute__(self, name)

    def add(self, key, more):
        with self.lock:
            self.kept[key] = str(int(self.kept.get(key, 0)) + more)
            return int(self.kept[key])

    def set(self, key, value):
        self.kept[key] = value

    def check(self, keys):
        return all(key in self.kept for key in keys)

    def get(self, key):
        return self.kept[key].encode()

    def compare_set(self, key, expected, desired):
        with self.lock:
            if self.kept.get(key, "") == expected:
                self.kept[key] = desired
            return self.kept[key].encode()


class Dumb(Memory):
    """As a store type that knows no `compare_set`."""

    def compare_set(self, *_):
        raise NotImplementedError


def in_ranks(work, world, late=()):
    """``work(rank)`` in a thread for each rank → rank → (what came of it, its seconds)."""
    found, late = {}, dict(late)

    def one(rank):
        time.sleep(late.get(rank, 0.0))
        began = time.monotonic()
        found[rank] = work(rank), time.monotonic() - began

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def asked(store, world, late=(), absent=(), value=lambda rank: "same", place="run"):
    """What each rank was told."""

    def work(rank):
        if rank not in absent:
            return decide(Ballot(store, place), rank, world, value(rank), WAIT)
        return None

    return {rank: each for rank, each in in_ranks(work, world, late).items() if each[0]}


def one_of(found):
    """The decision, which all ranks share."""
    decisions = {repr(decision) for decision, _ in found.values()}
    assert len(decisions) == 1, found
    return next(iter(found.values()))[0]


@pytest.mark.parametrize("late", [{}, {0: 0.1}, {2: 0.15, 0: 0.2}])
def test_all_that_come_in_time_are_heard(late):
    found = asked(Memory(), 4, late, value=lambda rank: {"kinds": rank // 2})
    decision = one_of(found)
    assert (decision.known, decision.heard) == (True, 4)
    assert sorted(value["kinds"] for _, value in decision.values) == [0, 1]
    assert all(rank // 2 == value["kinds"] for rank, value in decision.values)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_missing_or_late_rank_is_unknown_to_all_and_waited_for_once(rank):
    missing = asked(Memory(), 3, absent=[rank])
    assert (one_of(missing).known, one_of(missing).heard) == (False, 2)
    assert all(WAIT - 0.05 < seconds < WAIT + 5 for _, seconds in missing.values())
    late = asked(Memory(), 3, {rank: 2 * WAIT})
    assert (one_of(late).known, one_of(late).heard) == (False, 2)
    assert late[rank][1] < WAIT, "it adopts what was published"


def test_arrivals_around_the_limit_share_one_decision():
    for milliseconds in range(-10, 11, 2):
        decision = one_of(asked(Memory(), 3, {1: WAIT + milliseconds / 1000}))
        assert decision.known is (decision.heard == 3)


def test_keys_of_an_earlier_membership_are_unknown(monkeypatch):
    store = Memory()
    assert one_of(asked(store, 2)).known
    again = time.time()
    monkeypatch.setattr(ballot, "_began", lambda: again)  # another process's, after that
    again = asked(store, 2)
    assert [each.known for each, _ in again.values()] == [False, False]
    assert not any(each.token or each.values for each, _ in again.values())
    assert max(seconds for _, seconds in again.values()) < WAIT, "nobody waits"


def test_who_was_counted_wrongly_frees_those_who_wait():
    """Of the earlier membership one rank of three had come."""
    store = Memory()
    Ballot(store, "run").cast(0, "same")
    found = asked(store, 3)
    assert max(seconds for _, seconds in found.values()) < WAIT
    one_of(found)


def test_a_process_knows_when_it_began():
    code = "import time; from vlmguard.runtime import ballot; print(time.time() - ballot._began())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 0 <= float(done.stdout) < 60


def test_messages_a_rank_are_few_whatever_the_number():
    for world in (2, 64):
        store = Memory()
        one_of(asked(store, world, value=lambda rank: rank % 2))
        assert store.asked / world <= 12


def test_a_late_rank_costs_a_message_a_second(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clock = iter(range(10**9))
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept) + next(clock) * 1e-6)
    store = Memory()
    assert not decide(Ballot(store, "run"), 0, 2, "same", 60.0).known
    assert round(sum(slept)) == 60
    assert store.asked <= 12 + 60


@pytest.mark.parametrize("kind", ["TCPStore", "FileStore", "HashStore", "PrefixStore"])
def test_torchs_own_stores_will_do(kind, tmp_path, capfd):
    dist = pytest.importorskip("torch.distributed")
    if kind == "TCPStore":
        server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        more = {"is_master": False, "wait_for_workers": False}
        clients = [dist.TCPStore("127.0.0.1", server.port, **more) for _ in range(8)]
    elif kind == "FileStore":
        clients = [dist.FileStore(str(tmp_path / "store"), 8) for _ in range(8)]
    else:
        shared = dist.HashStore()
        clients = [shared if kind == "HashStore" else dist.PrefixStore("x", shared)] * 8

    def work(place, value, rank):
        return decide(Ballot(clients[rank], place), rank, 8, value(rank), 5.0)

    decision = one_of(in_ranks(lambda rank: work("all", lambda rank: rank % 3, rank), 8, {3: 0.2}))
    assert decision.known
    assert sorted(value for _, value in decision.values) == [0, 1, 2]
    assert not decide(Ballot(clients[0], "alone"), 0, 2, "same", 0.05).known
    assert not decide(Ballot(clients[1], "alone"), 1, 2, "same", 5.0).known, "the first write holds"
    assert capfd.readouterr() == ("", ""), "torch prints nothing"


NAMELESS = "The hostname of the client socket cannot be retrieved"
"""What torch says of the first socket of a process, the program's own, on a machine whose name
service does not answer."""
SERVER = """
import resource, sys, torch.distributed as dist
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""
CLIENTS = """
import resource, sys, torch.distributed as dist
from vlmguard.runtime import exchange
port, world = map(int, sys.argv[1:])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
def theirs():
    return dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
kept = [theirs() for _ in range(world)]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
crowded, exchange.CONNECT = exchange._crowded(), 60.0
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
kept += [exchange._connect("127.0.0.1", port) for _ in range(0 if crowded else world)]
print(crowded, len(kept), all(store.add("here", 1) for store in [*kept, theirs()]))
"""


@pytest.mark.parametrize(("world", "told"), [(400, "False 800 True"), (700, "True 700 True")])
def test_a_server_that_may_open_1024_files(world, told):
    """A client of the framework's for each rank, one of ours where there is room for all of them,
    and one that comes later."""
    pytest.importorskip("torch.distributed")
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": str(world),
                   "RES_OPTIONS": "timeout:1 attempts:1"}  # fmt: skip
    server = subprocess.Popen([sys.executable, "-c", SERVER], text=True, env=environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)  # fmt: skip
    try:
        words = [sys.executable, "-c", CLIENTS, server.stdout.readline().strip(), str(world)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100)
    finally:
        _, theirs = server.communicate("", timeout=30)
    assert done.stdout.strip() == told, done.stderr
    told_by_torch = [*done.stderr.splitlines(), *theirs.splitlines()]
    assert [line for line in told_by_torch if NAMELESS not in line] == [], "torch prints nothing"
    assert done.stderr.count("\n") <= 1, "and of a machine without names, once"


def test_a_store_that_cannot_decide_or_fails_is_unknown(monkeypatch):
    for store in (Dumb(), None):
        monkeypatch.setattr(exchange, "_store", lambda store=store: store or 1 / 0)
        monkeypatch.setattr(exchange, "ballot", lambda *_, s=store: Ballot(s, "run"))
        found = in_ranks(lambda rank: exchange.decide(1, 2, "same", WAIT), 2)
        assert [each.known for each, _ in found.values()] == [False, False]


BLANK, VARIANT = Plan((PadWithBlank(),)), Plan((Variant(use_reentrant=False),))


@pytest.fixture
def store(monkeypatch):
    store = Memory()
    monkeypatch.setattr(exchange, "_store", lambda: store)
    return store


@pytest.fixture
def ranks(store, monkeypatch):
    """Two ranks of one process, by turns: a function that makes rank ``number`` the one here."""
    monkeypatch.setattr(guard, "abort", lambda _: None)
    here = [0]
    monkeypatch.setattr(agree.ranks, "rank", lambda: here[0])
    monkeypatch.setattr(agree.ranks, "world", lambda: 2)
    states = {}

    def turn(number, rules=None, releases=None):
        here[0] = number
        if number not in states:
            run = Run("x", releases or {"torch": "2.13"}, world=2)
            states[number] = RunState(Settings(rules or {}, wait=0.0), run=run, number=7)
        return states[number]

    return turn


def both_decide(ranks, *plans):
    """Both are asked, plan, and come to their first step; what each finds there."""
    for rank in (0, 1):
        agree.basis(ranks(rank), ranks(rank).run)
    for rank, wanted in enumerate(plans):
        state = ranks(rank)
        agree.nothing(state) if wanted is None else agree.plan(state, state.run, wanted)
    return [agree.look(ranks(rank)) for rank in range(len(plans))]


@pytest.mark.parametrize(
    ("plans", "words"),
    [
        ((BLANK, BLANK), None),
        ((Plan(), Plan()), None),
        ((None, None), None),  # a fault of ours on both
        ((BLANK, None), "(rank 0: blank images; rank 1: none)"),
        ((VARIANT, BLANK), "(rank 0: use_reentrant=False; rank 1: blank images)"),
        ((Plan(), Plan((Freeze(("vision", "x")),))), "(rank 0: none; rank 1: vision, x frozen)"),
        (
            (Plan((MeanLoss(),)), Plan((DummyImage(), VARIANT.remedies[0]))),
            "the loss as the model means it; rank 1: dummy images in the data, use_reentrant",
        ),
    ],
)
def test_plans_that_differ_are_named_on_both_sides(ranks, plans, words):
    for found in both_decide(ranks, *plans):
        assert (found is not None) is bool(words)
        if words:
            assert found.why.startswith("Ranks 0 and 1 planned different changes ")
            assert words in found.why
            assert "same settings" not in found.advise()


def test_an_apply_that_fails_everywhere_is_no_difference(ranks):
    for rank in (0, 1):
        agree.basis(ranks(rank), ranks(rank).run)
        agree.plan(ranks(rank), ranks(rank).run, BLANK)
    for rank in (0, 1):
        agree.nothing(ranks(rank))
    assert agree.look(ranks(0)) is agree.look(ranks(1)) is None


def test_a_rank_that_has_posted_nothing_yet_is_not_waited_for(ranks, store):
    assert both_decide(ranks, BLANK) == [None]
    before = store.asked
    agree.look(ranks(0))
    assert store.asked - before == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rules": {"VG101": "off"}}, "(rank 0: VG101=off; rank 1: VG101=unset)"),
        ({"releases": {"torch": "2.12"}}, "(rank 0: torch=2.12; rank 1: torch=2.13)"),
    ],
)
def test_settings_and_releases_that_differ_are_named_by_whoever_comes_later(ranks, given, words):
    first = ranks(0, **given)
    assert agree.basis(first, first.run) is None, "nobody else was heard"
    second = ranks(1)
    found = agree.basis(second, second.run)
    assert f"Ranks 0 and 1 have different settings or releases {words}" in found.why
    assert "same settings and releases" in found.advise()


def test_late_ranks_with_the_same_settings_are_said_and_not_stopped(ranks):
    for rank in (0, 1):
        state = ranks(rank)
        assert agree.basis(state, state.run) is None
        assert "1 of 2 ranks had come" in agree.unheard(state, state.run)


def test_a_fault_of_ours_keeps_nobody_waiting(ranks):
    agree.nothing(ranks(1))
    state = ranks(0)
    object.__setattr__(state.settings, "wait", 60.0)
    began = time.monotonic()
    assert agree.basis(state, state.run) is None
    assert time.monotonic() - began < 1
    assert "rank 1" in agree.unheard(state, state.run)


def test_the_first_step_stops_where_plans_differ(ranks):
    found = both_decide(ranks, VARIANT, Plan())
    assert all(found)
    runstate.opened(ranks(0))
    with pytest.raises(Stop, match="VG406: Ranks 0 and 1 planned different changes"):
        guard.look_again(ranks(0))


def test_one_rank_and_no_store_ask_nobody(monkeypatch):
    monkeypatch.setattr(exchange, "_store", lambda: pytest.fail("asked"))
    alone = RunState(Settings(), run=Run("x", world=1))
    assert agree.basis(alone, alone.run) is None
    agree.plan(alone, alone.run, BLANK)
    agree.nothing(alone)
    assert agree.look(alone) is None
    monkeypatch.setattr(exchange, "_store", lambda: None)
    two = RunState(Settings(), run=Run("x", world=2))
    assert agree.basis(two, two.run) is None
    assert agree.unheard(two, two.run) == ""
    agree.plan(two, two.run, BLANK)
    assert agree.look(two) is None


def test_what_the_store_gives_back_is_the_same(ranks):
    frozen = Plan((Freeze(("vision", "aligner")), Variant(use_reentrant=False)))
    assert as_data(frozen.remedies[0])["what"] == ("vision", "aligner")
    assert both_decide(ranks, frozen, frozen) == [None, None]


def test_ranks_that_a_roll_call_misses(store, monkeypatch):
    def came(*numbers):
        for number in numbers:
            monkeypatch.setattr(exchange.ranks, "rank", lambda number=number: number)
            found = exchange.roll_call(f"{numbers}", 1, 4, 0.0)
        return found

    assert came(0, 1, 2, 3) == []
    assert came(3, 0, 1) == [2]
    assert came(2, 3) == [None, None]
