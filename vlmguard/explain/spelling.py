"""A change in the run's own words: flags as its command line had them, arguments in its own code.

`flags` knows how frameworks spell a change; here is what one run's log adds to that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vlmguard.explain import given, prepared, projects, swift
from vlmguard.explain.logfacts import Facts
from vlmguard.explain.settled import fault

# Programs whose flags are not a framework's own: what their command line had is what they take.
_FREE = ("", "transformers", "accelerate", "TRL", "ColossalAI")

_LENGTHS = ("model_max_length", "max_seq_length", "max_seq_len", "max_length", "max_len")
_ROWS = ("per_device_train_batch_size", "train_batch_size", "batch_size")
_OWN = {
    "max_length": (_LENGTHS, "{length}"),
    "max_pixels": (("max_pixels", "image_max_pixels"), "{pixels}"),
    "workers": (("dataloader_num_workers", "num_workers"), "0"),
    "workers_fewer": (("dataloader_num_workers", "num_workers"), "{few}"),
}
_HALVES = {"bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16")}
_IN_FILE = {
    "zero1": '"stage": 1 under "zero_optimization" in {dsfile}',
    "zero2": '"stage": 2 under "zero_optimization" in {dsfile}',
    "zero3": '"stage": 3 under "zero_optimization" in {dsfile}',
    "offload": '"offload_optimizer": {{"device": "cpu"}} under "zero_optimization" in {dsfile}',
}
_IN_CONFIG = {
    "zero1": "zero_stage: 1 in {config}",
    "zero2": "zero_stage: 2 in {config}",
    "zero3": "zero_stage: 3 in {config}",
    "use_orig_params": "fsdp_use_orig_params: true in {config}",
    "fsdp_checkpointing": "fsdp_activation_checkpointing: true in {config}, and no "
    "--gradient_checkpointing",
}


_IN_ACCELERATE = (
    "zero_stage: {0} in the YAML behind accelerate launch --config_file (a deepspeed_config_file "
    'that it names: "stage": {0} under "zero_optimization" there)'
)
# InternVL's own flags: the Trainer's do not reach its model.
_INTERN = {
    "checkpointing": "--grad_checkpoint True",
    "no_checkpointing": "--grad_checkpoint False",
    "freeze_tower": "--freeze_backbone True",
}
_IDEFICS = re.compile(r"(?i)idefics[23]|smolvlm")  # they tile, and know no max_pixels
LOGS = (
    "then vlmguard explain LOGS: an exception in one rank's log is the cause; a log that stops "
    "without one is a killed rank (dmesg -T | grep -i 'killed process')"
)
_PORTS = {
    "torchrun": "torchrun --master_port {otherport} … (the rest as it was)",
    "accelerate": "accelerate launch --main_process_port {otherport} … (the rest as it was)",
    "deepspeed": "deepspeed --master_port {otherport} … (the rest as it was)",
}
# Whose launcher does not read torchrun's variables.
_RANK_LOGS = {
    "accelerate": f"accelerate launch --log_dir LOGS --tee 3 … (the rest as it was), {LOGS}",
    "deepspeed": f"deepspeed --enable_each_rank_log=LOGS … (the rest as it was), {LOGS}",
    "srun": f"srun --output=LOGS/rank_%t.log … (the rest as it was), {LOGS}",
}


_STARTS = {"accelerate": "accelerate launch", "torchrun": "torchrun", "deepspeed": "deepspeed"}
_GENERATING = re.compile(r"(?:grpo|rloo)_trainer\.py|Unsloth(?:GRPO|RLOO)Trainer\.py")
_ENCODER = re.compile(r"(?i)clip|siglip|eva|dino")
_UNUSED = {
    "mmf": "training.find_unused_parameters=True behind the command",
    "mmengine": "--cfg-options find_unused_parameters=True behind the command",
    "mmcv": "--cfg-options find_unused_parameters=True behind the command",
    "fairseq": "--find-unused-parameters behind the command",
}
_TOOLKITS = {
    "workers": {
        "mmf": "training.num_workers=0 behind the command",
        "detectron2": "DATALOADER.NUM_WORKERS 0 behind the command",
        "mmengine": "--cfg-options train_dataloader.num_workers=0 "
        "train_dataloader.persistent_workers=False behind the command",
        "mmcv": "--cfg-options data.workers_per_gpu=0 behind the command",
        "fairseq": "--num-workers 0 behind the command",
    },
    "find_unused": _UNUSED,
    "find_unused_safe": _UNUSED,
}


def own(action: str, facts: Facts, values: Mapping[str, str]) -> str:
    """``action`` by what this run was started with, as a format; "" where that tells nothing."""
    if action == "rank_logs":
        return _RANK_LOGS.get(facts.said.get("launcher", ""), "")
    if action == "launch_blocking" and (starts := _STARTS.get(facts.said.get("launcher", ""))):
        return (
            f"CUDA_LAUNCH_BLOCKING=1 {starts} … (the rest as it was): the traceback then names "
            "the line"
        )
    if action == "four_bits" and facts.framework == "ms-swift" and "lora" in facts.tuning:
        bits = "--quantization_bit 4" if swift.release(facts) == "2" else "--quant_bits 4"
        return f"--quant_method bnb {bits}"
    if action == "dummy_image" and lacks_blank(facts):
        return (
            "python -m pip install -U 'llamafactory>=0.9.2' (a clone: git pull), and the same "
            "command again: from 0.9.2 on it puts a blank image into batches without one by itself"
        )
    if released := prepared.own(action, facts) or swift.own(action, facts):
        return released
    encoder = _ENCODER.search(values.get("repo", "")) is not None
    if action == "local_model" and encoder and "multimodal_encoder" in facts.trace:
        return (
            "hf download {hub} --local-dir FOLDER, then --vision_tower FOLDER (mm_vision_tower in "
            "the checkpoint's config.json, where it names one)"
        )
    if action == "local_model" and "model_name_or_path" in facts.typed:
        return "hf download {hub} --local-dir FOLDER, then --model_name_or_path FOLDER"
    if action == "max_length" and _GENERATING.search(facts.trace):
        return "half of --max_completion_length (and --max_prompt_length, where prompts are long)"
    if action == "fewer_answers" and _GENERATING.search(facts.trace):
        return _answers(facts)
    if facts.framework not in _FREE:
        return ""
    if action == "no_offload" and (flagged := _without_offload(facts)):
        return flagged
    if action == "other_port":
        return _PORTS.get(facts.said.get("launcher", ""), "")
    project = projects.of(facts)
    if project is not None and action in project.spelt:
        return project.spelt[action]
    if told := _TOOLKITS.get(action, {}).get(facts.said.get("toolkit", "")):
        return told
    if action in _IN_CONFIG and "config" in values:
        return _IN_CONFIG[action]
    if action in _IN_FILE and "dsfile" in values:
        return _IN_FILE[action]
    if action == "load_half" and "main" in values:
        return "from_pretrained(…, torch_dtype=torch.bfloat16) in {main}"
    if action == "checkpointing" and "main" in values and _in_code_alone(facts):
        return "model.gradient_checkpointing_enable() in {main}, behind from_pretrained(…)"
    if action == "halve" and facts.framework in ("", "accelerate") and "main" in values:
        return (
            "grep -n 'batch_size' {main}: half of the micro-batch, and twice the accumulation "
            "(loss / steps, one optimizer.step() for them): the global batch stays the same"
        )
    tower = _TOWER.search(facts.trace)
    part = tower[1] if tower else values.get("tower", "")
    if action == "freeze_tower" and part:
        return _FROZEN.format(part)
    if action == "tower_checkpointing" and "tower" in values:
        return (
            "model.{tower}.gradient_checkpointing = True, where "
            "model.gradient_checkpointing_enable() leaves the tower out"
        )
    launched = "engine" in facts.said or facts.said.get("launcher") == "deepspeed"
    if action in _STAGED and facts.zero is None and facts.said.get("launcher") == "accelerate":
        return _STAGED[action]
    engine = facts.zero is not None or launched
    if action == "zero3_offload" and "dsfile" in values:
        return '"zero_optimization": {whole} in {dsfile}'.replace("{whole}", _WHOLE)
    if action == "zero3_offload" and engine and facts.said.get("launcher") != "accelerate":
        return f'"zero_optimization": {_WHOLE} in DeepSpeed\'s config'
    if re.fullmatch("zero[1-3]", action) and engine:
        if facts.said.get("launcher") == "accelerate":
            return _IN_ACCELERATE.format(action[4])
        return f'"stage": {action[4]} under "zero_optimization" in DeepSpeed\'s config'
    if action in _INTERN and _INTERN[action].split()[0][2:] in facts.typed:
        return _INTERN[action]
    if action == "max_pixels" and _IDEFICS.search(f"{facts.model} {facts.trace}"):
        return "AutoProcessor.from_pretrained(…, do_image_splitting=False)"
    named = facts.framework == "TRL" or bool(facts.typed & set(_LENGTHS))
    if action == "max_length" and "main" in values and not named:
        return (
            "grep -niE 'max_(seq_|model_)?len' {main}: the limit of a row's length as it is "
            "called there; {length} for it"
        )
    if action in _OWN:
        names, value = _OWN[action]
        name = next((n for n in names if n in facts.typed), "")
        return f"--{name} {value}" if name else ""
    if action == "batch" and "gradient_accumulation_steps" in facts.typed:
        name = next((n for n in _ROWS if n in facts.typed), "")
        return f"--{name} {{micro}} --gradient_accumulation_steps {{accumulation}}" if name else ""
    return _half(action, facts)


# A tower by its name in the traceback.
_TOWER = re.compile(r"self\.(visual|vpm|vision_tower|vision_model)\(")
_FROZEN = (
    '[p.requires_grad_(False) for n, p in model.named_parameters() if "{}" in n], in front of the '
    "optimizer or Trainer"
)
_BY_ACCELERATE = "accelerate launch --use_deepspeed --zero_stage {} … (the rest as it was)"
_STAGED = {
    "zero2": _BY_ACCELERATE.format(2),
    "zero3": _BY_ACCELERATE.format(3),
    "zero3_offload": _BY_ACCELERATE.format("3 --offload_optimizer_device cpu"),
}
_WHOLE = (
    '{{"stage": 3, "offload_optimizer": {{"device": "cpu"}}, "offload_param": {{"device": "cpu"}}}}'
)


def lacks_blank(facts: Facts) -> bool:
    """A LLaMA-Factory that is older, or of which the log tells no release."""
    told = fault.numbers(facts.releases.get("llamafactory", ""))
    return facts.framework == "LLaMA-Factory" and told < (0, 9, 2)


def _answers(facts: Facts) -> str:
    """Fewer and shorter answers, by GRPO's own flags: half of what the log tells."""
    many, long = facts.number("num_generations"), facts.number("max_completion_length")
    now = f"{many} now" if many else "8 by default"
    short = f"--max_completion_length {long // 2}" if long else "half of --max_completion_length"
    return (
        f"--num_generations {max((many or 8) // 2, 2)}: {now}; the global batch must stay a "
        f"multiple of it; or {short}"
    )


