"""An image whose shape the processor refuses."""

from __future__ import annotations

import re
from dataclasses import replace

from vlmguard.explain import given, looks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_TABLE = re.compile(r"size of tensor a \((\d{1,6})\) must match the size of tensor b \((\d{1,6})\)")
_FACTOR = re.compile(r"must be larger than factor:? ?(\d{1,3})")
_PATCHES = re.compile(
    r"cannot reshape array of size (?P<size>\d{1,12}) into shape \((?P<shape>[\d,]{5,60})\)"
    r"|shape '\[(?P<wanted>[\d, ]{5,80})\]' is invalid for input of size (?P<had>\d{1,12})"
)


def _why(facts: Facts) -> str:
    if "'shortest_edge' and 'longest_edge'" in facts.message:
        return (
            "the model's preprocessor_config.json gives its size by other keys than this release "
            "of transformers takes"
        )
    if match := _FRAMES.search(facts.message):
        return f"a video has {match[1]} frames, and {match[2]} are asked for"
    if match := _PATCHES.search(facts.message):
        return (
            f"the processor divides an image into patches ({match['shape'] or match['wanted']}) "
            f"and got an array of {match['size'] or match['had']} values, which these do not make: "
            "the image was not resized to multiples of the patches, or the row names a size that "
            "is not the image's"
        )
    if match := _TABLE.search(facts.message):
        return (
            f"an image became {match[1]} tokens (its patches, and for most towers one more), and "
            f"the vision tower has positions for {match[2]}: the processor's image size is not the "
            f"tower's"
        )
    return (
        "the image processor of this family refuses an aspect ratio beyond 200 or a side smaller "
        "than one patch"
    )


# Qwen's utilities: of a video that has fewer frames than are asked for.
_FRAMES = re.compile(
    r"nframes should (?:be )?in interval \[\d{1,3}, (\d{1,6})\], but got (\d{1,6})"
)


def _frames(has: int, asked: int) -> tuple[Do, ...]:
    if has < 2:
        said = "take videos of one frame out of the rows, or have them as images"
        return (Do(f"{said}: two frames are the least that Qwen's tower takes", "those rows"),)
    fewer = f"{has // 2 * 2} as nframes (max_frame_num, num_frames, …: as command and rows call it)"
    said = f"the video has {has} frames, and {asked} are asked for; or fps in its place, which goes"
    return (Do(f"{fewer}: {said} by the video's length", "fewer frames of each video"),)


def _do(facts: Facts) -> tuple[Do, ...]:
    if match := _FRAMES.search(facts.message):
        return _frames(int(match[1]), int(match[2]))
    if "must contain 'shortest_edge' and 'longest_edge' keys" in facts.message:
        return looks.EDGES
    if _PATCHES.search(facts.message):
        return (
            *(_CACHED if "cached_dataset" in facts.said else ()),
            Do(
                "grep -n -E 'do_resize|size|pixels|patch' {modelfolder}/preprocessor_config.json: "
                "do_resize must be true, unless every image is resized before",
                "none",
                kind="model",
            ),
            Do(
                "grep -rnE '\"(do_resize|size|min_pixels|max_pixels|patch_size|merge_size)\"' "
                "--include=preprocessor_config.json .: do_resize must be true, unless every image "
                "is resized before",
                "none",
                kind="model",
            ),
            Do(
                "grep -rnE 'resized_(height|width)' --include='*.json*' . | head: multiples of "
                "patch_size x "
                "merge_size where a row names them (28 for Qwen2-VL and Qwen2.5-VL, 32 for "
                "Qwen3-VL)",
                "none",
            ),
        )
    if _TABLE.search(facts.message):
        return (
            Do(
                "grep -n -E 'size|crop|patch' {modelfolder}/preprocessor_config.json "
                "{modelfolder}/config.json: "
                "the processor's size must be the vision tower's image_size; load both from one "
                "model",
                "none",
                kind="model",
            ),
            Do(
                "grep -rnE '\"(image_size|crop_size|size|patch_size)\"' "
                "--include=preprocessor_config.json --include=config.json .: the processor's size "
                "must be the vision tower's image_size (257 tokens: 224, 577: 336, at patches of "
                "14); load both from one model",
                "none",
                kind="model",
            ),
            Do(
                "interpolate_pos_encoding=True in the call of the tower, where images of another "
                "size are wanted",
                "positions are interpolated",
            ),
        )
    return _small(facts) if "must be larger than" in facts.message else _rows(facts)


