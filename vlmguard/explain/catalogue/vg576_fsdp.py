"""FSDP's settings do not fit the model."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG576",
    name="explain-fsdp",
    title="FSDP's settings do not fit this model or release",
    zh="FSDP 设置与模型或版本不符",
    why=(
        "FSDP was told to wrap a class that the model does not have, holds "
        "parameters that are not where it wants them (on the CPU, tied, of another "
        "kind), or is combined with what it does not go with"
    ),
    do=(
        looks.CHECK,
        Do(
            "{advised}: the message itself asks for it",
            "none",
        ),
        Do(
            "fsdp_transformer_layer_cls_to_wrap: {layers}: in {config}; this model's own blocks",
            "none",
            when=("wrap", "layer class"),
            kind="classes",
        ),
        Do(
            "fsdp_transformer_layer_cls_to_wrap: {layers}: in accelerate's config "
            "(transformer_layer_cls_to_wrap in the file behind fsdp_config); this model's own "
            "blocks",
            "none",
            when=("wrap", "layer class"),
            kind="classes",
        ),
        Do(
            "print({type(m).__name__ for m in model.modules()}): {wrapped} is not among them; "
            "fsdp_transformer_layer_cls_to_wrap: the decoder layer that is (and the tower's "
            "block)",
            "none",
            when=(
                "wrap",
                "layer class",
            ),
            kind="classes",
        ),
        Do(
            "print({type(m).__name__ for m in model.modules()}): "
            "fsdp_transformer_layer_cls_to_wrap takes the decoder layer that is among them, "
            "and the tower's block",
            "none",
            when=(
                "wrap",
                "layer class",
            ),
            kind="classes",
        ),
        Do(
            "non_reentrant",
            "none",
            when=(
                "expected to be in states",
                "TrainingState.IDLE",
            ),
        ),
        Do(
            '--fsdp "full_shard auto_wrap": full_shard, shard_grad_op, hybrid_shard, '
            "no_shard, offload "
            "and auto_wrap are what it takes",
            "none",
            when=("Unknown `fsdp` option",),
        ),
        Do(
            "call model(…), the wrapped one, in every forward: a part of it that is called by "
            "itself (model.module.x; generate: under summon_full_params) takes itself for the root",
            "none",
            when=("Non-root FSDP instance", "should not have been set yet"),
        ),
        Do(
            "model = model.to(torch.cuda.current_device()) before FSDP wraps it, or "
            "FullyShardedDataParallel(…, device_id=torch.cuda.current_device())",
            "none",
            when=("to be on the compute device",),
        ),
        Do(
            "fully_shard(model) of the whole model, after its blocks: a part that no fully_shard "
            "took (embeddings, a tower, LoRA that came later) has plain tensors",
            "none",
            when=("mixed torch.Tensor and DTensor",),
        ),
        Do(
            "accelerate config --config_file fsdp.yaml anew, with this release (fsdp_version: "
            "2 where "
            "it asks), and start by accelerate launch --config_file fsdp.yaml",
            "none",
            unless=(
                "wrap",
                "layer class",
                "Non-root",
                "not have been set yet",
                "compute device",
                "mixed torch.Tensor",
                "expected to be in states",
            ),
        ),
        Do("fsdp_use_orig_params: true where part of the model is frozen", "a little memory"),
        Do(
            "load with fsdp_cpu_ram_efficient_loading and "
            "fsdp_sync_module_states both true, or neither",
            "host memory",
        ),
        Do(
            "fsdp_transformer_layer_cls_to_wrap: the decoder layer of this model and the tower's "
            "block (print {type(m).__name__ for m in model.modules()})",
            "none",
            unless=("wrap", "layer class"),
        ),
        Do("zero3", "other settings; needs DeepSpeed"),
    ),
    wrong=(
        "Wrapping by size (min_num_params) hides a wrong class name and can cut a "
        "tied embedding apart."
    ),
    signs=(
        Sign("Could not find the transformer layer class"),
        Sign("FSDP requires PyTorch"),
        Sign("Non-root FSDP instance"),
        Sign("FSDP2 mapping failed"),
        Sign("mixed torch.Tensor and DTensor"),
        Sign("An FSDP-managed module"),
        Sign(
            "fsdp_transformer_layer_cls_to_wrap",
        ),
        Sign("transformer_layer_cls_to_wrap"),
        Sign("Expects storage to be allocated"),
        Sign("are out of bounds for storage of size 0"),
        Sign("FSDP2 is not compatible"),
        Sign("FullyShardedDataParallel"),
        Sign("FSDP2", also=(" not ",)),
        Sign("fsdp_config"),
        Sign("`fsdp` option"),
        Sign("sync_module_states"),
        Sign("cpu_ram_efficient_loading"),
        Sign("Using fsdp only works in distributed training"),
        Sign("FSDP does not work on Neuron"),
        Sign("Expects all parameters to have been"),
        Sign("The activation_checkpointing in FSDP config"),
        Sign("can't be used with `save_only_model`"),
        Sign("FSDP optim"),
        Sign("_flat_param"),
        Sign("FlatParameter"),
        Sign("DTensor", also=("expected",)),
        Sign("does not support DTensor"),
        Sign("DTensor` parameters, which is incompatible with DDP"),
        Sign("torch/distributed/fsdp/", where="raised"),
        Sign("torch/distributed/_composable", where="raised"),
        Sign("accelerate/utils/fsdp_utils.py", where="raised"),
        Sign("torch/distributed/tensor/", where="raised"),
        Sign("torch/distributed/_tensor/", where="raised"),
        Sign("in _prepare_fsdp2", where="raised"),
        Sign("accelerate/utils/fsdp_utils.py", where="within"),
        Sign("torch/distributed/fsdp/_state_dict_utils.py", where="within"),
        Sign("torch/distributed/fsdp/_optim_utils.py", where="within"),
        Sign("Expects full precision but got"),
        Sign("FSDP assumes", also=("is in the state_dict",)),
        Sign("does not have a sharding strategy registered"),
        Sign("FSDP assumes"),
        Sign("prev_state_dict_type is not None", where="trace"),
        Sign("in _post_backward_final_callback()", where="within", no=("out of memory",)),
        Sign("in _catch_all_reshard()", where="within", no=("out of memory",)),
        Sign("in _optim_state_dict_impl()", where="within", no=("out of memory",)),
        Sign("in state_dict_type()", where="within", no=("out of memory",)),
        Sign("in _auto_wrap()", where="within", no=("out of memory",)),
        Sign("torch/distributed/fsdp/_init_utils.py", where="within", no=("out of memory",)),
        Sign("Could not find a transformer layer class"),
        Sign("Invalid auto wrap policy"),
        Sign("`auto_wrap_policy` must be one of"),
        Sign("reshard_after_forward set to"),
        Sign("couldn't be switched to its sharded version"),
        Sign("found in sharded model state dict but missing"),
        Sign("must be an instance of `torch.distributed.fsdp"),
        Sign("FSDP is enabled but the parallelism config"),
        Sign("is only supported when using PyTorch FSDP"),
        Sign("strategies/fsdp.py in _", where="raised", releases="Lightning"),
        Sign("strategies/model_parallel.py", where="raised", releases="Lightning"),
        Sign("FSDP", where="else"),
        Sign("fsdp", where="else"),
        Sign("but current state is TrainingState."),
    ),
    examples=(
        Example(
            "Exception: Could not find the transformer layer class to wrap in the model.",
            "accelerate/utils/dataclasses.py, 0.34",
        ),
        Example(
            "ValueError: Could not find the transformer layer class "
            "Qwen2VLDecoderLayer in the model.",
            "accelerate/utils/dataclasses.py, 1.15",
        ),
        Example(
            "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, "
            "need to convert all torch.Tensor to DTensor before calling "
            "distributed operators!",
            "torch/distributed/tensor/_dispatch.py, 2.13",
        ),
    ),
    evidence="accelerate's and torch's own checks.",
    narrow=-1,
)