_OFFLOADS = ("adam_offload", "offload_optimizer_device")  # OpenRLHF's, accelerate's


def _without_offload(facts: Facts) -> str:
    """The command line's own flag away; under ZeRO-3 the cards take least of its states."""
    flag = next((f"--{name}" for name in _OFFLOADS if name in facts.typed), "")
    if not flag:
        return ""
    whole = "zero_stage" in facts.typed and facts.zero != 3 and (facts.world or 0) > 1
    return f"--zero_stage 3 in place of {flag}" if whole else f"the same command without {flag}"


def _in_code_alone(facts: Facts) -> bool:
    """Whether a command line is in the log, and has none of the Trainer's arguments on it."""
    given_there = facts.typed - {"nproc_per_node", "nnodes", "num_processes", "master_port"}
    trainers = _ARGUMENTS | {"output_dir", "model_name_or_path"}
    return bool(given_there) and not facts.typed & trainers


def _half(action: str, facts: Facts) -> str:
    """--fp16 for --bf16: with values where the command line had one, else alone."""
    wanted, other = _HALVES.get(action, ("", ""))
    if wanted and "mixed precision requires" in facts.message:  # accelerate's
        return (
            f"accelerate launch --mixed_precision {wanted} … (the rest as it was), or "
            f'Accelerator(mixed_precision="{wanted}")'
        )
    if not wanted or other not in facts.typed:
        return ""
    if facts.said.get(other, "").lower() not in ("true", "false", "1", "0"):
        return f"--{wanted} in place of --{other}"
    said = f"--{wanted} True --{other} False"
    if wanted == "fp16":  # a card without bfloat16 has these neither
        said += " --tf32 False" if facts.said.get("tf32") == "true" else ""
        said += " --disable_flash_attn2 True" if "disable_flash_attn2" in facts.typed else ""
    return f"{said}, and in {{dsfile}}: {_AUTO}" if "dsfile" in given.files(facts) else said


