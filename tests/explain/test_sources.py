"""What a package's own check tells by its place, its type or its words, where no sign is in it."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain import kinds, places, places_engines, places_frameworks, sentences, topics
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.failure import flat

PACKAGES = "/env/lib/python3.12/site-packages"


def raised(frames, last: str) -> str:
    """A rank's traceback that ends with ``frames`` ("path in function") and the line ``last``."""
    log = compose.traced(last, 1).splitlines(keepends=True)
    for frame in frames:
        path, _, name = frame.partition(" in ")
        log.insert(-1, f'[rank1]:   File "{PACKAGES}/{path}", line 7, in {name}\n')
    return "".join(log)


# The innermost frames, of words that nobody knows → class.
TOLD = {
    ("transformers/cache_utils.py in __init__",): "VG553",
    ("transformers/core_model_loading.py in convert",): "VG522",
    ("transformers/utils/quantization_config.py in post_init",): "VG577",
    ("torch/distributed/device_mesh.py in _get_submesh_impl",): "VG594",
    ("torch/optim/lr_scheduler.py in __init__",): "VG553",
    ("deepspeed/launcher/runner.py in main",): "VG584",
    ("deepspeed/runtime/engine.py in _checkpoint_tag_validation",): "VG550",
    ("deepspeed/runtime/engine.py in compile",): "VG575",
    ("trl/generation/vllm_generation.py in generate",): "VG566",
    ("huggingface_hub/dataclasses.py in __strict_setattr__",): "VG553",
    ("transformers/models/gemma3/processing_gemma3.py in validate_inputs",): "VG510",
    # A helper's caller says whose failure it is.
    ("accelerate/utils/fsdp_utils.py in load_fsdp_model", "mine/checks.py in check_shapes"): "VG576",
    ("peft/tuners/x.py in inject", "typing_tools.py in wrapper", "typing_tools.py in _validate"): "VG585",
    ("peft/tuners/x.py in inject", "torch/nn/functional.py in linear"): "unknown",
    # A place that tells nothing, though its package does.
    ("huggingface_hub/cli/cache.py in remove",): "unknown",
}


@pytest.mark.parametrize("frames", TOLD)
def test_the_place_tells(tmp_path, frames):
    told_right(tmp_path, raised(frames, "ValueError: words of a release to come"), TOLD[frames], (1,))


def test_a_file_of_a_package_that_nobody_knows(tmp_path):
    for path, code in {
        "newpackage/utils/fsdp_utils.py": "VG576",
        "newpackage/schemas/model.py": "VG553",
        "newpackage/data/collator.py": "VG554",
        "torch/nn/modules/config.py": "unknown",
    }.items():
        log = raised((f"{path} in prepare",), "ValueError: words of a release to come")
        told_right(tmp_path, log, code, (1,))


def test_a_slip_is_no_check_of_arguments(tmp_path):
    log = raised(("transformers/optimization.py in get_scheduler",), "KeyError: 'bounding_boxes'")
    told_right(tmp_path, log, "unknown", (1,))


# A user's own check, or code that was not written, and what stood in its frames.
OWN = (
    ("train.py in check", "AssertionError: the dataset column frob must be one of a, b"),
    ("reward_model.py in score", "ValueError: evaluation dataset: compute_metrics has no such metric"),
    ("data/rows.py in __getitem__", "ValueError: chat template: <image> in a column of the dataset"),
    ("model.py in forward", "NotImplementedError: bfloat16 LoRA adapter is not supported"),
)


@pytest.mark.parametrize(("frame", "words"), OWN)
def test_a_users_own_check_speaks_of_anything(tmp_path, frame, words):
    path, _, name = frame.partition(" in ")
    fetch = "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py"
    kind = words.partition(":")[0]
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        f'[rank1]:   File "{fetch}", line 54, in fetch\n[rank1]:     data = [self.dataset[i] for i in possibly]\n'
        f'[rank1]:   File "/job/{path}", line 7, in {name}\n[rank1]:     raise {kind}(text)\n[rank1]: {words}\n'
    )
    told_right(tmp_path, log, "unknown", (1,))
    named = log.replace(f"/job/{path}", "/opt/venv/lib/python3.11/site-packages/frob/x.py")
    (tmp_path / "named.log").write_text(named, encoding="utf-8")
    answer, _ = explain([str(tmp_path / "named.log")])
    assert answer.known is not None  # a framework's words do tell


