"""A port for a run's ranks to meet at, that nobody else takes before they do.

Not one that the kernel offers: connections that other runs open take those at any time. One below
that range, chosen at random, on which nobody listens.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

FIRST = 20_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free() -> int:
    """The port."""
    for port in random.SystemRandom().sample(range(FIRST, _offered()), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {FIRST} and {_offered()}")


def _offered() -> int:
    """Where the ports begin that the kernel offers."""
    try:
        first = int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    return first if first > FIRST + 1000 else 32_768
