"""A model and an optimizer under a strategy, for the plain loop and for the Trainer."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from tools.ordinary import fixture


class Live:
    """A model and its optimizer while they train: one process alone, DDP or FSDP2."""

    def __init__(self, run: Any, model: Any, optimizer: Any) -> None:
        self.run, self.model, self.optimizer = run, model, optimizer

    def quiet(self, last: bool) -> Any:
        """Around all but a window's last micro-batch: nothing is reduced."""
        if last or not hasattr(self.model, "no_sync"):
            return contextlib.nullcontext()
        return self.model.no_sync()

    def backward(self, loss: Any) -> None:
        (self.run.backward or _backward)(self.run, loss)

    def step(self) -> None:
        run = self.run
        for change in run.before:
            change(self.model, self.optimizer)
        if run.clipping:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), run.clipping)
        (run.step or _step)(run, self.optimizer)
        for change in run.after:
            change(self.model, self.optimizer)
        (run.clear or _clear)(self.optimizer)


def _backward(run: Any, loss: Any) -> None:
    loss.backward()


def _step(run: Any, optimizer: Any) -> None:
    optimizer.step()


def _clear(optimizer: Any) -> None:
    optimizer.zero_grad()


class Engine(Live):
    """DeepSpeed's engine: it divides by the accumulation, steps and clears by itself."""

    def quiet(self, last: bool) -> Any:
        return contextlib.nullcontext()

    def backward(self, loss: Any) -> None:
        self.model.backward(loss * self.run.accumulation)
        if not self.model.is_gradient_accumulation_boundary():
            self.model.step()

    def step(self) -> None:
        for change in self.run.before:
            change(self.model, self.optimizer)
        self.model.step()
        for change in self.run.after:
            change(self.model, self.optimizer)


def wrap(run: Any, model: Any, optimizer: Any) -> Live:
    """The model as it trains."""
    if run.strategy.startswith("zero"):
        return _engine(run, model, optimizer)
    if run.strategy == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, **run.ddp)
    return Live(run, model, optimizer)


def shard(model: Any, **options: Any) -> Any:
    """FSDP2, layer by layer; before the optimizer is made."""
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    names = fixture.fsdp2(model)["transformer_layer_cls_to_wrap"]
    for module in list(model.modules())[::-1]:
        if type(module).__name__ in names:
            fully_shard(module, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def flat(model: Any, **options: Any) -> Any:
    """FSDP1, layer by layer; before the optimizer is made."""
    import functools

    from torch.distributed import fsdp

    names = fixture.fsdp2(model)["transformer_layer_cls_to_wrap"]
    layers = {type(module) for module in model.modules() if type(module).__name__ in names}
    policy = functools.partial(
        fsdp.wrap.transformer_auto_wrap_policy, transformer_layer_cls=layers
    )
    return fsdp.FullyShardedDataParallel(
        model, auto_wrap_policy=policy, device_id=torch.device("cpu"), **options
    )


def bf16_reduced_in_fp32() -> Any:
    """Weights in bf16 for forward and backward; gradients are added in fp32."""
    from torch.distributed import fsdp

    return fsdp.MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def _engine(run: Any, model: Any, optimizer: Any) -> Engine:
    import deepspeed

    config = engine_config(run)
    engine, optimizer, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=config, dist_init_required=False
    )
    return Engine(run, engine, optimizer)


def engine_config(run: Any) -> dict[str, Any]:
    """Small buckets; `run.config` has what else is asked for."""
    stage = int(run.strategy[-1])
    zero: dict[str, Any] = {"stage": stage}
    if stage:
        zero |= {"reduce_bucket_size": 20000, "allgather_bucket_size": 20000}
    if stage == 3:
        zero |= {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 1000}
    more = dict(run.config)
    zero |= more.pop("zero_optimization", {})
    return {
        "train_micro_batch_size_per_gpu": run.rows,
        "gradient_accumulation_steps": run.accumulation, "zero_optimization": zero,
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
        "gradient_clipping": run.clipping, **more,
    }  # fmt: skip


def of_trainer(run: Any, model: Any) -> dict[str, Any]:
    """TrainingArguments for the run's strategy."""
    told: dict[str, Any] = {} if run.world == 1 else {"ddp_backend": "gloo"}
    if run.strategy == "ddp":
        told["ddp_find_unused_parameters"] = run.ddp.get("find_unused_parameters", False)
    if run.strategy.startswith("zero"):
        told["deepspeed"] = (
            fixture.zero(run.strategy) | {"gradient_clipping": run.clipping} | run.config
        )
    if run.strategy == "fsdp2":
        told |= {"fsdp": "full_shard auto_wrap", "fsdp_config": fixture.fsdp2(model)}
    return told
