"""LLaMA-Factory (0.9): its trainers subclass transformers' and TRL's.

What is patched and why, besides the Trainer itself:

* ``read_args``, so that the keys ``vlmguard`` and ``vlmguard_freeze`` of a YAML file are ours: its
  parser rejects unknown ones. It switches checkpointing on on the model, before there is a trainer:
  there it is read and changed.

Standard library only: this is imported while LLaMA-Factory is. Read on in `profile` and `keys`.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

PROFILE = "vlmguard_llamafactory.profile:PROFILE"
SEAMS = (
    Seam(
        "llamafactory arguments",
        ("llamafactory.hparams.parser:read_args",),
        "vlmguard_llamafactory.keys:read",
        "takes vlmguard's keys out of the YAML and resolves settings",
        when_off=True,
    ),
)
