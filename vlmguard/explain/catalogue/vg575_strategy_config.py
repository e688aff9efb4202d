"""DeepSpeed's or accelerate's configuration is refused."""

from __future__ import annotations

import re

from vlmguard.explain import bits
from vlmguard.explain.catalogue.strategy_config_steps import STEPS
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_OWN = Do("zero2", "none: it is one of ms-swift's own names (zero0 to zero3, zero2_offload, …)")


def _do(facts: Facts) -> tuple[Do, ...]:
    """What is no file's name was to be one of ms-swift's own; unsloth, where it is what loads."""
    asked = facts.said.get("use_unsloth", "").lower() == "true"
    loads = asked or "unsloth" in facts.trace
    known = tuple(do for do in STEPS if loads or do.action != "no_unsloth")
    given = facts.said.get("deepspeed", "")
    if facts.framework == "ms-swift" and re.fullmatch(r"[a-z]\w{0,30}", given):
        return (_OWN, *known) if "(char 0)" in facts.message else known
    if "`device_map`" in facts.message and bits.few(facts):
        fewer = "more memory: every rank holds all parameters, in 4 or 8 bits"
        return (Do("zero2", fewer), *(do for do in known if do.action != "zero2"))
    return known


FAILURE = Known(
    code="VG575",
    name="explain-strategy-config",
    title="DeepSpeed's, accelerate's or ColossalAI's configuration is refused",
    zh="DeepSpeed、accelerate 或 ColossalAI 配置无效或相互矛盾",
    why=(
        "the configuration of DeepSpeed or accelerate names a key or value that "
        "this release does not take, says a thing twice (optimizer or scheduler in "
        'the file and in the code), left an "auto" that nobody fills, is not where it is '
        "looked for, or asks for parts that do not go together or with this model (a way of "
        "offloading, splitting or compiling)"
    ),
    do=_do,
    wrong=(
        "Another accelerate configuration in ~/.cache/huggingface may speak: "
        "--config_file names one."
    ),
    signs=(
        Sign("You cannot specify an optimizer in the config file and in the code"),
        Sign("You cannot specify a scheduler in the config file and in the code"),
        Sign("You cannot create a `DummyOptim`"),
        Sign(
            "Found `optimizer` configured in the DeepSpeed config",
        ),
        Sign(
            "Found `scheduler` configured in the DeepSpeed config",
        ),
        Sign("Either specify a scheduler in the config file"),
        Sign("ZeRO-Offload", also=("client provided optimizer",)),
        Sign("Please either use deepspeed.ops.adam.DeepSpeedCPUAdam"),
        Sign("validation error", also=("DeepSpeed",)),
        Sign("DeepSpeed elastic config produced invalid"),
        Sign("DeepSpeedConfigError"),
        Sign("DeepSpeed requires --deepspeed_config"),
        Sign("Expected a string path to an existing deepspeed config"),
        Sign("modes cannot be simultaneously enabled"),
        Sign("had unknown keys", also=("accelerate",)),
        Sign("The passed configuration file", also=("does not exist",)),
        Sign("You can only use one of `--cpu`, `--multi_gpu`"),
        Sign("ZeRO inference only makes sense with ZeRO Stage 3"),
        Sign("not possible to automatically fill out"),
        Sign("Cannot get 16bit model weights because"),
        Sign(
            "not a field in DeepSpeed",
        ),
        Sign("launcher 'pdsh' not installed"),
        Sign("not found in hostfile"),
        Sign("Hostfile contains"),
        Sign("is not a ZeRO supported optimizer"),
        Sign("You are using an untested ZeRO Optimizer"),
        Sign("--use_deepspeed", also=("Error",)),
        Sign("DeepSpeedPlugin"),
        Sign(
            "fp16 is enabled but",
        ),
        Sign("Maximum supported ZeRO stage"),
        Sign("Duplicate keys in DeepSpeed config"),
        Sign("DeepSpeed", also=("is not compatible with `device_map`",)),
        Sign(
            "DeepSpeed Zero-3 is not compatible",
        ),
        Sign("Using --fsdp xxx together with --deepspeed"),
        Sign("To use DeepSpeed you must"),
        Sign(
            "`zero_optimization",
        ),
        Sign("zero3_init_flag"),
        Sign("nvme_path"),
        Sign("Client Optimizer is of unexpected type"),
        Sign("`auto_find_batch_size` isn't supported yet with DeepSpeed"),
        Sign("stage3_gather_16bit_weights_on_model_save"),
        Sign("Not sure how to proceed, we were given"),
        Sign("Make sure that Deepspeed"),
        Sign("mixed_precision` should be one of"),
        Sign("Unknown mixed_precision mode"),
        Sign("deepspeed/runtime/config", where="raised"),
        Sign("deepspeed/runtime/zero/config", where="raised"),
        Sign("transformers/integrations/deepspeed.py", where="raised"),
        Sign("accelerate/utils/dataclasses.py", where="raised"),
        Sign("accelerate/commands/", where="raised"),
        Sign("accelerate/utils/launch.py", where="raised"),
        Sign("accelerate/utils/deepspeed.py", where="raised"),
        Sign("in _prepare_deepspeed", where="raised"),
        Sign("deepspeed/__init__.py in initialize", where="raised"),
        Sign("deepspeed/launcher/", where="raised"),
        Sign("in _do_sanity_check", where="raised"),
        Sign("in _do_args_sanity_check", where="raised"),
        Sign("in _configure_basic_optimizer", where="raised"),
        Sign("in _do_optimizer_sanity_check", where="raised"),
        Sign("deepspeed/runtime/lr_schedules.py", where="raised"),
        Sign("accelerate/state.py", where="raised"),
        Sign("deepspeed/runtime/engine.py in __init__", where="raised"),
        Sign("accelerate/accelerator.py", where="raised"),
        Sign("deepspeed/runtime/engine.py in _configure", where="raised"),
        Sign("deepspeed/runtime/engine.py in _apply", where="raised"),
        Sign("in _assert_valid_mixed_precision_config", where="raised"),
        Sign("in _scheduler_from_config", where="raised"),
        Sign("in _check_for_duplicates", where="raised"),
        Sign("must provide optimizer during init"),
        Sign("occurs multiple times in optimizer.param_groups"),
        Sign("zero stage", also=("requires an optimizer",)),
        Sign("deepspeed/runtime/precision_config.py", where="raised"),
        Sign("deepspeed/runtime/torch_autocast.py", where="raised"),
        Sign("zero/stage_1_and_2.py in __init__", where="raised"),
        Sign("zero/stage3.py in __init__", where="raised"),
        Sign("partition_parameters.py in __init__", where="raised"),
        Sign("You cannot create a DummyScheduler"),
        Sign("You cannot create a DummyOptim"),
        Sign("the following accelerate config variables will be ignored"),
        Sign("DeepSpeed config values that mismatch"),
        Sign("At least one of the dataloaders passed to `accelerate.prepare()` has `None` as"),
        Sign("requires you to pass at least one of training or evaluation dataloaders"),
        Sign("Can't find `model.config` entry"),
        Sign("Can find neither `model.config.hidden_size`"),
        Sign("You can't customize device placements with DeepSpeed"),
        Sign("needs to be a round multiple of the number of processes"),
        Sign("In order to use `split_batches==True` you must have"),
        Sign("You cannot pass in both `dynamo_plugin`"),
        Sign("You can only pass one of `gradient_accumulation_steps`"),
        Sign("Please make sure to properly initialize your accelerator"),
        Sign("Data parallelism is not configured. Set `parallelism_config`"),
        Sign("fp16_partitioned_groups", where="trace", also=("empty sequence",)),
        Sign("in _setup_for_real_optimizer", where="raised"),
        Sign("in initialize_optimizer_states", where="raised"),
        Sign("deepspeed/utils/bwc.py", where="raised"),
        Sign("deepspeed/utils/groups.py", where="raised"),
        Sign("deepspeed/moe/", where="raised"),
        Sign("deepspeed/sequence/", where="raised"),
        Sign("deepspeed/runtime/sequence_parallel/", where="raised"),
        Sign("deepspeed/runtime/pipe/", where="raised"),
        Sign("deepspeed/runtime/bf16_optimizer.py in __init__", where="raised"),
        Sign("deepspeed/ops/adam/cpu_adam.py in __init__", where="raised"),
        Sign("colossalai/booster/plugin/", where="raised"),
        Sign("'DummyOptim' object has no attribute"),
        Sign("'DummyScheduler' object has no attribute"),
        Sign("deepspeed/runtime/data_pipeline/", where="raised"),
        Sign("deepspeed/runtime/activation_checkpointing/", where="raised"),
        Sign("deepspeed/runtime/compiler.py", where="raised"),
        Sign("deepspeed/runtime/domino/", where="raised"),
        Sign("deepspeed/runtime/superoffload/", where="raised"),
        Sign("deepspeed/runtime/hybrid_engine.py", where="raised"),
        Sign("deepspeed/module_inject/", where="raised"),
        Sign("deepspeed/linear/", where="raised"),
        Sign("deepspeed/compression/", where="raised"),
        Sign("deepspeed/elasticity/", where="raised"),
        Sign("deepspeed/autotuning/", where="raised"),
        Sign("deepspeed/inference/", where="raised"),
        Sign("in _configure_moe_settings", where="raised"),
        Sign("in _validate_zero3_moe_compatibility", where="raised"),
        Sign("in _enforce_", where="raised", also=("deepspeed",)),
        Sign("engine.py in finalize_autotp", where="raised"),
        Sign("Direct calls to tensor.backward() are not supported", releases="DeepSpeed ≥ 0.18"),
        Sign("colossalai/booster/", where="raised"),
        Sign("colossalai/zero/wrapper.py", where="raised"),
        Sign("colossalai/shardformer/", where="raised"),
        Sign("colossalai/pipeline/", where="raised"),
        Sign("ParallelismConfig"),
        Sign("`--mixed_precision` arg cannot be set"),
        Sign("without `auto` (set to correct value) in the DeepSpeed config"),
        Sign("Please specify the ZeRO optimization config"),
        Sign("you need to specify the main process"),
        Sign("Unknown dynamo backend"),
        Sign("DeepSpeed is not enabled, please make sure"),
        Sign("Your assigned backend"),
        Sign("AcceleratorState._reset_state()"),
        Sign("PartialState._reset_state()"),
        Sign("that was not initialized for DeepSpeed"),
        Sign("couldn't find a valid DeepSpeed"),
        Sign("accelerate/utils/deepspeed.py", where="trace", also=("JSONDecodeError",)),
        Sign("_init_deepspeed", where="trace", also=("JSONDecodeError",), releases="ms-swift"),
        Sign("integrations/deepspeed.py", where="trace", also=("JSONDecodeError",)),
        Sign("deepspeed/runtime/config.py", where="trace", also=("JSONDecodeError",)),
        Sign("or a base64 encoded string. Received", where="line", releases="accelerate"),
        Sign("lightning/fabric/strategies/deepspeed.py", where="raised"),
        Sign("strategies/deepspeed.py in _", where="raised", releases="Lightning"),
        Sign("not supported between instances of 'str'", also=("warmup_num_steps",)),
        Sign("not supported between instances of 'str'", also=("deepspeed/",)),
        Sign("DeepSpeed", where="else"),
        Sign("deepspeed", where="else"),
        Sign("ZeRO", where="else"),
        Sign("'NoneType' object has no attribute 'backward'", also=("deepspeed_engine_wrapped",)),
    ),
    examples=(
        Example(
            "ValueError: You cannot specify an optimizer in the config file and "
            "in the code at the same time.",
            "accelerate/accelerator.py, 1.15",
        ),
        Example(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error "
            "for DeepSpeedZeroConfig\noverlap_comm\n  Input should be a valid "
            "boolean",
            "made by causing it (names and numbers changed), DeepSpeed 0.19.8",
        ),
        Example(
            "deepspeed.runtime.zero.utils.ZeRORuntimeException: You are using "
            "ZeRO-Offload with a client provided optimizer",
            "deepspeed/runtime/engine.py, 0.19.8",
        ),
    ),
    evidence="DeepSpeed's, accelerate's and transformers' own checks.",
    narrow=2,
)
