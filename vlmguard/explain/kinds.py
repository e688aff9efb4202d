"""Which failure an exception's type tells, and the words in which checks speak of their topic.

Asked only where no message of the catalogue is in the exception. A type counts wherever it was
raised (a parser's, a download library's: they have one cause). Words count last, and only of a
check (ValueError, AssertionError, NotImplementedError): of two topics the first in the table.
"""

from __future__ import annotations

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
}
_TYPES = tuple((text, code) for code, texts in TYPES.items() for text in texts)

# Their own places are in tables: what is not there tells nothing.
NAMELESS = ("torch", "deepspeed", "transformers", "huggingface_hub", "colossalai", "triton")
CHECKS = ("ValueError", "AssertionError", "NotImplementedError", "Exception", "ImportError")
# A topic: (class, words of which one must be in the message, words of which none may be).
Topic = tuple[str, tuple[str, ...], tuple[str, ...]]
TOPICS: tuple[Topic, ...] = (
    ("VG552", ("pip install", "to be installed", "is not installed", "lease install"), ()),
    ("VG577", ("quantiz", "bitsandbytes", "GPTQ", "4-bit", "8-bit"), ()),
    ("VG594", ("divisible by", "must divide", "multiple of"), ("image", "patch", "num_gener")),
    ("VG576", ("FSDP", "FullyShardedDataParallel", "fully_shard", "fully sharded"), ()),
    ("VG575", ("DeepSpeed", "deepspeed config", "ds_config", "ZeRO-", "ZeRO stage"), ()),
    ("VG566", ("vLLM", "vllm", "SGLang", "sglang", "LMDeploy", "lmdeploy"), ()),
    ("VG585", ("adapter", "LoRA", "PEFT", "peft_", "lora_"), ("Megatron",)),
    ("VG574", ("chat template", "chat_template", "pad_token", "pad token", "padding token"), ()),
    ("VG581", ("reward function", "reward_func", "reward model"), ()),
    ("VG527", ("device_map",), ()),
    ("VG550", ("resume", "checkpoint director", "load checkpoint", "checkpoint was saved"), ()),
    ("VG587", ("eval_dataset", "compute_metrics", "evaluation dataset"), ()),
    ("VG554", ("dataset", "data set", "column", "Dataset"), ("model", "world", "rank")),
    ("VG510", ("<image>", "image token", "image placeholder", "image_token", "<video>"), ()),
    ("VG555", ("video file", "image file", "audio file", "load image", "open image"), ()),
    (
        "VG594",
        (
            "parallel size",
            "_parallel_size",
            "tp_size",
            "sp_size",
            "cp_size",
            "world_size",
            "world size",
        ),
        (),
    ),
    (
        "VG553",
        (
            "ust be one of",
            "hould be one of",
            "to be one of",
            "xpected one of",
            "must be either",
            "hould be either",
            "must be in [",
            "hould be in [",
            "vailable options",
            "alid options",
            "upported values",
            "ossible values",
            "alid values",
            "hoose from",
            "hoose one of",
            "must be positive",
            "must be > 0",
            "> 0, got",
            "annot be used",
            "must be greater than",
            "hould be greater than",
            "must be a positive",
            "non-negative",
            "greater than or equal",
            "used together",
            "cannot be used with",
            "be combined with",
            "incompatible with",
            "mutually exclusive",
            "pecify both",
            "cannot set both",
            "must be specified",
            "must be provided",
            "required when",
            "must be set",
            "hould be set to",
            "lease set",
            "lease specify",
            "only supported when",
            "only supported with",
            "not supported with",
            "nvalid value for",
            "nknown optimizer",
            "nsupported optimizer",
            "nknown loss",
            "nsupported loss",
            "nknown argument",
            "`args.",
            "TrainingArguments",
            "--",
            "cannot both be True",
            "` to be set",
            "requires `",
            "does not work with",
            "not compatible with",
            "Must be '",
            "is not recognized",
            "not a recognized",
            "Supported: ",
            "Available: ",
            "available: ",
            "must inherit from",
        ),
        (),
    ),
    (
        "VG553",
        ("ValueError: Unknown ", "ValueError: Invalid ", "ValueError: Unsupported "),
        (
            "image",
            "video",
            "audio",
            "shape",
            "tensor",
            "token",
            "input",
            "key",
            "index",
            "<class",
            "state",
            "data",
            "file",
            "path",
            "url",
            "rank",
            "layer",
        ),
    ),
)
# What a package's file is about, by its name; of a check alone, and where nothing else tells.
PATHS: tuple[Topic, ...] = (
    ("VG596", ("npu_", "_npu", "ascend"), ()),
    ("VG566", ("/vllm", "vllm_", "/sglang", "sglang_", "rollout"), ()),
    ("VG576", ("fsdp",), ("config", "schemas")),
    ("VG575", ("/deepspeed",), ("config", "schemas")),
    ("VG585", ("/peft", "/lora.py", "/adapter"), ("config", "schemas", "kernels", "adapters/")),
    ("VG577", ("quantiz", "nvfp4", "bnb", "gptq", "awq"), ("config", "schemas", "args")),
    ("VG574", ("chat_template", "/template", "tokenizer.py"), ()),
    ("VG554", ("dataset", "/data/", "data_loader.py"), ("config", "schemas")),
    ("VG582", ("collat",), ()),
    ("VG581", ("/reward_manager", "/reward_score", "reward_func"), ("config",)),
    (
        "VG553",
        ("/config", "_config.py", "config.py", "schemas/", "/args.py", "arguments.py", "parser.py"),
        (),
    ),
    ("VG553", ("/optimizers/", "/optim/", "/schedulers/", "/losses/"), ("torch/",)),
)

OPERATORS = ("RuntimeError", "NotImplementedError", "TypeError", "IndexError")
# Of what torch's operators refuse (where a tensor lies, its type), and what any code tells.
OPERANDS: tuple[Topic, ...] = (
    ("VG552", ("pip install", "has not been installed"), ()),
    ("VG522", ("eys in checkpoint", "eys in the checkpoint", "eys when loading"), ()),
    (
        "VG527",
        (
            "same device",
            "same type of device",
            "to be a CPU tensor",
            "to be a CUDA tensor",
            "a CUDA tensor, but",
            "different devices",
            "CPU tensors can be pinned",
        ),
        ("collective", "process group"),
    ),
    ("VG526", ("same dtype", "same data type", "same scalar type", "scalar type"), ("index",)),
)


def by_type(message: str) -> str | None:
    """The class that an exception's type tells. ``message`` begins with the type."""
    found = [(len(text), code) for text, code in _TYPES if message.startswith(text)]
    return max(found)[1] if found else None


def by_words(kind: str, message: str) -> str | None:
    """The class of the topic of which a check, or torch's operator, of the type ``kind`` speaks."""
    name = kind.rpartition(".")[2]
    if name in CHECKS and (code := _topic(TOPICS, message)) is not None:
        return code
    return _topic(OPERANDS, message) if name in OPERATORS else None


def by_path(kind: str, path: str) -> str | None:
    """The class that a check's file tells by its name, of an installed package."""
    inside = "-packages/" in path and not any(f"-packages/{own}/" in path for own in NAMELESS)
    name = kind.rpartition(".")[2]
    near = "/".join(["", *path.lower().rsplit("/", 2)[-2:]])  # the file and its folder
    return _topic(PATHS, near) if inside and name in CHECKS[:3] else None


def _topic(topics: tuple[Topic, ...], message: str) -> str | None:
    for code, some, none in topics:
        if any(text in message for text in some) and not any(text in message for text in none):
            return code
    return None
