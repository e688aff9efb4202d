"""What a machine without an accelerator lacks to run ColossalAI's own Gemini under gloo.

A fixture of the tests, the same with the guard on and off. Everything here answers a question that
ColossalAI asks of the *device* (a stream, a device count, where a shard lives, a compiled Adam);
nothing touches the chunks' states, the gradient hooks, the reductions or the optimizer's logic.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__dict__.update(members)
    return module


@contextlib.contextmanager
def _stand_ins() -> Iterator[None]:
    """`colossalai.nn.optimizer` imports two optimizer packages at its top that no test uses.

    They stand in only while it is imported: left in place, transformers and peft would take
    bitsandbytes for installed.
    """
    names = {
        "galore_torch": {
            "GaLoreAdafactor": type("GaLoreAdafactor", (torch.optim.Adam,), {}),
            "GaLoreAdamW": type("GaLoreAdamW", (torch.optim.Adam,), {}),
        },
        "bitsandbytes": {},
        "bitsandbytes.optim": {},
        "bitsandbytes.optim.optimizer": {
            "Optimizer2State": type("Optimizer2State", (torch.optim.Optimizer,), {})
        },
    }
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        sys.modules[name] = _module(name, **names[name])
    try:
        yield
    finally:
        for name in missing:
            sys.modules.pop(name, None)


class _TorchAdam:
    """The arithmetic of ColossalAI's compiled CPU Adam, in torch."""

    def __init__(self, *settings: Any) -> None:
        self.adamw = bool(settings[-1])

    @torch.no_grad()
    def step(  # the compiled op's own positional signature
        self,
        step: int,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        decay: float,
        correct: bool,
        param: torch.Tensor,
        grad: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        scale: float,
    ) -> None:
        grad = grad.float() / scale if scale > 0 else grad.float()
        if decay and self.adamw:
            param.mul_(1 - lr * decay)
        elif decay:
            grad = grad.add(param, alpha=decay)
        first.mul_(beta1).add_(grad, alpha=1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        bias1, bias2 = (1 - beta1**step, 1 - beta2**step) if correct else (1.0, 1.0)
        param.addcdiv_(first, (second / bias2).sqrt().add_(eps), value=-lr / bias1)


def install() -> None:
    """Host memory answers to the name "cuda": the layout Gemini has on a GPU without offload."""
    with contextlib.suppress(ImportError):
        import peft  # noqa: F401  (before the stand-ins, see above)
    from colossalai.accelerator import set_accelerator
    from colossalai.accelerator.cpu_accelerator import CpuAccelerator

    class HostAsCuda(CpuAccelerator):
        def __init__(self) -> None:
            super().__init__()
            self._name = "cuda"

        def stream(self, stream: Any = None) -> contextlib.AbstractContextManager[None]:
            return contextlib.nullcontext()

        def Stream(self, *args: Any, **kwargs: Any) -> None:
            return None

        def current_stream(self, device: Any = None) -> None:
            return None

        def device_count(self) -> int:
            return 0

        def synchronize(self, device: Any = None) -> None:
            return None

        def empty_cache(self) -> None:
            return None

    set_accelerator(HostAsCuda())
    with _stand_ins():
        import colossalai.nn.optimizer  # noqa: F401
    from colossalai.kernel.kernel_loader import CPUAdamLoader
    from colossalai.zero.gemini.chunk import chunk, manager

    compiled = types.SimpleNamespace(CPUAdamOptimizer=_TorchAdam)
    CPUAdamLoader.load = lambda self, ext_name=None: compiled
    build = chunk.Chunk.__init__

    def on_device(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.shard_device = torch.device("cuda")  # a name only: nothing is allocated there

    chunk.Chunk.__init__ = on_device
    manager.ChunkManager.move_chunk = lambda self, *args, **kwargs: None
