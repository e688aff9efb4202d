"""In which phase of training an exception was raised, from its traceback's functions."""

from __future__ import annotations

from vlmguard.explain.event import Event

# In this order: an evaluation that generates is "generation", a forward inside it "evaluation".
_PHASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "generation",
        ("generate", "_sample", "_generate_and_score_completions", "generate_completions"),
    ),
    (
        "evaluation",
        (
            *("evaluate", "evaluation_loop", "prediction_step", "prediction_loop"),
            *("validation_step", "validate", "validation", "evaluation"),
            *(f"{what}_{how}" for what in ("eval", "val", "valid") for how in ("epoch", "step")),
            *("evaluate_model", "eval_model", "validate_one_epoch", "evaluate_one_epoch"),
        ),
    ),
    (
        "save",
        (
            "save_model",
            "_save_checkpoint",
            "save_checkpoint",
            "save_pretrained",
            "save_state",
            "_save",
            "safe_save_model_for_hf_trainer",
            "_full_post_state_dict_hook",  # FSDP's: a whole model is gathered to be saved
            "_full_pre_state_dict_hook",
            "_zero3_consolidated_16bit_state_dict",
        ),
    ),
    (  # under DeepSpeed a Trainer's backward() holds the optimizer's step
        "step",
        (
            "_take_model_step",
            "_init_group",
            "_multi_tensor_adam",
            "_multi_tensor_adamw",
            "_single_tensor_adamw",
            "initialize_optimizer_states",
            "_configure_zero_optimizer",
        ),
    ),
    ("backward", ("backward", "_engine_run_backward", "unpack_hook", "recompute_fn")),
    (
        "step",
        (
            "optimizer_step",
            "step_with_optimizer",
            "clip_grad_norm_",
            "adamw",
            "adam",
        ),
    ),
    (
        "data",
        ("data_collator", "collate_fn", "__getitem__", "_worker_loop", "encode", "torch_call"),
    ),
    ("forward", ("training_step", "compute_loss")),
    (
        "load",
        (
            "from_pretrained",
            "load_state_dict",
            "load_checkpoint",
            "get_model_tokenizer",
            "_load_pretrained_model",
            "prepare_model",
            "_move_model_to_device",
            "_configure_distributed_model",
            "_apply",  # of a module that is moved or cast
        ),
    ),
)


_MODULE = "torch/nn/modules/module.py"
_HTTP = "requests/models.py"  # whose generate() yields what it downloads


def of(event: Event) -> str:
    """One of the phases of `logfacts.Facts`, or ""."""
    names = {name for path, _, name in event.frames if not path.endswith(_HTTP)}
    files = " ".join(path for path, _, _ in event.frames)
    if "training_step" in names and "optimizer_step" in names and "backward" not in names:
        return "forward"  # Lightning's closure: its optimizer's step holds the whole step
    for phase, functions in _PHASES:
        if names.intersection(functions):
            return phase
    if any(name == "convert" and path.endswith(_MODULE) for path, _, name in event.frames):
        return "load"  # Module.to(device)
    if "step" in names and ("/optim/" in files or "deepspeed/runtime" in files):
        return "step"
    return "forward" if "_call_impl" in names or "forward" in names else ""
