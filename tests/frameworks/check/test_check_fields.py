"""Fields and defaults that were read from sources are those of the real classes."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.kit import envs

pytestmark = pytest.mark.frameworks

REAL = """
import dataclasses, importlib, json, sys
from vlmguard.check.reading import fields, python_files
answer = []
for where, name in json.loads(sys.argv[1]):
    read = fields.of((python_files.find(where, name),))
    real = {}
    for one in dataclasses.fields(getattr(importlib.import_module(where), name)):
        if one.init:
            made = one.default_factory is not dataclasses.MISSING
            real[one.name] = one.default_factory() if made else one.default
    other = [n for n in real if n in read and read[n].default is not fields.COMPUTED
             and read[n].default is not ... and read[n].default != real[n]]
    answer.append([name, sorted(set(real) ^ set(read)), other, len(real)])
print("ANSWER", json.dumps(answer))
"""
HPARAMS = "llamafactory.hparams"
EMBEDDER = "FlagEmbedding.finetune.embedder.decoder_only.base.arguments"
CLASSES = {
    "swift": [("swift.arguments.rlhf_args", "RLHFArguments")],
    "trl": [("trl", "SFTConfig"), ("trl", "GRPOConfig"), ("trl", "ModelConfig")],
    "llamafactory": [(f"{HPARAMS}.model_args", "ModelArguments"),
                     (f"{HPARAMS}.training_args", "TrainingArguments"),
                     (f"{HPARAMS}.finetuning_args", "FinetuningArguments")],
    "flagembedding": [(EMBEDDER, "DecoderOnlyEmbedderModelArguments")],
}  # fmt: skip


@pytest.mark.parametrize("env", CLASSES)
def test_fields_are_the_real_ones(env, tmp_path):
    if env not in envs.sections():
        pytest.skip("no such environment in constraints.txt")
    standins = str(envs.ROOT / "tests" / "kit" / "standins")
    around = {**os.environ, "VLMGUARD": "off", "CUDA_VISIBLE_DEVICES": "",
              "PYTHONPATH": os.pathsep.join([standins, *envs.SOURCES])}  # fmt: skip
    done = subprocess.run(
        [envs.program(env), "-c", REAL, json.dumps(CLASSES[env])], env=around, cwd=tmp_path,
        text=True, capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    line = next((x for x in done.stdout.splitlines() if x.startswith("ANSWER ")), "")
    assert line, done.stderr
    for name, missing, other, count in json.loads(line.removeprefix("ANSWER ")):
        assert missing == [], name
        assert other == [], name
        assert count > 5, name
