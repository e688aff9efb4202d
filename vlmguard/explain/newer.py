"""Arguments that came late: an older release refuses them, its newest takes them.

Fields of the argument classes of ms-swift 4.6 that 3.2 lacks, and of TRL 1.16 that 0.16 lacks.
"""

from __future__ import annotations

import re
from typing import Any

from vlmguard.explain import named_code
from vlmguard.explain.settled import fault

_NEWER = {
    "ms-swift": frozenset(
        """
        add_non_thinking_prefix advantage_estimator advantage_reweight agent_template
        aligner_lr cached_dataset cached_val_dataset callbacks center_rewards_coefficient
        chord_enable_phi_function chord_mu_decay_steps chord_mu_peak chord_mu_valley
        chord_mu_warmup_steps chord_sft_dataset chord_sft_per_device_train_batch_size
        completion_length_limit_scope context_manager dataloader_in_order
        dataloader_multiprocessing_context dataset_shuffle ddp_static_graph
        decision_drop_instructions decision_shuffle_fields decision_state_as_text
        decision_subsample_options deepspeed_autotp_size delta disable_auto_column_mapping
        disable_ignore_empty_think discopop_tau dynamic_sample early_stop_interval
        enable_channel_loss enable_dft_loss enable_flattened_weight_sync enable_jit_checkpoint
        enable_npu_model_patch enable_thinking epsilon_high eval_dataset_args
        eval_generation_config eval_metric eval_use_evalscope experts_impl extra_eval_args
        fipo_clip_high_only fipo_clip_range fipo_decay_rate fipo_safety_threshold
        freeze_parameters_regex generation_batch_size gkd_logits_topk gym_env hub_revision
        importance_sampling_level init_strategy interleave_prob is_binary_loss_scale
        kl_in_reward ld_alpha liger_kernel_config lmbda lmdeploy_quant_policy lmdeploy_tp
        lmdeploy_vision_batch_size load_from_cache_file log_entropy
        log_rollout_offpolicy_metrics loss_weights max_epochs max_resample_times max_turns
        mcore_adapter mcore_model min_p move_model_batches mrl_dims multi_turn_scheduler
        new_special_tokens num_generations_eval num_sampling_batch_size num_sampling_batches
        off_policy_sequence_mask_delta offload_model offload_optimizer offload_teacher_model
        overlong_filter packing_length packing_num_proc packing_strategy padding_free
        parallelism_config preserve_thinking problem_type project real_tau ref_adapter_name
        ref_adapters ref_model_mixup_alpha ref_model_sync_steps reference_free
        reranker_use_activation response_prefix resume reward_model_plugin reward_template
        rlsd_lambda rlsd_lambda_decay_steps rlsd_lambda_warmup_steps rlsd_negative_only
        rlsd_reweight_clip_range rollout_importance_sampling_mode
        rollout_importance_sampling_threshold router_aux_loss_coef save_missing_weights
        scale_rewards sdar_gate_beta sdar_loss_coef seq_kd sft_alpha sglang_context_length
        sglang_disable_cuda_graph sglang_disable_custom_all_reduce sglang_dp_size
        sglang_enable_dp_attention sglang_enable_ep_moe sglang_ep_size sglang_kv_cache_dtype
        sglang_mem_fraction_static sglang_pp_size sglang_quantization
        sglang_speculative_algorithm sglang_speculative_eagle_topk
        sglang_speculative_num_draft_tokens sglang_speculative_num_steps sglang_tp_size
        shuffle_buffer_size sleep_level soft_cache_length soft_max_length steps_per_generation
        stopping_strategy structured_outputs_regex swanlab_email_language
        swanlab_notification_method swanlab_receiver_email swanlab_secret swanlab_sender_email
        swanlab_smtp_port swanlab_smtp_server swanlab_webhook_url sync_ref_model
        target_parameters tau_neg tau_pos teacher_adapters teacher_deepspeed teacher_kl_coef
        teacher_model teacher_model_revision teacher_model_server teacher_model_type
        teacher_tag_key template_mode test_convert_dtype test_convert_precision thread_count
        to_cached_dataset to_hf to_mcore top_entropy_quantile trackio_bucket_id
        trackio_space_id trackio_static_space_id train_dataloader_shuffle
        train_sampling_strategy trainable_parameters_regex use_cache use_flash_ckpt
        use_gym_env use_logits_to_keep val_dataset_shuffle vit_gradient_checkpointing vit_lr
        vllm_data_parallel_size vllm_disable_cascade_attn vllm_disable_custom_all_reduce
        vllm_enable_expert_parallel vllm_enable_lora vllm_engine_kwargs
        vllm_mm_processor_cache_gb vllm_mode vllm_pipeline_parallel_size vllm_quantization
        vllm_reasoning_parser vllm_server_base_url vllm_server_group_port vllm_server_host
        vllm_server_pass_dataset vllm_server_port vllm_server_timeout vllm_speculative_config
        vllm_tensor_parallel_size vllm_use_async_engine wandb_log_unique_prompts
        write_batch_size
        """.split()
    ),
    "TRL": frozenset(
        """
        activation_checkpointing activation_checkpointing_kwargs activation_offloading
        assistant_only_loss bnb_4bit_quant_storage cast_lm_head_to_fp32 chat_template_kwargs
        chat_template_path completion_only_loss dataloader_in_order
        dataloader_multiprocessing_context ddp_static_graph delta enable_jit_checkpoint
        entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target
        eos_token generation_batch_size generation_kwargs hub_revision
        importance_sampling_level ld_alpha liger_kernel_config log_completions_hub_repo
        log_multimodal log_unique_prompts lora_target_parameters loss_weights
        mask_truncated_completions max_tool_calling_iterations multi_objective_aggregation
        normalize_advantages num_completions_to_print num_generations_eval
        off_policy_mask_threshold packing_strategy pad_to_multiple_of parallelism_config
        project router_aux_loss_coef sapo_temperature_neg sapo_temperature_pos shuffle_dataset
        steps_per_generation teacher_model_revision top_entropy_quantile trackio_bucket_id
        trackio_space_id trackio_static_space_id train_sampling_strategy
        transformers_continuous_batching_config use_adaptive_entropy use_bias_correction_kl
        use_cache use_transformers_continuous_batching use_transformers_paged vespo_k_neg
        vespo_k_pos vespo_lambda_neg vespo_lambda_pos vllm_enable_sleep_mode vllm_group_port
        vllm_importance_sampling_cap vllm_importance_sampling_clip_max
        vllm_importance_sampling_clip_min vllm_importance_sampling_correction
        vllm_importance_sampling_mode vllm_max_model_length vllm_mode vllm_model_impl
        vllm_server_base_url vllm_structured_outputs_regex vllm_tensor_parallel_size
        """.split()
    ),
}
_PACKAGES = {"ms-swift": "ms-swift", "TRL": "trl"}
_TOLD = {"ms-swift": (4, 6), "TRL": (1, 16)}
_CHECKOUT = re.compile(r"File \"(/[\w./@+~-]{1,200}?/(?:ms-swift|trl))/(?:swift|trl)/")


def upgrade(facts: Any) -> str:
    """The command that brings a release with the argument that was refused, or ""."""
    argument = named_code.argument(facts.message)
    if argument not in _NEWER.get(facts.framework, ()):
        return ""
    package = _PACKAGES[facts.framework]
    if fault.numbers(facts.releases.get(package, "")) >= _TOLD[facts.framework]:
        return ""
    command = f"python -m pip install -U {package}"
    if checkout := _CHECKOUT.search(facts.trace):
        command = f"git -C {checkout[1]} pull; python -m pip install -e {checkout[1]}"
    return f"{command}: its newest release takes --{argument}, the one that is here does not"