# A line without frames, as people quote it → class.
ALONE = {
    "botocore.exceptions.NoCredentialsError: Unable to locate credentials": "VG598",
    "pandas.errors.EmptyDataError: No columns to parse from file": "VG554",
    "huggingface_hub.errors.StrictDataclassFieldValidationError: Validation error for field 'rope_theta':": "VG553",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for TrainConfig": "VG553",
    "urllib.error.HTTPError: HTTP Error 404: Not Found": "VG540",
    # Words of the topic, of no release that is known.
    "ValueError: `beta` must be one of ['a', 'b'], got 'c'": "VG553",
    "ValueError: frobnicating needs frob: pip install frob": "VG552",
    "AssertionError: world_size 6 must be a multiple of tp_size 4": "VG594",
    "ValueError: the frobnicator cannot be mixed with the LoRA adapter": "VG585",
    # One of its words alone may stand in any package's check.
    "AssertionError: 40 heads are not divisible by 3": "unknown",
    "ValueError: the frobnicator cannot be mixed with LoRA layers": "unknown",
    "NotImplementedError: frob is not implemented": "unknown",
    "ValueError: bfloat16 frobs are not supported": "unknown",
    # A user's own words tell nothing; nor do words in what is no check.
    "ValueError: the frobnicator is not happy": "unknown",
    # torch's operands, in words of any operator.
    "RuntimeError: frob(): expected grid to be on the same device, but input is on cuda:0": "VG527",
    "RuntimeError: frob(): expected x and y to have the same scalar type, but got Half": "VG526",
    "RuntimeError: the LoRA frobnicator is not happy": "unknown",
}


@pytest.mark.parametrize("line", ALONE)
def test_alone(tmp_path, line):
    told_right(tmp_path, compose.traced(line, 1, ("train",)).splitlines()[0] + "\n" + line + "\n", ALONE[line], None)


# What a command line's parser prints before exit 2; no exception.
USAGES = (
    "Usage: axolotl train [OPTIONS] CONFIG\nTry 'axolotl train -h' for help.\n\nError: Invalid value for 'CONFIG': File 'x.yml' does not exist.\n",
    "Usage: main.py [OPTIONS]\n\nError: No such option: --lora_rankk Did you mean --lora_rank?\n",
    "Usage: tune.py [OPTIONS]\n╭─ Error ─────────────────────╮\n│ No such option: --foo       │\n╰─────────────────────────────╯\n",
    "╭─ Unrecognized options ──────╮\n│ Unrecognized options: --foo │\n╰─────────────────────────────╯\n",
    "ERROR: Could not consume arg: --foo\nUsage: train.py <flags>\n",
    "FATAL Flags parsing error: Unknown command line flag 'foo'\nPass --helpshort or --helpfull to see help on flags.\n",
    "train.py: error: ambiguous option: --lo could match --logging_dir, --local_rank\n",
)


@pytest.mark.parametrize("log", USAGES)
def test_a_parser_refuses(tmp_path, log):
    told_right(tmp_path, log, "VG553", None)


def test_a_sentence_is_found_without_its_frame(tmp_path):
    """Sentences of each class, with a type and nothing else, lead to their class."""
    some = [(text, code) for text, code in sentences._all()][::40]
    assert len(some) > 40
    for text, code in some:
        assert sentences.told(flat(f"ValueError: 3 {text} 8")) == code


def test_sentences_are_of_the_catalogue_and_no_others():
    codes = {known.code for known in load()}
    found = sentences._all()
    assert len(found) > 1500
    assert {code for _, code in found} <= codes
    assert [text for text, _ in found if text != flat(text).strip() or len(text) < 24 or len(text.split()) < 4] == []
    assert len({text for text, _ in found}) == len(found)


def test_sentences_are_not_read_where_a_sign_is_heard(tmp_path):
    sentences._all.cache_clear()
    told_right(tmp_path, raised((), "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"), "VG512", (1,))
    assert sentences._all.cache_info().currsize == 0


def test_places_and_types_are_of_the_catalogue():
    codes = {known.code for known in load()} | {""}
    for table in (places_engines.PLACES, places_frameworks.PLACES, kinds.TYPES):
        assert set(table) <= codes
    assert {code for code, _, _ in topics.TOPICS} <= codes
    texts = [text for text, _ in places._TABLE]
    assert [text for text in texts if not any(mark in text for mark in ("/", ".py", "in "))] == []
    assert sorted({text for text in texts if texts.count(text) > 1}) == []


def test_what_ended_nothing_is_told_by_its_place_alone(tmp_path):
    """A destructor's exception at the end of a healthy run, in words of a known topic."""
    log = (
        compose.preamble("TRL", 2) + compose.DONE["TRL"].format(steps=3)
        + "Exception ignored in: <function Client.__del__ at 0x7f0a>\nTraceback (most recent call last):\n"
        f'  File "{PACKAGES}/x/client.py", line 7, in __del__\n    self.close()\n'
        "ValueError: the adapter must be one of 1, 2\n"
    )
    told_right(tmp_path, log, "finished", None)
