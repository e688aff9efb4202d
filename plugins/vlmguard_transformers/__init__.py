"""The Trainer adapter: every framework whose trainers are `transformers.Trainer`s.

What is patched and why:

* ``HfArgumentParser``, so that ``--vlmguard`` flags are ours and no unknown ones of the framework;
* ``Trainer.train``, ``.evaluate``, ``.predict``: the model and its trainer exist, nothing is
  wrapped yet; checkpointing, DDP's options and the optimizer are all decided inside;
* ``Trainer._inner_training_loop``: where ``train`` makes the model (``model_init``, a search for
  hyperparameters), it is there only by now;
* ``Trainer.training_step`` and DeepSpeed's ``engine.step``: batches, gradients after backward,
  before the optimizer, and the line of the first step; ``Trainer.prediction_step``: batches of
  evaluation. A subclass's own are wrapped while it trains;
* the makers of evaluation's data loaders, whose batches are not trained on.

Read on: the wrappers are in `lifecycle`, the translation to facts in `translate`, changes in
`apply`. What is special about a framework is its profile (`profile`, `profiles`).

Standard library only: this is imported while ``transformers.trainer`` is.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

_HERE = "vlmguard_transformers"
_TRAINER = "transformers.trainer:Trainer"

SEAMS = (
    Seam("arguments", ("transformers.hf_argparser:HfArgumentParser.parse_args_into_dataclasses",),
         f"{_HERE}.arguments:parse",
         "takes --vlmguard flags out of the command line and resolves settings", when_off=True),
    Seam("keys", ("transformers.hf_argparser:HfArgumentParser.parse_dict",),
         f"{_HERE}.arguments:parse_dict",
         "takes vlmguard's keys out of a YAML or JSON file and resolves settings", when_off=True),
    Seam("train", (f"{_TRAINER}.train",), f"{_HERE}.lifecycle:train",
         "judges and mends the run before it is wrapped, explains failures"),
    Seam("inner loop", (f"{_TRAINER}._inner_training_loop",), f"{_HERE}.lifecycle:inner",
         "judges a model that train itself makes"),
    Seam("evaluate", (f"{_TRAINER}.evaluate",), f"{_HERE}.lifecycle:evaluate",
         "tells evaluation from training; guards one without a training"),
    Seam("predict", (f"{_TRAINER}.predict",), f"{_HERE}.lifecycle:evaluate",
         "the same of a prediction"),
    Seam("eval loader", (f"{_TRAINER}.get_eval_dataloader",), f"{_HERE}.lifecycle:eval_loader",
         "tells batches of evaluation from those of training"),
    Seam("test loader", (f"{_TRAINER}.get_test_dataloader",), f"{_HERE}.lifecycle:eval_loader",
         "the same of a prediction"),
    Seam("step", (f"{_TRAINER}.training_step",), f"{_HERE}.lifecycle:training_step",
         "sees which parameters got a gradient", rests=True),
    Seam("prediction", (f"{_TRAINER}.prediction_step",), f"{_HERE}.lifecycle:prediction_step",
         "hears batches of evaluation"),
    Seam("engine", ("deepspeed.runtime.engine:DeepSpeedEngine.step",),
         f"{_HERE}.lifecycle:engine_step", "judges gradients before DeepSpeed steps"),
)  # fmt: skip
