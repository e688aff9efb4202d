"""What to do with a checkpoint of ZeRO's that was saved by another number of ranks (VG550)."""

from __future__ import annotations

import re

from vlmguard.explain import named, named_numbers
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

_PARTS = (
    "cd {checkpoint} && python zero_to_fp32.py . OUT && cp *.json OUT/: where {checkpoint} has no "
    "model*.safetensors (ZeRO-3 without stage3_gather_16bit_weights_on_model_save); then OUT as "
    "the model, not as a checkpoint"
)
_UNIVERSAL = (
    "python -m deepspeed.checkpoint.ds_to_universal --input_folder {0} --output_folder "
    '{0}_universal, then "checkpoint": {{"load_universal": true}} in DeepSpeed\'s config and the '
    "same command: any number of ranks"
)


def apart(facts: Facts) -> tuple[int, int]:
    """Of how many ranks it is, and how many are here; 0 where the message does not tell."""
    found = named_numbers.ranks(facts.message)
    return int(found.get("savedranks", "0")), int(found.get("ranksnow", "0"))


def steps(facts: Facts) -> tuple[Do, ...]:
    """More ranks than there are first goes on with those that are here, fewer as it was saved."""
    saved, now = apart(facts)
    folder = named.of(facts).get("checkpoint", "")
    number = re.search(r"checkpoint-(\d{1,9})$", folder)
    tag = facts.said.get("tag") or (f"global_step{number[1]}" if number else "global_step*")
    step = tag if "*" not in tag else "global_stepN"
    values = (("folder", folder or "CHECKPOINT"),)
    lora = "lora" in facts.tuning.lower()
    weights = Do("adapter_of" if lora else "weights_of", _kept(facts, saved, now), values)
    whole = facts.zero in (1, 2) or lora  # the weights are not in parts
    parts = Do(_PARTS.replace("{checkpoint}", folder or "CHECKPOINT"), "the optimizer's state")
    universal = Do(_UNIVERSAL.format(f"{folder or 'CHECKPOINT'}/{step}"), "disk; one step by hand")
    cost = "none: twice the accumulation for half the ranks keeps the global batch"
    others = (weights, universal) if whole else (weights, universal, parts)
    if saved > now > 0:
        return (*others, Do("ranks_saved", "that many cards"))
    return (Do("ranks_saved", cost), *others)


def _kept(facts: Facts, saved: int, now: int) -> str:
    """What going on with the weights alone costs, and what keeps the global batch."""
    lost = "the optimizer's state and the place in the data are lost"
    if not now or saved % now or saved == now or not facts.accumulation:
        return lost
    more = facts.accumulation * saved // now
    return f"{lost}; an accumulation of {more} keeps the global batch"
