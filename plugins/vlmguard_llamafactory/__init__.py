"""LLaMA-Factory (0.9): its trainers subclass transformers' and TRL's.

Nothing is patched besides the Trainer and transformers' argument parser, which hands over its YAML.
LLaMA-Factory switches checkpointing on on the model, before there is a trainer: there it is read
and changed. Read on in `profile`.
"""

from __future__ import annotations

PROFILE = "vlmguard_llamafactory.profile:PROFILE"
SEAMS = ()
