"""Turns on this machine."""

from __future__ import annotations

import threading
import time

from tests.kit import envs, turns


def test_one_that_has_had_its_turn_comes_behind_those_that_wait(monkeypatch, tmp_path):
    monkeypatch.setattr(envs, "HOME", tmp_path)
    monkeypatch.setattr(turns, "SLOTS", 1)
    order, ends = [], threading.Event()

    def greedy():
        while not ends.is_set():
            with turns.turn():
                order.append("greedy")
                time.sleep(0.01)

    def patient():
        for _ in range(3):
            with turns.turn():
                order.append("patient")

    many, few = threading.Thread(target=greedy), threading.Thread(target=patient)
    many.start()
    while not order:
        time.sleep(0.01)
    few.start()
    few.join(20)
    waited = few.is_alive()
    ends.set()
    many.join()
    assert not waited
    assert order.count("greedy") < 40, order


def test_no_more_run_at_a_time_than_there_are_slots(monkeypatch, tmp_path):
    monkeypatch.setattr(envs, "HOME", tmp_path)
    monkeypatch.setattr(turns, "SLOTS", 2)
    now, most = [], []

    def work():
        with turns.turn():
            now.append(1)
            most.append(len(now))
            time.sleep(0.02)
            now.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert max(most) == 2
