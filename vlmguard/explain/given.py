"""What a run was given, for the steps that are advised: files, program, the line of its own code.

As in `named`, whose values these become: what does not look like what it is to be is left out.
"""

from __future__ import annotations

import re

from vlmguard.explain.frames import users
from vlmguard.explain.logfacts import Facts

_DATA = re.compile(r"[\w./~][\w./@+~-]{0,200}\.(?:jsonl?|parquet|csv|tsv|arrow)")
_FOLDER = re.compile(r"(?:\.{0,2}/)?[\w.@+~-][\w./@+~-]{0,220}")
_OF_PLACE = re.compile(r"File \"([^\"\n]{1,200})\", line (\d{1,7})")


def check(trace: str) -> dict[str, str]:
    """The file of the line that raised it, and the lines round it, as sed has them."""
    frames = [m for m in _OF_PLACE.finditer(trace) if "<" not in m[1]]
    if not frames:
        return {}
    line = int(frames[-1][2])
    return {"span": f"{max(line - 8, 1)},{line + 2}p", "codefile": frames[-1][1]}


# The program that shows a framework's arguments.
_PROGRAMS = {
    "ms-swift": "swift sft",
    "LLaMA-Factory": "llamafactory-cli train",
    "TRL": "trl sft",
    "axolotl": "axolotl train",
}


_SUBCOMMAND = re.compile(r"swift/cli/(sft|pt|rlhf|infer|export|eval|sample|rollout|deploy)\.py")


def _of_rlhf(facts: Facts) -> bool:
    return "rlhf_type" in facts.typed or "swift/llm/train/rlhf.py" in facts.trace


_REFUSED_BY = re.compile(r"(?:^|[\s/])([A-Za-z]\w{0,60}\.py): error: ")
_MAIN = re.compile(r"-packages/((?:\w{1,40}/){2,8})__main__\.py")
_LAUNCHERS = ("launch.py", "launcher.py", "run.py")  # a launcher's own: its release is the matter


def program(facts: Facts, said: str) -> str:
    """What shows the arguments: the framework's command, or what refused them."""
    if command := _PROGRAMS.get(facts.framework):
        if facts.framework == "ms-swift" and (asked := _SUBCOMMAND.search(facts.trace)):
            return f"swift {asked[1]}"
        return "swift rlhf" if facts.framework == "ms-swift" and _of_rlhf(facts) else command
    if match := _REFUSED_BY.search(said):
        return "" if match[1] in _LAUNCHERS else f"python {match[1]}"
    match = _MAIN.search(facts.trace)
    return f"python -m {match[1].strip('/').replace('/', '.')}" if match else ""


# Arguments that name the run's own files → what a step calls them.
_GIVEN = {
    "data": ("dataset", "train_data", "train_file", "data_path", "dataset_path", "data_files"),
    "checkpoint": ("resume_from_checkpoint",),
    "images": ("image_folder",),
    "projector": ("pretrain_mm_mlp_adapter",),
    "adapter": ("adapters", "adapter_name_or_path"),
    "dsfile": ("deepspeed", "deepspeed_config"),
}


def files(facts: Facts) -> dict[str, str]:
    """Files that the run was given by its arguments, where they look like files."""
    found = {}
    for name, arguments in _GIVEN.items():
        told = next((facts.said[a] for a in arguments if facts.said.get(a)), "").strip("[]'\" ")
        if name in ("data", "dsfile"):
            first = told.partition(",")[0].partition(" ")[0].strip("'\"")
            found[name] = first if _DATA.fullmatch(first) else ""
        elif "/" in told and _FOLDER.fullmatch(told):
            found[name] = told
    rows = facts.said.get("rows_file", "")
    if rows and not found["data"] and facts.framework == "LLaMA-Factory":
        folder = facts.said.get("dataset_dir", "data")
        found["data"] = rows if rows[0] == "/" else f"{folder}/{rows}"
    names = facts.said.get("dataset", "").strip("[]'\" ").partition(",")[0].strip("'\" ")
    found["dataset"] = names if re.fullmatch(r"[A-Za-z][\w-]{0,60}", names) else ""
    return found


def own_line(trace: str) -> str:
    """The innermost line of the user's own code, as it stands there."""
    own = [m for m in _OF_PLACE.finditer(trace) if users(m[1])]
    if not own:
        return ""
    behind = trace[own[-1].end() : own[-1].end() + 400].partition(' File "')[0]
    return re.sub(r"^, in [\w.<>]{1,80} ?", "", behind)


def own_load(trace: str) -> str:
    """The line of the user's own code that loads an optimizer's state."""
    line = own_line(trace)
    return place(trace) if "load_state_dict(" in line and "optim" in line else ""


def operand(trace: str, key: str) -> str:
    """What the failing line of the user's own code looks ``key`` up in, as it is called there."""
    own = [m for m in _OF_PLACE.finditer(trace) if users(m[1])]
    if not own or not re.fullmatch(r"[\w.-]{1,80}", key):
        return ""
    code = trace[own[-1].end() : own[-1].end() + 400].partition(' File "')[0]
    found = re.search(rf"([A-Za-z_][\w.]{{0,60}})\[['\"]{re.escape(key)}['\"]\]", code)
    return found[1] if found else ""


_UNNAMED = ("<listcomp>", "<genexpr>", "<dictcomp>", "<lambda>")  # within a function
_COLLATORS = re.compile(r"(?:collat\w{0,20}|__call__|torch_call)$", re.I)


