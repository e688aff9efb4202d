"""An image or video cannot be opened."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG555",
    name="explain-image-file",
    title="An image or video file is missing or broken",
    zh="图像或视频文件缺失或损坏",
    why="a row names a media file that is not there, is cut, or is none",
    do=(
        Do(
            "find the row: open every image once before training (PIL.Image.open(path).load())",
            "none",
        ),
        Do("eager_rows", "the run stops at a bad row instead of replacing it"),
        Do("PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True, where cut files are wanted", "grey areas"),
    ),
    wrong="Skipping bad rows on one rank alone makes its batches differ: the others wait (VG505).",
    signs=(
        Sign("cannot identify image file"),
        Sign("image file is truncated"),
        Sign("Truncated File Read"),
        Sign("broken PNG file"),
        Sign("UnidentifiedImageError"),
        Sign("DecompressionBombError"),
        Sign("Could not load the image"),
        Sign("Incorrect image source"),
        Sign("Failed to load image"),
        Sign("image file could not be identified"),
        Sign("Unable to open image"),
        Sign("moov atom not found"),
        Sign("Error reading video"),
        Sign("cannot find video"),
        Sign("decord"),
        Sign("No such file or directory", also=(".jpg",)),
        Sign("No such file or directory", also=(".png",)),
        Sign("No such file or directory", also=(".jpeg",)),
        Sign("No such file or directory", also=(".mp4",)),
        Sign("No such file or directory", also=(".webp",)),
        Sign("Error opening"),
        Sign("Could not open video"),
        Sign("Could not push packet to decoder"),
        Sign("buffer size"),
        Sign("broken data stream when reading image file"),
        Sign("unrecognized data stream contents when reading image file"),
        Sign("Invalid data found when processing input"),
        Sign("InvalidDataError"),
        Sign("cannot reshape array of size 0"),
        Sign("Unsupported video"),
    ),
    examples=(
        Example(
            "OSError: image file is truncated (41 bytes not processed)",
            "made by causing it (names and numbers changed), Pillow 12",
        ),
        Example(
            "PIL.UnidentifiedImageError: cannot identify image file '/data/0001.jpg'",
            "made by causing it (names and numbers changed), Pillow 12",
        ),
    ),
    evidence="Pillow's own messages.",
    narrow=2,
)
