"""transformers' Trainer and TRL's: arguments and rows that do not go together."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_BEST = "requires the save and eval"
# Attributes of the Trainer that a copy of an older one still asks for → a release that has them,
# and the first without.
_GONE = {
    **dict.fromkeys(("sharded_ddp", "do_grad_scaling", "use_cuda_amp"), ("==4.28.1", "4.35")),
    "deepspeed": ("==4.28.1", "4.30"),
    "use_apex": ("<5", "5"),
}


# Arguments that TRL's trainers handed to their configurations, in 0.13.
_CONFIGURED = {
    "SFT": "dataset_text_field max_seq_length packing dataset_num_proc dataset_batch_size "
    "num_of_sequences chars_per_token neftune_noise_alpha model_init_kwargs dataset_kwargs "
    "eval_packing",
    "DPO": "beta label_smoothing loss_type max_length max_prompt_length max_target_length "
    "label_pad_token_id padding_value truncation_mode generate_during_eval is_encoder_decoder "
    "precompute_ref_log_probs dataset_num_proc model_init_kwargs ref_model_init_kwargs "
    "model_adapter_name ref_adapter_name reference_free force_use_ref_model",
}


def _configured() -> tuple[Settled, ...]:
    found = []
    for kind, names in _CONFIGURED.items():
        for name in names.split():
            field = "max_length" if name == "max_seq_length" else name
            renamed = " (max_seq_length before TRL 0.16)" if field != name else ""
            step = (
                f"args={kind}Config({field}=…, …){renamed} for the trainer, in place of {name}=… "
                f"in {kind}Trainer(…): TRL's newer ones take it there; for the script as it is: "
                "python -m pip install 'trl<0.13'"
            )
            said = f"{kind}Trainer.__init__() got an unexpected keyword argument '{name}'"
            found.append(Settled(said=(said,), steps=(step,)))
    return tuple(found)


def _strategies() -> tuple[Settled, ...]:
    """Both alike, by what each of them is."""
    found = []
    for now, wanted in (("NO", "STEPS"), ("NO", "EPOCH"), ("STEPS", "EPOCH"), ("EPOCH", "STEPS")):
        follows = now == "NO"  # an evaluation is missing; else the saving goes by the evaluation
        action = f"eval_by_{wanted.lower()}" if follows else f"save_by_{now.lower()}"
        told = (f"Strategy.{now} - Save", f"Strategy.{wanted}")
        found.append(Settled(said=(_BEST, *told), steps=(action,)))
    for now in ("STEPS", "EPOCH"):
        told = (f"Strategy.{now} - Save", "Strategy.NO")
        found.append(Settled(said=(_BEST, *told), steps=(f"save_by_{now.lower()}",)))
    return tuple(found)


# TRL's trainers take processing_class since 0.12; before, they hand tokenizer to transformers'.
_TRAINERS = "SFT DPO KTO ORPO CPO BCO GKD Reward PPO PPOv2 RLOO XPO NashMD OnlineDPO".split()
TABLE = (
    Settled(
        said=("appears to be vision-related", "does not seem to be a vision-language model"),
        steps=(
            "processing_class=processor, of AutoProcessor.from_pretrained(…), in place of "
            "processor.tokenizer or a tokenizer: SFTTrainer takes the model for one that sees by "
            "that; or no processing_class at all",
        ),
        why="TRL tells a model that sees by the processor that it is given, and got a tokenizer",
        code="VG553",
    ),
    *_strategies(),
    *_configured(),
    *(
        Settled(
            said=(
                f" {kind}Trainer.__init__() got an unexpected keyword argument 'processing_class'",
            ),
            steps=(
                f"python -m pip install -U 'trl>=0.12': whose {kind}Trainer takes it; or "
                "tokenizer=tokenizer for the one that is here",
            ),
            mended="trl 0.12",
        )
        for kind in _TRAINERS
    ),
    Settled(
        said=(" Trainer.__init__() got an unexpected keyword argument 'tokenizer'",),
        trace=("-packages/trl/trainer/",),
        steps=(
            "python -m pip install -U 'trl>=0.12': and processing_class=tokenizer in {place}: "
            "older ones hand tokenizer to transformers' Trainer, which 5 does not take any more; "
            "for the script as it is: python -m pip install 'transformers<4.46'",
        ),
        mended="trl 0.12",
    ),
    Settled(
        said=("Mixed precision training", "can only be used on CUDA"),
        steps=(
            "python -c 'import os, torch; print(torch.__version__, torch.version.cuda, "
            'torch.cuda.is_available(), os.environ.get("CUDA_VISIBLE_DEVICES"))\'; nvidia-smi -L: '
            "+cpu or None: a torch without CUDA: python -m pip install --force-reinstall torch "
            "torchvision --index-url https://download.pytorch.org/whl/cu126; a CUDA and False: "
            "the driver is older, or CUDA_VISIBLE_DEVICES names a card that is not listed (the "
            "first one is 0)",
            "--fp16 false --bf16 false: where it is to run on the CPU",
        ),
        why="fp16 was asked for, and torch sees no GPU",
        code="VG537",
    ),
    Settled(
        said=("module must have its parameters and buffers on device", "on device: cuda:"),
        trace=("parallel/data_parallel.py",),
        steps=(
            "CUDA_VISIBLE_DEVICES=0 in front of the command: where the model fits one card; for "
            "all cards: torchrun --nproc_per_node $(nvidia-smi -L | wc -l) in place of python, "
            'with device_map={"": int(os.environ["LOCAL_RANK"])}',
            "python -m pip install -U 'transformers>=4.28' accelerate: where one model is to lie "
            'over all cards (device_map="auto"): newer ones do not copy it to each of them',
        ),
        why=(
            "one process sees several cards: the model lies over all of them (device_map), and "
            "the Trainer also wrapped it in DataParallel, which wants it whole on the first"
        ),
    ),
    Settled(
        said=("StopIteration",),
        trace=("next(self.parameters())",),
        steps=(
            "CUDA_VISIBLE_DEVICES=0 in front of the command: one card; for all of them: torchrun "
            "--nproc_per_node $(nvidia-smi -L | wc -l) in place of python (DDP)",
            "python -m pip install -U transformers: newer models do not ask a replica for its "
            "parameters; in code of your own: the dtype or device of a buffer or of the input",
        ),
        why=(
            "python with several cards wraps the model in DataParallel, whose replicas have no "
            "parameters of their own since torch 1.5; this forward asks for the first of them"
        ),
        code="VG584",
    ),
    Settled(
        said=("load_best_model_at_end requires the saving steps to be a round multiple",),
        steps=("save_steps_round",),
    ),
    Settled(
        said=("KeyError", "'eval_loss'"),
        steps=("label_names",),
        why=(
            "the evaluation gave no loss, which the best checkpoint is chosen by: behind PEFT's "
            "wrapper or a forward(**kwargs) the Trainer does not find the labels, unless they are "
            "named"
        ),
        code="VG587",
    ),
    Settled(
        said=("have excessive nesting", "in this case"),
        unless=("(`labels`", "(`input_ids`", "(`attention_mask`", "(`label`", "(labels "),
        steps=(
            "dataset = dataset.map(…, remove_columns=dataset.column_names): {nested} is a column "
            "of text or lists that no one pads; or dataset.remove_columns('{nested}')",
            "--remove_unused_columns true: (the Trainer's own) it leaves out what forward does "
            "not take",
        ),
        why="a column that is no tensor's was left in the rows, and the collator was to stack it",
    ),
    Settled(
        said=("DataCollatorForCompletionOnlyLM", "not compatible with the `packing` argument"),
        steps=(
            "packing=False in SFTConfig(…) (--packing false): this collator looks for the answer "
            "in each row, and packed rows have several",
        ),
    ),
    Settled(
        said=("cannot import name 'DataCollatorForCompletionOnlyLM' from 'trl'",),
        steps=(
            "python -m pip install 'trl<0.20': newer ones have it no more; there "
            "SFTConfig(assistant_only_loss=True), or completion_only_loss=True with prompt and "
            "completion as columns",
        ),
    ),
    Settled(
        said=("perform batched generation with padding_side='right'",),
        steps=(
            "model.config.use_cache = False: while it trains: only with the cache does "
            "flash-attention ask for padding on the left",
            'tokenizer.padding_side = "left": where it generates (an evaluation, rollouts)',
        ),
    ),
    Settled(
        said=("OSError: [Errno 39] Directory not empty", "tmp-checkpoint"),
        trace=("os.renames",),
        steps=(
            "python -m pip install 'transformers==4.49.0': the main branch before it let every "
            "rank move that folder; then rm -r of the tmp-checkpoint-… that is left",
        ),
    ),
    Settled(
        said=("FileNotFoundError",),
        trace=("transformers/trainer.py", "shutil.rmtree(checkpoint"),
        steps=(
            "python -m pip install -U 'transformers>=4.26': older ones let every rank delete the "
            "last checkpoint; or --save_total_limit 2 (only with 1 does that happen)",
            "--save_on_each_node false: where all nodes write into one shared folder",
        ),
        why="several ranks deleted the same old checkpoint, and one found a file gone already",
        code="VG580",
    ),
    Settled(
        said=("FileNotFoundError",),
        trace=("accelerate/accelerator.py", "shutil.rmtree(folder"),
        steps=(
            "python -m pip install -U 'accelerate>=0.23': older ones let every rank delete what is "
            "above total_limit; or ProjectConfiguration(total_limit=None)",
        ),
        why="several ranks deleted the same old checkpoint, and one found it gone already",
        mended="accelerate 0.23",
        code="VG580",
    ),
    Settled(
        said=("Sizes of tensors must match",),
        trace=("accelerate/utils/operations.py", "gather"),
        steps=(
            "x = accelerator.pad_across_processes(x, dim=1, pad_index=-100): in front of "
            "gather_for_metrics: the ranks' rows are of different length",
            "--prediction_loss_only true: for a Trainer whose logits nobody needs",
        ),
        why="the ranks' predictions are of different length, and were to be joined",
        code="VG587",
    ),
    Settled(
        said=("didn't pass a `dataset_text_field` or `formatting_func`",),
        steps=(
            'dataset_text_field="text" in SFTConfig(…): the column that holds the text (print('
            "dataset.column_names)); or formatting_func=… for the trainer",
            "python -m pip install 'trl==0.10.1': for a script that gives "
            'dataset_kwargs={"skip_prepare_dataset": True}, which 0.9 refuses so by mistake',
        ),
    ),
    Settled(
        said=("formatting function was provided while `completion_only_loss=True`",),
        steps=(
            "completion_only_loss=False in SFTConfig(…) (--completion_only_loss false): the loss "
            "is then on the whole text",
            "formatting_func out, and prompt and completion as columns: dataset.map(lambda row: "
            '{"prompt": …, "completion": …}): the loss is on the answers alone',
        ),
    ),
    Settled(
        said=("AcceleratorState", "was not reinitialized"),
        steps=(
            "args = TrainingArguments(…): (or accelerator = Accelerator()) made anew in the same "
            "cell or function as the trainer; in a notebook: restart the kernel first",
        ),
        why=(
            "Accelerate keeps one state for a process; it was put back since TrainingArguments or "
            "the Accelerator were made, and they still look for it"
        ),
    ),
    Settled(
        said=("is not needed when a module doesn't have any parameters that require a gradient",),
        steps=(
            "{place}: leave DistributedDataParallel(…) out for that part: nothing of it trains; "
            "only what trains is wrapped",
            "print([n for n, p in model.named_parameters() if p.requires_grad][:9]): in front of "
            "it, where it was to train: a freeze or target_modules took all",
        ),
    ),
    *(
        Settled(
            said=(f"Trainer' object has no attribute '{name}'",),
            steps=(
                f"python -m pip install 'transformers{has}': a Trainer of your own is a copy of "
                f"that time; {lacks} took {name} away",
                f"{{place}}: take the branch of {name} out, where this transformers has to stay",
            ),
        )
        for name, (has, lacks) in _GONE.items()
    ),
    Settled(
        said=("KeyError: 'prompt_input_ids'",),
        trace=("trl/trainer/dpo_trainer.py", "/swift/"),
        steps=(
            "python -m pip install 'trl<0.12' 'transformers<4.46': TRL's trainer takes other "
            "columns since 0.12 than ms-swift 2 gives it",
            "python -m pip install -U 'ms-swift>=3': which goes with a newer TRL; its arguments "
            "have other names",
        ),
        mended="swift 3",
        code="VG570",
    ),
    Settled(
        said=("KeyError: 'input_ids'",),
        trace=("liger_kernel/", "/swift/"),
        steps=(
            "--use_liger_kernel false: liger's forward of this model does not hand the tokens on "
            "to ms-swift's hook",
            "python -m pip install -U ms-swift liger-kernel: for a pair that goes together",
        ),
        code="VG570",
    ),
    Settled(
        said=("The features should include `input_ids_chosen`",),
        steps=(
            "python -m pip install -U 'trl>=0.12': whose RewardTrainer turns chosen and rejected "
            "into tokens itself",
        ),
        mended="trl 0.12",
        code="VG554",
    ),
)