# transformers fills these in by its own flags.
_AUTO = '"bf16": {{"enabled": "auto"}}, "fp16": {{"enabled": "auto"}}'


# Arguments of transformers' TrainingArguments, which scripts of one's own set in code.
_ARGUMENTS = frozenset(
    """
    gradient_checkpointing_kwargs gradient_checkpointing ddp_find_unused_parameters ddp_timeout
    ddp_static_graph ddp_broadcast_buffers per_device_train_batch_size gradient_accumulation_steps
    per_device_eval_batch_size eval_accumulation_steps bf16 fp16 learning_rate max_grad_norm
    dataloader_num_workers eval_strategy save_total_limit save_only_model prediction_loss_only
    remove_unused_columns report_to
    """.split()
)
_PAIR = re.compile(r"--([a-z_][a-z_0-9]{1,47}) ('[^']{1,200}'|[^\s-]\S{0,60}?(?=,? |,?$))")
_CODE = {"true": "True", "false": "False"}


def in_code(words: str, facts: Facts) -> str:
    """``words`` and the same for a script that sets its arguments in code, where one failed."""
    if facts.framework not in ("transformers", "TRL") or facts.typed & _ARGUMENTS:
        return words
    pairs = _PAIR.findall(words)
    if not pairs or not words.startswith("--") or not {n for n, _ in pairs} <= _ARGUMENTS:
        return words
    notebook = "notebook" in facts.said
    if words.count("--") != len(pairs) or not (notebook or given.place(facts.trace)):
        return words
    said = ", ".join(f"{name}={_value(value)}" for name, value in pairs)
    file = given.files(facts).get("dsfile", "") if pairs[0][0] in _HALVES else ""
    more = f", and in {file}: {_AUTO.format()}" if file else ""
    code = f"{_arguments(facts.trace)}({said})"
    return f"{code if notebook else f'{words}; in code: {code}'}{more}"


def _value(value: str) -> str:
    value = value.strip("'")
    value = re.sub(r"\b(?:true|false)\b", lambda m: _CODE[m[0]], value)
    plain = re.fullmatch(r"[\d.e-]+|True|False|\{.*\}", value)
    return value if plain else f'"{value}"'


# SFTTrainer.train of TRL before 0.9, which brought SFTConfig and its kin.
_BEFORE_CONFIGS = re.compile(
    r"trl/trainer/sft_trainer\.py\", line (?:[12]\d\d|3[0-6]\d), in train\b"
)
_SHORT = frozenset("sft dpo grpo kto ppo rloo orpo cpo bco gkd xpo prm md".split())


def _arguments(trace: str) -> str:
    """The class of arguments that belongs to the trainer in the traceback."""
    match = re.search(r"(?:trl|open_r1)/trainer/(\w{2,12})_trainer\.py", trace)
    if match is None or _BEFORE_CONFIGS.search(trace):
        return "TrainingArguments"
    words = (w.upper() if w in _SHORT else w.capitalize() for w in match[1].split("_"))
    return f"{''.join(words)}Config"
