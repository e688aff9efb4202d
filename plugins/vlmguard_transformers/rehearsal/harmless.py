"""Flags of Trainers that change neither a training nor its end: what is logged and where, and who
loads rows. Also flags that a rehearsal replaces by its nature: rows, the model's folder, the number
of steps, how the model is wrapped."""

from __future__ import annotations

HARMLESS = frozenset(
    """
    add_version cache_dir cache_path check_model config data_dir data_seed
    dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers
    dataloader_pin_memory dataloader_prefetch_factor dataset dataset_dir dataset_name
    dataset_num_proc dataset_path ddp_backend ddp_timeout deepspeed disable_tqdm do_train eval_steps
    fsdp fsdp_config hub_model_id hub_private_repo hub_strategy hub_token
    include_num_input_tokens_seen include_tokens_per_second load_from_cache_file local_rank
    log_completions log_level logging_dir logging_first_step logging_steps logging_strategy
    max_steps model model_author model_id model_name model_name_or_path model_type no_cuda
    num_completions_to_print num_train_epochs output_dir overwrite_cache overwrite_output_dir
    plot_loss preprocessing_num_workers print_param_status project report_to run_name
    save_only_model save_safetensors save_steps save_strategy save_total_limit seed swanlab_mode
    swanlab_project swanlab_token template train_data trust_remote_code use_cpu use_hf
    use_mps_device use_swanlab val_dataset wandb_project
""".split()
)
"""How often it saves and evaluates stands under "not shown" in each answer."""

_WHY = {
    "a rehearsal runs on a CPU, in float32": """
        bf16_full_eval device_map fp16_full_eval full_determinism half_precision_backend infer_dtype
        max_memory move_model_batches offload_model offload_optimizer tf32 torch_empty_cache_steps
        tpu_num_cores use_flash_ckpt
    """,
    "transformers generates here, not vLLM": """
        sleep_level vllm_enable_prefix_caching vllm_enable_sleep_mode vllm_enforce_eager
        vllm_gpu_memory_utilization vllm_group_port vllm_guided_decoding_regex
        vllm_importance_sampling_cap vllm_importance_sampling_correction vllm_limit_mm_per_prompt
        vllm_max_model_len vllm_max_model_length vllm_mode vllm_model_impl vllm_server_base_url
        vllm_server_host vllm_server_port vllm_server_timeout vllm_structured_outputs_regex
        vllm_tensor_parallel_size
    """,
    "evaluation, and what is chosen by it, was not rehearsed with this": """
        compute_accuracy do_eval do_predict early_stop_interval early_stopping_steps eval_dataset
        eval_dataset_args eval_delay eval_generation_config eval_limit eval_on_each_dataset
        eval_on_start eval_strategy eval_use_evalscope evaluation_strategy extra_eval_args
        generate_max_len greater_is_better load_best_model_at_end metric_for_best_model
        predict_with_generate val_size
    """,
    "rows come from one short file, in its order": """
        buffer_size cached_dataset cached_val_dataset dataset_config dataset_shuffle
        dataset_test_split drop_threshold interleave_prob interleave_probs
        max_example_num_per_dataset max_samples mix_strategy small_threshold val_dataset_shuffle
    """,
    "generation follows the batch of the rehearsal": """
        generation_batch_size num_iterations steps_per_generation
    """,
    "the model stands on this disk": """
        config_name model_revision ms_hub_token om_hub_token token tokenizer_name
    """,
    "nothing is sent to a hub": "push_to_hub",
    "batches of a tiny model fit": "auto_find_batch_size",
    "checkpoints were not rehearsed with this": """
        create_checkpoint_symlink load_args only_merge_lora_model save_lora_every_epoch
        save_merged_lora_model
    """,
    "the last batch was not rehearsed": "dataloader_drop_last",
}
REASONS = {name: why for why, names in _WHY.items() for name in names.split()}
"""Why a flag is not rehearsed as it stands, where no note of the rehearsal says so."""
