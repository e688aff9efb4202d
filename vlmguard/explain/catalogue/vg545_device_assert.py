"""An index is out of range on the GPU."""

from __future__ import annotations

import re

from vlmguard.explain import limits
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_EMBEDDING = ("indexSelect", "srcSelectDimSize", "Embedding", "index out of range in self")
_CLASSES = ("n_classes", "Loss.cu", "NLL", "CrossEntropy", "Target ")
_OUTSIDE = Do(
    "{place}: print the index and the size of what it reads from, in front of this line: the index "
    "must be smaller",
    "none",
    when=("is out of bounds for dimension",),
)
_LABELS = Do(
    "print(labels.min(), labels.max()): labels must lie between 0 and num_labels - 1, or be -100",
    "none",
)
_TARGET = Do(
    "num_labels=N in from_pretrained, with N one more than the highest label: the class that "
    "'Target' names has no place",
    "none",
    when=("Target ",),
)
_BLOCKING = Do(
    "launch_blocking",
    "slow",
    unless=("IndexError", "index out of range in self"),  # of the CPU: it names the line
)
_CPU = Do(
    "one batch on the CPU: it names the line and the index",
    "slow",
    unless=("IndexError", "index out of range in self"),
)
_LARGEST = (
    'print({}["input_ids"].max(), len(tokenizer), model.get_input_embeddings().num_embeddings)'
)
_LESS = (
    ": the last must be larger than the first, or model.resize_token_embeddings(len(tokenizer)) "
    "there"
)
_IDS = (
    Do(
        _LARGEST.format("next(iter(trainer.get_train_dataloader()))")
        + ", in front of trainer.train() in {main}"
        + _LESS,
        "none",
        kind="ids",
    ),
    Do(_LARGEST.format("batch") + f", in front of the model's call{_LESS}", "none", kind="ids"),
)
# Of a framework's command, whose code is not the user's.
_SIZES = tuple(
    Do(
        "python -c 'import sys; from transformers import AutoConfig as C, AutoTokenizer as T; "
        "c = C.from_pretrained(sys.argv[1], trust_remote_code=True); print(len(T.from_pretrained("
        'sys.argv[1], trust_remote_code=True)), getattr(c, "vocab_size", None) or '
        f"c.text_config.vocab_size)' {model}: tokens, and rows of the embedding's table: the first "
        "number must not be the larger one; it is: the next step",
        "a minute",
        kind="ids",
    )
    for model in ("{modelfolder}", "{modelrepo}", "MODEL")
)
_RESIZE = (
    Do(
        "model.resize_token_embeddings(len(tokenizer)) in {main}, behind the line that adds tokens "
        "({addedtokens}) and in front of the Trainer",
        "new rows learn",
        kind="resize",
    ),
    Do(
        "model.resize_token_embeddings(len(tokenizer)) before training, where tokens were added",
        "new rows learn",
        kind="resize",
    ),
)


_CUT = ("image_bound", "image_indices", "get_vllm_embedding")  # of MiniCPM-V
_FILLED = (
    "labels = labels.masked_fill(labels == -100, 0) in front of it (its losses are masked out "
    "afterwards): a gather of log-probabilities takes labels as indices, and -100 is none"
)


def _gathered(facts: Facts) -> tuple[Do, ...]:
    """An index of scatter or gather, which is no token's id: places of images, or labels."""
    if any(name in facts.trace for name in _CUT):
        return (
            Do("max_length", "more memory for long rows", limits.longer(facts, 0)),
            Do("max_pixels", "smaller images: fewer tokens a row", limits.fewer_pixels(facts)),
        )
    return (
        Do(f"{_FILLED}: {{place}}", "none", kind="filled"),
        Do(_FILLED, "none", kind="filled"),
        Do(
            "{place}: print(index.min(), index.max(), x.shape) in front of this line: the index "
            "must be smaller than the size along its dimension",
            "none",
        ),
    )


def _why(facts: Facts) -> str:
    told = f"{facts.message} {facts.trace}"
    if any(name in facts.trace for name in _CUT):
        return (
            "the row was cut at the limit of its length, and the places of its images, which were "
            "counted before, lie beyond its end"
        )
    if "ScatterGatherKernel" in told:
        return (
            "a scatter or gather got an index that is negative or too large: labels of -100 in a "
            "gather of log-probabilities, or places in a row that was cut behind them; it is no "
            "embedding's kernel" + _LATER.get((facts.steps or (0, 0))[0] > 0, "")
        )
    return (
        "a kernel read outside a table: nearly always a token id beyond the vocabulary (an image "
        "token that was added without resizing the embeddings, a padding of -100 in input_ids) or "
        "a label beyond the classes"
    )


