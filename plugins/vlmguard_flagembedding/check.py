"""What ``vlmguard check`` has to know of FlagEmbedding (1.3, 1.4)."""

from __future__ import annotations

import re

from vlmguard.check import hf
from vlmguard.check.drafted_run import Draft
from vlmguard.check.framework import CannotTell, Framework
from vlmguard.check.launcher import Job
from vlmguard.check.reading import python_files, scripts
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files


class FlagEmbedding(Framework):
    name = "FlagEmbedding"
    package = "FlagEmbedding"
    distribution = "FlagEmbedding"
    install = "pip install '/path/to/vlmguard[flagembedding]'"

    def entry(self, job: Job, files: Files) -> str:
        found = re.fullmatch(r"-m (FlagEmbedding\.[\w.]+)", job.target)
        return found[1].removesuffix(".__main__") if found else ""

    def trains(self, entry: str) -> str:
        other = re.search(r"\.(?:evaluation|inference)(?:\.|$)", entry)
        return f"{entry} does not train" if other else ""

    def classes(self, entry: str) -> list[python_files.Class]:
        found = scripts.classes(f"{entry}.__main__")
        if not found:
            raise CannotTell(f"{entry}: this release of FlagEmbedding has no such module")
        return found

    def draft(self, values: Values, job: Job, files: Files, entry: str) -> Draft:
        lora = values.true("use_lora")
        draft = Draft(self.name, tuning="lora" if lora else "full")
        hf.strategy(values, job, files, draft)
        draft.trains = {"llm": "adapters" if lora else "full"}
        if hf.checkpointing(values):
            draft.checkpointed = ("llm",)
        draft.asked = hf.reentrant(values, files)
        draft.use_reentrant = hf.default_reentrant(values) if draft.asked is None else draft.asked
        draft.decided_by = "transformers' default" if draft.asked is None else "the user's flag"
        # An embedder encodes queries, then passages.
        draft.forwards = 2 if ".embedder." in entry else 1
        hf.accumulation(values, draft)
        if draft.strategy == "ddp":
            hf.find_unused(values, draft, plain_model=False)
        return draft


FRAMEWORK = FlagEmbedding()
