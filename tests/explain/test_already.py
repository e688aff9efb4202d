"""What the run had already is not advised; what would help less than it has is not either."""

import pytest

from tests.explain import compose
from vlmguard.explain.catalogue import load
from vlmguard.explain.logfacts import Facts, of_text

KNOWN = {known.code: known for known in load()}


def actions(code, facts):
    return [do.action for do in KNOWN[code].remedies(facts)]


@pytest.mark.parametrize(
    ("code", "action", "facts"),
    [
        ("VG501", "zero2", Facts(strategy="zero2")),
        ("VG501", "freeze_tower", Facts(freeze_tower=True)),
        ("VG502", "no_tower_checkpointing", Facts(said={"vit_gradient_checkpointing": "False"})),
        ("VG512", "checkpointing", Facts(phase="forward", checkpointing=True)),
        ("VG512", "tower_checkpointing", Facts(phase="forward", freeze_tower=True)),
        ("VG512", "lora", Facts(phase="step", tuning="lora")),
        ("VG517", "timeout", Facts(said={"ddp_timeout": "18000000"})),
    ],
)
def test_what_is_so_already(code, action, facts):
    assert action in actions(code, Facts(phase=facts.phase))
    assert action not in actions(code, facts)


def test_variables_that_the_command_has_are_not_set_again():
    facts = of_text(["+ NCCL_DEBUG=INFO PYTHONFAULTHANDLER=1 torchrun x.py\n"])
    assert facts.said["env"] == "NCCL_DEBUG=INFO PYTHONFAULTHANDLER=1"
    assert "PYTHONFAULTHANDLER=1 in front" in actions("VG558", Facts())[0]
    assert "PYTHONFAULTHANDLER" not in " ".join(actions("VG558", facts))
    advised = of_text(["For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"])
    assert "env" not in advised.said


def test_what_is_so_by_default_is_advised_last():
    by_itself = Facts(phase="backward", framework="ms-swift")
    assert actions("VG501", by_itself)[-1] == "freeze_tower"
    assert "checkpointing" not in actions("VG512", by_itself)
    off = Facts(phase="backward", framework="ms-swift", checkpointing=False)
    assert "checkpointing" in actions("VG512", off)[:3]
    last = KNOWN["VG501"].remedies(by_itself)[-1]
    assert last.cost.endswith("the default: only if you changed it")
    assert "checkpointing" in actions("VG512", Facts(phase="backward", framework="TRL"))[:3]


def test_an_aligner_that_trains_can_still_be_frozen():
    facts = Facts(freeze_tower=True, said={"freeze_aligner": "false"})
    assert "freeze_tower" in actions("VG501", facts)


def test_out_of_memory_never_advises_longer_rows_or_larger_images():
    facts = Facts(phase="forward", said={"max_length": "2048", "max_pixels": "401408"})
    values = {do.action: dict(do.values) for do in KNOWN["VG512"].remedies(facts)}
    assert values["max_length"] == {"length": "1024"}
    assert values["max_pixels"] == {"pixels": "200704"}


def test_unknown_limits_are_halves_of_the_frameworks_own():
    """LLaMA-Factory's image_max_pixels is 589,824 where nothing is said."""
    facts = Facts(phase="forward", framework="LLaMA-Factory")
    values = {do.action: dict(do.values) for do in KNOWN["VG512"].remedies(facts)}
    assert int(values["max_pixels"]["pixels"]) < 768 * 768
    assert values["max_length"] == {"length": "1024"}


def test_a_misspelt_target_is_told():
    said = "ValueError: Target modules {'q_prj', 'v_proj'} not found in the base model."
    assert "q_prj: did you mean q_proj?" in KNOWN["VG525"].told(Facts(message=said))


def test_who_asked_for_too_much_memory_was_not_killed():
    said = KNOWN["VG532"].told
    assert "signal 9" not in said(Facts(message="MemoryError: Unable to allocate 8.00 GiB"))
    assert "signal 9" in said(Facts())


def test_static_graph_is_not_advised_beside_accumulation():
    assert "static_graph" in actions("VG501", Facts(accumulation=1))
    assert "static_graph" not in actions("VG501", Facts(accumulation=4))


def test_a_line_of_another_framework_does_not_name_the_run():
    log = compose.preamble("LLaMA-Factory", 2) + "[WARNING:swift] a row of a shared helper\n"
    assert of_text([log]).framework == "LLaMA-Factory"
