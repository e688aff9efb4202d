"""The model gave no loss."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_INPUTS = re.compile(r"the inputs it received are ([\w, ]{1,400})")


def _why(facts: Facts) -> str:
    match = _INPUTS.search(facts.message)
    if match and "labels" not in match[1]:
        return (
            f"the model got no labels, so it computed no loss: the batch holds {match[1].strip()}"
        )
    if match:
        return (
            "the model got labels and gave no loss: it has no head that computes one, or it was "
            "patched (a fused loss, a compiled forward)"
        )
    return (
        "the model gave no loss: the batch had no labels (the column has another name, or the "
        "collator drops it), or the model is a bare one without a head (AutoModel)"
    )


FAILURE = Known(
    code="VG589",
    name="explain-no-loss",
    title="The model gave no loss: no labels in the batch, or no head that computes one",
    zh="模型没有返回 loss：批次中没有 labels，或加载的是不带任务头的模型",
    why=_why,
    do=(
        Do(
            "the class with a head: AutoModelForCausalLM, AutoModelForImageTextToText, …, instead "
            "of AutoModel",
            "none",
            when=("last_hidden_state", "argument 'labels'"),
            kind="head",
        ),
        Do(
            "--use_liger_kernel false, no torch.compile, no unsloth, for one run: with which "
            "of them does the model give no loss? the labels are there",
            "slower",
            when=(
                "attention_mask,labels",
                "input_ids,labels",
            ),
        ),
        Do(
            "a column named labels in every row, or a collator that makes it "
            "(DataCollatorForLanguageModeling(tokenizer, mlm=False))",
            "none",
            unless=("attention_mask,labels", "input_ids,labels"),
        ),
        Do(
            "the class with a head: AutoModelForCausalLM, AutoModelForImageTextToText, …, instead "
            "of AutoModel",
            "none",
            kind="head",
        ),
        Do(
            "label_names=['…'] in TrainingArguments if the model names its labels otherwise", "none"
        ),
        Do("--prediction_loss_only false, or no evaluation, where only the evaluation fails", ""),
    ),
    wrong=(
        "remove_unused_columns=False brings back a labels column only if the model's forward does "
        "not name it (a wrapper's *args, **kwargs)."
    ),
    signs=(
        Sign("did not return a loss", releases="transformers 4.2 to 5"),
        Sign("KeyError: 'loss'", no=("transformers/trainer_callback.py",)),
        Sign("it only computes hidden states and does not accept any labels"),
        Sign("got an unexpected keyword argument 'labels'"),
        Sign("'NoneType' object has no attribute 'backward'"),
        Sign("'NoneType' object has no attribute 'mean'", also=("in training_step",)),
        Sign("'NoneType' object has no attribute 'mean'", also=("in prediction_step",)),
        Sign("'NoneType' object has no attribute 'detach'", also=("in training_step",)),
        Sign("'NoneType' object has no attribute 'detach'", also=("in prediction_step",)),
        Sign("'NoneType' and 'int'", also=("in training_step", "unsupported operand")),
        Sign("'NoneType' and 'float'", also=("in training_step", "unsupported operand")),
        Sign("'NoneType' object has no attribute 'requires_grad'", also=("in backward",)),
    ),
    examples=(
        Example(
            "ValueError: The model did not return a loss from the inputs, only the following keys: "
            "logits,past_key_values. For reference, the inputs it received are "
            "input_ids,attention_mask.",
            "transformers/trainer.py, 5.19.0",
        ),
        Example("KeyError: 'loss'", "transformers/trainer.py, 4.5, without labels"),
    ),
    evidence="princeton-nlp/MeZO#19, unslothai/unsloth#1899, huggingface/transformers#11256.",
    narrow=2,
)
