"""Healthy: every strategy, with its options."""

from __future__ import annotations

from typing import Any

import torch

from tools.ledger.healthy import variant
from tools.ledger.injections_gradients import checkpointed, lora
from tools.ledger.training import Run

ZERO: dict[str, dict[str, Any]] = {
    "plain": {},
    "overlap": {"zero_optimization": {"overlap_comm": True, "contiguous_gradients": True}},
    "offload": {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
    "bf16": {"bf16": {"enabled": True}},
    "fp32 communication": {"bf16": {"enabled": True}, "communication_data_type": "fp32"},
    "bf16 communication": {"communication_data_type": "bf16"},
    "prescaled": {
        "prescale_gradients": True,
        "gradient_predivide_factor": 2.0,
        "zero_optimization": {"reduce_scatter": False},
    },
    "clipped": {"gradient_clipping": 0.5},
}


@variant(world=2, stage=(1, 2, 3), kind=("plain", "overlap", "offload", "bf16", "clipped"))
def zero(run: Run, stage: int, kind: str) -> None:
    run.strategy, run.config = f"zero{stage}", ZERO[kind]
    run.rate = 1e-2 if kind == "bf16" else 1e-3
    _low(run)


def _low(run: Run) -> None:
    if "bf16" in run.config:
        run.alter.append(lambda batch: {k: v.bfloat16() if v.is_floating_point() else v
                                        for k, v in batch.items()})  # fmt: skip


@variant(world=2, stage=(0, 2), kind=("fp32 communication", "bf16 communication", "prescaled"))
def zero_wire(run: Run, stage: int, kind: str) -> None:
    run.strategy, run.config, run.rate = f"zero{stage}", ZERO[kind], 1e-2
    _low(run)


@variant(world=2, stage=(1, 2, 3))
def zero_accumulated(run: Run, stage: int) -> None:
    run.strategy, run.accumulation = f"zero{stage}", 3


@variant(world=2, stage=(2, 3))
def zero_lora(run: Run, stage: int) -> None:
    run.strategy = f"zero{stage}"
    run.prepared.append(lora)


@variant(world=2, stage=(2, 3))
def zero_tied(run: Run, stage: int) -> None:
    run.strategy, run.family = f"zero{stage}", "tied"


@variant(world=(3, 4), strategy=("ddp", "zero2", "zero3", "fsdp2"))
def more_ranks(run: Run, strategy: str) -> None:
    run.strategy, run.rows, run.family = strategy, 1, "text"


@variant(world=2, kind=("plain", "mixed", "offload", "accumulated", "clipped", "tied", "lora"))
def fsdp2(run: Run, kind: str) -> None:
    from torch.distributed import fsdp

    run.strategy = "fsdp2"
    if kind == "mixed":
        policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        run.config = {"mp_policy": policy}
    if kind == "offload":
        run.config = {"offload_policy": fsdp.CPUOffloadPolicy(pin_memory=False)}
    if kind == "accumulated":
        run.accumulation = 2
    if kind == "clipped":
        run.clipping = 0.5
    if kind == "tied":
        run.family = "tied"
    if kind == "lora":
        run.prepared.append(lora)


@variant(world=2, kind=("flat", "original", "mixed", "accumulated"))
def fsdp1(run: Run, kind: str) -> None:
    """FullyShardedDataParallel: flat parameters, or views of them as parameters."""
    from tools.ledger import strategies

    run.strategy = "fsdp1"
    run.config = {"use_orig_params": kind != "flat"}
    if kind == "mixed":
        run.config["mixed_precision"] = strategies.bf16_reduced_in_fp32()
    if kind == "accumulated":
        run.accumulation = 2


@variant(world=2, kind=("bf16", "fp16", "powersgd", "batched powersgd", "allreduce"))
def comm_hook(run: Run, kind: str) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def register(model: Any, optimizer: Any) -> None:
        if "powersgd" in kind:
            state = powerSGD_hook.PowerSGDState(
                None, matrix_approximation_rank=1, start_powerSGD_iter=2
            )
            hook = (
                powerSGD_hook.batched_powerSGD_hook
                if "batched" in kind
                else powerSGD_hook.powerSGD_hook
            )
            model.register_comm_hook(state, hook)
        else:
            named = {"bf16": "bf16_compress_hook", "fp16": "fp16_compress_hook"}.get(
                kind, "allreduce_hook"
            )
            model.register_comm_hook(None, getattr(default_hooks, named))

    run.wrapped.append(register)
    run.steps = 6


@variant(world=2, option=("static_graph", "gradient_as_bucket_view", "find_unused_parameters",
                          "broadcast_buffers"), accumulation=(1, 2))  # fmt: skip
def ddp(run: Run, option: str, accumulation: int) -> None:
    run.ddp, run.accumulation = {option: True}, accumulation


@variant(world=2)
def ddp_small_buckets(run: Run) -> None:
    run.ddp |= {"bucket_cap_mb": 0.01}


@variant(world=2, reentrant=(False,))
def ddp_checkpointed(run: Run, reentrant: bool) -> None:
    run.prepared.append(checkpointed(reentrant))


@variant(world=2, images=("some", "phases"))
def mixed_rows(run: Run, images: str) -> None:
    """Not every row has an image."""
    run.ddp["find_unused_parameters"] = True
    run.image = (
        (lambda number: number % 3 > 0)
        if images == "some"
        else (lambda number: number // 4 % 2 == 0)
    )


@variant(images=("some", "phases", "none"))
def mixed_rows_alone(run: Run, images: str) -> None:
    kinds = {
        "some": lambda n: n % 3 > 0,
        "phases": lambda n: n // 2 % 2 == 0,
        "none": lambda n: False,
    }
    run.image = kinds[images]


@variant(world=2, stage=(2, 3), accumulation=(1, 2))
def trainer_zero(run: Run, stage: int, accumulation: int) -> None:
    run.program, run.strategy, run.accumulation, run.clipping = (
        "trainer",
        f"zero{stage}",
        accumulation,
        1.0,
    )


@variant(world=2, accumulation=(1, 2))
def trainer_fsdp2(run: Run, accumulation: int) -> None:
    run.program, run.strategy, run.accumulation, run.clipping = (
        "trainer",
        "fsdp2",
        accumulation,
        1.0,
    )


@variant(kind=("eager", "aot_eager"))
def compiled(run: Run, kind: str) -> None:
    run.answers = (5, 5)
    run.numbers = lambda run, step, micro: [3]
    run.wrapped.append(lambda model, optimizer: model.compile(backend=kind))


@variant()
def by_hand(run: Run) -> None:
    """Gradients are averaged by the script, as nanoVLM's kind of loop does without DDP."""
    run.strategy = "single"


@variant(world=2)
def by_hand_reduced(run: Run) -> None:
    """No wrapper: the script itself averages gradients over the ranks before its step."""
    run.strategy = "single"

    def average(model: Any, optimizer: Any) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad.div_(run.world)

    run.before.append(average)
