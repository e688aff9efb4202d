"""What to change when the GPU's memory ran out beside the training: in evaluation, while saving."""

from __future__ import annotations

import re
from dataclasses import replace

from vlmguard.explain import memory
from vlmguard.explain.catalogue.out_of_memory_parts import (
    SEGMENTS,
    shorter_rows,
    smaller_images,
)
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

# Whose trainers evaluate without gradients; a loop of one's own may lack that.
_WITHOUT_GRADIENTS = ("ms-swift", "LLaMA-Factory", "TRL", "axolotl", "FlagEmbedding")
_NO_GRAD = Do(
    "with torch.no_grad(): round {place}, if it is not there: else each batch keeps what a "
    "backward would need",
    "none",
)
# A script's own frame of an evaluation: what it calls is the model.
_EVALUATES = re.compile(
    r'File "(?![^"\n]{0,200}-packages/)([\w./@+~-]{1,200})", line (\d{1,6}), in '
    r"(?:\w{0,20}_)?(?:eval|val|valid|validate|validation|evaluate|evaluation)(?:_\w{0,20})?\s"
)
# Frames of an evaluation that hold or gather logits.
_LOGITS = (
    "in pad_across_processes",
    "in preprocess_logits_for_metrics",
    "in gather_for_metrics",
    "in gather_function",
    "in nested_concat",
    "in _gather",
    "in to_cpu_and_numpy",
)
# A Trainer that gathers logits has compute_metrics: else it keeps the loss alone.
_ARGMAX = Do(
    "Trainer(…, preprocess_logits_for_metrics=lambda logits, labels: (logits[0] if "
    "isinstance(logits, tuple) else logits).argmax(-1)) in {main}: one number a token is kept, not "
    "one for each word of the vocabulary",
    "compute_metrics gets the words' numbers: no argmax in it any more",
    kind="argmax",
)
_ARGMAX_ANY = replace(_ARGMAX, action=_ARGMAX.action.replace(" in {main}", ""))
# A whole model that a script's own function gathers on each card.
_TO_HOST = Do(
    "with FSDP.state_dict_type(trainer.model, StateDictType.FULL_STATE_DICT, "
    "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)): round the state_dict() at {place} "
    "(from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, "
    "StateDictType): each layer goes to the host's memory as it is gathered, on rank 0 alone",
    "none",
    kind="host",
)
_TO_HOST_ANY = replace(
    _TO_HOST, action=_TO_HOST.action.replace("at {place}", "of the function that saves")
)


def saves(facts: Facts) -> bool:
    """Whether a model was gathered to be saved: FSDP warns of it before it fails."""
    return facts.phase == "save" or "Failed to clone() tensor with name" in facts.message


def saving(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    less = Do("save_less", "no optimizer state to resume from")
    if facts.fsdp or "/fsdp/" in facts.trace or "/fsdp/" in facts.message:
        script = "_state_dict_utils" in f"{facts.trace} {facts.message}"
        return (
            *((_TO_HOST, _TO_HOST_ANY) if script else ()),
            Do(
                "FSDP_STATE_DICT_TYPE=SHARDED_STATE_DICT in front of the command: each rank writes "
                "its part, accelerate merge-weights FOLDER OUT puts them together afterwards",
                "one more step by hand",
            ),
            less,
        )
    if facts.zero in (None, 3):
        gather = '"stage3_gather_16bit_weights_on_model_save": false in '
        by_hand = ", and python zero_to_fp32.py . OUT in the checkpoint afterwards"
        cost = "one more step by hand"
        own = (
            Do(gather + "{dsfile}" + by_hand, cost, kind="gather"),
            Do(f"{gather}DeepSpeed's config{by_hand}", cost, kind="gather"),
        )
        return (*own, less) if facts.zero == 3 else (less, *own)
    return (less,)


def _no_grad(facts: Facts) -> Do:
    """Round the call in the function that evaluates, not within the model that it calls."""
    last = (_EVALUATES.findall(facts.trace) or [("", "")])[-1]
    if not last[0]:
        return _NO_GRAD
    return replace(_NO_GRAD, action=_NO_GRAD.action.replace("{place}", ":".join(last)))


def evaluation(facts: Facts, told: memory.Memory) -> tuple[Do, ...]:
    """The logits of all rows so far are kept on the card: not to keep them is the remedy."""
    batch = Do("eval_batch", "slower evaluation")
    kept = Do("eval_accumulation", "slower evaluation: logits go to the host's memory each step")
    loss = Do("loss_only", "no metrics from logits")
    none = Do("fewer_evals", "no loss of held-out rows")
    whole = facts.framework in _WITHOUT_GRADIENTS or "/trainer" in facts.trace
    first = () if whole else (_no_grad(facts),)
    segments = (SEGMENTS,) if told.scattered else ()
    gathered = any(words in facts.trace for words in _LOGITS)
    if gathered and facts.framework in ("transformers", "TRL") and "trainer.py" in facts.trace:
        host = "slower, and the host's memory holds the logits of all rows instead"
        return (_ARGMAX, _ARGMAX_ANY, loss, Do("eval_accumulation", host), none, *segments)
    ends = (smaller_images(facts), shorter_rows(facts))
    if facts.said.get("per_device_eval_batch_size") != "1":
        return (*first, batch, loss, *segments, none, *ends)
    return (*first, *((loss, kept) if gathered else (kept, loss)), none, *segments, *ends)
