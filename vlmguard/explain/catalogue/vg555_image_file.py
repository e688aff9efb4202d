"""An image or video cannot be opened."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do, Example, Known, Sign

_BLANK = (" .jpg", " .jpeg", " .png", " .webp")  # in front of the ending

FAILURE = Known(
    code="VG555",
    name="explain-image-file",
    title="An image or video file is missing or broken",
    zh="图像或视频文件缺失或损坏",
    why="a row names a media file that is not there, is cut, or is none",
    do=(
        Do(
            "{place}: print the path in front of this line, and assert image is not None, "
            "path: cv2.imread gives None for a file that is not there or is no image, and "
            "says nothing",
            "none",
            when=(
                "'NoneType' object",
                "empty() in function",
                "!_src.empty",
                "!ssize.empty",
            ),
            kind="imread",
        ),
        Do(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True first in the script, where the cut "
            "part may be grey; else the broken files, below",
            "grey areas",
            when=(
                "image file is truncated",
                "truncated (",
                "broken data stream",
            ),
            unless=("image file is truncated '",),
        ),
        Do(
            "in front of the line that opens it: print(data[:80]) of the bytes: <html> is a "
            "page that was stored in the image's place (a link that is dead or wants a "
            "login), b'' an empty file",
            "none",
            when=("BytesIO",),
        ),
        Do(
            "in front of the line that failed: assert image is not None, path: cv2.imread gives "
            "None for a file that is not there or is no image, and says nothing",
            "none",
            kind="imread",
            when=(
                "'NoneType' object",
                "empty() in function",
                "!_src.empty",
                "!ssize.empty",
                "!buf.empty",
            ),
        ),
        Do(
            "ls -l {path}; head -c 60 {path}, on the node that failed: no bytes, <html> or "
            "git-lfs in it: fetch it anew, or take its row out of the data",
            "none",
            when=("cannot identify",),
            kind="ls",
        ),
        Do(
            "ls {unblanked} && grep -rlZE '[[:space:]][.]{ending}' --include='*.json*' . | "
            "xargs -0 sed -i.bak -E 's/[[:space:]]+[.]{ending}/.{ending}/g', in the folder of the "
            "rows: they have a blank in front of the ending, which the files' names have not; the "
            "paths of all rows are mended, what was is in .bak",
            "none",
            when=("No such file", "FileNotFound"),
            kind="ls",
        ),
        Do(
            "ls -l {path}; ls {folder} | head -3, on the node that failed: not there: how are "
            "the others called (another name or split, a / that is missing between folder and "
            "name)?",
            "none",
            when=(
                "No such file",
                "FileNotFound",
            ),
            kind="ls",
        ),
        Do(
            looks.WHOSE_FOLDER,
            "none",
            when=(
                "No such file",
                "FileNotFound",
            ),
            unless=_BLANK,
        ),
        Do(
            "ls -l {path}, on the node that failed: not there, or cut?",
            "none",
            kind="ls",
        ),
        Do(
            "media_root",
            "none",
            when=("No such file or directory: '",),
            unless=("directory: '/",),
        ),
        Do(
            "ffprobe -v error {path}; ffmpeg -v error -i {path} -f null -: what is broken",
            "none",
            when=("video", "DECORD", "decord", ".mp4", ".avi", "moov", "av."),
        ),
        Do(
            "python -c 'import sys; from PIL import Image; Image.open(sys.argv[1]).load()' {path}",
            "none",
            unless=("No such file", "video", "DECORD", "decord", ".mp4", ".avi", "moov"),
        ),
        Do("copy {path} anew, or take its row out of the data", "none", unless=_BLANK),
        Do(
            "PIL.Image.MAX_IMAGE_PIXELS = None, for images of your own",
            "memory for a large one",
            when=("DecompressionBomb",),
        ),
        Do("find {folder} -type f -size -2k: are there more such files?", "none", kind="more"),
        Do(
            "find FOLDER -type f -name '*.mp4' -exec sh -c 'ffprobe -v error \"$1\" >/dev/null "
            "2>&1 || echo \"$1\"' _ {} ';': the videos that cannot be read (FOLDER: "
            "where they lie)",
            "a few minutes",
            when=("video", "DECORD", "decord", ".mp4", ".avi", "moov", "av."),
            kind="more",
        ),
        Do(
            looks.IMAGES_OF_ROWS + "{rows}: the rows whose images cannot be read, and why",
            "a few minutes",
            unless=("DecompressionBomb", "video", "DECORD", "decord", ".mp4", ".avi", "moov"),
            kind="more",
        ),
        Do(
            looks.BROKEN
            + "FOLDER: the images that cannot be read, and why (FOLDER: where they lie)",
            "a few minutes",
            unless=("DecompressionBomb",),
            kind="more",
        ),
        Do("eager_rows", "the run stops at a bad row instead of replacing it"),
        Do(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True, where cut files are wanted",
            "grey areas",
            when=("truncated",),
        ),
    ),
    wrong="Skipping bad rows on one rank alone makes its batches differ: the others wait (VG505).",
    signs=(
        Sign("Failed to fetch video"),
        Sign("Failed to fetch image"),
        Sign("Failed to decode video"),
        Sign("cannot identify image file"),
        Sign("image file is truncated"),
        Sign("Truncated File Read"),
        Sign("broken PNG file"),
        Sign("UnidentifiedImageError"),
        Sign("DecompressionBombError"),
        Sign("Could not load the image"),
        Sign("Incorrect image source"),
        Sign("Refusing to read the media file", releases="ms-swift 4"),
        Sign("Refusing media", releases="ms-swift 4"),
        Sign("video shorter than", releases="ms-swift 4"),
        Sign("could not read the video", releases="ms-swift 4"),
        Sign("Refusing to fetch", releases="ms-swift 4"),
        Sign("Image dictionary must contain either", releases="ms-swift"),
        Sign("Image must be a PIL Image, a file path", releases="ms-swift"),
        Sign("Failed to load image"),
        Sign("image file could not be identified"),
        Sign("Unable to open image"),
        Sign("moov atom not found"),
        Sign("Unable to handle EOF because it takes too long"),
        Sign("Failed to seek file to position"),
        Sign("video_reader.cc:"),
        Sign("Error reading video"),
        Sign("cannot find video"),
        Sign("decord", no=("initialization error",)),
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
        Sign("libtorchcodec"),
        Sign("not a TIFF file"),
        Sign("Invalid image type"),
        Sign("Incorrect padding"),
        Sign("cv2.error"),
        Sign("Out of bound indices"),
        Sign("NoneType' object has no attribute 'convert'"),
        Sign("PyAV"),
        Sign("no image / 画像がありません", releases="sd-scripts"),
        Sign("No scheme supplied"),
        Sign("Incorrect format used for image"),
        Sign("Unsupported number of image dimensions"),
        Sign("Invalid image shape"),
        Sign("Unsupported input image type"),
        Sign("Unrecognized image type"),
        Sign("Could not make a flat list of images"),
        Sign("Unsupported image format"),
        Sign("LibsndfileError"),
        Sign("NoBackendError"),
        Sign("av.error."),
        Sign("No video stream"),
        Sign("could not find video stream"),
        Sign("Failed to open video"),
        Sign("Could not find a video"),
        Sign("Expected an image input"),
        Sign("read any frames"),
        Sign("buffer is too small for"),
        Sign("FFmpeg"),
        Sign("-packages/PIL/", where="raised"),
        Sign("-packages/decord/", where="raised"),
        Sign("-packages/torchcodec/", where="raised"),
        Sign("torchvision/io/", where="raised"),
        Sign("-packages/av/", where="raised"),
        Sign("-packages/cv2/", where="raised"),
        Sign("-packages/imageio/", where="raised"),
        Sign("-packages/qwen_vl_utils/", where="raised"),
        Sign("-packages/qwen_omni_utils/", where="raised"),
        Sign("transformers/video_utils.py", where="raised"),
        Sign("transformers/image_utils.py", where="raised"),
        Sign("vision_utils.py", where="raised"),
        Sign("vision_process.py", where="raised"),
        Sign("-packages/librosa/", where="raised"),
        Sign("soundfile.py", where="raised"),
        Sign("-packages/audioread/", where="raised"),
        Sign("no more frames left to decode"),
        Sign("image file", where="else"),
        Sign("video file", where="else"),
        Sign("PIL Image", where="else"),
        Sign("PIL image", where="else"),
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
