"""What a log says in passing of its run: its newest checkpoint, what was switched on, flags typed.

Read for `logfacts`: these become arguments as if the log had printed them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from vlmguard.explain import alone, choices, crashed, cudas, fabric, lost, prepared, sites, swift

# "Saving model checkpoint to out/checkpoint-400", "Configuration saved in …/checkpoint-400/…"
_SAVED = re.compile(
    r"(?i)\bsav(?:ing|ed)\b[^\n/]{0,60}?[ '\"=]"
    r"((?:\.{0,2}/)?[\w@+~-][\w./@+~-]{0,200}/(?:checkpoint-|global_step_?)\d{1,9})(?![\w-])"
)
# ms-swift, of the folder that it made for this run.
_RUN = re.compile(r"logging file will be saved in: ([\w./@+~-]{1,200})/logging\.jsonl")
# A tokenizer of transformers, of a row that is longer than the model's positions.
_LONG_ROW = re.compile(
    r"Token indices sequence length is longer than the specified maximum sequence length for this "
    r"model \((\d{4,7}) > \d{1,7}\)"
)
# A script's own word of a row.
_ROW = re.compile(r"\brow\b[^\n]{0,40}?\b(\d{3,7}) tokens, (\d{1,4}) images\b")
_INTERFACE = re.compile(r"NCCL_SOCKET_IFNAME set (?:by environment )?to ([\w^=,.-]{1,40})")
# Variables that a command line, or a script under set -x, sets for the run.
_SETS = re.compile(
    r"(?m)^(?:\+{1,2} |\$ )?(?:export |declare -x )?([A-Z][A-Z0-9_]{3,40}=\S[^\n]{0,400})"
)
# vLLM's own account of a card: all of it, its share, weights, what others hold, activations.
_CACHE = re.compile(
    r"total_gpu_memory \(([\d.]{1,8})GiB\) x gpu_memory_utilization \(([\d.]{1,6})\)[^\n]{0,80}\n"
    r"[^\n]{0,120}model weights take ([\d.]{1,8})GiB; non_torch_memory takes ([\d.]{1,8})GiB; "
    r"PyTorch activation peak memory takes ([\d.]{1,8})GiB"
)
# A gather that one rank alone enters: the line of the traceback that has the condition before it.
_UNDER_MAIN = re.compile(
    r'File "([\w./@+~-]{1,200})", line (\d{1,6}), in [^\n]{1,80}\n[^\n]{0,60}?\bif [^\n:]{0,60}'
    r"(?:main_process|world_process_zero|rank)\b[^\n:]{0,20}: [^\n]{0,160}"
    r"(?:state_dict\(|save_pretrained\(|save_16bit_model\(|save_checkpoint\()"
)
_GIVEN = re.compile(r"\b(NCCL_[A-Z0-9_]{2,40}) set (?:by environment )?to ([\w:,^=-]{1,60})")
_PAIR = re.compile(
    r"(?<!\S)((?:CUDA|NCCL|TORCH|PY|GLOO|TRITON|VLLM)[A-Z0-9_]{3,40}=[\w:.,-]{1,60})(?!\S)"
)
_LOCK = re.compile(r"[Ss]till waiting to acquire lock on (/[\w./@+~-]{1,300}\.lock)\b")
# The first configuration that transformers read, of a folder or out of the hub's cache.
_CONFIG = re.compile(
    r"loading configuration file (?:(?:\S{1,200}/)?models--([\w.-]{1,96}?)--([\w.-]{1,96})"
    r"/snapshots/\w{1,64}|(/[\w./@+~-]{1,200}))/config\.json"
)
_ATTENTION = re.compile(r"Using torch SDPA for faster training")
_ROWS = re.compile(r"Loading dataset ([\w./@+~-]{1,200}\.jsonl?)\.\.\.")  # LLaMA-Factory's
_TRAINABLE = re.compile(r"trainable params: ([\d,]{1,20}) \|\|")
# What a command line switches the hub off with.
_OFFLINE = re.compile(r"\b((?:TRANSFORMERS|HF_HUB|HF_DATASETS)_OFFLINE)=(?:1|[Tt]rue|TRUE)\b")
_MAPS = re.compile(
    r"(?:\(num_proc=(\d{1,4})\)|\b(?:Map|Running tokenizer on dataset)): {1,6}\d{1,3}%\|"
    r"[^|\n]{0,300}\| (\d{1,12})/(\d{1,12}) \["
)
_CARD = re.compile(r"with CUDA capability (sm_(?:1\d\d|[5-9]\d)) is not compatible")
_COMPUTE = re.compile(r"\bcompute dtype: torch\.(b?)float16")  # LLaMA-Factory's line of each rank
# DeepSpeed's dump of its configuration.
_DUMPED = re.compile(
    r"\b(b?)(?:float|fp)16_(?:enabled|config) \.{3,60} (?:enabled=)?(True|False)\b"
)
# Toolkits with arguments of their own, by their loggers and files.
_TOOLKIT = re.compile(r"(?:^|[\s|/\"])(mmf|detectron2|mmengine|mmcv|fairseq)[./][a-z]")
_NODE = re.compile(r"(?m)srun: error: ([\w.-]{1,60}): task|^ {2}host {6}: ([\w.-]{1,60})$")
_LORA = re.compile(
    r"(?<!\S)--(?:lora_enable|use_lora|use_peft|use_llm_lora)(?! {0,3}(?:[Ff]alse|0\b))"
)
# PEFT's count: few of the weights train. LLaMA-Factory prints it of full tuning, too.
_ADAPTERS = re.compile(
    r"\btrainable params: [\d,]{1,18} \|\| all params: [\d,]{1,18} \|\| trainable%: \d(?!\d)"
)
_METHOD = re.compile(r"Fine-tuning method: (Full|Freeze|LoRA|DoRA|OFT)\b")
_NOTEBOOK = re.compile(r"(?m)^Cell In\s?\[\d|<ipython-input-|/tmp/ipykernel_\d")
_TYPED = re.compile(r"(?<!\S)['\"]?--([a-z][a-z0-9_-]{2,48})(?=['\" =\n]|$)")
# LLaVA's word of a row all of which it masks, its --version and its class of model.
_MASKED = re.compile(r"tokenization mismatch: (\d{1,6}) vs\. (\d{1,6})")
# When the run began: its framework's releases of that time.
_DAY = re.compile(r"\b(20[12]\d-[01]\d)-[0-3]\d[ T_]\d\d:\d\d")
_EDGES = re.compile(r"size must contain 'shortest_edge' and 'longest_edge' keys")
_PREPROCESSOR = re.compile(
    r"(?:cache at|configuration file) (/[\w./@+~-]{1,220}/preprocessor_config\.json)"
)
_QWEN = re.compile(r"the initlized model is ([\w./@+~-]{1,200}) the class is (\w{4,60})")
_VERSION = re.compile(r"(?<!\S)--version[ =]([A-Za-z]\w{1,30})(?!\S)")
_BUNNY = re.compile(r"\bBunny(Llama|Phi3|Phi|Qwen|StableLM|MiniCPM)\w{0,4}For")
_RESUMED = re.compile(
    r"(?:Resuming training from|Loading model from|Attempting to resume from|"
    r"Continuing training from checkpoint|Loading (?:DeepSpeed |ZeRO )?checkpoint from) "
    r"((?:\.{0,2}/)?[\w@+~-][\w./@+~-]{0,200}?checkpoint-\d{1,9}|/[\w./@+~-]{1,200}?checkpoint-\d{1,9})"
    r"(?:/(global_step\d{1,9}))?(?![\w-])"
)
# What a hub was asked for: of a message that does not name it, the warnings before it do.
_REPO = re.compile(
    r"(?:requesting (?:HEAD|GET) https?://[\w.-]{3,80}/|exceeded with url: /)"
    r"(?!datasets/|api/)([\w.-]{1,96}/[\w.-]{1,96})/resolve/"
)

_PRECISION = re.compile(
    r"(?<![\w-])(?:--)?(bf16|fp16|tf32)['\"]?(?: |=|: |, )['\"]?([Tt]rue|[Ff]alse)\b"
)
_DEEPSPEED = re.compile(
    r"(?m)^(?:\+ |\$ )?deepspeed (?!.*\binfo\b)|deepspeed\.launcher\.|\[launch\.py:\d"
)
_DOCKER = re.compile(r"\bdocker run (?![^\n]{0,400}(?:--gpus|--runtime|--device))")
_TORCHRUN = re.compile(r"torchrun\b|torch[./]distributed[./](?:run|launch|elastic)\b")
# DeepSpeed at work, of whatever stage: its own optimizers and engine.
_ENGINE = re.compile(r"\b(?:fused|cpu)_adam op\b|deepspeed/runtime/engine\.py")
# Tasks that srun itself started, one a rank, or one launcher a node.
_SRUN = re.compile(r"(?m)^(?:\+ |\$ )?srun (?=\S)|\bSLURM_PROCID\b")
# Another process of whom a rank lost sight: torch's store, NCCL's socket.
_PEER = re.compile(
    r"\bremote=\[?([A-Za-z][\w.-]{1,80})\]?:\d{2,5}\)"
    r"|\b(?:closed|reset) by (?:remote )?peer ([A-Za-z][\w.-]{1,80})<\d{1,5}>"
)
_INSTANCE = re.compile(r"\bInstantiating (\w{4,60}) model under default dtype")
# transformers, of the model that it has loaded: its class, its folder.
_LOADED = re.compile(
    r"\bAll the weights of (\w{4,60}) were initialized from the model checkpoint at "
    r"([\w./@+~-]{1,200}?)\.?(?=\s|$)"
)
# What a kernel asserted, of the rows of an embedding or of the classes of a loss.
_KERNEL = re.compile(r"(indexSelect(?:Large|Small)Index|srcSelectDimSize)|t < n_classes")
_ADDED = re.compile(r"(?<!\S)(--(?:add|new|num_added|use)_\w{0,30}tokens?)(?![\w-])")
# Cards without bfloat16, by the names that drivers and torch have for them.
_OLD = re.compile(r"\b(?:Tesla|NVIDIA|GeForce) (?:GeForce )?([VP]100|P40|T4|GTX|RTX 20[678]0)\b")
_ACCELERATE = re.compile(
    r"\baccelerate launch\b|accelerate/commands/launch\.py|/bin/accelerate\", line"
)

_NPU_KERNEL = re.compile(r"\bkernel_name=([A-Z][A-Za-z]{2,60}\d{0,2})[_,\s]")  # CANN's
_POSITIONS = re.compile(r"max_position_embeddings=(\d{3,7})\b")  # vLLM's warning
_GCC = re.compile(r"unsupported GNU version! gcc versions later than (\d{1,2}) are not")
_PULLED = re.compile(r"\bpulled image \"([\w./:@-]{3,200})\"")  # a pod's events
_LLM = re.compile(r"\bLLM_type: [^,\n]{1,60}, version: (\w[\w.]{1,30})")  # of a LLaVA's kin
# Words of a run that has checkpointing on; reentrant checkpointing alone says the others.
_CHECKPOINTING = ("is incompatible with gradient checkpointing",)
_REENTRANT = (
    "None of the inputs have requires_grad=True",
    "please pass in use_reentrant=True or use_reentrant=False explicitly",
    "use_reentrant parameter should be passed explicitly",  # torch 2.4 on
)
# What the same warnings advise is no argument of the run.
_ADVISED = re.compile(
    r"use_reentrant=False is recommended|you can pass use_reentrant=True"
    r"|pass in use_reentrant=True or use_reentrant=False"
)

# Other projects' names of an argument → ours, and whether they mean the contrary.
_ALIASES = {
    "grad_checkpoint": ("gradient_checkpointing", False),  # InternVL
    "freeze_backbone": ("freeze_vision_tower", False),  # InternVL
    "tune_mm_vision": ("freeze_vision_tower", True),  # Qwen-VL's own
}
_CONTRARY = {"true": "false", "false": "true"}
NAMES = frozenset(
    """
    max_seq_length max_seq_len model_max_length max_len config_file lora_target target_modules
    image_folder model_id master_addr master_port nnodes freeze_language_model lora_target_modules r
    rdzv_endpoint vllm_gpu_memory_utilization gpu_memory_utilization
    num_workers pretrain_mm_mlp_adapter tf32 disable_flash_attn2 num_generations
    max_completion_length max_slice_nums max_dynamic_patch plugin
    dataset_name save_steps strict vllm_server_host vllm_server_port
    rlhf_type model_name quantization_bit quant_bits load_in_4bit bits deepspeed_config
    train_group_size query_max_len passage_max_len
    adam_offload offload_optimizer_device use_unsloth truncation_strategy cached_dataset
    """.split()
).union(_ALIASES, prepared.FLAGS)


def unadvised(text: str) -> str:
    """``text`` without what torch's warnings say of arguments that were not passed."""
    return _ADVISED.sub("", text) if "use_reentrant" in text else text


