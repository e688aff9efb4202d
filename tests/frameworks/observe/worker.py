"""Observes real classes of transformers from full-size configs, in one process, and prints what was
found as JSON: class name → facts, seconds of work, and what was left behind."""

from __future__ import annotations

import json
import random
import sys
import time
from types import SimpleNamespace
from typing import Any

import torch
import torch.utils.checkpoint
import transformers

from tests.kit.full_configs import CONFIGS, make
from vlmguard_torch.observe import measure, observed, observer
from vlmguard_torch.observe.isolated_state import isolated_state


def state() -> list[Any]:
    """What an observation must leave as it was."""
    import numpy
    from transformers.integrations import deepspeed

    return [
        torch.get_rng_state().tolist(),
        repr(random.getstate()),
        repr(numpy.random.get_state()),
        str(torch.get_default_dtype()),
        str(torch.get_default_device()),
        torch.is_grad_enabled(),
        repr(torch.utils.checkpoint.checkpoint),
        repr(deepspeed._hf_deepspeed_config_weak_ref),
        repr(torch.distributed.is_initialized),
        torch.nn.Linear.__init__.__qualname__,  # zero.Init's wrappers, made anew, are equal
        torch.empty.__qualname__,
    ]


def observed_with(name: str, model: Any, **options: Any) -> dict[str, Any]:
    before, begun = state(), time.thread_time()
    facts = observer.observe(model, cache=False, **options)
    seconds = time.thread_time() - begun
    return {
        **observed.to_data(facts),
        "name": name,
        "work": seconds,
        "left_alone": state() == before,
    }


def with_lora() -> dict[str, Any]:
    import peft

    model = make("LlavaForConditionalGeneration")
    lora = peft.LoraConfig(target_modules=["q_proj", "v_proj"], modules_to_save=["lm_head"])
    model = peft.get_peft_model(model, lora)
    facts = observer.observe(model, cache=False)
    names = [name for name, _ in model.named_parameters()]
    return {
        "reason": facts.reason,
        "never": [name for name in names if facts.unused(name, ["image"])],
        "unknown": [name for name in names if facts.unused(name, ["text", "image"]) is None],
        "layers": sum("lora" in name for name in names),
    }


def with_checkpoint_replaced() -> dict[str, Any]:
    """As ms-swift replaces it, for every model of the process."""
    calls = []
    kept = torch.utils.checkpoint.checkpoint

    def checkpoint(*args: Any, **options: Any) -> Any:
        calls.append(options)
        return kept(*args, **options)

    torch.utils.checkpoint.checkpoint = checkpoint
    try:
        done = observed_with("checkpoint", make("Qwen2VLForConditionalGeneration"))
    finally:
        torch.utils.checkpoint.checkpoint = kept
    return {**done, "calls": len(calls)}


def under_zero3() -> list[dict[str, Any]]:
    """While transformers is told of ZeRO-3, and once more within ``zero.Init`` itself."""
    import deepspeed
    from transformers.integrations import HfDeepSpeedConfig

    settings = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
    deepspeed.init_distributed("gloo")
    models = [make("Qwen2VLForConditionalGeneration"), make("LlavaForConditionalGeneration")]
    told = HfDeepSpeedConfig(settings)
    plain = [torch.nn.Linear.__init__, torch.nn.Module.apply, torch.empty, torch.Tensor.__new__]
    done = [observed_with("told", model) for model in models]
    with deepspeed.zero.Init(config_dict_or_path=settings):
        done += [observed_with("active", model) for model in models]
        done.append({"partitioned": hasattr(torch.nn.Linear(4, 4).weight, "ds_id")})
    after = [torch.nn.Linear.__init__, torch.nn.Module.apply, torch.empty, torch.Tensor.__new__]
    done[-1]["ended"] = all(one is other for one, other in zip(after, plain, strict=True))
    del told
    return done


def with_a_frameworks_own_dummy() -> list[dict[str, Any]]:
    """ms-swift replaces a forward on the instance; told of DeepSpeed, it runs a dummy image."""
    from swift.model.models.qwen import _compat_qwen3_vl_mixed_data
    from transformers import Qwen2VLImageProcessor
    from transformers.integrations import HfDeepSpeedConfig

    model: Any = make("Qwen3VLForConditionalGeneration")
    processor = SimpleNamespace(image_processor=Qwen2VLImageProcessor(patch_size=16))
    _compat_qwen3_vl_mixed_data(model.model, processor)
    plain = observed_with("plain", model)
    told = HfDeepSpeedConfig({"train_micro_batch_size_per_gpu": 1})
    done = [plain, observed_with("deepspeed", model)]
    del told
    return done


def a_templates_own_dummies() -> dict[str, Any]:
    """Which towers ms-swift's template for Qwen2.5-Omni runs in a row of text: without DeepSpeed,
    and under its stages."""
    from swift.template.templates.qwen import Qwen2_5OmniTemplate
    from transformers import Qwen2VLImageProcessor
    from transformers.integrations import HfDeepSpeedConfig

    from tools.zoo import configs
    from vlmguard_swift import own_trial

    kind = transformers.Qwen2_5OmniForConditionalGeneration
    with torch.device("meta"):
        model = kind(configs.config(kind))
    template: Any = Qwen2_5OmniTemplate.__new__(Qwen2_5OmniTemplate)
    template.mode = "train"
    template.processor = SimpleNamespace(image_processor=Qwen2VLImageProcessor(patch_size=14))
    before = state()
    found: dict[str, Any] = {"plain": sorted(own_trial.left_idle(template, model))}
    found["left_alone"] = state() == before
    for stage in (2, 3):
        zero = {"stage": stage}
        told = HfDeepSpeedConfig({"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero})
        found[f"zero{stage}"] = sorted(own_trial.left_idle(template, model))
        del told
    template.mode = "transformers"
    try:
        own_trial.left_idle(template, model)
    except ValueError as error:
        found["inferring"] = str(error)
    return found


def main() -> None:
    measure.WAIT = float("inf")  # tests run on busy machines
    found: dict[str, Any] = {name: observed_with(name, make(name)) for name in CONFIGS}
    with isolated_state():
        for name in ("MllamaForConditionalGeneration", "LlavaOnevisionForConditionalGeneration"):
            deep = measure.measure(make(name), most_layers=measure.ALL_LAYERS)
            found[f"deep {name}"] = observed.to_data(deep)
    found["lora"] = with_lora()
    found["checkpoint"] = with_checkpoint_replaced()
    found["own dummy"] = with_a_frameworks_own_dummy()
    found["template"] = a_templates_own_dummies()
    found["zero3"] = under_zero3()
    print("FOUND " + json.dumps(found), flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
