"""How a run is started, resumed and saved: ranks, ports, folders, hubs, workers, trackers, rows."""

from __future__ import annotations

from vlmguard.explain import spelling

_AS_SAVED = ": as many ranks as the run that saved it had, not {ranksnow}"
_HERE = ": its weights alone (config and tokenizer lie beside them), on the ranks of this run"
_DOWNLOADED = "hf download {hub} --local-dir FOLDER, then "

_WAITS = "Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours={hours}))])"

SPELT: dict[str, dict[str, str]] = {
    "rank_logs": {
        "": f"PET_LOG_DIR=LOGS PET_REDIRECTS=3 in front of the same command: {spelling.LOGS}",
    },
    "launch_blocking": {
        "": "CUDA_LAUNCH_BLOCKING=1 in front of the same command: the traceback then names the "
        "line",
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
    "adapter_rank": {
        "ms-swift": "--lora_rank {savedrank}, as the adapter has it: this run makes {rank}",
        "TRL": "--lora_r {savedrank}, as the adapter has it: this run makes {rank}",
        "LLaMA-Factory": "lora_rank: {savedrank}, as the adapter has it: this run makes {rank}",
        "axolotl": "lora_r: {savedrank}, as the adapter has it: this run makes {rank}",
        "": "LoraConfig(r={savedrank}), as the adapter has it: this run makes {rank}",
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
    "eval_by_steps": {
        "hf": "--eval_strategy steps (evaluation_strategy before 4.41)",
        "yaml": "eval_strategy: steps",
        "": 'TrainingArguments(eval_strategy="steps") (evaluation_strategy before 4.41)',
    },
    "save_by_steps": {
        "hf": "--save_strategy steps (as the evaluation goes)",
        "yaml": "save_strategy: steps",
        "": 'TrainingArguments(save_strategy="steps") (as the evaluation goes)',
    },
    "eval_by_epoch": {
        "hf": "--eval_strategy epoch (evaluation_strategy before 4.41)",
        "yaml": "eval_strategy: epoch",
        "": 'TrainingArguments(eval_strategy="epoch") (evaluation_strategy before 4.41)',
    },
    "save_by_epoch": {
        "hf": "--save_strategy epoch (as the evaluation goes)",
        "yaml": "save_strategy: epoch",
        "": 'TrainingArguments(save_strategy="epoch") (as the evaluation goes)',
    },
    "save_steps_round": {
        "hf": "--save_steps {savesteps}: a multiple of eval_steps",
        "yaml": "save_steps: {savesteps}: a multiple of eval_steps",
        "": "TrainingArguments(save_steps={savesteps}): a multiple of eval_steps",
    },
    "label_names": {
        "hf": '--label_names labels (in code: TrainingArguments(label_names=["labels"]))',
        "yaml": "label_names: [labels]",
        "": 'TrainingArguments(label_names=["labels"])',
    },
    "own_batches": {
        "hf": "--accelerator_config '{{\"dispatch_batches\": false}}' (in code: "
        'TrainingArguments(accelerator_config={{"dispatch_batches": False}}); before transformers '
        "4.38: dispatch_batches=False)",
        "yaml": "accelerator_config: {{dispatch_batches: false}}",
        "accelerate": "Accelerator(dataloader_config=DataLoaderConfiguration("
        "dispatch_batches=False)) (from accelerate.utils; before 0.28: "
        "Accelerator(dispatch_batches=False))",
        "": "Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False)) "
        "(from accelerate.utils; a Trainer: TrainingArguments(accelerator_config="
        '{{"dispatch_batches": False}}))',
    },
    "small_tables": {
        "LLaMA-Factory": "preprocessing_batch_size: 100 (and preprocessing_num_workers twice "
        "what it is): fewer rows in one table",
        "": "writer_batch_size=100 in dataset.map(…) and load_dataset's builder (batch_size=100, "
        "too, where map is batched): fewer rows in one table",
    },
    "no_unsloth": {
        "LLaMA-Factory": "use_unsloth: false",
        "ms-swift": "--tuner_backend peft",
        "": "AutoModelForCausalLM.from_pretrained(…) in place of FastLanguageModel.from_pretrained"
        "(…), without device_map; or one process without DeepSpeed",
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
    "serve_here": {
        "ms-swift": "--vllm_server_host 127.0.0.1 in the training command ({nowhere} is no host's "
        "address), and in another terminal, before it and on a card of its own: "
        "CUDA_VISIBLE_DEVICES={free} swift rollout --model {served} --port {serverport}",
        "": "--vllm_server_host 127.0.0.1 in the training command ({nowhere} is no host's "
        "address), and in another terminal, before it and on a card of its own: "
        "CUDA_VISIBLE_DEVICES={free} trl vllm-serve --model {served} --port {serverport}",
    },
    "serve": {
        "ms-swift": "swift rollout --model {served}, on cards of its own, before the training",
        "": "trl vllm-serve --model {served}, on cards of its own, before the training",
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
    "timeout": {
        "hf": "--ddp_timeout {seconds}",
        "LLaMA-Factory": "ddp_timeout: 180000000 (the time-out of its own examples)",
        "yaml": "ddp_timeout: {seconds}",
        "accelerate": _WAITS + ", in place of Accelerator() (grep -rn 'Accelerator(' "
        "--include='*.py' . finds it; from datetime import timedelta, from accelerate import "
        "InitProcessGroupKwargs)",
        "": _WAITS + ", or init_process_group(timeout=timedelta(hours={hours})): whichever call "
        "grep -rnE 'Accelerator\\(|init_process_group|init_distributed' --include='*.py' . finds "
        "(from datetime import timedelta, from accelerate import InitProcessGroupKwargs; "
        "transformers: --ddp_timeout {seconds})",
    },
    "eval_all": {
        "hf": "eval_dataset.select(range(500)) where the trainer is made (--max_eval_samples 500, "
        "where the script has it); and no work that one rank does alone in compute_metrics",
        "ms-swift": "--split_dataset_ratio 0.001, or a smaller --val_dataset",
        "LLaMA-Factory": "max_samples: 500 with an eval_dataset of its own, or a smaller val_size",
        "axolotl": "val_set_size: 500",
        "": "evaluate on every rank: accelerator.prepare(eval_loader), then "
        "accelerator.gather_for_metrics((predictions, labels)) (torch: a DistributedSampler, and "
        "dist.all_gather_object); or on fewer rows; dist.barrier() behind it on every rank",
    },
    "workers": {
        "hf": "--dataloader_num_workers 0",
        "yaml": "dataloader_num_workers: 0",
        "accelerate": "DataLoader(num_workers=0)",
        "": "DataLoader(num_workers=0), for a Trainer --dataloader_num_workers 0",
    },
    "workers_fewer": {
        "hf": "--dataloader_num_workers {few}",
        "yaml": "dataloader_num_workers: {few}",
        "": "DataLoader(num_workers={few}), for a Trainer --dataloader_num_workers {few}",
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
    "map_few": {
        "ms-swift": "--dataset_num_proc 8",
        "TRL": "--dataset_num_proc 8",
        "LLaMA-Factory": "preprocessing_num_workers: 8",
        "axolotl": "dataset_processes: 8",
        "": "dataset.map(…, num_proc=8)",
    },
    "map_more": {
        "ms-swift": "--dataset_num_proc $(nproc)",
        "TRL": "--dataset_num_proc $(nproc)",
        "LLaMA-Factory": "preprocessing_num_workers: 16 (nproc counts the processors)",
        "axolotl": "dataset_processes: 16 (nproc counts the processors)",
        "": "dataset.map(…, num_proc=N) with N of nproc's (often --preprocessing_num_workers)",
    },
    "map_and_wait": {
        "ms-swift": "--dataset_num_proc $(nproc)",  # its own ddp_timeout is 5,000 hours
        "TRL": "--ddp_timeout 18000 --dataset_num_proc $(nproc)",
        "LLaMA-Factory": "ddp_timeout: 180000000, preprocessing_num_workers: 16 (the time-out of "
        "its own examples; nproc counts the processors)",
        "axolotl": "ddp_timeout: 18000, dataset_processes: 16",
        "transformers": "--ddp_timeout 18000, and dataset.map(…, num_proc=N) with N of nproc's",
        "": "init_process_group(timeout=timedelta(hours=5)) (transformers: --ddp_timeout 18000), "
        "and dataset.map(…, num_proc=N) with N of nproc's",
    },
    "preprocess": {
        "ms-swift": "--lazy_tokenize true, or prepare once with `swift export "
        "--to_cached_dataset true`",
        "LLaMA-Factory": "tokenized_path: FOLDER, in a first run on one process (until it says "
        "that the folder is saved) and in all later ones",
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
        "axolotl": "the datasets' type in the YAML, as that row is (chat_template, alpaca, …)",
        "": "the columns that the collator reads: dataset.rename_column('yours', 'its')",
    },
    "resume_weights": {
        "ms-swift": "--resume_only_model true",
        "": "start a new run from the checkpoint's weights instead of resuming it",
    },
    "weights_of": {
        "ms-swift": "--resume_from_checkpoint {folder} --resume_only_model true" + _HERE,
        "LLaMA-Factory": "model_name_or_path: {folder}, output_dir: ANOTHER (of LoRA "
        "adapter_name_or_path), and no resume_from_checkpoint (in the old output_dir it resumes by "
        "itself)" + _HERE,
        "axolotl": "base_model: {folder} (of LoRA lora_model_dir), and no resume_from_checkpoint"
        + _HERE,
        "hf": "--model_name_or_path {folder} --output_dir ANOTHER in place of the base model, and "
        "no --resume_from_checkpoint (in the old folder LLaVA's and InternVL's scripts resume by "
        "themselves)" + _HERE,
        "": "from_pretrained('{folder}') in place of the base model, and no resume_from_checkpoint"
        " (transformers: --model_name_or_path {folder})" + _HERE,
    },
    "adapter_of": {
        "ms-swift": "--resume_from_checkpoint {folder} --resume_only_model true" + _HERE,
        "LLaMA-Factory": "adapter_name_or_path: {folder}, output_dir: ANOTHER, and no "
        "resume_from_checkpoint (in the old output_dir it resumes by itself)" + _HERE,
        "axolotl": "lora_model_dir: {folder}, and no resume_from_checkpoint" + _HERE,
        "": "PeftModel.from_pretrained(model, '{folder}', is_trainable=True) in place of "
        "get_peft_model, and no resume_from_checkpoint" + _HERE,
    },
    "no_resume": {
        "hf": "leave out --resume_from_checkpoint, or point it at a checkpoint that is whole",
        "yaml": "leave out resume_from_checkpoint, or point it at a checkpoint that is whole",
        "": "start from a checkpoint that is whole",
    },
    "save_bin": {
        "ms-swift": "--save_safetensors false",
        "hf": "--save_safetensors false (transformers 4)",
        "yaml": "save_safetensors: false (transformers 4)",
        "": "save_pretrained(…, safe_serialization=False) (transformers 4)",
    },
    "save_local": {
        "hf": "--save_only_model true, and --output_dir on a disk of the machine itself (copy from "
        "there)",
        "yaml": "save_only_model: true, and an output_dir on a disk of the machine itself (copy "
        "from there)",
        "": "save to a disk of the machine itself, then copy; the weights alone, without the "
        "optimizer",
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
