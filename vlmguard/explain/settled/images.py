"""What a processor is handed: images of another type, another nesting, or none."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_NONE = (
    'dataset = dataset.filter(lambda row: row["image"] is not None): rows without an image have '
    "None there",
    "images=None (not [None]) for the processor, where a batch has text alone",
)
_TYPES = {
    "str": 'Image.open(path).convert("RGB") for each path, in {place}: the processor takes '
    "pictures, not their paths",
    "list": "images=[a, b, …] in place of [[a], [b], …] in {place}: this processor takes one flat "
    "list",
    "dict": 'dataset = dataset.cast_column("image", datasets.Image()): the column holds bytes and '
    'path as datasets keep them; in code: Image.open(io.BytesIO(x["bytes"]))',
    "bytes": "Image.open(io.BytesIO(x)) for each, in {place}: the processor takes pictures, not "
    "their bytes",
}
_TYPE = "is of a type that this processor does not take as a picture"
TABLE = (
    Settled(
        said=("split_with_sizes expects split_sizes to sum exactly to 1 ",),
        trace=("_expand_dict_for_generation_visual",),
        steps=(
            "{place}, and where its inputs are made: pixel_values must come as the processor gives "
            "them, of shape (patches, features): take off the batch dimension that [None] or "
            "unsqueeze(0) adds",
            "pixel_values as the processor gives them, of shape (patches, features): without the "
            "batch dimension that [None] or unsqueeze(0) adds",
        ),
        why="pixel_values have one dimension too many: all patches stand in one row of a batch",
        code="VG518",
    ),
    Settled(
        said=("'list' object has no attribute",),
        trace=("PIL/Image.py", "in open"),
        steps=(
            "{place}: print(image) in front of that line: it is a list; a row's images must be a "
            'flat list of paths (["a.jpg", "b.jpg"], not [["a.jpg"]]), with one <image> each: '
            "mend those rows in the file",
            'a row\'s images as a flat list of paths (["a.jpg", "b.jpg"], not [["a.jpg"]]), with '
            "one <image> each: mend those rows in the file",
        ),
        why="a row names its images in a list within a list: a list reaches where one path is read",
        code="VG554",
    ),
    *(
        Settled(
            said=("Invalid image type", f"but got <class '{kind}'>"),
            steps=(step,),
            why=f"what was handed to the processor {_TYPE}: {kind}",
        )
        for kind, step in _TYPES.items()
    ),
    Settled(said=("Invalid image type", "but got <class 'NoneType'>"), steps=_NONE),
    Settled(said=("Could not make a flat list of images from [None",), steps=_NONE),
    Settled(said=("Could not make a flat list of images from [[None",), steps=_NONE),
    Settled(
        said=("number of images in each batch", "should be the same"),
        steps=(
            "processor(text=texts, images=[[image] for image in images], …) in {place}: a flat "
            "list is taken for the images of one row; the counts ({samecounts}) are alike",
        ),
    ),
    Settled(
        said=("The number of images in the text ", " and images "),
        steps=(
            'content=[{"type": "image"}, {"type": "text", "text": question}] in the messages that '
            "apply_chat_template gets ({place}): a text alone, or <image> in it, is given no image "
            "token (the message counts {imagesintext} of them)",
        ),
    ),
)
