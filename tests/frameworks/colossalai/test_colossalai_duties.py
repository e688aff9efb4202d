"""Detectors, missing keys, freezing, LoRA, advice, and input that cannot be judged: real runs."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.cases import TEXT
from tests.frameworks.colossalai.halves import compare
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
IMAGES = ["image", "image"]
TOWER = {"model": "two_tower"}
ONLY_EXPLAIN = {"VLMGUARD_RULES": "VG2=off,VG3=off"}
DDP = {"steps": IMAGES, "plugin": "torch_ddp", "find_unused": True}
FREEZES = {"vision": ["vision"], "both": ["vision", "aligner"], "glob": ["visual.blocks.*"]}

CASES = [
    {"name": "blind-gemini", **TOWER, "blind": True, "steps": IMAGES},
    {"name": "blind-zero", **TOWER, "blind": True, "steps": IMAGES, "plugin": "low_level_zero"},
    {"name": "blind-ddp", **TOWER, "blind": True, "steps": IMAGES, "plugin": "torch_ddp"},
    {"name": "ddp-text", **TOWER, "steps": ["text"] * 3, "plugin": "torch_ddp"},
    {"name": "ddp-reentrant", **DDP, "checkpointing": {}},
    {"name": "ddp-plain", **DDP},
    {"name": "no-grid", "steps": ["image", "no_grid"]},
    {"name": "no-pixels", "steps": ["image", "no_pixels"]},
    {"name": "no-pixels-frozen", "steps": ["image", "no_pixels"], "freeze": True},
    *({"name": f"freeze-{name}", "steps": ["text", "image", "text"], "decay": 0.1,
       "guard": {"freeze": words}} for name, words in FREEZES.items()),
    {"name": "lora-asked", "lora": "asked"},
    {"name": "lora-before", "lora": "before", "steps": TEXT, "chunks": "one"},
    {"name": "untouched", "steps": TEXT, "max_norm": 0, "env": {"VLMGUARD_RULES": "VG205=off"}},
    {"name": "assertion", "steps": TEXT, "env": ONLY_EXPLAIN},
    {"name": "twice", "steps": IMAGES, "accumulate": 2, "env": {"VLMGUARD_RULES": "VG305=off"}},
    {"name": "twice-silent", "steps": IMAGES, "accumulate": 2, "max_norm": 0},
    {"name": "twice-apart", "steps": IMAGES, "accumulate": 2, "max_norm": 0,
     "master_weights": False},
    {"name": "unreduced", "steps": TEXT, "chunks": "mixed", "env": ONLY_EXPLAIN},
    {"name": "llava-default", "model": "llava_default", "steps": [*TEXT, "image"]},
    {"name": "llava-silent", "model": "llava_default", "steps": IMAGES, "max_norm": 0,
     "chunks": "32"},  # each tensor in a chunk of its own
    {"name": "pairs", **TOWER, "steps": IMAGES, "unusual": "pairs"},
    {"name": "mapping", **TOWER, "steps": TEXT, "unusual": "mapping",
     "guard": {"processor": "own"}},
    {"name": "split", **TOWER, "steps": IMAGES, "unusual": "split"},
    {"name": "unknown", **TOWER, "steps": IMAGES},
    {"name": "nameless", "model": "nameless", "steps": IMAGES},
    {"name": "nameless-text", "model": "nameless", "steps": TEXT},
    {"name": "nameless-known", "model": "nameless", "steps": TEXT,
     "guard": {"processor": "own"}},
    {"name": "rows", "model": "rows", "steps": TEXT, "guard": {"processor": "own"}},
    {"name": "rows-unknown", "model": "rows", "steps": IMAGES},
    {"name": "counted", "model": "counted", "steps": ["text", "counted"],
     "guard": {"processor": "own"}},
    {"name": "refuses", **TOWER, "steps": TEXT, "guard": {"processor": "refuses"}},
]  # fmt: skip
HEALTHY = ("pairs", "split", "unknown", "nameless", "rows-unknown")


@functools.cache
def on():
    return launch.run(CASES, guard=True)


@functools.cache
def off():
    return launch.run([{**case, "guard": None} for case in CASES], guard=False)


def rank(done, name):
    return done.ranks(name)[0]


@pytest.mark.parametrize("plugin", ["gemini", "zero", "ddp"])
def test_a_tower_that_no_gradient_reaches(plugin):
    """`p.grad is None` is no sign of it: it is None for every parameter of a healthy Gemini run."""
    stopped = rank(on(), f"blind-{plugin}")
    # Two steps have to say it. Gemini fails in the first one; so would DDP after it, had not VG106
    # made it look for unused parameters, since a batch may have no image.
    first = 0 if plugin == "gemini" else 1
    assert stopped["stage"] == f"step {first} optimizer"
    assert "VG302: vision does not train: " in stopped["error"]
    assert "(4 tensors)" in stopped["error"]
    alone = {"gemini": "step 0 optimizer", "ddp": "step 1 forward", "zero": "done"}
    assert rank(off(), f"blind-{plugin}")["stage"] == alone[plugin]
    assert (("VG106", "set") in on().outcomes(f"blind-{plugin}")) is (plugin == "ddp")


def test_ddp_in_one_process_looks_for_unused_parameters():
    assert "Expected to have finished reduction" in rank(off(), "ddp-text")["error"]
    assert len(on().weights("ddp-text")[0].losses) == 3
    assert on().outcomes("ddp-text") == {("VG106", "set")}


def test_reentrant_checkpointing_under_ddp():
    assert "ready only once" in rank(off(), "ddp-reentrant")["error"]
    assert compare(on().weights("ddp-reentrant"), off().weights("ddp-plain"), world=1)
    assert on().outcomes("ddp-reentrant") == {("VG101", "fixed")}


def test_pixel_values_without_their_grid():
    assert "'NoneType' object is not iterable" in rank(off(), "no-grid")["error"]
    stopped = rank(on(), "no-grid")
    assert stopped["stage"] == "step 1 forward"
    assert "VG201: sample 0 of this batch has pixel_values but no image_grid" in stopped["error"]


def test_placeholders_without_pixel_values():
    assert rank(off(), "no-pixels-frozen")["stage"] == "done", "it runs silently"
    for name in ("no-pixels", "no-pixels-frozen"):
        stopped = rank(on(), name)
        assert stopped["stage"] == "step 1 forward"
        assert "VG201: sample 0 of this batch has 4 image tokens and no pixel" in stopped["error"]


@pytest.mark.parametrize("name", FREEZES)
def test_frozen_before_boost_does_not_move_by_one_bit(name):
    assert "AssertionError" in rank(off(), f"freeze-{name}")["error"]
    done = rank(on(), f"freeze-{name}")
    assert done["stage"] == "done", done.get("trace")
    still = [n for n, w in done["before"].items() if torch.equal(w, done["after"][n])]
    vision = [n for n in done["before"] if n.startswith("visual.")]
    merger = [n for n in vision if ".merger." in n]
    named = {"both": vision, "glob": [n for n in vision if ".blocks." in n]}
    assert set(still) == set(named.get(name, sorted(set(vision) - set(merger))))
    completes = ("VG205", "fixed") in on().outcomes(f"freeze-{name}")
    assert completes == (name != "both"), "what is not frozen needs an image"


def test_lora_asked_of_the_booster():
    error = rank(on(), "lora-asked")
    assert error["error"] == rank(off(), "lora-asked")["error"]
    assert "peft.get_peft_model(model, lora_config) in place of" in error["notes"]
    assert ", before booster.boost" in error["notes"]
    assert "ZERO DDP error" in rank(off(), "lora-before")["error"]
    assert on().weights("lora-before")


def test_parameters_that_forward_left_out_stop_before_backward():
    stopped = rank(on(), "untouched")
    assert stopped["stage"] == "step 1 backward"
    assert "forward did not use 31 trainable parameters" in stopped["error"]


@pytest.mark.parametrize("name", ["assertion", "unreduced"])
def test_geminis_own_failures_get_advice(name):
    failed = rank(on(), name)
    assert failed["error"] == rank(off(), name)["error"]
    assert failed["notes"].count("VG508 explained") == 1
    for advice in ("TorchDDPPlugin", "VLMGUARD_FREEZE=vision", "LowLevelZeroPlugin(stage=2)"):
        assert advice in failed["notes"]
    assert ("GeminiPlugin(max_norm=1.0), and two runs" in failed["notes"]) == (name == "assertion")
    assert "pip install" not in failed["notes"], "it guards this run"


def test_accumulation_that_gemini_was_not_told_of():
    failed = rank(on(), "twice")
    assert failed["error"] == rank(off(), "twice")["error"]
    assert "you are calculating the l2 norm twice" in failed["error"]
    assert "VG573 explained" in failed["notes"]
    assert "GeminiPlugin(enable_gradient_accumulation=True)" in failed["notes"]


def test_a_forward_on_gradients_in_the_place_of_weights_is_stopped():
    assert rank(off(), "twice-silent")["stage"] == "done", "it trains wrongly without a word"
    stopped = rank(on(), "twice-silent")
    assert stopped["stage"] == "step 1 forward"
    assert "VG305: backward has run and no step since" in stopped["error"]
    assert "GeminiPlugin(enable_gradient_accumulation=True)" in stopped["error"]


def test_gradients_with_a_place_of_their_own_are_left_alone():
    assert rank(on(), "twice-apart")["stage"] == rank(off(), "twice-apart")["stage"]


def test_parameters_that_llava_never_uses_are_frozen():
    assert "ZERO DDP error" in rank(off(), "llava-default")["error"], "they share a chunk"
    assert rank(off(), "llava-silent")["stage"] == "done", "weights taken for gradients"
    assert on().outcomes("llava-default") == {("VG304", "fixed"), ("VG205", "fixed")}
    unused = ("post_layernorm", "encoder.layers.2.")
    for name in ("llava-default", "llava-silent"):
        ours = rank(on(), name)
        moved = {n for n, w in ours["before"].items() if not torch.equal(w, ours["after"][n])}
        assert not {n for n in moved if any(part in n for part in unused)}
        assert any(n.startswith("vision_tower") for n in moved)


SAID = {
    "pairs": "a batch of list is no mapping: its images cannot be checked",
    "split": "a batch's tensors are on cpu and meta: it cannot be checked",
    "rows-unknown": "text-only batches cannot be completed: no processor is known",
    "unknown": "text-only batches cannot be completed: no processor is known",
    "nameless": "no vision tower was recognised and no processor is known",
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_cannot_be_checked_is_said_in_one_line_and_the_run_goes_on(name):
    assert bitwise(on().weights(name), off().weights(name), world=1)
    said = [record["why"] for record in on().records(name) if SAID[name] in record["why"]]
    assert len(said) == 1
    assert {record["level"] for record in on().records(name)} == {"note"}


def test_a_processor_that_cannot_build_the_image():
    stopped = rank(on(), "refuses")
    assert stopped["stage"] == "building", "at guard_booster"
    assert stopped["error"].startswith("SettingsError: guard_booster cannot use this processor")
    assert "ValueError: this processor refuses" in stopped["error"]


def test_a_model_whose_text_sees_the_image_is_stopped_and_not_changed():
    assert "AssertionError" in rank(off(), "rows")["error"]
    stopped = rank(on(), "rows")
    assert stopped["stage"] == "step 1 backward"
    assert "VG303" in stopped["error"]
    said = [record["why"] for record in on().records("rows") if record["code"] == "VG904"]
    assert said == [
        "text-only batches cannot be completed: the text sees the image behind it: its loss "
        "depends on it"
    ]


def test_a_completed_batch_that_fails_says_so_in_one_line():
    """The row's length, told by an entry of another shape, is no longer true."""
    failed = rank(on(), "counted")
    assert failed["stage"] == "step 1 forward", "the first text was completed, and held"
    assert failed["error"] == "ValueError: lengths do not fit the rows"
    said = [line for line in failed["notes"].splitlines() if "VG205" in line]
    assert said == [
        "vlmguard: VG205 had put a dummy image behind this batch's first row (4 more tokens); "
        "VG205=off leaves batches as they are"
    ]


def test_a_model_that_nothing_is_known_of():
    assert rank(on(), "nameless-text")["stage"] == "step 1 backward"
    assert "VG303" in rank(on(), "nameless-text")["error"]
    for name in ("nameless-known", "mapping"):
        assert on().weights(name)
        assert ("VG205", "fixed") in on().outcomes(name)
