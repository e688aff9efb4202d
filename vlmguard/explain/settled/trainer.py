"""transformers' Trainer and TRL's: arguments and rows that do not go together."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_BEST = "requires the save and eval"
_GONE = ("deepspeed", "sharded_ddp", "do_grad_scaling", "use_cuda_amp", "use_apex")
_OLD_TRAINER = (
    "python -m pip install 'transformers==4.28.1': a Trainer of your own is a copy of that time; "
    "4.30 gave {attribute} to Accelerate",
    "{place}: take the branch of {attribute} out, where this transformers has to stay",
)


def _strategies() -> tuple[Settled, ...]:
    """Both alike, by what each of them is."""
    found = []
    for now, wanted in (("NO", "STEPS"), ("NO", "EPOCH"), ("STEPS", "EPOCH"), ("EPOCH", "STEPS")):
        follows = now == "NO"  # an evaluation is missing; else the saving goes by the evaluation
        action = f"eval_by_{wanted.lower()}" if follows else f"save_by_{now.lower()}"
        told = (f"Strategy.{now} - Save", f"Strategy.{wanted}")
        found.append(Settled(said=(_BEST, *told), steps=(action,)))
    for now in ("STEPS", "EPOCH"):
        told = (f"Strategy.{now} - Save", "Strategy.NO")
        found.append(Settled(said=(_BEST, *told), steps=(f"save_by_{now.lower()}",)))
    return tuple(found)


TABLE = (
    *_strategies(),
    Settled(
        said=("load_best_model_at_end requires the saving steps to be a round multiple",),
        steps=("save_steps_round",),
    ),
    Settled(
        said=("KeyError", "'eval_loss'"),
        steps=("label_names",),
        why=(
            "the evaluation gave no loss, which the best checkpoint is chosen by: behind PEFT's "
            "wrapper or a forward(**kwargs) the Trainer does not find the labels, unless they are "
            "named"
        ),
        code="VG587",
    ),
    Settled(
        said=("have excessive nesting", "in this case"),
        unless=("(`labels`", "(`input_ids`", "(`attention_mask`", "(`label`", "(labels "),
        steps=(
            "dataset = dataset.map(…, remove_columns=dataset.column_names): {nested} is a column "
            "of text or lists that no one pads; or dataset.remove_columns('{nested}')",
            "--remove_unused_columns true: (the Trainer's own) it leaves out what forward does "
            "not take",
        ),
        why="a column that is no tensor's was left in the rows, and the collator was to stack it",
    ),
    Settled(
        said=("DataCollatorForCompletionOnlyLM", "not compatible with the `packing` argument"),
        steps=(
            "packing=False in SFTConfig(…) (--packing false): this collator looks for the answer "
            "in each row, and packed rows have several",
        ),
    ),
    Settled(
        said=("cannot import name 'DataCollatorForCompletionOnlyLM' from 'trl'",),
        steps=(
            "python -m pip install 'trl<0.20': newer ones have it no more; there "
            "SFTConfig(assistant_only_loss=True), or completion_only_loss=True with prompt and "
            "completion as columns",
        ),
    ),
    *(
        Settled(said=(f"Trainer' object has no attribute '{name}'",), steps=_OLD_TRAINER)
        for name in _GONE
    ),
)
