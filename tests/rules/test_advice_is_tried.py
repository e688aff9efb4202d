"""No rule advises what nobody has seen go right: each piece is followed by a real run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.frameworks.advice.cases import FAILING
from vlmguard import rules
from vlmguard.core import findings
from vlmguard.core.findings import (
    FindUnused,
    FreezeTower,
    LongerRows,
    MeanLoss,
    NoCheckpointing,
    PadWithBlank,
    SameImages,
    SameKind,
    SetVariant,
    StaticGraph,
    Strategy,
    Upgrade,
)  # fmt: skip

WORDS = {
    "SetVariant": SetVariant(False),
    "NoCheckpointing": NoCheckpointing("vision"),
    "FindUnused": FindUnused(),
    "StaticGraph": StaticGraph(False),
    "FreezeTower": FreezeTower(),
    "Strategy": Strategy("zero2"),
    "PadWithBlank": PadWithBlank(),
    "SameKind": SameKind(),
    "SameImages": SameImages(),
    "MeanLoss": MeanLoss(),
    "LongerRows": LongerRows(),
    "Upgrade": Upgrade("deepspeed"),
}
OTHERS = "tests/frameworks/advice/test_advice_elsewhere.py"
ELSEWHERE = {
    ("VG104", "SetVariant"): OTHERS,
    ("VG302", "SetVariant"): OTHERS,
    ("VG105", "SetVariant"): OTHERS,
    ("VG105", "Upgrade"): OTHERS,
    ("VG112", "SetVariant"): OTHERS,
    ("VG112", "Strategy"): OTHERS,
    ("VG202", "LongerRows"): OTHERS,
}
"""What a plain Trainer cannot show: the file that follows it. VG104 and VG302: one failing run."""


def advised():
    """(code, class of advice) of every rule, as its source calls them."""
    for file in sorted(Path(rules.__file__).parent.glob("vg*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(tree):
            for keyword in getattr(node, "keywords", ()) if isinstance(node, ast.Call) else ():
                if keyword.arg == "remedies":
                    keyword.value = ast.Tuple([], ast.Load())  # what we do, not what we advise
        for node in ast.walk(tree):
            name = getattr(getattr(node, "func", None), "id", "")
            if name in WORDS:
                yield file.name[:5].upper(), name


def tried():
    for case in FAILING.values():
        for code, sentences in case.told.items():
            for sentence in sentences:
                yield code, next((n for n, a in WORDS.items() if told(a) in sentence), sentence)


def told(piece):
    """The words that do not hang on a value."""
    return str(piece).partition("=")[0].removesuffix(" vision")


def test_every_kind_of_advice_has_its_words():
    kinds = {kind.__name__ for kind in findings.Advice.__args__}
    assert kinds == set(WORDS)


@pytest.mark.parametrize("piece", sorted(set(advised())), ids=" ".join)
def test_it_is_followed_by_a_real_run(piece):
    if piece in ELSEWHERE:
        root = Path(__file__).parents[2]
        code = "VG104" if piece[0] == "VG302" else piece[0]
        assert code in (root / ELSEWHERE[piece]).read_text("utf-8")
    else:
        assert piece in set(tried())


def test_nothing_is_listed_that_no_rule_says():
    assert set(ELSEWHERE) <= set(advised())
