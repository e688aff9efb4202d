"""Makes the changes that `named` lists, in every process of a run, guard on or off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import vlmguard_imports
from named import CHANGES


def install(names: Sequence[str]) -> None:
    """Make the changes as their modules are imported."""
    by_module: dict[str, list[Callable[[ModuleType], None]]] = {}
    for name in filter(None, names):
        by_module.setdefault(CHANGES[name][0], []).append(globals()[f"_{name}"])
    for module, calls in by_module.items():
        vlmguard_imports.after(module, _all(module, calls))


def _all(name: str, calls: Sequence[Callable[[ModuleType], None]]) -> Callable[[ModuleType], None]:
    earlier = vlmguard_imports._after.get(name)

    def call(module: ModuleType) -> None:
        for each in (earlier, *calls):
            if each is not None:
                each(module)

    return call


def _order(trainer: ModuleType) -> None:
    from torch.utils.data import SequentialSampler

    trainer.Trainer._get_train_sampler = lambda self, *rows: SequentialSampler(
        rows[0] if rows and rows[0] is not None else self.train_dataset
    )


def _sdpa(module: ModuleType) -> None:
    made = module.PreTrainedModel.from_pretrained.__func__

    def from_pretrained(cls: Any, *args: Any, **named: Any) -> Any:
        if named.get("attn_implementation") == "flash_attention_2":
            named["attn_implementation"] = "sdpa"
        return made(cls, *args, **named)

    module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def _pictures(io: ModuleType) -> None:
    from PIL import Image

    def decode_image(told: Any, *_: Any, **__: Any) -> Any:
        from torchvision.transforms.functional import pil_to_tensor

        return pil_to_tensor(Image.open(told).convert("RGB"))

    io.decode_image = decode_image


def _alone(distributed: ModuleType) -> None:
    for name, alone in (("get_rank", 0), ("get_world_size", 1)):
        asked = getattr(distributed, name)
        setattr(distributed, name, _or(asked, distributed, alone))
    barrier = distributed.barrier
    distributed.barrier = lambda *a, **k: barrier() if distributed.is_initialized() else None


def _or(asked: Any, distributed: ModuleType, alone: int) -> Any:
    return lambda *a, **k: asked(*a, **k) if distributed.is_initialized() else alone


def _synchronize(cuda: ModuleType) -> None:
    cuda.synchronize = lambda *_, **__: None
    cuda.set_device = lambda *_, **__: None
    cuda.current_device = lambda: "cpu"


def _gloo(module: ModuleType) -> None:
    begin = module.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **named: Any) -> Any:
        return begin("gloo", *args, **named)

    module.init_process_group = init_process_group
    sys.modules["torch.distributed"].init_process_group = init_process_group


def _sgd(optim: ModuleType) -> None:
    kind = optim.SGD
    optim.AdamW = lambda groups, lr=0.1, **_: kind(groups, lr=lr)


def _deepspeed(state: ModuleType) -> None:
    start, kind = state.AcceleratorState.__init__, state.DistributedType.DEEPSPEED

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        start(self, *args, **named)
        if getattr(self, "deepspeed_plugin", None) is not None:
            self.distributed_type = kind
            state.PartialState._shared_state["distributed_type"] = kind

    state.AcceleratorState.__init__ = __init__


def _groups(optim: ModuleType) -> None:
    add = optim.Optimizer.add_param_group

    def add_param_group(self: Any, group: dict[str, Any]) -> None:
        if group["params"] != []:
            add(self, group)

    optim.Optimizer.add_param_group = add_param_group


def _seed(torch: ModuleType) -> None:
    torch.manual_seed(0)


def _loop(distributed: ModuleType) -> None:
    """A loop of the repository's own: kept where it begins, written when its process ends."""
    import repository_loop

    repository_loop.install(distributed)
