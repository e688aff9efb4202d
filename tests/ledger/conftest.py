"""Every warning of a station that a test here brings about fits into two lines of 100 columns."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vlmguard.ledger.account import Entry
from vlmguard.ledger.speak import finding
from vlmguard.runtime import report

TENSOR = "base_model.model.model.visual.blocks.0.attn.qkv.lora_A.default.weight"


def grown(entry):
    """``entry`` with numbers and names as a real model has them."""

    def real(text):
        if entry.what and " " not in entry.what:
            return text.replace(entry.what, TENSOR)
        return re.sub(r"\d+ of \d+ (\w+ )?tensors", r"390 of 391 \1tensors", text)

    return replace(entry, why=real(entry.why), what=real(entry.what))


@pytest.fixture(autouse=True)
def _two_lines(monkeypatch, request):
    made, init = [], Entry.__init__

    def kept(self, *args, **more):
        init(self, *args, **more)
        made.append(self)

    with monkeypatch.context() as patch:
        patch.setattr(Entry, "__init__", kept)
        yield
    warned = {(e.why, e.what, e.size): e for e in made if e.level == "warning"}.values()
    told = [finding(each) for entry in warned for each in (entry, grown(entry))]
    long = [report.text(each, "warned") for each in told if not report.fits(each)]
    assert not long, "\n".join(long)