def collator(trace: str) -> str:
    """The line of a collator, where the innermost of the user's own functions is one."""
    own = [m for m in _OF_PLACE.finditer(trace) if users(m[1])]
    names = [re.match(r", in ([\w.<>]{1,60})", trace[m.end() :]) for m in own]
    named = [name for name in names if name is not None and name[1] not in _UNNAMED]
    within = (
        bool(named)
        and "transformers/trainer.py" in trace
        and _COLLATORS.search(named[-1][1]) is not None
    )
    return f"{own[-1][1]}:{own[-1][2]}" if within else ""


# Classes that packages bring: of others the run's own code is asked.
_BROUGHT = re.compile(
    r"(?:Seq2Seq|SFT|DPO|KTO|ORPO|GRPO|PPO|CPO|RLOO|Reward|GKD)?Train(?:er|ingArguments)"
    r"|(?:SFT|DPO|KTO|ORPO|GRPO|PPO|CPO|RLOO|Reward|GKD|Lora|Generation|BitsAndBytes)Config"
    r"|Accelerator|EngineArgs|LLM|DataLoader|AdamW?|\w{0,40}(?:Plugin|Processor|Tokenizer\w{0,4})"
    r"|\w{1,60}For(?:CausalLM|ConditionalGeneration|SequenceClassification|MaskedLM)"
)


def own_class(trace: str, name: str) -> str:
    """``name``, where no package is known to bring it and the user's own code calls it."""
    frames = list(_OF_PLACE.finditer(trace))
    called = frames and users(frames[-1][1])
    return name if called and not _BROUGHT.fullmatch(name) else ""


# "You should set `x: False`": what a package's own message asks for, with its value.
_ADVISED = re.compile(
    r"\b(?:[Ss]et|[Uu]se|[Pp]ass|[Ss]pecify|[Aa]dd|[Ee]nable) [`']((?:--)?([A-Za-z_]\w{2,60})"
    r"(?:: ?|=| )[\w.]{1,40})[`']"
)
_UNSAFE = ("weights_only", "trust_remote_code", "ignore_mismatched_sizes", "allow_pickle", "strict")


def advised(said: str) -> str:
    """The setting that the message asks for, unless it runs or hides what ought to be looked at."""
    match = _ADVISED.search(said)
    return match[1] if match is not None and match[2] not in _UNSAFE else ""


def starter(trace: str) -> str:
    """The script of the user's own that was started: the outermost frame's."""
    first = next(_OF_PLACE.finditer(trace), None)
    own = first is not None and users(first[1])
    return first[1] if own and first is not None and first[1].endswith(".py") else ""


def rows(facts: Facts) -> str:
    """The run's data, where they are rows of a file, one a line."""
    data = files(facts).get("data", "")
    return data if data.endswith(".jsonl") else ""


_YAML = re.compile(r"[\w./~][\w./@+~-]{0,200}\.ya?ml")


def master(facts: Facts) -> str:
    """The first node's address, where a command line names it for several nodes."""
    told = facts.said.get("master_addr", "") if "master_addr" in facts.typed else ""
    several = facts.said.get("nnodes", "1") != "1" and not told.startswith(("127.", "localhost"))
    return told if several and re.fullmatch(r"[A-Za-z0-9][\w.-]{1,80}", told) else ""


def network(facts: Facts) -> dict[str, str]:
    """The first node's address, and the part of it that its neighbours have as well."""
    told = master(facts)
    if not re.fullmatch(r"(?:\d{1,3}\.){3}\d{1,3}", told):
        return {}
    return {"firstnode": told, "network": told.rpartition(".")[0]}


def config(facts: Facts) -> str:
    """accelerate's file, where the command line names it."""
    told = facts.said.get("config_file", "") if "config_file" in facts.typed else ""
    return told if _YAML.fullmatch(told) else ""


def script(trace: str) -> str:
    """The program that was started: the traceback's outermost file, where it is the user's own."""
    match = _OF_PLACE.search(trace)
    own = match is not None and users(match[1])
    return match[1] if match is not None and own and match[1].endswith(".py") else ""


_INTERNVL = re.compile(r'File "([^"\n]{0,200}?\binternvl)/(?:train|model)/')


def internvl(trace: str) -> str:
    """The folder of InternVL's own package, in whose scripts the run is."""
    match = _INTERNVL.search(trace)
    return match[1] if match is not None and "-packages/" not in match[1] else ""


_REWARDED = re.compile(r"in (?:_calculate_rewards|_score_completions|compute_rewards_per_func)\b")


def reward(trace: str) -> str:
    """The user's own reward function, as file:line, where the trainer's call of it is seen."""
    called = _REWARDED.search(trace)
    first = _OF_PLACE.search(trace, called.end()) if called is not None else None
    if first is None or not users(first[1]):
        return ""
    return f"{first[1]}:{first[2]}"


def code(trace: str) -> str:
    """The folder of the program that was started."""
    return script(trace).rpartition("/")[0]


def call_folder(trace: str) -> str:
    """The folder of the line that raised it, where that is the user's own."""
    frames = list(_OF_PLACE.finditer(trace))
    own = frames and users(frames[-1][1])
    return frames[-1][1].rpartition("/")[0] if own else ""


def place(trace: str) -> str:
    """The innermost line of the user's own code, as file:line."""
    own = [m for m in _OF_PLACE.finditer(trace) if users(m[1])]
    return f"{own[-1][1]}:{own[-1][2]}" if own else ""
