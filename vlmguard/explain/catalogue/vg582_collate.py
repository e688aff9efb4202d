"""Rows of a batch cannot be put together."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_NAMED = re.compile(r"Perhaps your features \(`(\w{1,40})` in this case\)")


def _why(facts: Facts) -> str:
    """What differs, where the message names it."""
    match = _NAMED.search(facts.message)
    if match is not None and match[1] == "labels":
        return (
            "the labels of one batch's rows are of different lengths, and the collator pads the "
            "ids alone: DataCollatorForSeq2Seq pads labels too"
        )
    return (
        "the collator was to stack rows of different length, image size or type: "
        "nobody pads them, a row is nested more deeply than the others, or a "
        "picture reached it that no processor turned into a tensor"
    )


FAILURE = Known(
    code="VG582",
    name="explain-collate",
    title="Rows of one batch cannot be put together: their shapes or types differ",
    zh="同一批次的样本形状或类型不一致，无法拼接",
    why=_why,
    do=(
        Do(
            "python -m pip install -U {builtin} transformers: it put these rows together "
            "itself; still so: --per_device_train_batch_size 1, with which nothing is put "
            "together",
            "slower steps",
            when=(
                "truncation and/or padding",
                "padding=True",
            ),
            kind="pad",
        ),
        Do(
            "image.resize((448, 448)) in the data set, before it becomes a tensor "
            "(torchvision.transforms.Resize((448, 448))): images of several sizes cannot be "
            "stacked; or --per_device_train_batch_size 1",
            "detail is lost; or slower steps",
            when=(
                "got [3, ",
                "got [1, ",
            ),
            kind="shape",
        ),
        Do(
            "data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True): it pads the rows and "
            "their labels",
            "none",
            when=("truncation and/or padding", "padding=True"),
            kind="pad",
        ),
        Do(
            "print([{k: getattr(v, 'shape', type(v)) for k, v in row.items()} for row in rows]) "
            "first in the collator: which key differs?",
            "none",
            unless=("truncation and/or padding", "padding=True"),
            kind="shape",
        ),
        Do(
            "the framework's own collator (data_collator left out), or one that "
            "calls processor(…, padding=True)",
            "none",
        ),
        Do("remove_unused_columns=False, and a collator that takes what the rows hold", "none"),
        Do("--per_device_train_batch_size 1: shows whether the rows alone are sound", "slower"),
        Do(
            "images of one size, or a model whose processor gives lists of patches",
            "detail is lost",
        ),
    ),
    wrong="Truncation makes lengths equal and cuts image placeholders (VG506).",
    signs=(
        Sign("Unable to create tensor"),
        Sign("stack expects each tensor to be equal size"),
        Sign("Stack expects each tensor"),
        Sign("expected sequence of length", also=("at dim",)),
        Sign("default_collate: batch must contain"),
        Sign("each element in list of batch should be of equal size"),
        Sign("Trying to resize storage that is not resizable"),
        Sign("too many dimensions 'str'"),
        Sign("inhomogeneous shape"),
        Sign("All input arrays must have the same shape"),
        Sign("only one element tensors can be converted"),
        Sign("Some items in the output dictionary have a different batch size"),
        Sign("Sizes of tensors must match except in dimension", also=("collat",)),
        Sign("You should supply an encoding or a list of encodings to this method"),
        Sign("new(): invalid data type 'str'"),
        Sign("expected Tensor as element 0 in argument 0"),
        Sign("Could not infer dtype of"),
        Sign("Packing requires all columns to be lists"),
        Sign("can't convert np.ndarray of type numpy.object_"),
        Sign("excessive nesting"),
        Sign("overflowing tokens of different lengths"),
        Sign("The `text` input must be"),
        Sign("torch/utils/data/_utils/collate.py", where="raised"),
        Sign("transformers/data/data_collator.py", where="raised"),
        Sign("in pad_without_fast_tokenizer_warning", where="raised"),
        Sign("in convert_to_tensors", where="raised"),
        Sign("in pad_sequence", where="raised"),
        Sign("pixel_values of shape", also=("expect to be of",)),
        Sign("You can't use batches of different size with `dispatch_batches=True`"),
        Sign("Can only concatenate tensors but got"),
        Sign("Sizes of tensors must match except in dimension 0. Expected"),
        Sign("torch/utils/data/_utils/collate.py", where="within", no=("out of memory",)),
    ),
    examples=(
        Example(
            "RuntimeError: stack expects each tensor to be equal size, but got "
            "[3, 448, 448] at entry 0 and [3, 336, 336] at entry 1",
            "made by causing it (names and numbers changed), torch 2.13.0",
        ),
        Example(
            "ValueError: Unable to create tensor, you should probably activate "
            "truncation and/or padding with 'padding=True' 'truncation=True' to "
            "have batched tensors with the same length.",
            "transformers/tokenization_utils_base.py, 5.19.0",
        ),
    ),
    evidence="torch's and transformers' own checks.",
    narrow=0,
)
