"""Which failure an exception's type tells, and the words in which checks speak of their topic.

Asked only where no message of the catalogue is in the exception. A type counts wherever it was
raised (a parser's, a download library's: they have one cause). Words count last, and only of a
check (ValueError, AssertionError, NotImplementedError) of a package, or of one without frames: of
two topics the first in the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vlmguard.explain.topics import (
    CHECKS,
    NAMELESS,
    OPERANDS,
    OPERATORS,
    PATHS,
    STRONG,
    TOPICS,
    Topic,
)

# Class → beginnings of the type, with its module. The longest one counts.
TYPES: dict[str, tuple[str, ...]] = {
    "VG512": ("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"),
    "VG522": ("safetensors_rust.SafetensorError: File does not contain tensor",),
    "VG532": ("numpy.core._exceptions._ArrayMemoryError", "pyarrow.lib.ArrowMemoryError"),
    "VG537": ("pynvml.", "cupy_backends.cuda.", "cuda.bindings."),
    "VG539": ("huggingface_hub.errors.BadRequestError", "google.auth.exceptions."),
    "VG540": (
        "requests.exceptions.",
        "requests.HTTPError",
        "urllib3.exceptions.",
        "urllib.error.",
        "http.client.",
        "httpx.",
        "httpcore.",
        "aiohttp.client_exceptions.",
        "aiohttp.http_exceptions.",
        "ssl.SSL",
    ),
    "VG541": ("zlib.error", "lzma.LZMAError", "_lzma.LZMAError", "gzip.BadGzipFile"),
    "VG553": (
        "huggingface_hub.errors.StrictDataclass",
        "pydantic_core._pydantic_core.ValidationError",
        "pydantic.error_wrappers.ValidationError",
        "tomllib.TOMLDecodeError",
        "toml.decoder.TomlDecodeError",
        "configparser.",
        "click.exceptions.UsageError",
        "click.exceptions.NoSuchOption",
        "click.exceptions.BadParameter",
        "click.exceptions.BadOptionUsage",
        "click.exceptions.MissingParameter",
        "typer.BadParameter",
        "dacite.",
        "jsonargparse.",
        "absl.flags.",
        "marshmallow.exceptions.",
        "simple_parsing.",
        "ruamel.yaml.",
        "omegaconf.",
        "hydra.",
        "yaml.",
        "argparse.Argument",
    ),
    "VG554": (
        "pyarrow.",
        "pandas.errors.",
        "_csv.Error",
        "jsonlines.",
        "orjson.",
        "simplejson.",
        "ujson.",
        "ijson.",
        "json.decoder.JSONDecodeError",
        "json.JSONDecodeError",
        "lmdb.",
        "tarfile.",
        "webdataset.",
        "polars.exceptions.",
        "datasets.exceptions.",
        "datasets.utils.info_utils.",
        "datasets.builder.",
        "datasets.table.",
    ),
    "VG555": (
        "av.error.",
        "av.AVError",
        "PIL.",
        "cv2.error",
        "decord.",
        "imageio.",
        "soundfile.",
        "audioread.",
        "pydicom.errors.",
        "rasterio.errors.",
        "ffmpeg.",
        "ffmpeg._run.",
    ),
    "VG557": ("torch.utils.cpp_extension.",),
    "VG565": ("comet_ml.", "neptune.", "wandb.", "swanlab.", "mlflow.", "clearml.", "aim."),
    "VG574": ("jinja2.exceptions.",),
    "VG575": ("accelerate.utils.imports.DeepSpeed", "deepspeed.runtime.config"),
    "VG578": ("triton.compiler.", "triton.runtime.", "torch._inductor.exc.", "torch._dynamo.exc."),
    "VG583": ("multiprocess.pool.MaybeEncodingError", "multiprocessing.pool.MaybeEncodingError"),
    "VG587": ("sklearn.", "nltk.LookupError", "evaluate."),
    "VG598": ("botocore.exceptions.", "boto3.exceptions.", "oss2.exceptions."),
    "VG591": (
        "ray.exceptions.RaySystemError",
        "ray.exceptions.GetTimeoutError",
        "ray.exceptions.ObjectStoreFullError",
        "ray.exceptions.RuntimeEnvSetupError",
    ),
    # What the caller asked of a driver that is well: no class's.
    "": ("pynvml.NVMLError_NotSupported", "pynvml.NVMLError_InvalidArgument"),
}
_TYPES = tuple((text, code) for code, texts in TYPES.items() for text in texts)

# Frameworks that many run from a checkout.
_CHECKOUT = re.compile(
    r"[/\\](?:transformers_modules|transformers|deepspeed|accelerate|peft|trl|swift|llamafactory|llmtuner"
    r"|verl|axolotl|colossalai|megatron|mcore_bridge|FlagEmbedding|unsloth|unsloth_zoo|vllm|sglang"
    r"|openrlhf|xtuner|torchtune|diffusers|datasets)[/\\](?!lib[/\\])"
)


def by_type(message: str) -> str | None:
    """The class that an exception's type tells. ``message`` begins with the type."""
    found = [(len(text), code) for text, code in _TYPES if message.startswith(text)]
    return (max(found)[1] or None) if found else None


def installed(path: str) -> bool:
    """Whether a file is an installed package's, a framework's checkout's or the Hub's code."""
    return "-packages/" in path.replace("\\", "/") or bool(_CHECKOUT.search(path))


def standard(path: str) -> bool:
    """Whether a file is Python's own."""
    return "/lib/python" in path or path.startswith("<frozen")


def apart(message: str, texts: Iterable[str]) -> int:
    """How many of the texts stand in the message without a common letter.

    One that tells by itself counts as two.
    """
    count = 0
    if any(text in STRONG and text in message for text in texts):
        return 2
    for text in sorted(set(texts), key=len, reverse=True):
        if text in message:
            count, message = count + 1, message.replace(text, "\n")
    return count


def by_words(kind: str, message: str, words: int = 1) -> str | None:
    """The class of the topic of which a check, or torch's operator, of the type ``kind`` speaks.

    Of a check's topic ``words`` of its words must be there.
    """
    name = kind.rpartition(".")[2]
    if name in CHECKS and (code := _topic(TOPICS, message, words)) is not None:
        return code
    return _topic(OPERANDS, message) if name in OPERATORS else None


def by_path(kind: str, path: str) -> str | None:
    """The class that a check's file tells by its name, of an installed package."""
    inside = "-packages/" in path and not any(f"-packages/{own}/" in path for own in NAMELESS)
    name = kind.rpartition(".")[2]
    near = "/".join(["", *path.lower().rsplit("/", 2)[-2:]])  # the file and its folder
    return _topic(PATHS, near) if inside and name in CHECKS[:3] else None


def _topic(table: tuple[Topic, ...], message: str, words: int = 1) -> str | None:
    for code, some, none in table:
        if apart(message, some) >= words and not any(text in message for text in none):
            return code
    return None