def typed(text: str, wanted: Collection[str]) -> set[str]:
    """Names of arguments that stand on a command line in this text."""
    found = {match[1].replace("-", "_") for match in _TYPED.finditer(text)}
    return {name for name in found if name in wanted}


# What one pattern tells: the name under which it is kept.
_FIRST = {
    "npukernel": _NPU_KERNEL,
    "positions": _POSITIONS,
    "gcc": _GCC,
    "pulled": _PULLED,
    "lock": _LOCK,
    "nccl_socket_ifname": _INTERFACE,
    "toolkit": _TOOLKIT,
    "addedtokens": _ADDED,
    "oldcard": _OLD,
    "repo": _REPO,
    "capability": _CARD,
    "day": _DAY,
    "preprocessor": _PREPROCESSOR,
    "bunny": _BUNNY,
}


def passing(text: str, said: dict[str, str]) -> None:
    """Adds what this part of a log says to the arguments that it printed."""
    for match in _SAVED.finditer(text):
        said["saved"] = match[1]  # the last of them
    choices.passing(text, said)
    crashed.passing(text, said)
    cudas.passing(text, said)
    fabric.passing(text, said)
    lost.passing(text, said)
    alone.passing(text, said)
    swift.passing(text, said)
    if pairs := {pair for line in _SETS.findall(text) for pair in _PAIR.findall(line)}:
        said["env"] = " ".join(sorted({*said.get("env", "").split(), *pairs}))
    if pairs := {f"{name}={value}" for name, value in _GIVEN.findall(text)}:
        said["env"] = " ".join(sorted({*said.get("env", "").split(), *pairs}))
    for name, pattern in _FIRST.items():
        if found := pattern.search(text):
            said.setdefault(name, found[1])
    if found := _UNDER_MAIN.search(text):
        said.setdefault("undermain", f"{found[1]}:{found[2]}")
    if found := _CACHE.search(text):
        said.setdefault("vllm_room", " ".join(found.groups()))
    if found := _CONFIG.search(text):
        said.setdefault("loaded_model", found[3] or f"{found[1]}/{found[2]}")
    if found := _ATTENTION.search(text):
        said.setdefault("flash_attn", "sdpa")
    if "models with the `eager` attention implementation" in text:  # Gemma 2, Gemma 3
        said.setdefault("eager_advised", "true")
        if said.get("attn_implementation") == "eager":  # of that advice
            del said["attn_implementation"]
    if "cuDNN SDPA backward got" in text:
        said.setdefault("cudnn_sdpa", "true")
    if files := set(_ROWS.findall(text)):
        said.setdefault("rows_file", files.pop() if len(files) == 1 else "")
    counts = list(dict.fromkeys(_TRAINABLE.findall(text)))
    if len(counts) > 1:
        said.setdefault("trainables", ", ".join(c.replace(",", "") for c in counts[:2]))
    if rows := _LONG_ROW.findall(text):
        said.setdefault("longrow", max(rows, key=int))
    if rows := _ROW.findall(text):
        said["rowtokens"], said["rowimages"] = rows[-1]
        said["fewerimages"] = str(max(int(rows[-1][1]) // 2, 1))
    if found := _RUN.search(text):
        said["output_dir"] = found[1]  # below the one that was asked for
    if bars := _MAPS.findall(text)[-2:]:
        said["map_workers"] = bars[-1][0] or "1"
        (_, first, of), (_, last, whole) = bars[0], bars[-1]
        if of == whole and int(first) < int(last) < int(whole):
            said["map_bar"] = f"{last} of {whole}"
    for match in _DUMPED.finditer(text):
        said.setdefault("bf16" if match[1] else "fp16", match[2].lower())
    if found := _COMPUTE.search(text):
        said.setdefault("bf16" if found[1] == "b" else "fp16", "true")
    adam = "Adam Optimizer #" in text and "arithmetic capability" in text
    adam = adam or "Time to load cpu_adam op" in text
    if adam or "CPU Offload: True" in text:
        said.setdefault("offload", "cpu")  # DeepSpeed's CPU Adam
    if found := _KERNEL.search(text):
        said.setdefault("kernel", "rows" if found[1] else "classes")
    if "NCCL INFO" in text:
        said.setdefault("nccl_debug", "info")
    if "/RoCE" in text:
        said.setdefault("roce", "true")
    if offline := {m[1]: None for m in _OFFLINE.finditer(text)}:
        said.setdefault("offline", ",".join(offline))
    if found := _NODE.search(text):
        said.setdefault("node", found[1] or found[2])
    sites.passing(text, said)
    for match in _PRECISION.finditer(text):
        said.setdefault(match[1], match[2].lower())
    if _ACCELERATE.search(text):
        said.setdefault("launcher", "accelerate")
    elif _DEEPSPEED.search(text):
        said.setdefault("launcher", "deepspeed")
    elif _TORCHRUN.search(text):
        said.setdefault("launcher", "torchrun")
    elif _SRUN.search(text):
        said.setdefault("launcher", "srun")
    if _ENGINE.search(text):
        said.setdefault("engine", "deepspeed")
    if "Vision Module - Trainable Block Indices: None" in text:  # Qwen-VL's own script
        said.setdefault("freeze_vision_tower", "true")
    if found := _PEER.search(text):
        said.setdefault("peer", found[1] or found[2])
    if found := _INSTANCE.search(text):
        said.setdefault("architecture", found[1])
    if found := _LOADED.search(text):
        said.setdefault("architecture", found[1])
        said.setdefault("model_name_or_path", found[2])
    if _DOCKER.search(text):
        said.setdefault("docker", "no card")
    if _NOTEBOOK.search(text):
        said.setdefault("notebook", "true")
    for match in _RESUMED.finditer(text):
        if "/" not in said.get("resume_from_checkpoint", ""):
            said["resume_from_checkpoint"] = match[1]
        if match[2]:
            said.setdefault("tag", match[2])
    if found := _MASKED.search(text):
        said.setdefault("mismatch", f"{found[1]} vs. {found[2]}")
        if version := _VERSION.search(text) or _LLM.search(text):
            said.setdefault("version", version[1])
    if _EDGES.search(text):
        said.setdefault("edges", "missing")
    if found := _QWEN.search(text):  # Qwen-VL's own script
        said.setdefault("loaded_model", found[1])
        said.setdefault("architecture", found[2])
    if "old version of the checkpointing format" in text:
        said.setdefault("oldcheckpointing", "true")
    if found := _METHOD.search(text):
        said.setdefault("finetuning_type", found[1].lower())
    own = said.get("finetuning_type", "lora") in ("full", "freeze")
    if _LORA.search(text) or (_ADAPTERS.search(text) and not own):
        said.setdefault("tuner_type", "lora")
    reentrant = any(words in text for words in _REENTRANT)
    if reentrant or any(words in text for words in _CHECKPOINTING):
        said.setdefault("gradient_checkpointing", "true")
    if reentrant:
        said.setdefault("use_reentrant", "true")


def renamed(said: dict[str, str]) -> None:
    """Other projects' names of what we know, under the names that we know."""
    if "offload" in said.get("deepspeed", "").rpartition("/")[2]:
        said.setdefault("offload", "cpu")  # zero3_offload.json
    for name, (ours, contrary) in _ALIASES.items():
        value = said.get(name, "").lower()
        if value in _CONTRARY:
            said.setdefault(ours, _CONTRARY[value] if contrary else value)
