"""Whether ranks decide alike: what the store gives back is JSON."""

from __future__ import annotations

from vlmguard import agree
from vlmguard.core.findings import Freeze, Variant, as_data


def test_what_comes_back_from_the_store_is_the_same():
    mine = [as_data(Variant(use_reentrant=False)), as_data(Freeze(("vision", "aligner")))]
    theirs = [
        {"kind": "Variant", "use_reentrant": False},
        {"kind": "Freeze", "what": ["vision", "aligner"]},
    ]
    assert agree._compare({1: theirs}, mine, "what is to be changed") is None


def test_both_sides_of_a_difference_are_named():
    mine = {"settings": "a", "rules": {"VG101": "fix"}}
    found = agree._compare({1: {"settings": "b", "rules": {"VG101": "fix"}}}, mine, "settings")
    assert found is not None
    assert "{'settings': 'a'} against {'settings': 'b'}" in found.why
