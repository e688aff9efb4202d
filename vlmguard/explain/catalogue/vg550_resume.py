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
        Sign("Can't find 'adapter_config.json'"),
        Sign("failed to resume from checkpoint"),
        Sign("found missing", also=("checkpoint",)),
        Sign("optimizer global state is missing"),
        Sign("same parameter placement topology"),
        Sign("parameter-alignment layout"),
        Sign("KeyError: 'param_groups'"),
        Sign("but folder does not exist"),
        Sign("niversal checkpoint"),
        Sign("Unable to load universal"),
        Sign("checkpoint files found but expected"),
        Sign(
            "number of checkpoint files",
        ),
        Sign("mp_rank", also=("No such file",)),
        Sign("checkpoint", also=("does not match current world size",)),
        Sign("Please provide a valid checkpoint"),
        Sign(
            "RNG state must be a",
        ),
        Sign("in load_checkpoint", where="raised"),
        Sign("in deepspeed_load_checkpoint", where="raised"),
        Sign("len(self.ckpt_list)", where="trace"),
        Sign("-packages/peft/config.py", where="raised"),
        Sign("in load_adapter", where="raised"),
        Sign("deepspeed/runtime/state_dict_factory.py", where="raised"),
        Sign("in load_hp_checkpoint", where="raised"),
        Sign("torch/optim/optimizer.py in load_state_dict", where="raised"),
        Sign("torch/distributed/checkpoint/", where="raised"),
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
