"""Plain torch: what is right for any model, whatever framework trains it. Knows no framework.

Where the ledger meets loops that no adapter knows, and the steps of DeepSpeed's engine.

What is patched and why:

* ``DistributedDataParallel.__init__``, ``fully_shard`` and ``DeepSpeedEngine.__init__``: a model
  that sees, or a causal language model, may be about to train in a plain loop; it is followed from
  its first forward on;
* ``Optimizer.__init__``: which optimizer moves that model;
* ``DeepSpeedEngine.step``: the ends of windows, in a Trainer too;
* ``GradScaler.step``: steps that are left out.

Standard library only: this is imported while torch is.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

_HERE = "vlmguard_torch.ledger.wrappers"
SEAMS = (
    Seam("ledger ddp", ("torch.nn.parallel.distributed:DistributedDataParallel.__init__",),
         f"{_HERE}:wrapped", "follows a plain loop's model"),
    Seam("ledger fsdp2", ("torch.distributed.fsdp._fully_shard._fully_shard:fully_shard",
                          "torch.distributed._composable.fsdp.fully_shard:fully_shard"),
         f"{_HERE}:sharded", "the same under FSDP2", optional=True),
    Seam("ledger optimizer", ("torch.optim.optimizer:Optimizer.__init__",),
         f"{_HERE}:optimizer", "knows which optimizer moves that model"),
    Seam("ledger engine", ("deepspeed.runtime.engine:DeepSpeedEngine.__init__",),
         f"{_HERE}:engine", "the same under DeepSpeed", optional=True),
    Seam("ledger step", ("deepspeed.runtime.engine:DeepSpeedEngine.step",),
         f"{_HERE}:engine_step", "sees where DeepSpeed steps", optional=True),
    Seam("ledger scaler", ("torch.amp.grad_scaler:GradScaler.step",),
         f"{_HERE}:scaler_step", "sees steps that are left out", optional=True),
)  # fmt: skip
