"""What the forwards of a module say about a gradient that did not come.

VG302 and the ledger's station reach ask the same of what the same hooks noted.
"""

from __future__ import annotations

from collections.abc import Collection

from vlmguard.core.facts import Wiring

OFF, FROZEN, BLIND, NEEDS, GOT, ODD = "off", "frozen", "blind", "needs", "got", "odd"
"""A forward with gradients switched off; of a module all frozen then; whose output needed none in
spite of parameters that train; whose output needed one; to whose output one came; whose output
holds no floating tensor."""


def of(notes: Collection[str]) -> Wiring:
    """Of a module none of whose parameters got a gradient."""
    found = set(notes)
    if not found:
        return "idle"
    if ODD in found:
        return "unknown"
    if found == {OFF}:
        return "no_grad"
    if GOT in found or found <= {BLIND, OFF}:
        return "cut"
    return "dropped" if found <= {NEEDS, OFF} else "unknown"
