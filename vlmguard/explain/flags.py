"""How each framework spells a change. The only place of `explain` that knows a framework's flags.

An action without an entry for a framework is said in the words of "", which hold for plain
transformers, torch or DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Iterable

from vlmguard.explain import named, spelling
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

# Frameworks whose command line is transformers' TrainingArguments and their own.
_HF = ("TRL", "transformers", "FlagEmbedding", "ms-swift")
_YAML = ("LLaMA-Factory", "axolotl")
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
_STAGE = '"zero_optimization": {{{{"stage": {}}}}} in DeepSpeed\'s config'
_AUTO = (
    '"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", '
    '"gradient_accumulation_steps": "auto" in DeepSpeed\'s config'
)

_AS_SAVED = ": as many ranks as the run that saved it had, not {ranksnow}"
_DOWNLOADED = "hf download {hub} --local-dir FOLDER, then "

# action → framework (or "hf", "yaml", "") → words. {name} is filled in from the action's values.
_SPELT: dict[str, dict[str, str]] = {
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
        "accelerate": _ACCELERATE.format("static_graph=True"),
        "": _CALL.format("static_graph=True"),
    },
    "no_static_graph": {
        "hf": "--ddp_static_graph false (transformers 5)",
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
    "rank_logs": {
        "": f"PET_LOG_DIR=LOGS PET_REDIRECTS=3 in front of the same command, {spelling.LOGS}",
    },
    "tower_checkpointing": {
        "ms-swift": "--vit_gradient_checkpointing true",
        "": "model.visual.gradient_checkpointing = True (or the tower's name in this model), where "
        "gradient_checkpointing_enable() leaves the tower out",
    },
    "no_tower_checkpointing": {
        "ms-swift": "--vit_gradient_checkpointing false",
        "": "model.visual.gradient_checkpointing = False (or the tower's name in this model)",
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
    "resume": {
        "hf": "{newest}: that folder behind --resume_from_checkpoint, with the same command",
        "yaml": "{newest}: resume_from_checkpoint: that folder",
        "": "{newest}: resume from that folder",
    },
    "resume_saved": {
        "hf": "--resume_from_checkpoint {saved} behind the same command (the newest that the log "
        "names; the one before it, if it was cut)",
        "yaml": "resume_from_checkpoint: {saved} (the newest that the log names; the one before "
        "it, if it was cut)",
        "": "resume from {saved} (the newest that the log names; the one before it, if it was cut; "
        "transformers: --resume_from_checkpoint)",
    },
    "other_port": {
        "ms-swift": "MASTER_PORT={otherport} in front of the command",
        "LLaMA-Factory": "MASTER_PORT={otherport} in front of the command",
        "accelerate": "accelerate launch --main_process_port {otherport} …",
        "TRL": "accelerate launch --main_process_port {otherport} …, "
        "torchrun --master_port {otherport} …",
        "": "torchrun --master_port {otherport} … (deepspeed --master_port, "
        "accelerate launch --main_process_port)",
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
    "no_tracker": {
        "hf": "--report_to none",
        "yaml": "report_to: none",
        "": 'TrainingArguments(report_to="none"), WANDB_MODE=disabled',
    },
    "own_code": {
        "LLaMA-Factory": "trust_remote_code: true",
        "axolotl": "trust_remote_code: true",
        "ms-swift": "--model_type TYPE by hand (ms-swift runs the model's own code by itself)",
        "": "trust_remote_code=True (--trust_remote_code true)",
    },
    "no_compile": {
        "hf": "TORCHDYNAMO_DISABLE=1 in front of the command, --torch_compile false",
        "yaml": "TORCHDYNAMO_DISABLE=1 in front of the command, torch_compile: false",
        "": "TORCHDYNAMO_DISABLE=1 in front of the command",
    },
    "less_engine": {
        "hf": "--vllm_gpu_memory_utilization 0.4",
        "": "gpu_memory_utilization=0.4 for the engine (rollout.gpu_memory_utilization in verl)",
    },
    "more_engine": {
        "hf": "--vllm_gpu_memory_utilization 0.7",
        "": "gpu_memory_utilization=0.9 for the engine (lower beside a training process)",
    },
    "short_engine": {
        "ms-swift": "--vllm_max_model_len 8192",
        "TRL": "--vllm_max_model_length 8192",
        "": "max_model_len=8192 for the engine (rows with their answers must fit)",
    },
    "model_name_or_path": {
        "ms-swift": "--model MODEL_OR_FOLDER behind the command",
        "LLaMA-Factory": "model_name_or_path: MODEL_OR_FOLDER",
        "": "--model_name_or_path MODEL_OR_FOLDER",
    },
    "ranks_as_cards": {
        "ms-swift": "NPROC_PER_NODE=$(nvidia-smi -L | wc -l) in front of the command",
        "LLaMA-Factory": "NPROC_PER_NODE=$(nvidia-smi -L | wc -l) in front of the command",
        "accelerate": "accelerate launch --num_processes $(nvidia-smi -L | wc -l) …",
        "TRL": "accelerate launch --num_processes $(nvidia-smi -L | wc -l) …",
        "": "torchrun --nproc_per_node $(nvidia-smi -L | wc -l) … (deepspeed --num_gpus, "
        "accelerate launch --num_processes)",
    },
    "wandb_name": {
        "hf": "--report_to wandb",
        "yaml": "report_to: wandb",
        "": 'TrainingArguments(report_to="wandb")',
    },
    "media_root": {
        "ms-swift": "ROOT_IMAGE_DIR=FOLDER in front of the command: relative paths count from it",
        "LLaMA-Factory": "media_dir: FOLDER, from which relative paths count",
        "": "absolute paths in the rows: relative ones count from where the job starts",
    },
    "serve": {
        "ms-swift": "swift rollout --model {served}, on cards of its own, before the training",
        "": "trl vllm-serve --model {served}, on cards of its own, before the training",
    },
    "engine_tokens": {
        "ms-swift": "--vllm_max_model_len {tokens}",
        "TRL": "--vllm_max_model_length {tokens} (vllm_max_model_len before TRL 0.20)",
        "": "max_model_len={tokens} for the engine (or max_num_batched_tokens as large)",
    },
    "template": {
        "ms-swift": "--template NAME, of the list of swift sft's models and templates",
        "LLaMA-Factory": "template: NAME, of the table of models and templates in its README",
        "TRL": "--chat_template_path FOLDER_OR_FILE, an instruct checkpoint's",
        "": "the instruct checkpoint as the model, or its template for yours: "
        "tokenizer.chat_template = AutoTokenizer.from_pretrained('NAME-Instruct').chat_template",
    },
    "trainer_group": {
        "ms-swift": "NPROC_PER_NODE=N swift sft …: it starts the ranks by itself",
        "LLaMA-Factory": "FORCE_TORCHRUN=1 llamafactory-cli train FILE.yaml",
        "FlagEmbedding": "torchrun --nproc_per_node N -m FlagEmbedding.finetune…",
        "ColossalAI": "colossalai run --nproc_per_node N SCRIPT.py … (or torchrun), not python "
        "SCRIPT.py",
        "": "torchrun --nproc_per_node $(nvidia-smi -L | wc -l) {starter} … (accelerate launch, "
        "deepspeed), not python {starter}",
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
    "loss_only": {
        "hf": "--prediction_loss_only true",
        "yaml": "prediction_loss_only: true",
        "": "keep the loss alone of an evaluation, not the logits",
    },
    "fewer_answers": {
        "ms-swift": "half of --num_generations, or a shorter --max_completion_length",
        "TRL": "half of --num_generations, or a shorter --max_completion_length",
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
        "FlagEmbedding": "--query_max_len, --passage_max_len {length}",
        "axolotl": "sequence_len: {length}",
        "": "max_length={length}",
    },
    "drop_long": {
        "ms-swift": "--truncation_strategy delete",
        "": "drop rows that are too long, before training",
    },
    "zero1": {"ms-swift": "--deepspeed zero1", "": _STAGE.format(1)},
    "zero2": {
        "ms-swift": "--deepspeed zero2",
        "axolotl": "deepspeed: deepspeed_configs/zero2.json",
        "FlagEmbedding": '--deepspeed FILE.json with "zero_optimization": {{"stage": 2}}',
        "hf": "accelerate launch --use_deepspeed --zero_stage 2 … in place of torchrun",
        "accelerate": "accelerate launch --use_deepspeed --zero_stage 2 …",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z2_config.json",
        "": _STAGE.format(2),
    },
    "zero3": {
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
        "ms-swift": "--deepspeed zero3_offload",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z3_offload_config.json",
        "": '"offload_optimizer": {{"device": "cpu"}} in DeepSpeed\'s config',
    },
    "lora": {
        "ms-swift": "--tuner_type lora (3.x: --train_type lora)",
        "LLaMA-Factory": "finetuning_type: lora",
        "TRL": "--use_peft",
        "FlagEmbedding": "--use_lora True",
        "": 'model = get_peft_model(model, LoraConfig(target_modules="all-linear")): adapters '
        "train, the model's own weights do not",
    },
    "sdpa": {
        "ms-swift": "--attn_impl sdpa",
        "LLaMA-Factory": "flash_attn: sdpa",
        "TRL": "--attn_implementation sdpa",
        "": 'from_pretrained(…, attn_implementation="sdpa")',
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
    "liger": {
        "hf": "--use_liger_kernel true (pip install liger-kernel)",
        "LLaMA-Factory": "enable_liger_kernel: true (pip install liger-kernel)",
        "axolotl": "plugins: [axolotl.integrations.liger.LigerPlugin], "
        "liger_fused_linear_cross_entropy: true",
        "": "liger_kernel.transformers.AutoLigerKernelForCausalLM in place of "
        "AutoModelForCausalLM (pip install liger-kernel)",
    },
    "no_offload": {
        "ms-swift": "--deepspeed zero3 (not zero2_offload or zero3_offload)",
        "LLaMA-Factory": "deepspeed: examples/deepspeed/ds_z3_config.json (no …_offload_…)",
        "": '"offload_optimizer": {{"device": "none"}} under "zero_optimization" in DeepSpeed\'s '
        "config",
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
    "timeout": {
        "hf": "--ddp_timeout 7200",
        "yaml": "ddp_timeout: 7200",
        "": "init_process_group(timeout=timedelta(hours=2)) (grep -rnE "
        "'init_process_group|init_distributed' --include='*.py' . finds the call; transformers: "
        "--ddp_timeout 7200)",
    },
    "workers": {
        "hf": "--dataloader_num_workers 0",
        "yaml": "dataloader_num_workers: 0",
        "accelerate": "DataLoader(num_workers=0)",
        "": "DataLoader(num_workers=0), for a Trainer --dataloader_num_workers 0",
    },
    "workers_crash": {
        "hf": "PYTHONFAULTHANDLER=1 in front of the command, --dataloader_num_workers 0 behind it",
        "yaml": "PYTHONFAULTHANDLER=1 in front of the command, dataloader_num_workers: 0",
        "": "PYTHONFAULTHANDLER=1 in front of the command, and DataLoader(num_workers=0)",
    },
    "map_workers": {
        "ms-swift": "--dataset_num_proc 1",
        "TRL": "--dataset_num_proc 1",
        "LLaMA-Factory": "preprocessing_num_workers: 1",
        "axolotl": "dataset_processes: 1",
        "": "dataset.map(…, num_proc=1)",
    },
    "map_more": {
        "ms-swift": "--dataset_num_proc $(nproc)",
        "TRL": "--dataset_num_proc $(nproc)",
        "LLaMA-Factory": "preprocessing_num_workers: the number of processors (nproc)",
        "axolotl": "dataset_processes: the number of processors (nproc)",
        "": "dataset.map(…, num_proc=N) with N of nproc's (often --preprocessing_num_workers)",
    },
    "preprocess": {
        "ms-swift": "--lazy_tokenize true, or prepare once with `swift export "
        "--to_cached_dataset true`",
        "LLaMA-Factory": "tokenized_path: a folder, filled by one run on one process first",
        "": "prepare the data set once, before the ranks start, and load what was prepared",
    },
    "eager_rows": {
        "ms-swift": "--strict true",
        "": "let the data set raise on a bad row instead of replacing it",
    },
    "columns": {
        "LLaMA-Factory": "the data set's entry in data/dataset_info.json: formatting (alpaca or "
        "sharegpt), columns and tags as they are in that row",
        "ms-swift": "messages (or query and response), images, rejected_response, …: as in its "
        'page on custom data sets; --columns \'{{"yours": "its"}}\' renames',
        "TRL": "messages, or prompt and completion (chosen and rejected in DPO), images: "
        "dataset.rename_column('yours', 'its')",
        "axolotl": "datasets: type: in the YAML, as that row is (chat_template, alpaca, …)",
        "": "the columns that the collator reads: dataset.rename_column('yours', 'its')",
    },
    "no_packing": {
        "ms-swift": "--packing false --padding_free false",
        "LLaMA-Factory": "packing: false, neat_packing: false",
        "TRL": "--packing false --padding_free false",
        "": "no packing of rows",
    },
    "no_cache": {"": "model.config.use_cache = False (the text config's, too) while it trains"},
    "resume_weights": {
        "ms-swift": "--resume_only_model true",
        "": "start a new run from the checkpoint's weights instead of resuming it",
    },
    "no_resume": {
        "hf": "leave out --resume_from_checkpoint, or point it at a checkpoint that is whole",
        "yaml": "leave out resume_from_checkpoint, or point it at a checkpoint that is whole",
        "": "start from a checkpoint that is whole",
    },
    "leaf_modules": {
        "": "deepspeed.utils.set_z3_leaf_modules(model, [the class of the model's MoE block]) "
        "before the engine is made"
    },
    "use_orig_params": {
        "hf": "--fsdp_config '{{\"use_orig_params\": true}}'",
        "axolotl": "fsdp_config: {{fsdp_use_orig_params: true}}",
        "accelerate": "fsdp_use_orig_params: true in accelerate's config",
        "": "FullyShardedDataParallel(…, use_orig_params=True)",
    },
    "save_bin": {
        "ms-swift": "--save_safetensors false",
        "hf": "--save_safetensors false (transformers 4)",
        "yaml": "save_safetensors: false (transformers 4)",
        "": "save_pretrained(…, safe_serialization=False) (transformers 4)",
    },
    "save_less": {
        "hf": "--save_total_limit 1 --save_only_model true",
        "yaml": "save_total_limit: 1, save_only_model: true",
        "": "keep fewer checkpoints, without optimizer states",
    },
    "fewer_evals": {
        "hf": "--eval_strategy no (evaluate the checkpoints in a run of their own)",
        "yaml": "eval_strategy: no",
        "": "evaluate the checkpoints in a run of their own",
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
    "auto_batch": {
        "hf": _AUTO,
        "yaml": _AUTO,
        "": "train_batch_size = micro-batch per GPU × accumulation × ranks in DeepSpeed's config",
    },
    "ranks_as_saved": {
        "": "as many ranks as the run that saved it had: torchrun --nproc_per_node N … (deepspeed "
        "--num_gpus N, accelerate launch --num_processes N)",
    },
    "ranks_saved": {
        **dict.fromkeys(
            ("ms-swift", "LLaMA-Factory"),
            "NPROC_PER_NODE={savedranks} (× NNODES = {savedranks} in all) in front of the same "
            "command" + _AS_SAVED,
        ),
        **dict.fromkeys(
            ("TRL", "accelerate"),
            "accelerate launch --num_processes {savedranks} … (the rest as it was)" + _AS_SAVED,
        ),
        "": "torchrun --nproc_per_node {savedranks} … (× --nnodes = {savedranks} in all; deepspeed "
        "--num_gpus {savedranks}, accelerate launch --num_processes {savedranks})" + _AS_SAVED,
    },
    "hub": {
        "ms-swift": "--use_hf true with HF_TOKEN set, or ModelScope's id without it",
        "": "hf auth login, or HF_TOKEN in the job's environment",
    },
    "local_model": {
        "ms-swift": "modelscope download --model {hub} --local_dir FOLDER (hf download {hub} "
        "--local-dir FOLDER), then --model FOLDER",
        "LLaMA-Factory": _DOWNLOADED + "model_name_or_path: FOLDER",
        "axolotl": _DOWNLOADED + "base_model: FOLDER",
        "hf": _DOWNLOADED + "--model_name_or_path FOLDER",
        "": _DOWNLOADED + "from_pretrained('FOLDER') (--model_name_or_path FOLDER)",
    },
}


def say(do: Do, facts: Facts) -> str:
    """``do`` as flags of the framework that the log shows, or as plain words."""
    values = named.of(facts)
    action = "resume_saved" if do.action == "resume" and "saved" in values else do.action
    if action == "ranks_saved" and "savedranks" not in values:
        action = "ranks_as_saved"
    spelt = _SPELT.get(action)
    if spelt is None:
        return named.filled(action, values)
    name = facts.framework
    family = "hf" if name in _HF else "yaml" if name in _YAML else ""
    own = spelling.own(action, facts, values)
    words = own or spelt.get(name) or spelt.get(family) or spelt[""]
    values["newest"] = (
        f"ls -td {values['output']}/checkpoint-* | head -1" if "output" in values else _NEWEST
    )
    values["hub"] = values.get("repo") or values.get("modelrepo") or "NAME"
    values.setdefault("starter", "SCRIPT.py")
    values["served"] = values.get("modelfolder") or values.get("modelrepo") or "MODEL"
    said = words.format_map(_Values({**dict(do.values), **values}))
    said = said.replace("DeepSpeed's config", values.get("dsfile", "DeepSpeed's config"))
    return said if own else spelling.in_code(said, facts)


# The newest checkpoint below this folder, where the log names no output folder.
_NEWEST = "ls -td ./*/checkpoint-* ./*/*/checkpoint-* | head -1"


class _Values(dict[str, str]):
    """A value that nobody tells is its name in capitals: OUTPUT."""

    def __missing__(self, name: str) -> str:
        return name.upper()


def known(actions: Iterable[str]) -> list[str]:
    """Those that the table spells, for tests."""
    return [action for action in actions if action in _SPELT]
