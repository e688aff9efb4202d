"""One word for what a rank came to, the same only where every bit is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np


def digest(weights: Mapping[str, np.ndarray], losses: Sequence[float]) -> str:
    """Of weights and losses."""
    made = hashlib.sha256(json.dumps(list(losses)).encode())
    for name in sorted(weights):
        made.update(name.encode() + weights[name].tobytes())
    return made.hexdigest()[:16]
