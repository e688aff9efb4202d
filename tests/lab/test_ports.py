"""A run's port is none that the kernel offers to others, and none that somebody listens on."""

from __future__ import annotations

import socket

from vlmguard.ranks import ports


def test_it_lies_below_what_the_kernel_offers():
    assert all(ports.FIRST <= ports.free() < ports._offered() for _ in range(20))


def test_it_is_none_that_is_taken(monkeypatch):
    taken = socket.socket()
    taken.bind(("", 0))
    taken.listen()
    port = taken.getsockname()[1]
    monkeypatch.setattr(ports, "FIRST", port)
    monkeypatch.setattr(ports, "_offered", lambda: port + 200)
    with taken:
        assert all(ports.free() != port for _ in range(20))
