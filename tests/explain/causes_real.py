"""Whole logs of real commands that a user's slip made fail: name → (class or verdict, rank, what it was).

Printed by the launchers themselves (`swift sft` with NPROC_PER_NODE, torchrun, deepspeed, accelerate
launch, llamafactory-cli, `colossalai run`), on two gloo ranks, without vlmguard, by ms-swift 4.6 and
3.2, TRL 1.16 with transformers 5.23, LLaMA-Factory 0.9.5, FlagEmbedding 1.4.2, and ColossalAI 0.5; the
models are tiny ones of Qwen2-VL's class (of Llama's and XLM-R's for FlagEmbedding). ms-swift's dump of
its arguments is cut out, paths of the machine are replaced, long lines are cut; of the last three
the frames of the guard, which was switched off, are left out.
"""

# ruff: noqa: E501
from __future__ import annotations

REAL: dict[str, tuple[str, int | None, str]] = {
    # ms-swift
    "sw_out_proc": ("VG580", None, "swift sft --output_dir /proc/out"),
    "sw_ds_syntax": ("VG575", None, "swift sft --deepspeed ds.json, a comma too many in the file"),
    "sw_resume_missing": ("VG553", None, "swift sft --resume_from_checkpoint of a folder that is not there"),
    "sw_nccl": ("VG537", None, "swift sft --ddp_backend nccl, torch without CUDA"),
    "sw_yaml_missing": ("VG553", None, "swift sft configs/train.yaml, which is not there"),
    "sw_all_frozen": ("VG507", None, "swift sft --tuner_type full, all parts frozen"),
    "sw_sp3": ("VG594", None, "swift sft --sequence_parallel_size 3 on two ranks"),
    "sw_abort_rank0": ("unknown", 0, "a callback that aborts rank 0: rank 1 only loses its connection"),
    "sw_dpo_no_rejected": ("VG554", None, "swift rlhf --rlhf_type dpo with rows of SFT: each row's failure is logged, then none is left"),
    "sw_template_wrong": ("VG574", None, "swift sft --template qwen9_vl"),
    "sw_port": ("VG542", None, "swift sft with MASTER_PORT that is taken"),
    "sw_node_never_comes": ("unfinished", None, "NNODES=2, and the other node is not there"),
    # scripts around transformers' Trainer
    "pl_gather_object": ("unknown", 1, "a callback that pickles a lambda on rank 1"),
    "pl_no_eval_data": ("VG587", None, "--eval_strategy steps without eval_dataset"),
    "pl_best_metric_missing": ("VG587", None, "--metric_for_best_model f1 without compute_metrics"),
    "pl_collective_tensor": ("VG588", None, "all_gather into a list of one tensor on two ranks"),
    "pl_ckpt_broken_bin": ("VG541", None, "torch.load of a file that is none"),
    "pl_nproc_gpu": ("VG537", None, "torchrun --nproc_per_node gpu, no GPU"),
    "pl_resume_true_none": ("VG550", None, "resume_from_checkpoint=True, nothing saved yet"),
    "pl_compile": ("unfinished", None, "--torch_compile: still compiling; dynamo's warnings hold frames"),
    "pl_ds_hostfile": ("VG575", None, "deepspeed --hostfile hosts --include worker-3:0,1, a host that the file lacks"),
    "pl_restarts": ("unknown", 1, "torchrun --max-restarts 1, a callback that raises on rank 1 both times"),
    "pl_segv_accelerate": ("VG558", 1, "accelerate launch, a segmentation fault in rank 1"),
    "pl_sigkill_ds": ("VG532", None, "deepspeed --num_gpus 2, rank 1 killed by SIGKILL"),
    "pl_worker_killed_accelerate": ("VG544", 0, "accelerate launch, a data-loader worker of rank 0 leaves"),
    "pl_image_rank1_tee": ("VG555", 1, "torchrun --tee 3, an image that rank 1 lacks"),
    "pl_script_missing_ds": ("VG590", None, "deepspeed trian.py"),
    # TRL and LLaMA-Factory
    "tr_grpo_raise": ("VG581", 1, "torchrun -m trl.scripts.grpo, a reward that divides by zero on rank 1"),
    "tr_accel_unknown": ("VG575", None, "accelerate launch --config_file with a misspelt key"),
    "lf_key": ("VG553", None, "llamafactory-cli train, a misspelt key in the YAML"),
    "lf_yaml_missing": ("VG553", None, "llamafactory-cli train of a YAML that is not there"),
    # ms-swift 3.2
    "s3_zero5": ("VG575", None, "swift sft --deepspeed zero5"),
    "s3_data_missing": ("VG568", None, "swift sft --dataset of a file that is not there: taken for a data set of the hub"),
    # FlagEmbedding: torchrun -m FlagEmbedding.finetune.embedder.encoder_only.base
    "fe_flag": ("VG553", None, "--query_max_lenght 64"),
    "fe_csv": ("VG564", None, "--train_data train.csv, which it passes over"),
    "fe_no_pos": ("VG554", None, "rows with passage in place of pos"),
    "fe_too_long": ("VG511", None, "--passage_max_len 2048, a model of 518 positions"),
    # ColossalAI: a script around the booster
    "ca_text_only": ("VG508", None, "Gemini, text alone while the tower trains"),
    "ca_lora": ("VG509", None, "booster.enable_lora under Gemini; the call's own line is in the traceback"),
    "ca_argument": ("VG553", None, "GeminiPlugin(placement_strategy=…), an argument that it does not have"),
    "ca_tp3": ("VG594", None, "colossalai run, HybridParallelPlugin(tp_size=3) on two ranks"),
    "ca_host_include": ("VG536", None, "colossalai run --hostfile hosts --include node-3: names that nobody resolves"),
    "co_hostfile": ("VG590", None, "colossalai run --hostfile of a file that is not there"),
    # healthy, with frightening words
    "ok_pl_restart": ("finished", None, "torchrun --max-restarts 1, the second attempt finishes"),
    "ok_pl_thread": ("finished", None, "a side thread that raises in each step"),
    "ok_sw_caught": ("finished", None, "an exception that a callback prints and survives in each step"),
}
