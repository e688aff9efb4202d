"""How a gradient comes about: checkpointing, DDP, frozen towers, blank images, precision."""

from __future__ import annotations

_KWARGS = "--gradient_checkpointing_kwargs '{{{{\"use_reentrant\": {value}}}}}'"
_CALL = (
    "DistributedDataParallel(…, {}) (grep -rn 'DistributedDataParallel(' --include='*.py' . finds "
    "the call)"
)
_ACCELERATE = "Accelerator(kwargs_handlers=[accelerate.DistributedDataParallelKwargs({})])"
_GUARD = (
    "python -m pip install vlmguard, in the run's environment, and the same command again: it puts "
    "a blank image that no label sees into batches without one, where it knows the model (else put "
    "one into such rows)"
)

SPELT: dict[str, dict[str, str]] = {
    "non_reentrant": {
        "hf": _KWARGS.format(value="false"),
        "LLaMA-Factory": "use_reentrant_gc: false",
        "axolotl": "gradient_checkpointing_kwargs: {{use_reentrant: false}}",
        "": "use_reentrant=False: model.gradient_checkpointing_enable("
        'gradient_checkpointing_kwargs={{"use_reentrant": False}})',
    },
    "reentrant": {
        "hf": _KWARGS.format(value="true"),
        "LLaMA-Factory": "use_reentrant_gc: true",
        "axolotl": "gradient_checkpointing_kwargs: {{use_reentrant: true}}",
        "": "use_reentrant=True: model.gradient_checkpointing_enable("
        'gradient_checkpointing_kwargs={{"use_reentrant": True}})',
    },
    "find_unused": {
        "hf": "--ddp_find_unused_parameters true",
        "yaml": "ddp_find_unused_parameters: true",
        "ColossalAI": "TorchDDPPlugin(find_unused_parameters=True)",
        "accelerate": _ACCELERATE.format("find_unused_parameters=True"),
        "": _CALL.format("find_unused_parameters=True"),
    },
    "find_unused_safe": {
        "hf": f"--ddp_find_unused_parameters true {_KWARGS.format(value='false')}",
        "LLaMA-Factory": "ddp_find_unused_parameters: true, use_reentrant_gc: false",
        "ColossalAI": "TorchDDPPlugin(find_unused_parameters=True)",
        "axolotl": "ddp_find_unused_parameters: true, "
        "gradient_checkpointing_kwargs: {{use_reentrant: false}}",
        "accelerate": f"{_ACCELERATE.format('find_unused_parameters=True')}, and "
        "use_reentrant=False where blocks are checkpointed",
        "": f"{_CALL.format('find_unused_parameters=True')}, and use_reentrant=False where blocks "
        "are checkpointed",
    },
    "no_find_unused": {
        "hf": "--ddp_find_unused_parameters false",
        "yaml": "ddp_find_unused_parameters: false",
        "accelerate": _ACCELERATE.format("find_unused_parameters=False"),
        "": _CALL.format("find_unused_parameters=False"),
    },
    "static_graph": {
        "hf": "--ddp_static_graph true (transformers 5)",
        "yaml": "ddp_static_graph: true (transformers 5)",
        "accelerate": _ACCELERATE.format("static_graph=True"),
        "": _CALL.format("static_graph=True"),
    },
    "no_static_graph": {
        "hf": "--ddp_static_graph false (transformers 5)",
        "yaml": "ddp_static_graph: false (transformers 5)",
        "accelerate": _ACCELERATE.format("static_graph=False"),
        "": _CALL.format("static_graph=False"),
    },
    "no_broadcast": {
        "hf": "--ddp_broadcast_buffers false",
        "yaml": "ddp_broadcast_buffers: false",
        "accelerate": _ACCELERATE.format("broadcast_buffers=False"),
        "": _CALL.format("broadcast_buffers=False"),
    },
    "checkpointing": {
        # Its model is no PreTrainedModel, so DDP looks for unused parameters: reentry crashes.
        "FlagEmbedding": f"--gradient_checkpointing true {_KWARGS.format(value='false')}",
        "hf": "--gradient_checkpointing true",
        "LLaMA-Factory": "disable_gradient_checkpointing: false",
        "axolotl": "gradient_checkpointing: true",
        "": "model.gradient_checkpointing_enable()",
    },
    "no_checkpointing": {
        "hf": "--gradient_checkpointing false",
        "LLaMA-Factory": "disable_gradient_checkpointing: true",
        "axolotl": "gradient_checkpointing: false",
        "": "leave model.gradient_checkpointing_enable() out",
    },
    "fsdp_checkpointing": {
        "hf": "--gradient_checkpointing false "
        "--fsdp_config '{{\"activation_checkpointing\": true}}'",
        "accelerate": "fsdp_activation_checkpointing: true in accelerate's config",
        "": "apply_activation_checkpointing(model) of torch.distributed.algorithms."
        "_checkpoint.checkpoint_wrapper, and model.gradient_checkpointing_enable() left out",
    },
    "tower_checkpointing": {
        "ms-swift": "--vit_gradient_checkpointing true",
        "": "model.{tower}.gradient_checkpointing_enable(), where the model's own "
        "gradient_checkpointing_enable() leaves the tower out",
    },
    "no_tower_checkpointing": {
        "ms-swift": "--vit_gradient_checkpointing false",
        "": "a transformers.TrainerCallback with on_train_begin(self, args, state, control, model, "
        "**kw): for m in model.{tower}.modules(): m.gradient_checkpointing = False (train() "
        "switches it on just before; a loop of your own: that line behind "
        "gradient_checkpointing_enable())",
    },
    "freeze_tower": {
        "ms-swift": "--freeze_vit true --freeze_aligner true",
        "LLaMA-Factory": "freeze_vision_tower: true, freeze_multi_modal_projector: true",
        "": "freeze the vision tower (requires_grad_(False)); with "
        "vlmguard: VLMGUARD_FREEZE=vision",
    },
    "dummy_image": {
        **dict.fromkeys(("ms-swift", "TRL", "transformers", "LLaMA-Factory", "ColossalAI"), _GUARD),
        "": "a small blank image that no label sees, in every row without one (python -m pip "
        "install vlmguard, and the same command again, does it where it knows the framework)",
    },
    "all_linear": {
        "ms-swift": "--target_modules all-linear",
        "LLaMA-Factory": "lora_target: all",
        "TRL": "--lora_target_modules all-linear",
        "FlagEmbedding": "--target_modules q_proj k_proj v_proj o_proj gate_proj up_proj down_proj "
        "(the names of Llama's and Qwen's kin)",
        "axolotl": "lora_target_linear: true",
        "": 'LoraConfig(target_modules="all-linear")',
    },
    "lora": {
        "ms-swift": "--tuner_type lora (3.x: --train_type lora)",
        "LLaMA-Factory": "finetuning_type: lora",
        "TRL": "--use_peft",
        "FlagEmbedding": "--use_lora True",
        "": 'model = get_peft_model(model, LoraConfig(target_modules="all-linear")): adapters '
        "train, the model's own weights do not",
    },
    "bf16": {
        "ms-swift": "--torch_dtype bfloat16 --bf16 true --fp16 false",
        "hf": "--bf16 true --fp16 false",
        "yaml": "bf16: true, fp16: false",
        "": 'bf16=True in TrainingArguments; in a loop of your own: with torch.autocast("cuda", '
        'dtype=torch.bfloat16): (DeepSpeed: "bf16": {{"enabled": true}})',
    },
    "fp16": {
        "ms-swift": "--torch_dtype float16 --fp16 true --bf16 false",
        "hf": "--fp16 true --bf16 false",
        "yaml": "fp16: true, bf16: false",
        "": "fp16=True, bf16=False (torch_dtype=torch.float16 for a model that was loaded in "
        "bfloat16; "
        'DeepSpeed\'s config: "fp16": {{"enabled": true}}, "bf16": {{"enabled": false}})',
    },
    "first_nan": {
        "hf": "--debug underflow_overflow: ends at the first nan, and prints in which module",
        "LLaMA-Factory": "debug: underflow_overflow: ends at the first nan, and prints in which "
        "module",
        "": "transformers.debug_utils.DebugUnderflowOverflow(model) in front of the training loop: "
        "ends at the first nan, and prints in which module",
    },
    "fp32_masters": {
        "ms-swift": "--torch_dtype float32 --fp16 true (cards from Ampere on: --torch_dtype "
        "bfloat16 "
        "--bf16 true)",
        "LLaMA-Factory": "bf16: true instead of pure fp16, or upcast_layernorm/pure_bf16",
        "TRL": "--dtype float32 --fp16 true (--torch_dtype in older releases)",
        "": "from_pretrained(…, torch_dtype=torch.float32) with fp16=True: float32 weights, and "
        "autocast does the rest",
    },
    "clip": {
        "hf": "--max_grad_norm 1.0 and a smaller --learning_rate",
        "yaml": "max_grad_norm: 1.0 and a smaller learning_rate",
        "": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) before optimizer.step() "
        "(max_grad_norm=1.0), and a smaller learning rate",
    },
    "slower": {
        "hf": "--learning_rate 1e-5",
        "yaml": "learning_rate: 1.0e-5",
        "": "learning_rate=1e-5",
    },
    "no_cache": {"": "model.config.use_cache = False (the text config's, too) while it trains"},
    "use_orig_params": {
        "hf": "--fsdp_config '{{\"use_orig_params\": true}}'",
        "axolotl": "fsdp_config: {{fsdp_use_orig_params: true}}",
        "accelerate": "fsdp_use_orig_params: true in accelerate's config",
        "": "FullyShardedDataParallel(…, use_orig_params=True)",
    },
    "leaf_modules": {
        "ColossalAI": "deepspeed.utils.set_z3_leaf_modules(model, [the class of the model's MoE "
        "block]) before the engine is made",
        "": "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES={experts} in front of the command: "
        "accelerate ≥ 0.30 and DeepSpeed ≥ 0.14 read it; without accelerate "
        "deepspeed.utils.set_z3_leaf_modules(model, [that class]) behind from_pretrained",
    },
    "flash": {
        "ms-swift": "--attn_impl flash_attn",
        "LLaMA-Factory": "flash_attn: fa2",
        "axolotl": "flash_attention: true",
        "TRL": "--attn_implementation flash_attention_2",
        "": 'from_pretrained(…, attn_implementation="flash_attention_2")',
    },
    "sdpa": {
        "ms-swift": "--attn_impl sdpa",
        "LLaMA-Factory": "flash_attn: sdpa",
        "TRL": "--attn_implementation sdpa",
        "": 'from_pretrained(…, attn_implementation="sdpa")',
    },
    "eager": {
        "ms-swift": "--attn_impl eager",
        "LLaMA-Factory": "flash_attn: disabled",
        "TRL": "--attn_implementation eager",
        "": 'from_pretrained(…, attn_implementation="eager")',
    },
    "no_compile": {
        "hf": "TORCHDYNAMO_DISABLE=1 in front of the command, --torch_compile false",
        "yaml": "TORCHDYNAMO_DISABLE=1 in front of the command, torch_compile: false",
        "": "TORCHDYNAMO_DISABLE=1 in front of the command",
    },
    "loss_only": {
        "hf": "--prediction_loss_only true",
        "yaml": "prediction_loss_only: true",
        "": "keep the loss alone of an evaluation, not the logits",
    },
}
