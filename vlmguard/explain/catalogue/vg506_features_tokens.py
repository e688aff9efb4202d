"""Image features and placeholders in the text do not agree in number."""

from __future__ import annotations

import re

from vlmguard.explain import limits, looks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_ENGINE = re.compile(r"= (\d{1,9}) multimodal tokens to (\d{1,9}) placeholders")  # vLLM's
# index_put's words: features are written where the tokens are.
_SHAPES = re.compile(
    r"value tensor of shape \[(\d{1,9}), \d{1,9}\] cannot be broadcast to indexing result of "
    r"shape \[(\d{1,9}), \d{1,9}\]"
)
_TILES = re.compile(r"size of tensor a \((\d{1,9})\) must match the size of tensor b \((\d{1,9})\)")
_COUNTS = re.compile(r"tokens:? (\d{1,9}),? features:? (\d{1,9})")


def _counts(facts: Facts) -> tuple[int, int] | None:
    if match := _COUNTS.search(facts.message):
        return int(match[1]), int(match[2])
    if match := _ENGINE.search(facts.message):
        return int(match[2]), int(match[1])
    if "vit_embeds" in facts.trace and (match := _TILES.search(facts.message)):
        return int(match[1]), int(match[2])
    match = _SHAPES.search(facts.message)
    return (int(match[2]), int(match[1])) if match else None


_NEWER = Do(
    "python -m pip install -U 'transformers>=4.45': older ones take one placeholder for an image, "
    "and here each of its features has one already",
    "none, where nothing pins it",
)


def _why(facts: Facts) -> str:
    counts = _counts(facts)
    if counts is None:
        return (
            "the text's image placeholders and the image's features differ "
            "in number, usually cut by max_length"
        )
    tokens, features = counts
    if tokens == 0 and facts.framework == "LLaMA-Factory":
        return (
            f"the text has no image placeholder left, the image has {features} features: "
            "LLaMA-Factory 0.9 refuses rows whose <image> and images differ in number, so it was "
            "cut in front of its image by the limit of its length"
        )
    if tokens == 0:
        return (
            f"the text has no image placeholder, the image has {features} "
            f"features: the template or the data dropped <image>"
        )
    if features == 0:
        return (
            f"the text has {tokens} image placeholders and there is no "
            f"image: it was dropped or never loaded"
        )
    if tokens > features:
        more = tokens - features
        if more <= 8 and "grpo" in facts.trace.lower():
            return (
                f"{more} more placeholders than features: the policy itself "
                f"generated an image token"
            )
        return (
            f"{tokens} placeholders for {features} features: an image of "
            f"the row is missing, or the text holds the token itself"
        )
    cut = "the rest was cut, most often by the limit of a row's length"
    return f"{tokens} placeholders are left of {features}: {cut}"


def _longer(facts: Facts) -> str:
    """ms-swift leaves rows out that are longer still: no later row can fail in the same way."""
    return "longer_or_left_out" if facts.framework == "ms-swift" else "max_length"


