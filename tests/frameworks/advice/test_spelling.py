"""Advice as each profile writes it, read by the framework's own parser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import envs, runs

pytestmark = [pytest.mark.frameworks, pytest.mark.campaign, pytest.mark.timeout(1200)]
CLASSES = {
    "swift": ["swift.arguments:SftArguments"],
    "trl": ["trl:SFTConfig", "trl:DPOConfig", "trl:GRPOConfig"],
    "llamafactory": [
        "llamafactory.hparams:ModelArguments",
        "llamafactory.hparams:TrainingArguments",
        "llamafactory.hparams:FinetuningArguments",
    ],
    "flagembedding": ["FlagEmbedding.abc.finetune.embedder:AbsEmbedderTrainingArguments"],
}
PARSE = """
import importlib, json, shlex, sys
from transformers import HfArgumentParser
from vlmguard.core.findings import FindUnused, NoCheckpointing, SetVariant, StaticGraph
profile, yaml, *classes = sys.argv[1:]
profile = importlib.import_module(profile).PROFILE
named = (name.split(":") for name in classes)
kinds = [getattr(importlib.import_module(module), name) for module, name in named]
for advice in (SetVariant(False), FindUnused(), StaticGraph(False), NoCheckpointing(),
               NoCheckpointing("vision")):
    said = profile.spell(advice)
    words = shlex.split(said)
    if yaml == "yaml":
        words = ["--" + words[0].rstrip(":"), *words[1:]]
    whole = []
    for kind in kinds:
        told, left = HfArgumentParser(kind).parse_known_args(words)
        given = words[0].lstrip("-")
        if not left and hasattr(told, given):
            value = getattr(told, given)
            value = json.loads(value) if isinstance(value, str) else value
            whole.append(value["use_reentrant"] if isinstance(value, dict) else value)
    print(json.dumps([str(advice), said, whole]))
"""


@pytest.mark.parametrize("env", CLASSES)
def test_the_parser_takes_it(env, tmp_path):
    variables = {**runs.variables(env, tmp_path, guard=False), "HOME": str(tmp_path)}
    sources = [variables["PYTHONPATH"], str(envs.ROOT), str(envs.ROOT / "plugins")]
    stubs = Path(envs.__file__).parent / "stubs"
    variables["PYTHONPATH"] = os.pathsep.join([*sources, str(stubs)])
    file = "yaml" if env == "llamafactory" else "flags"
    profile = f"vlmguard_{env}.profile"
    done = subprocess.run(
        [envs.program(env), "-c", PARSE, profile, file, *CLASSES[env]],
        env=variables, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    assert len(lines) == 5, done.stderr[-3000:]
    for advice, said, values in lines:
        if env == "flagembedding" and "static_graph" in said:
            continue  # its transformers, 4.51, cannot set one, so nobody is told to unset it
        switched_on = "find_unused" in said or "disable_gradient_checkpointing" in said
        assert values, f"{advice}: nothing takes {said!r}"
        assert set(values) == {switched_on}, f"{said!r} was read as {values}"
