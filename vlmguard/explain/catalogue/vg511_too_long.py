"""A row is longer than the limit."""

from __future__ import annotations

import re

from vlmguard.explain import limits
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_ROW = re.compile(
    r"\b(?:row\((\d{1,7})\)|length of (\d{1,7})|(\d{1,7}) ?> ?\d"
    r"|[Pp]rompt (?:\(length )?(\d{1,7})\)? is longer|[Pp]rompt length (\d{1,7}) is longer)"
)
_POSITIONS = re.compile(
    r"(?:size of tensor a|expanded size of the tensor) \((\d{1,6})\) must match the "
    r"(?:size of tensor b|existing size) \((\d{1,6})"
)


def _why(facts: Facts) -> str:
    if _POSITIONS.search(facts.message):
        return "the row has more tokens than the model has positions"
    match = _ROW.search(facts.message)
    row = next(filter(None, match.groups())) if match else ""
    tokens = f" ({row} tokens)" if row else ""
    return (
        f"the row's text and the tokens that its images become{tokens} are longer than the limit; "
        "one large image alone may be 16,384 tokens"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if table := _POSITIONS.search(facts.message):  # the model itself has no more positions
        short = f"truncation=True, max_length={table[2]} for the tokenizer: more it cannot read"
        if facts.framework == "FlagEmbedding":
            room = int(table[2]) - 2  # RoBERTa's positions begin behind the padding's
            short = f"--query_max_len {room} --passage_max_len {room}: more it cannot read"
        return (Do(short, "the rest of the row is not seen"), Do("drop_long", "fewer rows"))
    match = _ROW.search(facts.message)
    row = int(next(filter(None, match.groups()))) if match else 0
    cost = f"more memory for long rows{limits.now(facts)}"
    if "verl/" in facts.trace:  # verl, EasyR1
        return _of_verl(facts, row, cost)
    if row > limits.MANY:  # no card holds such a row: smaller images, or without it
        return (
            Do("max_pixels", "smaller images, fewer tokens", limits.fewer_pixels(facts)),
            Do("drop_long", "the longest rows are not trained on"),
            Do("max_length", cost, limits.longer(facts, row)),
        )
    if facts.framework == "ms-swift":
        smaller = Do("smaller_or_left_out", "smaller images", limits.fewer_pixels(facts))
        now = facts.number("max_length") or 0
        if facts.vision and now and row > 2 * now:  # of images: a limit as high takes the memory
            return (smaller, Do("longer_or_left_out", cost, limits.longer(facts, row)))
        return (
            Do("longer_or_left_out", cost, limits.longer(facts, row)),
            Do("max_pixels", "smaller images, fewer tokens", limits.fewer_pixels(facts)),
        )
    return (
        Do("max_length", cost, limits.longer(facts, row)),
        Do("max_pixels", "smaller images, fewer tokens", limits.fewer_pixels(facts)),
        Do("drop_long", "the longest rows are not trained on"),
    )


def _of_verl(facts: Facts, row: int, cost: str) -> tuple[Do, ...]:
    """Flags of hydra's, behind the same command: verl 0.6, EasyR1 0.3."""
    easy = "/EasyR1/" in facts.trace
    engine = "worker" if easy else "actor_rollout_ref"
    most = f" {engine}.rollout.max_model_len=" if "maximum model length" in facts.message else ""
    length = limits.room(row)
    longer = f"data.max_prompt_length={length}" + (most and f"{most}{2 * length}")
    pixels = dict(limits.fewer_pixels(facts))["pixels"]
    drop = "data.filter_overlong_prompts=True behind the same command"
    images = f"data.max_pixels={pixels} behind the same command"
    smaller = Do(images, "smaller images, fewer tokens")
    return (
        Do(drop, "the longest rows are not trained on"),
        Do(f"{longer} behind the same command", cost),
        *((smaller,) if easy else ()),
    )


FAILURE = Known(
    code="VG511",
    name="explain-too-long",
    title="A row is longer than the limit, images included",
    zh="样本（含图像 token）长度超过 max_length",
    why=_why,
    do=_do,
    wrong="Truncating a row with images cuts placeholders and fails later (VG506).",
    signs=(
        Sign(" in _validate_model_input", where="within", releases="vLLM"),
        Sign("is larger than the max_length"),
        Sign("exceeds the maximum length", no=("CUDA",)),
        Sign("MaxLengthError"),
        Sign("Failed to retrieve the dataset. You can avoid this issue by increasing `max_length`"),
        Sign("longer than the maximum model length"),
        Sign("The decoder prompt (length", releases="vLLM"),
        Sign("Prompt length", also=("is longer than",), releases="verl"),
        Sign("is longer than the specified maximum sequence length", also=("Error",)),
        Sign("Current length of row(", also=("max_length",)),
        Sign("larger than the specified max_length"),
        Sign("Failed to obtain a valid sample after multiple attempts", releases="ms-swift 3"),
        Sign("resample: only collected", releases="ms-swift 4"),
        Sign("is too short and causes image placeholder tokens"),
        Sign("The size of tensor a (", also=("embeddings += position_embeddings", "must match")),
        Sign("The expanded size of the tensor (", also=("buffered_token_type_ids",)),
        Sign("Token indices sequence length is longer", also=("Error",)),
        Sign("check if the max_length is appropriate", releases="ms-swift 2"),
        Sign("max_length", where="else"),
        Sign("max_seq_len", where="else"),
        Sign("maximum sequence length", where="else"),
        Sign("context length", where="else"),
    ),
    examples=(
        Example(
            "swift.template.base.MaxLengthError: Current length of "
            "row(5213) is larger than the max_length(4096).",
            "swift/template/base.py, 4.6.0",
        ),
    ),
    evidence="modelscope/ms-swift#6106, #6557; row 7.",
)
