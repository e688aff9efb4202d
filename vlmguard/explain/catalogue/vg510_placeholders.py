"""Images and placeholders of one row differ in number."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEPS = (
    Do(
        "python -m pip install -U llamafactory: newer ones take rows with no image or with "
        "several; else rows with one image each",
        "none",
        when=("one image per sample",),
        kind="rows",
    ),
    Do(
        "fps as one number (processor(…, fps=2.0)), or one for each video: images, videos, "
        "video_kwargs = process_vision_info(messages, return_video_kwargs=True) gives them",
        "none",
        when=("length of fps",),
        kind="rows",
    ),
    Do(
        'grep -A 20 \'"{dataset}"\' data/dataset_info.json: without "images": "images" '
        "under columns no row has an image; its file_name is the file to look through: as many "
        "<image> in each row's text as paths in its images",
        "none",
        when=("<image>",),
        unless=("length of fps",),
        kind="columns",
    ),
    Do(looks.ROWS, "none", kind="rows"),
    Do(looks.ROWS_OF_FILE, "none", kind="rows"),
    Do("give images as a list of paths, one for each placeholder; not inside the text"),
    Do("mend or drop those rows once, before training", "those rows are not trained on"),
)
_IN_FILE = Do(
    "mend these rows in {data} (as many <image> in the text as paths in images), and "
    "overwrite_cache: true; no number there: dataset_info.json lacks "
    '"images": "images" under columns',
    "none",
    when=("<image>",),
)


# Where positions are counted, the pictures are there, and their tokens may have been cut off.
_CUT = Do(
    "--truncation_strategy delete: left and right cut a long row within its image tokens, so that "
    "an image has fewer than its grid says, or a begin and nothing behind it; or a larger "
    "--max_length",
    "rows that are too long are not trained on",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """LLaMA-Factory keeps rows that it has read, and takes columns by a file of its own."""
    cuts = facts.said.get("truncation_strategy", "") in ("left", "right")
    if cuts and facts.framework == "ms-swift" and "get_rope_index" in facts.trace:
        return (_CUT, *_STEPS)
    return (*_STEPS[:-1], _IN_FILE) if facts.framework == "LLaMA-Factory" else _STEPS


FAILURE = Known(
    code="VG510",
    name="explain-placeholders",
    title="A row's images and its <image> placeholders differ in number",
    zh="样本中的图像数量与 <image> 占位符数量不一致",
    why="a row names more or fewer images than its text has "
    "placeholders for, or an image was given as a text",
    do=_do,
    wrong="Where it strikes only some rows, the template is right and "
    "the data are wrong; where it strikes all, the template or the "
    "column's name is.",
    signs=(
        Sign("KeyError: 'pixel_values'"),
        Sign("KeyError: 'image_grid_thw'"),
        Sign("only supports one image per sample"),
        Sign("number of images does not match"),
        Sign("number of images", also=("does not match the number of",)),
        Sign("The number of images in the text"),
        Sign("The number of image tokens in the text"),
        Sign("number of videos does not match"),
        Sign("number of audios does not match"),
        Sign("img_embeddings[i].shape[0]", where="trace"),
        Sign("Missing media.", releases="ms-swift 2"),
        Sign("len(idx_list): ", also=("len(images): ",), releases="ms-swift 2"),
        Sign("Number of media:", also=("number of media_tags",), releases="ms-swift 2"),
        Sign("Number of images does not match number of special image tokens"),
        Sign("Got different number of images"),
        Sign("Number of image placeholders in the prompt does not match"),
        Sign("Inconsistently sized batches of images"),
        Sign("more images than image tokens"),
        Sign("num_images:", also=("num_media",)),
        Sign("number of image token", also=("does not match",), no=("features",)),
        Sign("Invalid input type. Must be a single image"),
        Sign("Prompt contained", also=("image tokens but received",)),
        Sign("inconsistently sized batches of images"),
        Sign("Number of images provided", also=("placeholders",)),
        Sign("does not support image input"),
        Sign("does not support video input"),
        Sign("does not support audio input"),
        Sign("num_media_tags"),
        Sign("You need to specify either `text` or `images`"),
        Sign("should be the same as the number of images passed"),
        Sign("should be the same as the number of provided images"),
        Sign("either be no images or at least one image per sample"),
        Sign("no images or at least one image per sample"),
        Sign("placeholders across the batch", also=("flattened images",)),
        Sign(
            "tokens in the text but no",
        ),
        Sign(
            "in provided text but received",
        ),
        Sign("image placeholder spans than entries"),
        Sign("Failed to apply prompt replacement"),
        Sign("prompt updates corresponding to"),
        Sign("but there are no audio tokens in the prompt"),
        Sign("runs of image tokens in the prompt"),
        Sign("image_grid_thw", also=("NoneType",)),
        Sign("images is not equal to the number of"),
        Sign("the number of images and image tokens"),
        Sign("Invalid input text. Please provide a string"),
        Sign("Either text or images must be provided"),
        Sign("in get_rope_index", where="raised", no=("shape of the mask",)),
        Sign("The number of images in each batch"),
        Sign("image start token != image end tokens"),
        Sign("The number of image start tokens and image end tokens"),
        Sign("image end token should follow the image start token"),
        Sign("in image dict", also=("not found",)),
        Sign("is out of bounds for dimension", also=("image_grid_thw[",)),
        Sign("is out of bounds for dimension", also=("video_grid_thw[",)),
        Sign("is out of bounds for dimension", also=("/processing_", " in __call__")),
        Sign("list index out of range", also=("image_grid_thw[",)),
        Sign("is out of bounds for dimension", also=("image_features[cur_image_idx",)),
        Sign("is out of bounds for dimension", also=("in prepare_inputs_labels_for_multimodal",)),
        Sign("/processing_", where="raised"),
        Sign("should be the same as in the number of provided images"),
        Sign("mm_plugin.py", where="raised"),
        Sign(": 151339 is not in list", releases="GLM-4V: a row without an image"),
        Sign(": 151652 is not in list", releases="Qwen-VL's start of an image"),
        Sign(": 151655 is not in list", releases="Qwen-VL's image"),
        Sign(": 151656 is not in list", releases="Qwen-VL's video"),
        Sign("<image>", where="else"),
        Sign("image token", where="else"),
        Sign("number of images", where="else"),
    ),
    examples=(
        Example(
            "ValueError: The number of images does not match the number of "
            "<image> tokens in [{'content': '…'}].",
            "llamafactory/data/mm_plugin.py, 0.9.3",
        ),
    ),
    evidence="2U1/Qwen-VL-Series-Finetune#181, hiyouga/LlamaFactory#5883; row 3.",
    prevented=("VG201",),
)
