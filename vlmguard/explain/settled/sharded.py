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
TABLE = (
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
        said=("optimizer_state_dict", "got mixed torch.Tensor and DTensor"),
        steps=("python -m pip install -U accelerate transformers: FSDP2's own way of saving",),
    ),
)
