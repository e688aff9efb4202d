"""DeepSpeed ZeRO 1, 2 and 3."""

from __future__ import annotations

from typing import Any

import torch

from tools.lab.strategies import RATE


def _config(stage: int, overlap: bool, accumulation: int, trainable: int) -> dict[str, Any]:
    bucket = max(trainable // 4, 64)
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": accumulation,
        # Without the key, releases from 0.19.3 clip at 1.0 and older ones do not clip.
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": overlap,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            "stage3_prefetch_bucket_size": bucket,
            "stage3_param_persistence_threshold": 0,
            "stage3_max_live_parameters": bucket,
            "stage3_max_reuse_distance": bucket,
        },
    }


class Zero:
    """backward and step go through the engine, which counts the micro-steps itself."""

    def __init__(self, model: Any, strategy: str, accumulation: int) -> None:
        import deepspeed  # type: ignore[import-not-found]

        name, _, overlap = strategy.partition("_")
        self.stage = int(name[-1])
        parameters = [p for p in model.parameters() if p.requires_grad]
        trainable = sum(p.numel() for p in parameters)
        self.engine: Any = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.SGD(parameters, RATE),
            config=_config(self.stage, overlap == "overlap", accumulation, trainable),
            dist_init_required=False,
        )[0]

    def forward(self, batch: Any, last: bool) -> Any:
        """The loss."""
        return self.engine(batch)

    def backward(self, loss: Any, last: bool) -> None:
        """Gradients; the engine divides by the micro-steps."""
        self.engine.backward(loss)
        if not last:
            self.engine.step()

    def step(self) -> None:
        """Update, as the last micro-step's."""
        self.engine.step()

    def weights(self) -> dict[str, Any]:
        """Whole weights; under ZeRO-3 gathered from all ranks."""
        import deepspeed

        named = dict(self.engine.module.named_parameters())
        if self.stage < 3:
            return {name: p.detach().numpy().copy() for name, p in named.items()}
        found = {}
        for name, parameter in named.items():
            with deepspeed.zero.GatheredParameters([parameter]):
                found[name] = parameter.detach().numpy().copy()
        return found