# ms-swift: what `swift export --to_cached_dataset` counted is taken as it is.
_CACHED = (
    Do(
        "MAX_PIXELS=N in front of the training command (and MIN_PIXELS, IMAGE_MAX_TOKEN_NUM, "
        "VIDEO_MAX_PIXELS, FPS_MAX_FRAMES), each as swift export had it: the cached rows were "
        "counted with these, and the images are resized by what is set now",
        "none",
    ),
)


def _rows(facts: Facts) -> tuple[Do, ...]:
    """Rows of a file, or of a data set by its name, whose images lie in it."""
    named = "dataset_name" in facts.said and not given.files(facts).get("data")
    return tuple(do for do in _NARROW if named or do not in _FILTER)


_FILTERED = "dataset = dataset.filter(lambda x: max(x['image'].size) < 200 * min(x['image'].size))"
_COST = "those rows are not trained on"
_FILTER = (
    Do(
        f"{_FILTERED} in {{main}}, behind load_dataset (a list of images: all(… for i in "
        "x['images']))",
        _COST,
        kind="narrow",
    ),
    Do(
        f"{_FILTERED} behind load_dataset, in the script of {{place}} (a list of images: all(… for "
        "i in x['images']))",
        _COST,
        kind="narrow",
    ),
    Do(
        f"{_FILTERED} behind load_dataset, in the script that trains (a list of images: all(… for "
        "i in x['images']))",
        _COST,
        kind="narrow",
    ),
)
_OUT = ": prints the images that are refused and writes kept.json without their rows: train on that"
_NARROW = (
    Do(looks.KEPT + "{data} {images}" + _OUT, _COST, kind="narrow"),
    Do(
        looks.KEPT + "{data} ." + _OUT + " (the dot: the folder from which its paths count)",
        _COST,
        kind="narrow",
    ),
    Do(
        looks.KEPT + "DATA.json {images}" + _OUT,
        _COST,
        kind="narrow",
    ),
    *_FILTER,
    Do(
        looks.KEPT + "DATA.json IMAGE_FOLDER" + _OUT,
        _COST,
        kind="narrow",
    ),
    Do(
        looks.NARROW + ".: the images that are refused, below this folder, where no file lists "
        "the rows",
        "none",
    ),
    Do("pad or enlarge the image before it is stored", "none"),
)


def _small(facts: Facts) -> tuple[Do, ...]:
    """Images with a side smaller than a patch and its merge, which older releases refuse."""
    match = _FACTOR.search(facts.message)
    side = match[1] if match else "28"
    swapped = (
        replace(
            do,
            action=do.action.replace("b > 199 * a", f"a < {side}")
            .replace("b < 200 * a", f"a >= {side}")
            .replace(
                "max(x['image'].size) < 200 * min(x['image'].size)",
                f"min(x['image'].size) >= {side}",
            ),
        )
        for do in _rows(facts)
    )
    return tuple(swapped)


FAILURE = Known(
    code="VG518",
    name="explain-image-geometry",
    title="An image's shape is not what the processor or the vision tower takes",
    zh="图像尺寸不符合处理器或视觉塔的要求",
    why=_why,
    do=_do,
    wrong="Catching the error per row lets ranks get different kinds of "
    "rows, and they wait for each other.",
    signs=(
        Sign("Kernel size can't be greater than actual input size"),
        Sign("absolute aspect ratio must be smaller than"),
        Sign("must be larger than factor"),
        Sign("must be larger than temporal_factor"),
        Sign("height and width must be > 0"),
        Sign("mean must have 1 elements if it is an iterable"),
        Sign("Unable to infer channel dimension format"),
        Sign("nframes should in interval"),
        Sign("cannot reshape array of size", beside=(",2,14)",), releases="Qwen2-VL's patches"),
        Sign("cannot reshape array of size", beside=(",2,16)",), releases="Qwen3-VL's patches"),
        Sign("mage size ("),
        Sign("doesn't match model (", releases="timm, torchvision"),
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
