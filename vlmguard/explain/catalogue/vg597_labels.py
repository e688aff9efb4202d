"""Labels that do not fit what the model gives."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_ROWS = re.compile(r"input batch_size \((\d{1,9})\) to match target batch_size \((\d{1,9})\)")


def _do(facts: Facts) -> tuple[Do, ...]:
    sizes = _ROWS.search(facts.message)
    given, labels = (int(sizes[1]), int(sizes[2])) if sizes else (0, 0)
    if labels and given > labels and given % labels == 0:
        row = (
            f"AutoModelForSequenceClassification in place of the model: it answers each of {given} "
            f"tokens, and there are {labels} labels, one a row; or labels as long as input_ids "
            "(-100 for what is not learnt)"
        )
        return (Do(row, "none"), *_STEPS)
    if given and labels > given and labels % given == 0:
        token = (
            f"AutoModelForTokenClassification or ForCausalLM: the model answers {given} rows, and "
            f"there are {labels} labels, one a token; or one label a row"
        )
        return (Do(token, "none"), *_STEPS)
    return _STEPS


_STEPS = (
    Do(
        "print({k: v.shape for k, v in "
        "next(iter(trainer.get_train_dataloader())).items()}): labels have no token; a "
        "row needs its labels column, or a collator that makes it "
        "(DataCollatorForLanguageModeling(tokenizer, mlm=False))",
        "none",
        when=("target batch_size (0)",),
        kind="shape",
    ),
    Do(
        "labels.argmax(-1) before the loss: it takes class numbers, and these are one-hot rows",
        "none",
        when=("multi-target not supported",),
    ),
    Do(
        "logits.squeeze(-1) before the loss, or labels.unsqueeze(-1): one of them has a "
        "dimension "
        "of 1 more",
        "none",
        when=("must be the same as input size",),
    ),
    Do(
        "print({k: v.shape for k, v in batch.items()}), before the loss: input_ids and labels "
        "must have one shape (rows × tokens), and labels not be empty",
        "none",
        when=("batch_size", "shape", "size"),
        kind="shape",
    ),
    Do(
        "--problem_type regression, or labels as whole numbers for single_label_classification "
        "(int64) and floats for multi_label_classification",
        "none",
        when=("Float", "Long", "dtype", "float"),
    ),
    Do(
        "cut -d' ' -f1 labels/*.txt | sort -n | tail -1: the highest class, plus 1, is the "
        "number of classes that the configuration must have (nc, num_classes)",
        "none",
        when=("exceeds nc=", "class id must be less"),
    ),
    Do("num_labels=N in from_pretrained, labels from 0 to N - 1, and -100 for ignored", "none"),
    Do(
        "labels padded and cut together with input_ids: one collator for both "
        "(DataCollatorForSeq2Seq, DataCollatorForTokenClassification), not the tokenizer alone",
        "none",
    ),
    Do(
        "the class with the head that the task has: a sequence classifier wants one label a "
        "row, a token classifier and a language model one a token",
        "none",
    ),
)

FAILURE = Known(
    code="VG597",
    name="explain-labels",
    title="The labels do not fit the model's output: their number, shape or type",
    zh="标签与模型输出不匹配（数量、形状或类型）",
    why=(
        "the loss compares labels with logits, and they do not go together: another number of "
        "rows or tokens (only one side was shifted, padded or cut), or whole numbers where the "
        "loss wants floats (or the other way round), or a class beyond the number of classes"
    ),
    do=_do,
    wrong=(
        "ignore_mismatched_sizes=True makes a new head and hides a wrong checkpoint. Where a "
        "vision-language model's image tokens were expanded in input_ids only, see VG506."
    ),
    signs=(
        Sign("that is different to the input size", also=("ValueError",)),
        Sign("Expected input batch_size", also=("to match target batch_size",)),
        Sign("Expected input batch_size (", where="line"),
        Sign("Label class", also=("exceeds nc=",), releases="YOLO"),
        Sign("class id must be less than num_classes"),
        Sign("must be the same as input size", also=("arget size",)),
        Sign("0D or 1D target tensor expected"),
        Sign("1D target tensor expected, multi-target not supported"),
        Sign("multi-target not supported"),
        Sign("Expected target size"),
        Sign("only batches of spatial targets supported"),
        Sign("Expected floating point type for target with class probabilities"),
        Sign("can't be cast to the desired output type Long"),
        Sign("size mismatch (got input:", also=("target:",)),
        Sign("Label values must be <= vocab_size"),
        Sign("nll_loss", also=("not implemented for",)),
        Sign("num_labels", where="else"),
    ),
    examples=(
        Example(
            "ValueError: Expected input batch_size (4096) to match target batch_size (8).",
            "made by causing it (numbers changed), torch 2.13.0",
        ),
        Example(
            "RuntimeError: 0D or 1D target tensor expected, multi-target not supported",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="torch's losses; transformers' own checks.",
    narrow=2,
)