def _do(facts: Facts) -> tuple[Do, ...]:
    counts = _counts(facts)
    cost = f"more memory for long rows{limits.now(facts)}"
    raised = Do(_longer(facts), cost, limits.longer(facts, max(counts or (0,)) * 32 // 25))
    pixels = Do("max_pixels", "smaller images", limits.fewer_pixels(facts))
    if "while the number of image given to the model" in facts.message:
        return (_NEWER, raised)
    if counts is not None and counts[0] == 0 and facts.framework == "LLaMA-Factory":
        longer = f"{cost}; overwrite_cache: true beside it, where rows are kept from before"
        return (
            Do(_longer(facts), longer, limits.longer(facts, counts[1] * 2)),
            Do(looks.ROWS, "none", kind="rows"),
            Do(looks.ROWS_OF_FILE, "none", kind="rows"),
            Do("drop_long", "the longest rows are not trained on"),
        )
    if counts is not None and counts[0] == 0:
        return (
            Do(looks.ROWS, "none", kind="rows"),
            Do(looks.ROWS_OF_FILE, "none", kind="rows"),
            Do("put the placeholder that the template knows (<image>) into those rows' text"),
            Do("eager_rows"),
        )
    if counts is not None and counts[0] > counts[1]:
        mask = (
            (Do("forbid the image tokens in generation (bad_words_ids or a logits mask)"),)
            if "grpo" in facts.trace.lower()
            else ()
        )
        return (
            *mask,
            Do(looks.ROWS, "none", kind="rows"),
            Do(looks.ROWS_OF_FILE, "none", kind="rows"),
            Do("eager_rows"),
        )
    if (
        counts is not None and counts[1] > limits.MANY
    ):  # one image alone: the row cannot be that long
        return (pixels, raised, Do("drop_long", "the longest rows are not trained on"))
    if facts.framework == "ms-swift":
        return (raised, pixels)
    return (raised, pixels, Do("drop_long", "the longest rows are not trained on"))


FAILURE = Known(
    code="VG506",
    name="explain-features-tokens",
    title="Image features and placeholder tokens differ in number",
    zh="图像特征数与文本中的图像占位符数量不一致（常被 max_length 截断）",
    why=_why,
    do=_do,
    wrong="Dropping the images is no cure: the row then has text about an image that is not there.",
    signs=(
        Sign("vision_start_indices + 1", where="trace", beside=("out of",), releases="Qwen-VL's"),
        Sign("vit_embeds", where="trace", beside=("size of tensor a",), releases="InternVL's"),
        Sign("bos_pos[0] == eos_pos[0]", where="trace", releases="Qwen-VL's own code"),
        Sign("split_with_sizes expects split_sizes to sum", also=("image_grid_thw",)),
        Sign("split_with_sizes expects split_sizes to sum", also=("get_image_features",)),
        Sign("number of elements in source < number of ones in mask"),
        Sign("mage features and image tokens do not match", releases="transformers ≥ 4.45"),
        Sign("ideo features and video tokens do not match", releases="transformers ≥ 4.45"),
        Sign("ideos features and video tokens do not match"),
        Sign("Audio features and audio tokens do not match"),
        Sign("image features and image tokens", no=("do not match",)),
        Sign(
            "The input provided to the model are wrong. The number of image tokens",
            releases="transformers < 4.45",
        ),
        Sign(
            "Mismatch in `image` token count between text and `input_ids`",
            releases="transformers ≥ 4.50",
        ),
        Sign("Mismatch in `video` token count between text and `input_ids`"),
        Sign(
            "shape mismatch: value tensor of shape",
            also=("cannot be broadcast to indexing result",),
            no=("p_attn_mask",),  # a picture's own patches: an older Idefics on a newer torch
        ),
        Sign("must match the size of tensor b", also=("vit_embeds",), releases="InternVL"),
        Sign("Number of image tokens", also=("does not match number of images",)),
        Sign("image_bound", also=("shape mismatch",), where="trace"),
        Sign(
            "Number of images does not match number of special image tokens",
            also=("image embeddings",),
        ),
        Sign("Number of elements of source < number of ones in mask"),
        Sign("totalElements <= srcSize", where="line"),
        Sign("eatures and", also=("tokens", "do not match")),
        Sign("features", also=("tokens mismatch",)),
        Sign("mage placeholder span length does not match"),
        Sign("spatial tokens, got"),
        Sign("multimodal tokens to", also=("placeholder",), releases="vLLM"),
        Sign("shape of the mask", also=("loss_scale",)),
    ),
    examples=(
        Example(
            "ValueError: Image features and image tokens do not match, tokens: 3, features: 4",
            "transformers/models/qwen3_vl/modeling_qwen3_vl.py, 5.19.0",
        ),
        Example(
            "ValueError: Image features and image tokens do not match: tokens: 1024, features 4096",
            "transformers/models/qwen2_vl/modeling_qwen2_vl.py, 4.51.3",
        ),
    ),
    evidence="huggingface/trl#5927, huggingface/transformers#37222, "
    "StarsfieldAI/R1-V#91; rows 2 and 22.",
    prevented=("VG202", "VG201"),
)
