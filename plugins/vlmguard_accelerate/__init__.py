"""Training loops of the user's own, around `Accelerator.prepare`.

What is patched and why:

* ``Accelerator.prepare``: a model with towers is about to be wrapped. There is no trainer and no
  argument to read; what can be judged is the checkpoint variant on the model, DDP's options, what
  is frozen, and whether a blank input can be made;
* ``Accelerator.backward`` and ``AcceleratedOptimizer.step``: gradients before the optimizer steps
  (DeepSpeed's steps inside backward; the ``step`` of its wrapper, another class, comes after);
* ``Trainer.__init__``: an Accelerator that belongs to a Trainer is left to it;
* ``Accelerator.end_training`` and ``.free_memory``: the run is over.

Standard library only: this is imported while accelerate is. Read on in `loop`.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

_LOOP = "vlmguard_accelerate.loop"
SEAMS = (
    Seam("belongs", ("transformers.trainer:Trainer.__init__",),
         "vlmguard_transformers.accelerators:created",
         "tells a Trainer's Accelerator from that of a loop", optional=True),
    Seam("prepare", ("accelerate.accelerator:Accelerator.prepare",), f"{_LOOP}:prepare",
         "judges and mends a loop's run before its model is wrapped"),
    Seam("backward", ("accelerate.accelerator:Accelerator.backward",), f"{_LOOP}:backward",
         "sees which parameters got a gradient, explains failures",
         rests=True, failed=f"{_LOOP}:failed"),
    Seam("optimizer", ("accelerate.optimizer:AcceleratedOptimizer.step",), f"{_LOOP}:step",
         "judges gradients before the optimizer steps", rests=True),
    Seam("engine", ("accelerate.utils.deepspeed:DeepSpeedOptimizerWrapper.step",), f"{_LOOP}:step",
         "ends a step whose optimizer moved inside backward", optional=True),
    Seam("end", ("accelerate.accelerator:Accelerator.end_training",), f"{_LOOP}:end",
         "lets go of the run", optional=True),
    Seam("free", ("accelerate.accelerator:Accelerator.free_memory",), f"{_LOOP}:end",
         "lets go of the run", optional=True),
)  # fmt: skip
