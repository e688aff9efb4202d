"""TRL (0.15 – 1.16): SFT, DPO, GRPO and its other trainers, all `transformers.Trainer`s.

What is patched and why, besides the Trainer itself:

* TRL's own copy of ``HfArgumentParser`` (from 1.0), so that ``--vlmguard`` flags are ours: without
  it ``trl sft`` takes them for flags of `accelerate launch`;
* ``TrainingArguments.__post_init__``, to know what the user said about reentrant checkpointing:
  TRL writes over it, for PEFT under ZeRO-3.

Standard library only: this is imported while TRL is. Read on in `profile`.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

PROFILE = "vlmguard_trl.profile:PROFILE"
SEAMS = (
    Seam(
        "trl arguments",
        ("trl.scripts._hf_argparser:HfArgumentParser.parse_args_into_dataclasses",),
        "vlmguard_transformers.arguments:parse",
        "takes --vlmguard flags out of TRL's command line and resolves settings",
        when_off=True,
        optional=True,
    ),
    Seam(
        "trl wishes",
        ("transformers.training_args:TrainingArguments.__post_init__",),
        "vlmguard_trl.user_arguments:initialised",
        "notes the checkpoint variant that the user asked for, before TRL writes over it",
        optional=True,
    ),
)
