from __future__ import annotations

import random

import pytest

from tests.kit import noise


def drawn(mean, spread, seed=1):
    draw = random.Random(seed)
    return lambda: [draw.gauss(mean, spread) for _ in range(8)]


def test_what_costs_too_much_fails_and_what_does_not_passes():
    noise.at_most(1.0, "ms", drawn(0.5, 0.2))
    with pytest.raises(AssertionError, match="over 8 pairs"):
        noise.at_most(1.0, "ms", drawn(3.0, 0.2))


def test_noise_is_measured_longer_and_then_said():
    noise.at_most(1.0, "ms", drawn(0.5, 1.5))  # one round is not enough
    with pytest.raises(pytest.skip.Exception, match=r"busy a machine: .* over 48 pairs"):
        noise.at_most(1.0, "ms", drawn(0.5, 50.0))
    with pytest.raises(AssertionError):
        noise.at_most(1.0, "ms", drawn(100.0, 50.0))
