"""Which package of PyPI brings a module: the name that `pip install` wants, where it is known.

A module that is not here is not advised to be installed by its name: it may be a file of the
repository's own, or a stranger's package of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OTHER_NAME = """
    cv2=opencv-python-headless PIL=pillow yaml=pyyaml sklearn=scikit-learn skimage=scikit-image
    qwen_vl_utils=qwen-vl-utils qwen_omni_utils=qwen-omni-utils flash_attn=flash-attn
    google=protobuf liger_kernel=liger-kernel swift=ms-swift faiss=faiss-cpu
    hydra=hydra-core open_clip=open-clip-torch fla=flash-linear-attention
    causal_conv1d=causal-conv1d mamba_ssm=mamba-ssm huggingface_hub=huggingface-hub
    rouge_score=rouge-score rouge_chinese=rouge-chinese sentence_transformers=sentence-transformers
    pkg_resources=setuptools distutils=setuptools deepspeed_kernels=deepspeed-kernels
    dskernels=deepspeed-kernels
    pynvml=nvidia-ml-py grpc=grpcio bs4=beautifulsoup4 mpi4py=mpi4py tensorboardX=tensorboardX
    math_verify=math-verify latex2sympy2_extended=latex2sympy2_extended
    optimum=optimum awq=autoawq auto_gptq=auto-gptq unsloth_zoo=unsloth_zoo apex=
    pytorch_lightning=pytorch-lightning lightning_fabric=lightning dotenv=python-dotenv
    sympy=sympy Levenshtein=levenshtein nvidia_smi=nvidia-ml-py3 git=gitpython
    prompt_toolkit=prompt-toolkit dateutil=python-dateutil vllm_ascend=vllm-ascend
    torch_npu=torch-npu FlagEmbedding=FlagEmbedding galore_torch=galore-torch cpuinfo=py-cpuinfo
    cpm_kernels=cpm-kernels ir_datasets=ir-datasets json_repair=json-repair comet_ml=comet-ml
    charset_normalizer=charset-normalizer importlib_metadata=importlib-metadata
    sse_starlette=sse-starlette llm_blender=llm-blender lm_eval=lm-eval hf_xet=hf-xet
    hf_transfer=hf-transfer mistral_common=mistral-common faiss_gpu=faiss-gpu
"""
_SAME_NAME = """
    accelerate aiohttp av axolotl bitsandbytes colossalai datasets decord deepspeed diffusers
    einops evaluate evalscope fastapi fire ftfy gptqmodel gradio h5py hqq imageio jieba jinja2
    jsonlines kernels librosa llamafactory lmdb lmdeploy loguru matplotlib mlflow modelscope moviepy
    msgspec ninja nltk numba numpy omegaconf openai orjson packaging pandas peft prettytable
    protobuf psutil pyarrow pycocotools pydantic ray regex requests rich sacrebleu
    safetensors scipy seaborn sentencepiece sglang soundfile swanlab tensorboard termcolor
    tiktoken timm tokenizers torch torchao torchaudio torchcodec torchdata torchvision tqdm
    transformers transformers_stream_generator triton trl typer tyro unsloth uvicorn vllm wandb
    webdataset xformers xgrammar addict attrdict binpacking blobfile codecarbon
    contexttimer dacite dill fabric filelock fugashi hjson jmespath joblib kenlm msgpack num2words
    onnxruntime optuna oss2 parameterized phonemizer pyctcdecode rjieba rouge rpyc sacremoses
    simplejson sortedcontainers soxr starlette tabulate tomli trackio urllib3 zstandard
"""
PYPI: dict[str, str] = {name: name for name in _SAME_NAME.split()}
PYPI.update(pair.split("=") for pair in _OTHER_NAME.split())  # type: ignore[misc]

SHOWN = 4  # packages
INSIDE = re.compile(r"-packages/([A-Za-z_]\w{1,40})/")  # an installed package's file, its module


def of(module: str) -> str:
    """The package that brings ``module``, or "" where it is not known."""
    return PYPI.get(module.partition(".")[0], "")


_COMMANDS = {
    "torchrun": "torch",
    "llamafactory-cli": "llamafactory",
    "swift": "ms-swift",
    "hf": "huggingface_hub",
    "huggingface-cli": "huggingface_hub",
    "ray": "ray",
    "xtuner": "xtuner",
}


def of_command(name: str) -> str:
    """The package that brings the command ``name``, or "" where it is not known."""
    return _COMMANDS.get(name) or (name if name in PYPI else "")


def listed(name: str) -> str:
    """The package of this name, as PyPI has it, or "" where it is not one of those above."""
    plain = name.lower().replace("_", "-")
    return next((one for one in PYPI.values() if one.lower().replace("_", "-") == plain), "")


def raised_in(frames: Sequence[tuple[str, int, str]]) -> list[str]:
    """The packages of a traceback's installed frames, the raising one first; none of torch's own,
    nor where it was raised elsewhere."""
    paths = [path.replace("\\", "/") for path, _, _ in reversed(frames)]
    inside = [_module(path) for path in paths]
    if not inside or not inside[0] or inside[0] == "torch":
        return []
    found = dict.fromkeys(of(one) for one in inside if one not in ("", "torch"))
    return [name for name in found if name][:SHOWN]


def asking(trace: str) -> str:
    """The package of the innermost installed frame, torch's own passed over; "" if not known."""
    inside = INSIDE.findall(trace.replace("\\", "/"))
    name = next((one for one in reversed(inside) if one != "torch"), "")
    return of(name)


def _module(path: str) -> str:
    if "/unsloth_compiled_cache/" in path:  # what unsloth writes of TRL's trainers
        return "unsloth"
    inside = path.partition("-packages/")[2]
    return inside.partition("/")[0].removesuffix(".py")
