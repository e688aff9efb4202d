"""A checkpoint does not resume."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG550",
    name="explain-resume",
    title="The checkpoint cannot be resumed as it is",
    zh="检查点无法恢复训练",
    why="the folder is not a whole checkpoint, or its optimizer state "
    "belongs to another number of ranks, another set of trainable "
    "parameters, another strategy or another torch",
    do=(
        Do("no_resume", "the steps between"),
        Do("resume_weights", "optimizer state and data position are lost"),
        Do("the same number of ranks, ZeRO stage and freezing as the run that saved it", "none"),
        Do(
            'DeepSpeed: "checkpoint": {"load_universal": true} after ds_to_universal.py',
            "one step by hand",
        ),
    ),
    wrong="weights_only=False executes what a checkpoint says: only for "
    "files that you wrote yourself.",
    signs=(
        Sign("Can't find a valid checkpoint"),
        Sign("No valid checkpoint found in output directory"),
        Sign("contains a parameter group that doesn't match the size"),
        Sign("loaded state dict has a different number of parameter groups"),
        Sign("loaded state dict contains a parameter group"),
        Sign("Weights only load failed"),
        Sign("trainer_state.json", also=("No such file",)),
        Sign("optimizer.pt", also=("No such file",)),
        Sign("DP world size", also=("checkpoint",)),
        Sign("checkpoint used to save with world size"),
        Sign("The checkpoint being loaded used a DP world size"),
        Sign("you require users to upgrade torch to at least v2.6"),
        Sign("resume_from_checkpoint", also=("Error",)),
        Sign("optim_states.pt", also=("No such file",)),
        Sign("_states.pt", also=("No such file",)),
        Sign("rng_state", also=("No such file",)),
        Sign("scheduler.pt", also=("No such file",)),
        Sign("Failed to resume from checkpoint"),
        Sign(
            "latest",
            also=(
                "checkpoint",
                "No such file",
            ),
        ),
        Sign("check_ckpt_list", where="trace"),
        Sign("torch/optim/", where="trace", also=("must match the size of tensor b",)),
        Sign("_OptimStateKey", also=("is empty",), releases="torch, FSDP"),
        Sign("Missing key in checkpoint state_dict", releases="torch.distributed.checkpoint"),
    ),
    examples=(
        Example(
            "ValueError: loaded state dict contains a parameter group that "
            "doesn't match the size of optimizer's group",
            "made by causing it, torch 2.13.0",
        ),
        Example(
            "ValueError: Can't find a valid checkpoint at /out/checkpoint-500",
            "transformers/trainer.py, 5.19.0",
        ),
    ),
    evidence="transformers', torch's and DeepSpeed's own messages.",
    narrow=1,
)
