"""Flags of Trainers that change neither a training nor its end: what is logged and where, who
loads rows, and what a rehearsal stands for by its nature (rows, the model's folder, the number of
steps, how the model is wrapped)."""

from __future__ import annotations

HARMLESS = frozenset(
    """
    add_version cache_dir cache_path check_model config data_dir data_seed dataloader_num_workers
    dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor dataset
    dataset_dir dataset_name dataset_num_proc dataset_path ddp_backend ddp_timeout deepspeed
    disable_tqdm do_train eval_steps fsdp fsdp_config hub_model_id hub_private_repo hub_strategy
    hub_token include_num_input_tokens_seen include_tokens_per_second load_from_cache_file
    local_rank logging_dir logging_first_step logging_steps logging_strategy log_level max_steps
    model model_author model_id model_name model_name_or_path model_type no_cuda num_train_epochs
    output_dir overwrite_cache overwrite_output_dir plot_loss preprocessing_num_workers
    project report_to run_name save_only_model save_safetensors save_steps save_strategy
    save_total_limit seed swanlab_mode swanlab_project swanlab_token template train_data
    trust_remote_code use_cpu use_hf use_mps_device val_dataset wandb_project
""".split()
)
"""How often it saves and evaluates stands under "not shown" in each answer."""