_PLACES = re.compile(r"index out of bounds: 0 <= \w{1,12} < (\d{3,7})\b")  # inductor's kernels


def _beyond(facts: Facts) -> tuple[Do, ...]:
    """A table as long as the model's positions: the row is longer than the model."""
    table, told = _PLACES.search(facts.message), facts.said.get("positions", "")
    if table is None or table[1] != told:
        return ()
    return (
        Do(
            f"--vllm_max_model_len {told}, and --max_length with --max_completion_length together "
            f"not above it: the model has {told} positions, and a row with its completion was "
            "longer (unset VLLM_ALLOW_LONG_MAX_MODEL_LEN)",
            "longer rows are refused",
        ),
    )


_LATER = {True: "; steps before were right, so it is this row"}


def _do(facts: Facts) -> tuple[Do, ...]:
    told = f"{facts.message} {facts.trace}"
    kernel = facts.said.get("kernel", "")
    classes = kernel == "classes" or any(words in told for words in _CLASSES)
    if classes:
        return (_OUTSIDE, _TARGET, _LABELS, _BLOCKING, _CPU)
    if "ScatterGatherKernel" in told or "scatter_(" in facts.trace or ".gather(" in facts.trace:
        return (*_gathered(facts), _BLOCKING, _CPU)
    if longer := _beyond(facts):
        return (*longer, _BLOCKING)
    own = facts.framework not in ("ms-swift", "LLaMA-Factory", "axolotl")
    trainer = "/trainer" in facts.trace or facts.framework in ("transformers", "TRL")
    ids = (_IDS if trainer else _IDS[1:]) if own else _SIZES
    if facts.framework == "LLaMA-Factory":
        resize: tuple[Do, ...] = (Do("resize_vocab: true, where add_tokens added some", "none"),)
    else:
        resize = _RESIZE
    rows = kernel == "rows" or any(words in told for words in _EMBEDDING)
    if "addedtokens" in facts.said:
        return (_OUTSIDE, *resize, *ids, _BLOCKING)
    if rows:
        return (_OUTSIDE, *ids, *resize[-1:], _BLOCKING, *((_CPU,) if own else ()))
    return (_OUTSIDE, _BLOCKING, *ids, *resize[-1:], _LABELS, _CPU)


FAILURE = Known(
    code="VG545",
    name="explain-device-assert",
    title="An index went out of range on the GPU (device-side assert)",
    zh="GPU 上索引越界（device-side assert）",
    why=_why,
    do=_do,
    wrong="The traceback's line is wrong without CUDA_LAUNCH_BLOCKING=1: "
    "kernels run later than they are called.",
    signs=(
        Sign("device-side assert triggered"),
        Sign("srcIndex < srcSelectDimSize"),
        Sign("index out of range in self"),
        Sign("is out of bounds.", also=("IndexError: Target",)),
        Sign("index out of bounds", also=("Assertion",)),
        Sign("index out of bounds", where="line", also=("Assertion",)),
        Sign("Assertion `t >= 0 && t < n_classes` failed"),
        Sign("Assertion `ind >=0 && ind < ind_dim_size"),
        Sign("index out of bounds: 0 <="),
        Sign("vectorized_gather_kernel"),
        Sign("Assertion `index >= -sizes[i]"),
        Sign("Assertion `srcIndex < srcSelectDimSize` failed", where="line"),
        Sign("Assertion `t >= 0 && t < n_classes` failed", where="line"),
        Sign("vectorized gather kernel index out of bounds", where="line"),
        Sign(
            "native/cuda/",
            where="line",
            also=(
                "Assertion",
                "thread: [",
            ),
            no=("probability tensor",),
        ),
        Sign(
            "is out of bounds for dimension",
            no=(
                "get_rope_index",
                "_grid_thw[",
                "/processing_",
                "cur_image_idx",
                "_for_multimodal",
            ),
        ),
        Sign("IndexError: Target", also=("is out of bounds",)),
    ),
    examples=(
        Example(
            "RuntimeError: CUDA error: device-side assert triggered",
            "c10/cuda/CUDAException.cpp, torch 2.4",
        ),
        Example(
            "IndexError: index out of range in self", "made by causing it, torch 2.13.0 on the CPU"
        ),
    ),
    evidence="torch's own message.",
    narrow=2,
)
