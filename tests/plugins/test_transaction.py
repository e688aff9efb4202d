"""All or nothing, whatever an undo does."""

from __future__ import annotations

import contextlib
import types

from vlmguard.runtime import faults
from vlmguard_torch.transaction import Transaction


class Fussy:
    """Takes a new value, and refuses the old one."""

    inherited = 1

    def __init__(self):
        vars(self)["own"] = 1

    def __setattr__(self, name, value):
        if (name, value) == ("own", 1):
            raise ValueError("no way back")
        vars(self)[name] = value


def test_an_undo_that_raises_keeps_no_other_change(capsys, monkeypatch):
    monkeypatch.setattr(faults, "_said", set())
    first, fussy = types.SimpleNamespace(variant=True), Fussy()
    with contextlib.suppress(RuntimeError), Transaction() as transaction:
        transaction.set(first, "variant", False)
        transaction.set(first, "new", 1)
        transaction.set(fussy, "own", 2)
        transaction.set(fussy, "inherited", 2)
        raise RuntimeError("a later change failed")
    assert vars(first) == {"variant": True}
    assert vars(fussy) == {"own": 2}, "the class's attribute is seen again"
    assert capsys.readouterr().err.count("no way back") == 1
