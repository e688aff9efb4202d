"""Classes of the zoo, tried by its worker: those that a method's name alone gets wrong."""

from __future__ import annotations

import json

import pytest

from tests.kit import runs
from tools.zoo import campaign

pytestmark = pytest.mark.frameworks
NAMES = (
    "LlavaForConditionalGeneration",
    "Llama4ForConditionalGeneration",
    "PaddleOCRVLForConditionalGeneration",
    "FunAsrNanoForConditionalGeneration",
    "BlipForConditionalGeneration",
)


@pytest.fixture(scope="module")
def found():
    told = json.loads(runs.told("zoo", lambda: json.dumps(list(campaign.answers(NAMES)))))
    return {record["class"].removesuffix("ForConditionalGeneration"): record for record in told}


@pytest.mark.parametrize("name", ["Llava", "Llama4", "PaddleOCRVL", "FunAsrNano"])
def test_proven_and_it_holds_on_the_model_itself(found, name):
    record = found[name]
    assert [blank["proven"] for blank in record["blanks"]] == [True], record
    assert set(record["held"].values()) == {""}


def test_what_the_forward_calls_behind_the_features(found):
    assert found["Llama4"]["blanks"][0]["behind"] == ["multi_modal_projector"]
    assert found["Llava"]["blanks"][0]["behind"] == []


def test_inputs_of_a_shape_that_the_config_does_not_say(found):
    """Pixels of five dimensions; 400 positions of which a config says nothing."""
    assert found["PaddleOCRVL"]["blanks"][0]["candidate"] is not None
    assert found["FunAsrNano"]["blanks"][0]["candidate"] is not None
    assert found["Llava"]["blanks"][0]["candidate"] is None


def test_reentrant_checkpointing_of_blocks_that_are_called_by_keyword(found):
    assert "vision_model.model" in found["Llama4"]["dropped"]
    assert found["Llava"]["dropped"] == []


def test_a_class_without_a_row_of_text_is_not_tried(found):
    assert not campaign.ran(found["Blip"])
    assert {blank["proven"] for blank in found["Blip"]["blanks"]} == {None}
