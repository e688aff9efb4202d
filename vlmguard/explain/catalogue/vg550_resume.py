"""A checkpoint does not resume."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.catalogue import resume_ranks_steps
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_DEFAULT = "we changed the default value of the `weights_only`"  # not asked for by the caller
_KEPT = "weights and optimizer are not in these files"
_RANDOM = tuple(
    Do(
        f"mkdir {folder}/aside && mv {folder}/rng_state*.pth {folder}/aside/, then the same "
        f"command: {_KEPT}",
        "the random state is lost",
        kind="random",
    )
    for folder in ("{checkpoint}", "CHECKPOINT")
)
_STEPS = (
    looks.CHECK,
    Do(
        "resume_weights",
        "the optimizer's state is lost: it was kept for other trainable parameters",
        when=("must match the size of tensor b",),
    ),
    Do(
        "use_orig_params",
        "none",
        when=("_OptimStateKey",),
    ),
    Do(
        "for g in optimizer.param_groups: g.setdefault('initial_lr', g['lr']), before the "
        "scheduler is made: it goes on from that rate",
        "none",
        when=("initial_lr",),
        kind="ls",
    ),
    Do(
        "{place}: print(torch.load(FILE, map_location='cpu').keys()) in front of it: "
        "without {key} it is a file of weights alone; load it as the model, not as a "
        "checkpoint to go on from",
        "none",
        when=(
            "KeyError: 'optim",
            "KeyError: 'epoch'",
            "KeyError: 'param_groups'",
            "KeyError: 'state_dict'",
            "KeyError: 'scheduler'",
            "KeyError: 'lr_sched",
        ),
        kind="ls",
    ),
    Do(
        "ls {folder} | grep -c optim_states: one file for each rank of the run that saved "
        "it; fewer: the other nodes kept theirs on their own disks, or the save was "
        "broken off",
        "none",
        when=("optim_states.pt'",),
        kind="ls",
    ),
    Do(
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 in front of the command: for a checkpoint that you "
        "wrote yourself",
        "none",
        when=(_DEFAULT,),
    ),
    Do(
        "python -m pip install -U transformers deepspeed accelerate (torch 2.6 loads weights "
        "only; newer ones name what they stored), or 'torch<2.6', for files that you wrote",
        "none",
        when=("Weights only load failed", "weights_only", "WeightsUnpickler"),
        unless=("upgrade torch",),
    ),
    Do(
        "python -m pip install 'torch>=2.6', or weights in safetensors",
        "none",
        when=("upgrade torch to at least v2.6",),
    ),
    Do(
        "ranks_saved",
        "none: twice the accumulation for half the ranks keeps the global batch",
        when=("world size",),
        kind="ranks",
    ),
    Do(
        "ls -l {checkpoint}/optimizer.pt {checkpoint}/scheduler.pt: they were saved for other "
        "trainable parameters; with both moved aside the Trainer goes on with a new optimizer",
        "the optimizer's state is lost",
        when=("optimizer's group", "of parameter groups"),
    ),
    Do(
        "{ownload}: leave optimizer.load_state_dict(…) out: the weights are taken, the optimizer "
        "begins anew (it was kept for another set of parameters: another size of the model, or "
        "another freeze)",
        "the optimizer's state",
        when=("optimizer's group", "of parameter groups"),
    ),
    Do(
        "print(sum(p.requires_grad for p in model.parameters())) in both runs: freeze, and "
        "name LoRA's modules, as in the run that saved it; or leave its optimizer out",
        "none",
        when=("optimizer's group", "of parameter groups"),
    ),
    Do(
        "ls {folder} | grep -o 'world_size_[0-9]*' | sort -u: as many ranks as that "
        "(trainer.n_gpus_per_node × trainer.nnodes), or another folder",
        "none",
        when=("/model_world_size_", "/optim_world_size_", "/extra_state_world_size_"),
        kind="ls",
    ),
    Do(
        "ls -la {path} {folder}: is it there, with trainer_state.json and the states of "
        "every rank?",
        "none",
        kind="ls",
    ),
    Do(
        "ls -la {path}: is it there (relative to where the job starts), and whole?",
        "none",
        kind="ls",
    ),
    Do(
        "ls -la {checkpoint}: trainer_state.json, the weights, optimizer.pt or a global_step "
        "folder with a file for every rank must be there",
        "none",
        kind="ls",
    ),
    Do(
        "ls -la CHECKPOINT: trainer_state.json, the weights, optimizer.pt or a "
        "global_step folder "
        "with a file for every rank must be there",
        "none",
        unless=("world size",),
        kind="ls",
    ),
    Do("no_resume", "the steps between"),
    Do("resume_weights", "optimizer state and data position are lost"),
    Do(
        "the same number of ranks, ZeRO stage and freezing as the run that saved it",
        "none",
        unless=("world size",),
    ),
    Do(
        'DeepSpeed: "checkpoint": {"load_universal": true} after ds_to_universal.py',
        "one step by hand",
        when=("niversal", "partition", "global state", "zero"),
        unless=("world size",),
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    if "DP world size" in facts.message:
        return resume_ranks_steps.steps(facts)
    unread = "Weights only load failed" in facts.message and "_load_rng_state" in facts.trace
    return (*_RANDOM, *(d for d in _STEPS if d.when)) if unread else _STEPS


def _why(facts: Facts) -> str:
    if "Weights only load failed" in facts.message:
        state = "random state" if "_load_rng_state" in facts.trace else "state"
        return (
            f"the checkpoint's {state} holds more than tensors (numpy's types, a class), and torch "
            "from 2.6 on loads nothing else unless it is told to: the folder may well be whole"
        )
    return (
        "the folder is not a whole checkpoint, or its optimizer state belongs to another number "
        "of ranks, another set of trainable parameters, another strategy or another torch"
    )


FAILURE = Known(
    code="VG550",
    name="explain-resume",
    title="The checkpoint cannot be resumed as it is",
    zh="检查点无法恢复训练",
    why=_why,
    do=_do,
    wrong="weights_only=False executes what a checkpoint says: only for "
    "files that you wrote yourself.",
    signs=(
        Sign("KeyError", beside=("state.optimizers.",), releases="torch.distributed.checkpoint"),
        Sign("default_planner.py in create_default_local_load_plan", where="raised"),
        Sign("in get_last_checkpoint", where="raised"),
        Sign("is not a checkpoint file"),
        Sign("mmengine/runner/checkpoint.py", where="raised"),
        Sign("mmcv/runner/checkpoint.py", where="raised"),
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
        Sign("resume_from_checkpoint", also=("Error",), no=("yaml.", ".train(")),
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
        Sign("/common.pt'", also=("No such file",), releases="Megatron's dist_checkpointing"),
        Sign("/.metadata'", also=("No such file",), releases="torch.distributed.checkpoint"),
        Sign("checkpoint", also=("does not match current world size",)),
        Sign("Please provide a valid checkpoint"),
        Sign(
            "RNG state must be a",
        ),
        Sign("in load_checkpoint", where="raised"),
        Sign("in deepspeed_load_checkpoint", where="raised"),
        Sign("len(self.ckpt_list)", where="trace"),
        Sign("deepspeed/runtime/state_dict_factory.py", where="raised"),
        Sign("in load_hp_checkpoint", where="raised"),
        Sign("torch/optim/optimizer.py in load_state_dict", where="raised"),
        Sign("torch/distributed/checkpoint/", where="raised"),
        Sign("in _load_from_checkpoint()", where="within", no=("out of memory",)),
        Sign("in _load_rng_state()", where="within", no=("out of memory",)),
        Sign("in _load_optimizer_and_scheduler()", where="within", no=("out of memory",)),
        Sign("in deepspeed_load_checkpoint()", where="within", no=("out of memory",)),
        Sign("in load_checkpoint()", where="within", no=("out of memory",)),
        Sign("in load_accelerator_state()", where="within", no=("out of memory",)),
        Sign("in load_fsdp_optimizer()", where="within", no=("out of memory",)),
        Sign("in load_fsdp_model()", where="within", no=("out of memory",)),
        Sign("fsdp_utils.py in load_fsdp_model()", where="within", no=("out of memory",)),
        Sign("fsdp_utils.py in load_fsdp_optimizer()", where="within", no=("out of memory",)),
        Sign("in _load_best_model()", where="within", no=("out of memory",)),
        Sign("in _load_scaler()", where="within", no=("out of memory",)),
        Sign("in load_deepspeed_checkpoint()", where="within", no=("out of memory",)),
        Sign("accelerate/accelerator.py in load_state()", where="within"),
        Sign("torch/optim/optimizer.py in load_state_dict()", where="within"),
        Sign("WeightsUnpickler error"),
        Sign("was not an allowed global by default"),
        Sign("in load_state()", where="within"),
        Sign("accelerate/accelerator.py in load_state", where="raised"),
        Sign("in load_accelerator_state", where="raised"),
        Sign("connectors/checkpoint_connector.py", where="within"),
        Sign("in restore_checkpoint()", where="within"),
        Sign("in resume_training()", where="within"),
        Sign("assert metadata is not None", where="trace"),
        Sign("Checkpoint loading is only supported for", releases="verl"),
        Sign("CheckpointException"),
        Sign("verl/utils/checkpoint/", where="raised"),
        Sign(
            "torch/distributed/checkpoint/state_dict_loader.py",
            where="within",
            no=("out of memory",),
        ),
        Sign("in _get_all_zero_checkpoints()", where="within", no=("out of memory",)),
        Sign("in _load_zero_checkpoint()", where="within", no=("out of memory",)),
        Sign("deepspeed/checkpoint/", where="raised"),
        Sign("zero_to_fp32.py", where="raised"),
        Sign("colossalai/checkpoint_io/", where="raised"),
        Sign("in load_moe_state_dict()", where="within", no=("out of memory",)),
        Sign("Can't find a checkpoint index"),
        Sign("Resuming is not supported for"),
        Sign("load old OFT checkpoint"),
        Sign("not found. Aborting training", releases="Lightning"),
        Sign("no HPC checkpoint was found", releases="Lightning"),
        Sign(".ckpt'", also=("No such file",), releases="Lightning"),
        Sign("connectors/checkpoint_connector.py", where="raised", releases="Lightning"),
        Sign(".pt does not exist"),
        Sign(".pth does not exist"),
        Sign(".ckpt does not exist"),
        Sign("core/saving.py", where="raised", releases="Lightning"),
        Sign("guess_load_checkpoint", where="trace", also=("Cannot find",), releases="xtuner"),
        Sign("in deepspeed_reinit()", where="within", no=("out of memory",)),
        Sign("resume_from_checkpoint", where="else"),
        Sign(" checkpoint", where="else", no=("checkpointing",)),
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
