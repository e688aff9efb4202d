"""Flags of ms-swift that a rehearsal leaves out or sets."""

from __future__ import annotations

DROPPED = (
    (("use_cpu", "ddp_backend", "device_map", "max_memory"), ""),
    (("resume_from_checkpoint", "resume_only_model"), "begins at step 0"),
    (("adapters", "ref_adapters"), "the adapter begins anew"),
    (("use_liger_kernel",), "Liger's kernels need a GPU"),
    (("quant_method", "quant_bits", "bnb_4bit_compute_dtype", "bnb_4bit_quant_type",
      "bnb_4bit_use_double_quant", "bnb_4bit_quant_storage", "hqq_axis"),
     "weights are not quantised"),
    (("packing", "packing_length", "packing_num_proc", "padding_free"),
     "needs flash attention: rows stand by themselves"),
    (("torch_compile", "torch_compile_backend", "torch_compile_mode"), "not compiled"),
    (("tf32", "half_precision_backend", "bf16_full_eval", "fp16_full_eval", "eval_on_start",
      "eval_delay", "do_eval", "dataloader_prefetch_factor", "dataloader_persistent_workers",
      "dataloader_multiprocessing_context"), ""),
    (("eval_dataset", "eval_dataset_args", "eval_limit", "eval_generation_config",
      "eval_use_evalscope", "extra_eval_args"), ""),
    (("streaming", "dataset_prefetch"), "rows are read from a file"),
    (("group_by_length",), "rows come in the file's order"),
    (("offload_optimizer", "offload_model", "use_flash_ckpt", "move_model_batches"), ""),
    (("vllm_mode", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size", "sleep_level",
      "vllm_max_model_len", "vllm_server_host", "vllm_server_port", "vllm_server_base_url",
      "vllm_limit_mm_per_prompt", "vllm_enforce_eager", "vllm_enable_prefix_caching"), ""),
    (("load_best_model_at_end", "metric_for_best_model", "predict_with_generate", "eval_steps",
      "early_stop_interval", "save_steps", "num_train_epochs", "create_checkpoint_symlink",
      "push_to_hub", "hub_token", "cached_dataset", "cached_val_dataset", "load_args",
      "interleave_prob", "dataset_shuffle", "val_dataset_shuffle"), ""),
)  # fmt: skip
EVERY = {
    "split_dataset_ratio": 0, "logging_steps": 1, "save_strategy": "no", "eval_strategy": "no",
    "report_to": "none", "add_version": "false", "check_model": "false", "use_hf": "true",
    "dataloader_num_workers": 0, "dataset_num_proc": 1, "dataset_shuffle": "false",
    "train_dataloader_shuffle": "false", "load_from_cache_file": "false",
}  # fmt: skip
NUMBERS = {
    "torch_dtype": "float32", "fp16": "false", "bf16": "false", "optim": "sgd",
    "max_grad_norm": 0, "weight_decay": 0, "lora_dropout": 0, "warmup_ratio": 0,
    "lr_scheduler_type": "constant",
}  # fmt: skip
ADAPTIVE = ("optimizer", "optim", "optim_args", "optim_target_modules", "lr_scheduler_kwargs",
             "lr_scheduler_type", "use_galore", "galore_target_modules", "neftune_noise_alpha",
             "vit_lr", "aligner_lr", "lorap_lr_ratio", "warmup_steps")  # fmt: skip
UNWRAPPED = ("deepspeed", "fsdp", "fsdp_config", "ddp_find_unused_parameters", "ddp_static_graph",
              "ddp_bucket_cap_mb", "ddp_broadcast_buffers")  # fmt: skip
