"""FSDP's own: weights that are cut (DTensor) beside whole ones, and what it loads."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_BY_LAYERS = "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP (or SIZE_BASED_WRAP, NO_WRAP)"
TABLE = (
    Settled(
        said=("'list' object has no attribute 'keys'",),
        trace=("FSDP_AUTO_WRAP_POLICY",),
        steps=(
            f'{_BY_LAYERS} in accelerate\'s config; auto_wrap_policy="transformer_based_wrap" '
            "(size_based_wrap, no_wrap) in FullyShardedDataParallelPlugin(…): the value that is "
            "there is none of them",
        ),
        why="the name of FSDP's wrapping is not known, and accelerate stumbled while it said so",
        code="VG576",
    ),
    Settled(
        said=("Could not find the transformer layer class",),
        trace=("accelerate/test_utils/scripts/",),
        steps=(
            (
                "accelerate launch --config_file {config} YOUR_SCRIPT.py: accelerate test trains a "
                "model of its own, which has not your model's blocks: its failure says nothing of "
                "your run",
                "accelerate launch --config_file FSDP.yaml YOUR_SCRIPT.py: accelerate test trains "
                "a model of its own, which has not your model's blocks: its failure says nothing "
                "of your run",
            ),
        ),
        why="accelerate test trains a small model of its own, without the class that is named",
    ),
    Settled(
        said=("aten.copy_.default: got mixed torch.Tensor and DTensor",),
        steps=(
            "set_model_state_dict(model, full_state, options=StateDictOptions("
            "full_state_dict=True, broadcast_from_rank0=True)): from "
            "torch.distributed.checkpoint.state_dict, in place of model.load_state_dict: FSDP2 "
            "takes whole tensors by that way only",
            "load the weights before fully_shard(model)",
        ),
        why="the model's weights are cut (DTensor), and those of the checkpoint are whole",
    ),
    Settled(
        said=("got mixed torch.Tensor and DTensor",),
        trace=("in generate",),
        steps=(
            "python -m pip install -U 'transformers>=5': whose Trainer lets FSDP2 gather the "
            "weights in generate(), too; where it has to stay: fsdp_version: 1, or "
            'torch.distributed.fsdp.register_fsdp_forward_method(model, "generate") after '
            "accelerator.prepare",
        ),
        why=(
            "FSDP2 gathers its weights in forward alone, and here generate() was called: it finds "
            "them cut (DTensor) beside whole inputs"
        ),
        mended="transformers 5",
        more=True,
    ),
    Settled(
        said=("_foreach_", "got mixed torch.Tensor and DTensor"),
        trace=("clip_grad",),
        steps=(
            "--max_grad_norm 0: (TrainingArguments(max_grad_norm=0)) no norm is taken: some "
            "parameters are cut (DTensor: tensor parallel or FSDP2), others are whole, and one "
            "norm of both is not",
            "print([n for n, p in model.named_parameters() if type(p.data).__name__ != "
            '"DTensor"][:9]): the whole ones: were they meant to be left out?',
        ),
        why="the gradients' norm is asked of parameters that are cut and of whole ones together",
    ),
    Settled(
        said=("KeyError: None",),
        trace=("_state_dict_type_to_config",),
        steps=(
            "python -m pip install -U 'transformers>=4.34' accelerate: older ones load "
            "the checkpoint before FSDP has wrapped the model",
        ),
        code="VG550",
    ),
)
