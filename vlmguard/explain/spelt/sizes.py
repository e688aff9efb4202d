"""What a step costs: batches, pixels, lengths, sharding, the memory of an optimizer or engine."""

from __future__ import annotations

_STAGE = '"zero_optimization": {{{{"stage": {}}}}} in DeepSpeed\'s config'
_AUTO = (
    '"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", '
    '"gradient_accumulation_steps": "auto" in DeepSpeed\'s config'
)

SPELT: dict[str, dict[str, str]] = {
    "batch": {
        "hf": "--per_device_train_batch_size {micro} --gradient_accumulation_steps {accumulation}",
        "yaml": "per_device_train_batch_size: {micro}, gradient_accumulation_steps: {accumulation}",
        "axolotl": "micro_batch_size: {micro}, gradient_accumulation_steps: {accumulation}",
        "": "micro-batch {micro}, gradient accumulation {accumulation}",
    },
    "halve": {
        "hf": "half of --per_device_train_batch_size and twice --gradient_accumulation_steps: "
        "the global batch stays the same",
        "yaml": "half of per_device_train_batch_size and twice gradient_accumulation_steps: "
        "the global batch stays the same",
        "axolotl": "half of micro_batch_size and twice gradient_accumulation_steps: "
        "the global batch stays the same",
        "": "half the micro-batch and twice the accumulation (per_device_train_batch_size or "
        "train_micro_batch_size_per_gpu, gradient_accumulation_steps): the global batch stays "
        "the same",
    },
    "eval_batch": {
        "hf": "--per_device_eval_batch_size 1 --eval_accumulation_steps 1",
        "yaml": "per_device_eval_batch_size: 1, eval_accumulation_steps: 1",
        "": "an evaluation batch of 1, predictions moved to the CPU in each step",
    },
    "eval_accumulation": {
        "hf": "--eval_accumulation_steps 1",
        "yaml": "eval_accumulation_steps: 1",
        "": "predictions moved to the CPU in each step of the evaluation "
        "(TrainingArguments(eval_accumulation_steps=1))",
    },
    "fewer_answers": {
        **dict.fromkeys(
            ("ms-swift", "TRL"), "half of --num_generations, or half of --max_completion_length"
        ),
        "": "fewer generations or rows at once, or shorter answers (max_new_tokens)",
    },
    "max_pixels": {
        "ms-swift": "--max_pixels {pixels} (or MAX_PIXELS={pixels})",
        "LLaMA-Factory": "image_max_pixels: {pixels}",
        "": "AutoProcessor.from_pretrained(…, max_pixels={pixels}) (ms-swift: MAX_PIXELS={pixels} "
        "in front of the command; LLaMA-Factory: image_max_pixels: {pixels})",
        **dict.fromkeys(
            ("TRL", "transformers", "accelerate", "ColossalAI", "FlagEmbedding", "axolotl"),
            "AutoProcessor.from_pretrained(…, max_pixels={pixels})",
        ),
    },
    "fewer_tiles": {
        "ms-swift": "MAX_NUM=6 in front of the command",
        "": "--max_dynamic_patch 6",
    },
    "max_length": {
        "ms-swift": "--max_length {length}",
        "TRL": "--max_length {length} (None switches truncation off)",
        "LLaMA-Factory": "cutoff_len: {length}",
        "FlagEmbedding": "--passage_max_len {length}",
        "axolotl": "sequence_len: {length}",
        "": "max_length={length}",
    },
    "longer_or_left_out": {
        "ms-swift": "--max_length {length} --truncation_strategy delete{strict}: rows that are "
        "longer still are left out, not cut",
        "": "max_length={length}",
    },
    "smaller_or_left_out": {
        "ms-swift": "--max_pixels {pixels} --truncation_strategy delete{strict}: rows that are "
        "longer still are left out, not cut",
        "": "AutoProcessor.from_pretrained(…, max_pixels={pixels})",
    },
    "drop_long": {
        "ms-swift": "--truncation_strategy delete{strict}",
        "": "drop rows that are too long, before training",
    },
    "zero1": {"ms-swift": "--deepspeed zero1", "": _STAGE.format(1)},
    "zero2": {
        "ColossalAI": "LowLevelZeroPlugin(stage=2) in place of the booster's plug-in",
        "ms-swift": "--deepspeed zero2",
        "axolotl": "deepspeed: deepspeed_configs/zero2.json",
        "FlagEmbedding": '--deepspeed FILE.json with "zero_optimization": {{"stage": 2}}',
        "hf": "accelerate launch --use_deepspeed --zero_stage 2 … in place of torchrun",
        "accelerate": "accelerate launch --use_deepspeed --zero_stage 2 …",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z2_config.json",
        "": _STAGE.format(2),
    },
    "zero3": {
        "ColossalAI": "GeminiPlugin(shard_param_frac=1.0) in place of the booster's plug-in",
        "ms-swift": "--deepspeed zero3",
        "axolotl": "deepspeed: deepspeed_configs/zero3.json",
        "FlagEmbedding": '--deepspeed FILE.json with "zero_optimization": {{"stage": 3}}',
        "hf": "accelerate launch --use_deepspeed --zero_stage 3 … in place of torchrun",
        "accelerate": "accelerate launch --use_deepspeed --zero_stage 3 …",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z3_config.json",
        "": _STAGE.format(3),
    },
    "small_optimizer": {
        "hf": "--optim paged_adamw_8bit",
        "yaml": "optim: paged_adamw_8bit",
        "axolotl": "optimizer: paged_adamw_8bit",
        "": "bitsandbytes.optim.PagedAdamW8bit(…) in place of torch.optim.AdamW(…)",
    },
    "fsdp": {
        "": "torch.distributed.fsdp.fully_shard(model), after each of its blocks, in place of "
        "DistributedDataParallel(model)",
    },
    "offload": {
        "ColossalAI": "GeminiPlugin(shard_param_frac=1.0, offload_optim_frac=1.0)",
        "ms-swift": "--deepspeed zero3_offload",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z3_offload_config.json",
        "": '"offload_optimizer": {{"device": "cpu"}} in DeepSpeed\'s config',
    },
    "zero3_offload": {
        "ColossalAI": "GeminiPlugin(shard_param_frac=1.0, offload_optim_frac=1.0)",
        "ms-swift": "--deepspeed zero3_offload",
        "axolotl": "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z3_offload_config.json",
        "FlagEmbedding": '--deepspeed FILE.json with "zero_optimization": {{"stage": 3, '
        '"offload_optimizer": {{"device": "cpu"}}}}',
        "hf": "accelerate launch --use_deepspeed --zero_stage 3 --offload_optimizer_device cpu … "
        "in place of torchrun",
        "accelerate": "accelerate launch --use_deepspeed --zero_stage 3 "
        "--offload_optimizer_device cpu …",
        "": '"zero_optimization": {{"stage": 3, "offload_optimizer": {{"device": "cpu"}}, '
        '"offload_param": {{"device": "cpu"}}}} in DeepSpeed\'s config',
    },
    "no_offload": {
        "ms-swift": "--deepspeed zero3 (not zero2_offload or zero3_offload)",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z3_config.json (no …_offload_…)",
        "": '"offload_optimizer": {{"device": "none"}} under "zero_optimization" in DeepSpeed\'s '
        "config",
    },
    "load_half": {
        "ms-swift": "--torch_dtype bfloat16",
        "LLaMA-Factory": "bf16: true",
        "TRL": "--dtype bfloat16 (--torch_dtype in older releases)",
        "": "from_pretrained(…, torch_dtype=torch.bfloat16)",
    },
    "four_bits": {
        "ms-swift": "--quant_method bnb --quant_bits 4 --tuner_type lora (3.x: --train_type lora)",
        "LLaMA-Factory": "quantization_bit: 4, finetuning_type: lora",
        "TRL": "--load_in_4bit --use_peft",
        "axolotl": "load_in_4bit: true, adapter: qlora",
        "": "from_pretrained(…, quantization_config=BitsAndBytesConfig(load_in_4bit=True, "
        "bnb_4bit_compute_dtype=torch.bfloat16)), with LoRA",
    },
    "liger": {
        "hf": "--use_liger_kernel true (pip install liger-kernel)",
        "LLaMA-Factory": "enable_liger_kernel: true (pip install liger-kernel)",
        "axolotl": "plugins: [axolotl.integrations.liger.LigerPlugin], "
        "liger_fused_linear_cross_entropy: true",
        "": "liger_kernel.transformers.AutoLigerKernelForCausalLM in place of "
        "AutoModelForCausalLM (pip install liger-kernel)",
    },
    "less_engine": {
        "hf": "--vllm_gpu_memory_utilization 0.4",
        "": "gpu_memory_utilization=0.4 for the engine (rollout.gpu_memory_utilization in verl)",
    },
    "more_engine": {
        "hf": "--vllm_gpu_memory_utilization 0.7",
        "": "gpu_memory_utilization=0.9 for the engine (lower beside a training process)",
    },
    "engine_share": {
        "hf": "--vllm_gpu_memory_utilization {share}",
        "": "gpu_memory_utilization={share} for the engine",
    },
    "short_engine": {
        "ms-swift": "--vllm_max_model_len 8192",
        "TRL": "--vllm_max_model_length 8192",
        "": "max_model_len=8192 for the engine (rows with their answers must fit)",
    },
    "engine_tokens": {
        "ms-swift": "--vllm_max_model_len {tokens}",
        "TRL": "--vllm_max_model_length {tokens} (vllm_max_model_len before TRL 0.20)",
        "": "max_model_len={tokens} for the engine (or max_num_batched_tokens as large)",
    },
    "auto_batch": {
        "hf": _AUTO,
        "yaml": _AUTO,
        "": "train_batch_size = micro-batch per GPU × accumulation × ranks in DeepSpeed's config",
    },
    "no_packing": {
        "ms-swift": "--packing false --padding_free false",
        "LLaMA-Factory": "packing: false, neat_packing: false",
        "TRL": "--packing false --padding_free false",
        "": "no packing of rows",
    },
}
