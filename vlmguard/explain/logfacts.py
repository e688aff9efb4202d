"""What a log says of its run: framework, releases, strategy, world, the values of arguments.

Nothing is guessed: a fact that the log does not state stays empty, and texts say so.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from vlmguard.explain import told

CARDS = 8  # of a machine, at most
MOST = 100_000  # ranks, or rows of a step


@dataclass(frozen=True)
class Facts:
    """Facts of a run, from its log or (`of_run`) from the guard's own `Run`.

    Attributes:
        framework: "ms-swift", "LLaMA-Factory", "TRL", "FlagEmbedding", "ColossalAI", "axolotl",
            "accelerate", "transformers", or "" where the log does not tell.
        phase: where the failure happened: "load", "forward", "backward", "step", "evaluation",
            "generation", "save", "data", or "".
        message: the failure's own text, `flat`.
        log: the file that tells the failure, as it was given; empty for standard input.
        said: lower-case names of arguments → their text, as printed.
        typed: those of them that a command line in the log has as flags.
        seen: what the ranks' lines tell together: "all wait" (each in a collective), "everywhere"
            (all ranks failed alike), "alone" (the others wait for the main process), "none killed"
            (the launcher ended them); "rank files": each rank's output was read from its own file.
    """

    framework: str = ""
    releases: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    world: int | None = None
    micro: int | None = None
    accumulation: int | None = None
    use_reentrant: bool | None = None
    find_unused: bool | None = None
    static_graph: bool | None = None
    checkpointing: bool | None = None
    tuning: str = ""
    model: str = ""
    freeze_tower: bool | None = None
    kinds: tuple[str, ...] = ()
    phase: str = ""
    message: str = ""
    trace: str = ""
    steps: tuple[int, int] | None = None
    log: str = ""
    said: Mapping[str, str] = field(default_factory=dict)
    typed: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    run: object = None

    @property
    def zero(self) -> int | None:
        return int(self.strategy[4]) if re.fullmatch(r"zero[0-3]", self.strategy) else None

    @property
    def fsdp(self) -> bool:
        return self.strategy.startswith("fsdp")

    @property
    def vision(self) -> bool:
        """Whether the log tells that the model sees: an argument of a tower, or its name."""
        told = self.kinds or self.freeze_tower is not None or _SEEING & self.said.keys()
        names = f"{self.model} {self.said.get('model_type', '')}"
        return bool(told) or _SEEING_MODEL.search(names) is not None

    def at(self, message: str, trace: str, phase: str) -> Facts:
        """The same run, at one failure."""
        return replace(self, message=message, trace=trace, phase=phase)

    def number(self, *names: str) -> int | None:
        """The first of these arguments that was printed as a whole number."""
        for name in names:
            value = self.said.get(name, "")
            if re.fullmatch(r"\d{1,12}", value):
                return int(value)
        return None

    def few(self, *names: str) -> int | None:
        """The same of what is counted: ranks, rows of a step. None for what no run has."""
        value = self.number(*names)
        return value if value is not None and value <= MOST else None


_SEEING = frozenset(
    "vit_gradient_checkpointing freeze_aligner freeze_multi_modal_projector max_pixels "
    "image_max_pixels".split()
)
_SEEING_MODEL = re.compile(
    r"(?i)vl\b|vl[-_]|llava|vision|internvl|minicpm-?v|minicpm-?o|omni|gemma-?3|paligemma|idefics|"
    r"smolvlm|pixtral|glm-?4\.?\d?v|phi-?3\.5-v|ovis|molmo|kimi-vl"
)
_FRAMEWORKS = (
    (
        "ms-swift",
        r"\[INFO:swift\]|\[WARNING:swift\]|swift/(?:cli|llm|trainers|"
        r"pipelines)/|swift\.cli\b|\bms[-_]swift\b|\bswift (?:sft|pt|rlhf|infer) (?:--|\\)",
    ),
    ("LLaMA-Factory", r"llamafactory|LLaMA-Factory|\bllmtuner\b"),
    ("FlagEmbedding", r"FlagEmbedding"),
    ("ColossalAI", r"colossalai"),
    ("axolotl", r"\baxolotl\b"),
    (
        "TRL",
        r"\btrl (?:sft|dpo|grpo|kto|reward)\b|trl/trainer/|"
        r"\bSFTTrainer\b|\bGRPOTrainer\b|trl/scripts/|\bopen_r1/",
    ),
    (
        "transformers",
        r"transformers/(?:trainer|training_args)\.py|\bTrainingArguments\b|Seq2SeqTrain|"
        r"Saving model checkpoint to |\{'loss': [\d.na]{1,12}, '(?:grad_norm|learning_rate)'|"
        r"\[INFO\|trainer\.py:\d|"
        r"(?<!\S)--(?:bf16|fp16|tf32|do_train|gradient_checkpointing) (?:[Tt]rue|[Ff]alse)\b"
        r"|(?<!\S)--per_device_train_batch_size[ =]\d",
    ),
    (
        "accelerate",
        r"accelerate/(?:commands|accelerator)|\baccelerate launch\b|"
        r"INFO - __main__ - \*{5} Running training",  # its example scripts, and diffusers'
    ),
)
_OWN = ("ms-swift", "LLaMA-Factory", "FlagEmbedding", "ColossalAI", "axolotl")
_PACKAGES = (
    "torch|transformers|deepspeed|accelerate|peft|trl|ms[-_]swift|swift|llamafactory|flash[-_]attn|"
    "bitsandbytes|unsloth[-_]zoo|unsloth|FlagEmbedding|colossalai|vlmguard|liger[-_]kernel|vllm"
)
_RELEASE = re.compile(
    rf"(?im)\b({_PACKAGES})(?:\.__version__)?(?:\s{{0,12}}|[ \t]{{13,60}})(?:version)?"
    r"\s{0,3}(?:==|[:=]|\s)\s{0,3}['\"]?v?"
    r"(\d{1,4}\.\d{1,3}(?:\.\d{1,4})?(?:\.?(?:dev|rc|post|a|b)\d{0,8})?(?:\+[\w.]{1,20})?)"
)
# In front of a release that is spoken of, and not there.
_ASKED = re.compile(
    r"(?i)(?:\bin|requires?|required|needs?|since|from|until|before|after|at least|upgrade to|"
    r"install)(?: the)?\s{1,2}[`'\"]?$"
)
# LLaMA-Factory's line of each rank, DeepSpeed's launcher's and optimizer's, NCCL's.
# Unsloth's "Num GPUs": of several cards it takes one.
_WORLD = re.compile(
    r"\b(?:world size: |dist_world_size=|Num processes: |Rank: \d{1,6} partition count \[|"
    r"Data Parallel GPUs = |Num GPUs(?: used)? = (?=1\b))"
    r"(\d{1,6})\b"
    r"|NCCL INFO .{0,80}\b[nN]ranks (\d{1,6})\b",
    re.M,
)
_VALUE = re.compile(
    r"(?<![\w.])(?:--|['\"])?([A-Za-z][A-Za-z_]{3,48})['\"]?\s{0,3}[=:]\s{0,3}"
    r"(?:(<?[\w]{2,30}\.[\w]{2,30}: )?)"
    r"(\[[^\[\]\n]{0,120}\]|'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|[^\s,'\"{}\[\]()]{1,160})"
)
_FLAG = re.compile(
    r"(?<![^\s'\"])--?([a-z][a-z_-]{3,48})(?:[ =]|"
    r"['\"],\s?['\"])(\{[^}\n]{0,200}\}|[^\s'\",-][^\s'\",]{0,160})"
)
_WANTED = frozenset(
    """
    per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps
    max_length cutoff_len world_size tuner_type train_type finetuning_type sft_type
    lora_rank deepspeed fsdp gradient_checkpointing vit_gradient_checkpointing
    disable_gradient_checkpointing
    ddp_find_unused_parameters ddp_static_graph freeze_vit freeze_vision_tower
    freeze_aligner freeze_multi_modal_projector max_pixels image_max_pixels attn_impl
    attn_implementation flash_attn torch_dtype bf16 fp16 ddp_timeout eval_strategy
    num_train_epochs max_steps resume_from_checkpoint model_name_or_path model stage
    zero_stage train_batch_size train_micro_batch_size_per_gpu use_reentrant
    gradient_checkpointing_kwargs dataloader_num_workers nproc_per_node num_processes
    padding_free packing model_type use_reentrant_gc output_dir distributed_type
    micro_batch_size sequence_len overlap_comm zero_optimization_stage distributed_world_size
    dataset train_data train_file data_path dataset_path data_files adapters adapter_name_or_path
    """.split()
    + sorted(told.NAMES)
)
_DOTTED = re.compile(r"\b([a-z][a-z_]{3,48}) \.{3,60} (\S{1,80})")  # DeepSpeed's dump of its config
_WORLD_INFO = re.compile(r"--world_info=([\w+/=-]{8,4000})")  # DeepSpeed's: hosts and their cards
_OURS = re.compile(
    r"vlmguard: (\S{1,20}) guards ([\w-]{2,30}) (\S{0,30}), (\w{2,20}), (\d{1,6}) ranks?"
)
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


def of_text(texts: Iterable[str]) -> Facts:
    """The facts that these parts of a log state."""
    said: dict[str, str] = {}
    releases: dict[str, str] = {}
    typed: set[str] = set()
    votes = dict.fromkeys((name for name, _ in _FRAMEWORKS), 0)
    ours = None
    strategy = ""
    for whole in texts:
        text = told.unadvised(whole)
        for match in (*_FLAG.finditer(text), *_VALUE.finditer(text), *_DOTTED.finditer(text)):
            name = match[1].lower().replace("-", "_")
            if name in _WANTED:
                said.setdefault(name, match[match.lastindex or 2].strip("'\"` "))
        _trainer(text, said)
        told.passing(whole, said)
        typed |= told.typed(text, _WANTED)
        if ranks := _WORLD.search(text):
            said.setdefault("world_size", ranks[1] or ranks[2])
        elif (cards := _cards(text)) is not None:
            said.setdefault("world_size", str(cards))
        for match in _RELEASE.finditer(text):
            if _ASKED.search(text, max(match.start() - 24, 0), match.start()):
                continue
            releases.setdefault(match[1].lower().replace("_", "-"), match[2].rstrip("."))
        for name, pattern in _FRAMEWORKS:
            votes[name] += sum(1 for _ in zip(range(50), re.finditer(pattern, text), strict=False))
        ours = ours or _OURS.search(text)
        strategy = strategy or _strategy_seen(text)
    told.renamed(said)
    if "stage" in typed:  # of training, not of ZeRO
        del said["stage"]
    facts = replace(_from(said, releases, votes, strategy), typed=frozenset(typed))
    if ours is not None:
        name, release, strategy, world = ours[2], ours[3], ours[4], int(ours[5])
        kept = {**releases, name: release} if release else releases
        facts = replace(facts, framework=name, strategy=strategy, world=world, releases=kept)
    return facts


_MODELS = ("model_name_or_path", "model", "model_id", "loaded_model")
_CALL = re.compile(r"[a-z]+_[a-z_]+")  # "model = load_model(…)" of a traceback

# What transformers' Trainer prints before the first step, whichever framework it is in.
_TRAINER = {
    "per_device_train_batch_size": re.compile(
        r"Instantaneous batch size per device = ([\d,]{1,9})"
    ),
    "gradient_accumulation_steps": re.compile(r"Gradient Accumulation steps = ([\d,]{1,9})"),
    "per_device_eval_batch_size": re.compile(
        r"Running (?:Evaluation|Prediction) \*{5}[\s\S]{0,300}?Batch size = ([\d,]{1,9})"
    ),
    "": re.compile(r"Total train batch size[^=\n]{0,80} = ([\d,]{1,12})"),
}


def _trainer(text: str, said: dict[str, str]) -> None:
    """Micro-batch, accumulation and ranks, of the Trainer's own words."""
    found = {}
    for name, pattern in _TRAINER.items():
        if match := pattern.search(text):
            found[name] = int(match[1].replace(",", ""))
    total = found.pop("", 0)
    for name, value in found.items():
        said.setdefault(name, str(value))
    rows = found.get("per_device_train_batch_size", 0) * found.get("gradient_accumulation_steps", 0)
    if rows and total % rows == 0 and total:
        said.setdefault("num_processes", str(total // rows))


def _from(
    said: dict[str, str], releases: dict[str, str], votes: dict[str, int], seen: str
) -> Facts:
    # Frameworks that stand on the others are told by their own marks, whatever else is printed.
    own = max(_OWN, key=lambda name: votes[name])
    framework = own if votes[own] else next((name for name in votes if votes[name]), "")
    facts = Facts(framework=framework, releases=releases, said=said)
    micro = facts.few(
        "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "micro_batch_size"
    )
    text = said.get("use_reentrant", said.get("use_reentrant_gc", ""))
    if match := re.search(
        r"use_reentrant\W{1,6}(true|false)", said.get("gradient_checkpointing_kwargs", ""), re.I
    ):
        text = match[1]
    truth = {name: _TRUTH.get(said.get(name, "").lower()) for name in said}
    return replace(
        facts,
        strategy=_strategy(said, seen),
        world=facts.few("world_size", "num_processes") or _started(facts),
        micro=micro,
        accumulation=facts.few("gradient_accumulation_steps"),
        use_reentrant=_TRUTH.get(text.lower()),
        find_unused=truth.get("ddp_find_unused_parameters"),
        static_graph=truth.get("ddp_static_graph"),
        checkpointing=_checkpointing(truth),
        tuning=next(
            (
                said[n]
                for n in ("tuner_type", "train_type", "finetuning_type", "sft_type")
                if n in said
            ),
            "",
        ),
        model=next((v for n in _MODELS if (v := said.get(n, "")) and not _CALL.fullmatch(v)), ""),
        freeze_tower=next(
            (truth[n] for n in ("freeze_vit", "freeze_vision_tower") if n in truth), None
        ),
    )


def _started(facts: Facts) -> int | None:
    """Ranks by torchrun's own arguments: those of a machine, times the machines."""
    each, machines = facts.few("nproc_per_node"), facts.said.get("nnodes", "1")
    if not each or not re.fullmatch(r"[1-9]\d{0,3}", machines):
        return None
    return each * int(machines) if each * int(machines) <= MOST else None


def _checkpointing(truth: dict[str, bool | None]) -> bool | None:
    off = truth.get("disable_gradient_checkpointing")  # LLaMA-Factory's
    return not off if off is not None else truth.get("gradient_checkpointing")


# What stage 3 alone prints.
_STAGE_3 = ("Detected ZeRO Offload", "partition_parameters.py", "Parameter Offload")


def _strategy_seen(text: str) -> str:
    if match := re.search(
        r"zero_optimization[\s\S]{0,200}?[\"']?stage[\"']?\s{0,3}[:=]\s{0,3}([0-3])\b", text
    ):
        return f"zero{match[1]}"
    if match := re.search(
        r"\bZeRO[- ]?(?:stage[- ]?)?([1-3])\b|deepspeed/runtime/zero/(stage_1_and_2|stage3)", text
    ):
        return f"zero{match[1]}" if match[1] else {"stage3": "zero3"}.get(match[2], "")
    if any(words in text for words in _STAGE_3):
        return "zero3"
    if re.search(r"(?<!xla)_fsdp|FullyShardedDataParallel|fully_shard", text):
        return "fsdp"
    return (
        "ddp"
        if "DistributedDataParallel" in text or "torch/nn/parallel/distributed.py" in text
        else ""
    )


def _strategy(said: dict[str, str], seen: str) -> str:
    stage = said.get("zero_stage") or said.get("zero_optimization_stage")
    stage = stage or (said.get("stage", "") if "deepspeed" in said else "")
    if stage in ("1", "2", "3"):
        return f"zero{stage}"
    if match := re.search(
        r"(?i)zero[-_]?([1-3])|ds_?z([1-3])|stage[-_]?([1-3])", said.get("deepspeed", "")
    ):
        return f"zero{match[1] or match[2] or match[3]}"
    if match := re.search(r"(?i)zero[-_]?([1-3])", said.get("config_file", "")):
        return f"zero{match[1]}"  # accelerate's examples are called so
    return seen


def _cards(text: str) -> int | None:
    """How many GPUs DeepSpeed's launcher was given."""
    match = _WORLD_INFO.search(text)
    try:
        hosts = json.loads(base64.urlsafe_b64decode(match[1])) if match else {}
        return sum(map(len, hosts.values())) or None
    except (ValueError, AttributeError, TypeError):
        return None
