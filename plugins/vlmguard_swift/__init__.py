"""The ms-swift adapter (3.0 – 4.6): a profile on the Trainer adapter, and what is ms-swift's alone.

What is patched and why:

* ``SwiftMixin.train``: it registers the template's hooks before it calls the ``train`` that it
  inherits, so the run is judged here;
* ``Template.data_collator``: the batch is still on the CPU (often in a dataloader worker);
* ``LazyLLMDataset.__getitem__``, which silently replaces samples that fail to encode.

ms-swift decides the checkpoint variant once a process, in 3.0 – 3.5 even before there is a model:
`decision` reads it and, where it is wrong, undoes it and has ms-swift make it again.

Standard library only: this is imported while ``swift`` is.
"""

from __future__ import annotations

from vlmguard.runtime.seams import Seam

PROFILE = "vlmguard_swift.profile:PROFILE"

SEAMS = (
    Seam("swift train", ("swift.trainers.mixin:SwiftMixin.train",),
         "vlmguard_transformers.lifecycle:train",
         "judges and mends the run before it is wrapped, explains failures"),
    Seam("collate", ("swift.template.base:Template.data_collator",
                     "swift.llm.template.base:Template.data_collator"),
         "vlmguard_swift.batches:collate", "checks each batch on the CPU"),
    Seam("fetch", ("swift.dataset.utils:LazyLLMDataset.__getitem__",
                   "swift.llm.dataset.utils:LazyLLMDataset.__getitem__"),
         "vlmguard_swift.batches:fetch", "sees samples that were replaced"),
)  # fmt: skip
