"""Training loops that are nobody's Trainer and know no accelerate.

What is patched and why:

* ``DistributedDataParallel.__init__``: a model with towers that no adapter knows is about to be
  wrapped. DDP's own arguments are read, and changed where the plan says so;
* ``fully_shard``: the same of a model that FSDP2 is about to split;
* ``DeepSpeedEngine.__init__``, to which ``deepspeed.initialize`` gives the model and the config;
  ``.backward`` and ``.step``: what they raise, and the ends of windows;
* ``DataLoader.__init__``: which rows that loop has.

Standard library only: this is imported while torch is. Read on in `plain_loop`, `sharded` and
`engine`.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam
from vlmguard_transformers import SEAMS as OF_TRAINERS

_HERE, _ENGINE = "vlmguard_accelerate", "deepspeed.runtime.engine:DeepSpeedEngine"
SEAMS = (
    Seam("plain ddp", ("torch.nn.parallel.distributed:DistributedDataParallel.__init__",),
         f"{_HERE}.plain_loop:wrapped",
         "judges and mends a plain loop's run before DDP takes its model"),
    Seam("plain fsdp2", ("torch.distributed.fsdp._fully_shard._fully_shard:fully_shard",
                         "torch.distributed._composable.fsdp.fully_shard:fully_shard"),
         f"{_HERE}.sharded:taken", "the same before FSDP2 splits it", optional=True),
    Seam("plain engine", (f"{_ENGINE}.__init__",), f"{_HERE}.engine:taken",
         "the same before DeepSpeed takes it", optional=True),
    Seam("plain backward", (f"{_ENGINE}.backward",), f"{_HERE}.engine:backward",
         "explains what a plain loop's backward raises", optional=True),
    *(seam for seam in OF_TRAINERS if seam.name == "engine"),  # attached once, by either
    Seam("plain step", (f"{_ENGINE}.step",), f"{_HERE}.engine:step",
         "ends a plain loop's step", optional=True),
    Seam("plain loader", ("torch.utils.data.dataloader:DataLoader.__init__",),
         f"{_HERE}.loaders:noted", "knows which rows a plain loop has"),
)  # fmt: skip
