"""The FlagEmbedding adapter (1.3 – 1.4: all seven modules that train): a profile on the Trainer
adapter, which wraps the ``Trainer.train`` that FlagEmbedding's trainers inherit.

Batches are not judged: no module of the wheel takes anything but text. Never a target:
``__main__``, which under ``-m`` is no module of that name.

Standard library only: this is imported while ``FlagEmbedding`` is.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

PROFILE = "vlmguard_flagembedding.profile:PROFILE"
SEAMS: tuple[Seam, ...] = ()
