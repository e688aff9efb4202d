"""Arguments that have another name in another release, or none."""

from __future__ import annotations

# Old name → the one that took its place: fields of TrainingArguments in transformers 4.49 and
# 5.23, of TRL 0.16 and 1.16, of ms-swift 3.2 and 4.6; and back, for a release that is too old.
RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "eval_strategy": "evaluation_strategy",
    "warmup_ratio": "warmup_steps",  # below 1 it is a share, from transformers 5 on
    "no_cuda": "use_cpu",
    "use_cpu": "no_cuda",
    "tokenizer": "processing_class",
    "processing_class": "tokenizer",
    "max_seq_length": "max_length",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "group_by_length": "train_sampling_strategy",
    "include_inputs_for_metrics": "include_for_metrics",
    "include_tokens_per_second": "include_num_input_tokens_seen",
    "push_to_hub_token": "hub_token",
    "push_to_hub_model_id": "hub_model_id",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config",
    "use_liger": "use_liger_kernel",
    "sft_type": "tuner_type",
    "train_type": "tuner_type",
    "tuner_type": "train_type",
    "gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "tensor_parallel_size": "vllm_tensor_parallel_size",
    "dtype": "torch_dtype",
    "torch_dtype": "dtype",
}
# Names that newer releases do not have any more, and why nothing takes their place.
DROPPED = {
    "overwrite_output_dir": "transformers 5 always writes into the folder",
    "save_safetensors": "transformers 5 always saves safetensors",
    "logging_dir": "transformers 5 reads TENSORBOARD_LOGGING_DIR instead",
    "half_precision_backend": "bf16 or fp16 alone decide",
    "max_prompt_length": "TRL 1 bounds the whole row by max_length",
    "vllm_device": "vllm_mode colocate or server decides now",
    "use_legacy_prediction_loop": "there is one loop only",
}
# Of Lightning's Trainer: 1.7 and 2.0 took these away.
LIGHTNING = {
    "gpus": "accelerator='gpu', devices=N",
    "num_processes": "devices=N",
    "tpu_cores": "accelerator='tpu', devices=N",
    "weights_save_path": "default_root_dir=…",
    "progress_bar_refresh_rate": "callbacks=[TQDMProgressBar(refresh_rate=N)]",
    "checkpoint_callback": "enable_checkpointing=…",
    "resume_from_checkpoint": "trainer.fit(model, ckpt_path=…)",
    "distributed_backend": "strategy='ddp'",
    "replace_sampler_ddp": "use_distributed_sampler=…",
    "weights_summary": "enable_model_summary=…",
    "terminate_on_nan": "detect_anomaly=…",
}
