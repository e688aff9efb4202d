"""A wrapped model was asked for what only the model inside has."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_NAMES = re.compile(r"'(\w{1,60})' object has no attribute '(\w{1,60})'")


def _why(facts: Facts) -> str:
    match = _NAMES.search(facts.message)
    named = f"the wrapper {match[1]} has no {match[2]}" if match else "the wrapper lacks it"
    return (
        f"the script asked the model for an attribute or method after it had been wrapped for "
        f"several GPUs: {named}; the model inside has it. On one GPU nothing is wrapped, so the "
        "same script ran there"
    )


FAILURE = Known(
    code="VG586",
    name="explain-wrapped-model",
    title="The wrapped model was asked for an attribute that only the model inside has",
    zh="访问了包装后模型（DDP/DataParallel/FSDP/DeepSpeed）上不存在的属性，应先解包",
    why=_why,
    do=(
        Do(
            "accelerator.unwrap_model(model).{attribute}, or model.module.{attribute}",
            "none",
            kind="un",
        ),
        Do(
            "accelerator.unwrap_model(model).NAME, or model.module.NAME, "
            "for attributes, config, saving and LoRA's state",
            "none",
            kind="un",
        ),
        Do(
            "torchrun --nproc_per_node N SCRIPT.py, or CUDA_VISIBLE_DEVICES=0 for one card: "
            "DataParallel wraps where python SCRIPT.py sees several cards",
            "none",
            when=("'DataParallel'",),
        ),
        Do(
            "take what is needed (config, parameters, peft_config) before "
            "the model is prepared; get_peft_model before the wrapping, "
            "not after it",
            "none",
        ),
        Do("the framework's newest release, if the line is not your own", "none"),
    ),
    wrong=(
        "Never call the unwrapped model's forward in a training step: its gradients are not "
        "averaged, and the ranks drift apart without an error. generate() on the unwrapped model "
        "is right under DDP; under ZeRO-3 and FSDP the weights must be gathered for it."
    ),
    signs=tuple(
        Sign(f"'{wrapper}' object {lacks}", releases="torch 1.x to 2.13, DeepSpeed")
        for wrapper in (
            "DistributedDataParallel",
            "DataParallel",
            "FullyShardedDataParallel",
            "FSDPModule",
            "DeepSpeedEngine",
            "PipelineEngine",
            "OptimizedModule",
            "ShardedDataParallel",
            "XlaFullyShardedDataParallel",
            "GeminiDDP",
            "TorchDDPModel",
        )
        for lacks in ("has no attribute", "is not subscriptable", "is not iterable")
    ),
    examples=(
        Example(
            "AttributeError: 'DistributedDataParallel' object has no attribute 'base_model'",
            "made by causing it, torch 2.13.0",
        ),
        Example(
            "AttributeError: 'DataParallel' object has no attribute 'config'",
            "torch/nn/modules/module.py, 2.13.0",
        ),
    ),
    evidence="thuanz123/realfill#8, huggingface/peft#114, CarperAI/trlx#50, coqui-ai/Trainer#48.",
    narrow=2,
)
