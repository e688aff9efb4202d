"""An image whose shape the processor refuses."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG518",
    name="explain-image-geometry",
    title="An image is too narrow or too small for the processor",
    zh="图像过窄或过小，处理器拒绝",
    why="the image processor of this family refuses an aspect ratio "
    "beyond 200 or a side smaller than one patch",
    do=(
        Do(
            "filter such rows: max(w, h) / min(w, h) < 200 and both sides ≥ 28",
            "those rows are not trained on",
        ),
        Do("pad or enlarge the image before it is stored", "none"),
    ),
    wrong="Catching the error per row lets ranks get different kinds of "
    "rows, and they wait for each other.",
    signs=(
        Sign("Kernel size can't be greater than actual input size"),
        Sign("expected input[", also=(" channels, but got",)),
        Sign("absolute aspect ratio must be smaller than"),
        Sign("must be larger than factor"),
        Sign("must be larger than temporal_factor"),
        Sign("height and width must be > 0"),
        Sign("mean must have 1 elements if it is an iterable"),
        Sign("Unable to infer channel dimension format"),
        Sign("nframes should in interval"),
        Sign("mage size ("),
        Sign("/image_processing_", where="raised"),
        Sign("/video_processing_", where="raised"),
        Sign("in smart_resize", where="raised"),
    ),
    examples=(
        Example(
            "ValueError: absolute aspect ratio must be smaller than 200, got 401.0",
            "transformers/models/glm46v/image_processing_glm46v.py, 5.19.0",
        ),
    ),
    evidence="QwenLM/Qwen3-VL#220; row 17.",
)
