"""DeepSpeed and FSDP: who steps, what is gathered, where a model is cut."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_ENGINE = (
    "{place}: engine.backward(loss) and engine.step() in place of loss.backward() and "
    "optimizer.step(), where engine is what deepspeed.initialize(…) gave first: only its own "
    "backward reduces the gradients that this step looks for",
    "grep -rnE 'loss.backward|optimizer.step|zero_grad' . --include=*.py: the lines to be replaced",
)
_NOT_REDUCED = (
    "ZeRO's optimizer took a step and found no reduced gradients: the backward before it was "
    "torch's own (loss.backward()), not the engine's, or this step has no gradient at all"
)
_BLOCKS = (
    "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_transformer_layer_cls_to_wrap: {layers}: "
)
# Marks of a model of transformers, whose own method turns the variant.
_TRANSFORMERS = (
    *("transformers/", "accelerate/", "unsloth", "swift/", "lightning", "lora_", "model.layers."),
    *("encoder.layer.", "decoder.layers.", "transformer.h."),
)
TABLE = (
    Settled(
        said=("Model data type and gradient accumulation data type must be equal to use ZeRO",),
        steps=(
            (
                '"data_types": {"grad_accum_dtype": "bf16"} in {dsfile}, or "fp16", as the model',
                '"data_types": {"grad_accum_dtype": "bf16"} in DeepSpeed\'s configuration, or '
                '"fp16", as the model',
            ),
            "python -m pip install -U deepspeed, on every node: later ones accumulate in float32 "
            "beside bf16",
        ),
        why="this DeepSpeed wants gradients accumulated in the model's own dtype under ZeRO",
        code="VG575",
    ),
    Settled(
        said=("Call to ibv_reg_",),
        steps=(
            "NCCL_NET_GDR_LEVEL=LOC in front of the same command, on every node: it runs: the "
            "card's own memory cannot be registered with the InfiniBand card (lsmod | grep "
            "peermem; virtual machines and containers often lack it), keep it so; else next step",
            "ulimit -l, in the job: not unlimited: docker run --ulimit memlock=-1, or memlock in "
            "/etc/security/limits.conf; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, where it "
            "is set, taken away",
            "NCCL_IB_DISABLE=1 in front of the same command, on every node: it runs: InfiniBand is "
            "at fault (slower between nodes)",
        ),
        why=(
            "NCCL could not register memory with the InfiniBand card: the way to the other node is "
            "there, and the memory that is to be sent is refused"
        ),
        code="VG536",
    ),
    Settled(
        said=("'NoneType' object has no attribute 'next_functions'",),
        trace=("count_used_parameters_in_backward",),
        steps=(
            "python -m pip install -U 'deepspeed>=0.18.7': 0.18.3 to 0.18.6 ask torch 2.4 and "
            "older for a gradient's place in the graph in a way that fails there; or python -m pip "
            "install 'deepspeed<0.18.3'",
        ),
        why="DeepSpeed 0.18.3 to 0.18.6 do not bear torch 2.4 and older",
        mended="deepspeed 0.18.7",
        code="VG570",
    ),
    Settled(
        said=("count_used_parameters_in_backward requires internal PyTorch APIs",),
        steps=(
            "python -m pip install 'deepspeed<0.18.3': newer ones want torch 2.3; or python -m pip "
            "install -U 'torch>=2.3' torchvision",
        ),
        why="DeepSpeed from 0.18.3 on asks torch for what it has since 2.3",
        mended="torch 2.3",
        code="VG570",
    ),
    Settled(
        said=("KeyError: ",),
        trace=("has_overflow_partitioned_grads_serial",),
        steps=_ENGINE,
        why=_NOT_REDUCED,
        code="VG575",
    ),
    Settled(
        said=("DeepSpeedZeroOptimizer' object has no attribute 'ipg_",),
        steps=_ENGINE,
        why=_NOT_REDUCED,
    ),
    Settled(
        said=("Output 0 of ViewBackward0 is a view", "modified inplace"),
        trace=("fully_sharded_data_parallel.py",),
        steps=(
            (
                f"{_BLOCKS}in {{config}}, in place of SIZE_BASED_WRAP",
                f"{_BLOCKS}in the YAML behind accelerate launch --config_file, in place of "
                "SIZE_BASED_WRAP; in code: auto_wrap_policy=functools.partial("
                "transformer_auto_wrap_policy, transformer_layer_cls={{{layers}}})",
                "auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, "
                "transformer_layer_cls={the class of the model's blocks}) in FSDP(…): "
                "print(model) names it; no wrapping by size (accelerate: fsdp_auto_wrap_policy: "
                "TRANSFORMER_BASED_WRAP)",
            ),
        ),
        why=(
            "FSDP cut the model by size, so that embeddings or a tied head are a unit of their "
            "own and share one flat tensor with others; it is to be cut at whole blocks"
        ),
        code="VG576",
    ),
    Settled(
        said=("is out of bounds for dimension 0 with size 0",),
        trace=("_init_weights", "padding_idx"),
        steps=(
            "zero2",
            "python -m pip install -U transformers deepspeed: newer ones gather the table before "
            "they write its padding row",
        ),
        why=(
            "under ZeRO-3 an embedding is cut apart as soon as it is made, and transformers wrote "
            "its padding row before it was gathered: a fault of this release, not of the model"
        ),
        code="VG523",
    ),
    Settled(
        said=("'Accelerator' object has no attribute 'deepspeed_engine_wrapped'",),
        unless=("in training_step",),
        steps=(
            "model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, "
            "scheduler): in one call, before the loop: backward goes by the engine that it makes",
            "accelerate launch --mixed_precision bf16 … without --use_deepspeed (a config without "
            "distributed_type: DEEPSPEED), where DeepSpeed was not meant",
        ),
        why=(
            "accelerate was told to use DeepSpeed, and accelerator.backward was called before "
            "accelerator.prepare had made an engine of the model and its optimizer"
        ),
        code="VG575",
    ),
    Settled(
        said=("'Accelerator' object has no attribute 'deepspeed_engine_wrapped'",),
        steps=(
            "python -m pip install -U transformers accelerate deepspeed: the three together; a "
            "project of its own Trainer: the releases of its requirements.txt (MiniCPM-V: "
            "accelerate==0.30.1)",
            "grep -n deepspeed ~/.cache/huggingface/accelerate/default_config.yaml: "
            "accelerate's own file asks for DeepSpeed where the Trainer got no --deepspeed",
        ),
    ),
    Settled(
        said=("requires you to pass at least one of training or evaluation dataloaders",),
        steps=(
            "AcceleratorState().deepspeed_plugin.deepspeed_config.update("
            "train_micro_batch_size_per_gpu=1): in front of {place} (from accelerate.state import "
            "AcceleratorState): the rows of one rank's step",
            "accelerator.prepare(model, optimizer, loader): the DataLoader in the same call, which "
            "tells the number",
        ),
        why=(
            "DeepSpeed wants to know the micro-batch, which accelerate takes from the DataLoader "
            "that is prepared with the model; here none was"
        ),
    ),
    Settled(
        said=("ZeRO3 is incompatible with LoRA",),
        steps=(
            "--deepspeed finetune/ds_config_zero2.json (the project's zero2 file) in place of the "
            "zero3 file",
            "the -Chat or -Instruct model behind --model_name_or_path: only a base model trains "
            "its embeddings beside LoRA, which ZeRO-3 cannot",
        ),
        code="VG575",
    ),
    Settled(
        said=("Only Tensors of floating point and complex dtype can require gradients",),
        trace=("deepspeed/runtime/zero/partition_parameters.py",),
        steps=(
            "zero2",
            "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage=torch.bfloat16) and "
            "torch_dtype=torch.bfloat16: the one way of quantised weights that ZeRO-3 can cut",
        ),
        why=(
            "ZeRO-3 cuts weights apart as they are made, and bitsandbytes keeps them as whole "
            "numbers, which cannot be parameters that it gathers"
        ),
    ),
    Settled(
        said=("to have the same dtype", "Half", "BFloat16"),
        trace=("deepspeed/runtime/zero/linear.py",),
        steps=(
            (
                '"zero_quantized_weights": false, "zero_quantized_gradients": false in {dsfile}: '
                "ZeRO++ unpacks weights in float16, which does not go with bf16; not in it: one "
                "dtype for the whole model",
                '"zero_quantized_weights": false, "zero_quantized_gradients": false in '
                "DeepSpeed's config: ZeRO++ unpacks weights in float16, which does not go with "
                "bf16; not in it: one dtype for the whole model",
            ),
        ),
        more=True,
    ),
    Settled(
        said=("expected there to be only one unique element", "all_gather_coalesced"),
        steps=(
            "load_in_8bit=True (load_in_4bit) out of from_pretrained(…) under ZeRO-3; with it: "
            '"stage": 2 in DeepSpeed\'s config',
            "model.to(torch.bfloat16): before the trainer, where nothing is quantised: weights of "
            "two dtypes are in one module (LoRA's in float32)",
        ),
        why="ZeRO-3 gathers the weights of a module at once, and they are of several dtypes",
    ),
    Settled(
        said=("reduce_bucket_size", "neither `hidden_size`"),
        steps=(
            '"reduce_bucket_size": 500000000, "stage3_prefetch_bucket_size": 50000000, '
            '"stage3_param_persistence_threshold": 100000 under "zero_optimization" in '
            "DeepSpeed's config, in place of \"auto\": this model's config names no hidden size "
            "at its top",
        ),
    ),
    Settled(
        said=("still have inflight params",),
        steps=(
            '"stage3_prefetch_bucket_size": 0 under "zero_optimization" in DeepSpeed\'s config: '
            "a part that is skipped in some steps is then not fetched ahead",
            "zero2",
        ),
        why=(
            "ZeRO-3 had fetched weights ahead for a part of the model that this step did not come "
            "to: a tower without an image, an expert without a token, a forward that ended early"
        ),
    ),
    Settled(
        said=("'DeepSpeedZeRoOffload' object has no attribute 'backward'",),
        steps=(
            "deepspeed.initialize(model=model, model_parameters=[p for p in model.parameters() if "
            "p.requires_grad], config=…): with an optimizer (its own or in the config): this "
            "engine was made for inference alone",
            "print(sum(p.requires_grad for p in model.parameters())): before the trainer: 0: "
            "nothing trains, so no optimizer was made (PEFT with is_trainable=False, a freeze)",
        ),
        why="the engine got no optimizer, so it can only run forwards",
        code="VG575",
    ),
    Settled(
        said=("must match the size of tensor b", "at non-singleton dimension 3"),
        trace=("trainer_seq2seq.py", "generate", "causal_mask"),
        steps=(
            "the same command without deepspeed (take deepspeed: … out of the YAML, --deepspeed "
            "out of the command): predicting under ZeRO-3 is not made for generate()",
            "per_device_eval_batch_size: 1, where it is without DeepSpeed already",
        ),
        why="under ZeRO-3 all ranks generate until the last is done, and the masks run apart",
        code="VG587",
    ),
    Settled(
        said=("must match the size of tensor b",),
        trace=("deepspeed/ops/adam/",),
        steps=(
            (
                "ls {checkpoint}/global_step*/*optim_states.pt | wc -l: so many ranks saved it, "
                "one file each: as many now (--num_gpus, --nproc_per_node), and the same "
                "trainable parameters",
                "ls CHECKPOINT/global_step*/*optim_states.pt | wc -l: so many ranks saved it, "
                "one file each: as many now (--num_gpus, --nproc_per_node), and the same "
                "trainable parameters",
            ),
            "resume_weights",
            "python -m deepspeed.checkpoint.ds_to_universal --input_folder CHECKPOINT/global_stepN "
            '--output_folder CHECKPOINT/global_stepN_universal, then "checkpoint": '
            '{"load_universal": true} in DeepSpeed\'s config: for any number of ranks',
        ),
        why=(
            "the optimizer's state in the checkpoint is as long as a rank's part was then: it was "
            "saved by another number of ranks, or with other parameters trained"
        ),
        code="VG550",
    ),
    Settled(
        said=("Expected to mark a variable ready only once",),
        trace=("torch/utils/checkpoint.py",),
        unless=_TRANSFORMERS,
        steps=(
            "grep -rnE '(checkpoint|cp)\\.checkpoint\\(|[^.\\w]checkpoint\\(' --include='*.py' .: "
            "use_reentrant=False in each of these calls (torch 1.11 and later)",
            "DistributedDataParallel(…, static_graph=True): torch 1.10: model._set_static_graph() "
            "behind it",
        ),
    ),
    Settled(
        said=("must match the existing size (0)",),
        trace=("_embeddings",),
        steps=(
            "python -m pip install -U 'transformers>=4.32' deepspeed: whose "
            "resize_token_embeddings gathers the table under ZeRO-3 first",
            "zero2",
        ),
        code="VG523",
    ),
    Settled(
        said=("DeepSpeed is not compatible with `device_map`", "n_gpu: "),
        steps=(
            "NPROC_PER_NODE={cardsseen} in front of the same command: one process for each card, "
            "as DeepSpeed wants it",
            "CUDA_VISIBLE_DEVICES=0 in front of the same command: one card; or the command without "
            "--deepspeed: one process lays the model over all of them",
        ),
        why=(
            "one process sees several cards and would lay the model over them (device_map), which "
            "does not go with DeepSpeed: it wants one process for each card"
        ),
        code="VG575",
    ),
    Settled(
        said=("output tensor must have the same type as input tensor",),
        trace=("_allgather_params_coalesced",),
        steps=(
            "python -m pip install -U 'deepspeed>=0.19.3': older ones make the room for all "
            "gathered weights in the dtype of the first, and LoRA's are in float32 beside bfloat16",
            "load_half",
            "zero2",
        ),
        why="ZeRO-3 gathered weights of two dtypes at once (LoRA's in float32, the model's not)",
        mended="deepspeed 0.19.3",
    ),
    Settled(
        said=("output tensor must have the same type as input tensor",),
        trace=("all_gather_into_tensor",),
        steps=("load_half", "zero2"),
        why=(
            "a gathered piece has another dtype than its place: parameters of two dtypes in one "
            "model (an adapter or a head in float32 beside weights in bfloat16)"
        ),
        more=True,
    ),
    Settled(
        said=("zip() argument 2 is longer than argument 1",),
        trace=("torch/optim/lr_scheduler.py",),
        steps=(
            "python -m pip install 'torch<2.10' torchvision: from 2.10 on its schedules refuse an "
            "optimizer with fewer groups than they began with; DeepSpeed drops a group that is "
            "empty (LoRA: none of its weights is without decay)",
            "the same command without DeepSpeed: adapters alone fit under plain DDP",
        ),
        why=(
            "DeepSpeed dropped an empty group of parameters, and torch's learning-rate schedule "
            "counts its groups strictly since 2.10"
        ),
        code="VG570",
    ),
)
