"""A module, an argument, a class or an attribute that a failure names."""

from __future__ import annotations

import re

from vlmguard.explain import given, moved, packages, swift
from vlmguard.explain.logfacts import Facts
from vlmguard.explain.renamed import DROPPED, RENAMED

_MODULE = re.compile(r"No module named ['\"‘]?([A-Za-z_][\w.]{0,80})")
_IMPORTED = re.compile(
    r"cannot import name ['\"‘]?([A-Za-z_]\w{0,80})['\"’]? from (?:partially initialized module )?"
    r"['\"‘]?([A-Za-z_][\w.]{0,80})"
)
_FLAG = re.compile(
    r"(?:unrecognized arguments?:? |unrecognized option ['\"]?|no such option:? ?['\"]?|"
    r"No such option:? ?['\"]?|error: argument )(--?[A-Za-z][\w-]{1,60})"
)
_KEYWORD = re.compile(
    r"(?:unexpected keyword argument|Some specified arguments are not used by the HfArgumentParser:"
    r"|Some keys are not used by the HfArgumentParser:|remaining_argv:|Got unknown args, "
    r"potentially"
    r" deprecated arguments:|unknown keys) \(?\[?['\"]?(?:--)?([A-Za-z_]\w{1,60})"
)
ATTRIBUTE = re.compile(
    r"(?:['\"‘]?([A-Za-z_][\w.]{0,80})['\"’]? (?:object )?|module ['\"]([\w.]{1,80})['\"] )"
    r"has no attribute ['\"‘]?([A-Za-z_]\w{0,80})"
)
_LIBRARY = re.compile(
    r"(?:[/-]packages/|DLL load failed while importing )([A-Za-z_]\w{1,60}?)"
    r"(?:_2_cuda|_cuda|_3_cuda)?(?:[./-]|:| |$)"
)
_BINARY = re.compile(
    r"[/ ]([A-Za-z_]\w{1,60}?)(?:_[23]?_?cuda)?\.(?:cpython[\w-]{1,40}\.|abi3\.)?so\b"
)
_INSTALL = re.compile(
    r"(?:metadata was found for |"
    r"pip3? install (?:-U |--upgrade )?[`'\"]?|ImportError: No |requires |install )"
    r"([A-Za-z][\w-]{1,40})"
)
_MODELING = re.compile(r"/modeling_(\w{2,40})\.py")
MODELS = re.compile(
    r"\w{2,60}(?:Model|ForConditionalGeneration|ForCausalLM|Processor|TokenizerFast|Config)"
)
# Classes by whose name their package is known, whatever code asked them.
_BROUGHT = (
    (re.compile(r"Lora(?:Model|Layer|Config)|Peft\w{0,40}|PromptEncoder\w{0,10}"), "peft"),
    (
        re.compile(
            r"Accelerat(?:or|ed)\w{0,20}|(?:FullyShardedDataParallel|DeepSpeed)Plugin|"
            r"(?:Partial|Gradient)State|DataLoader(?:Shard|Dispatcher|Configuration)"
        ),
        "accelerate",
    ),
    (re.compile(r"DeepSpeed\w{0,40}"), "deepspeed"),
    (re.compile(r"MatmulLtState|Params4bit|Int8Params|QuantState"), "bitsandbytes"),
    (re.compile(r"Hf(?:Trainer)?DeepSpeedConfig|TrainingArguments"), "transformers"),
)


def brings(name: str) -> str:
    """The package that is known to bring the class ``name``."""
    return next((package for pattern, package in _BROUGHT if pattern.fullmatch(name)), "")


_MODEL = re.compile(r"\w{2,60}(?:Model|ForConditionalGeneration|ForCausalLM)")


def asked_in(trace: str, owner: str, attribute: str) -> str:
    """The line of the user's own code that asks a model for what it has not, as file:line."""
    code = given.own_line(trace)
    asked = f"model.{attribute}" in code and "getattr__" in trace
    return given.place(trace) if asked and _MODEL.fullmatch(owner) else ""


_ASKED = re.compile(
    r"(?:requires?|needs|install|Error:|The) [`'\"]?"
    r"(([A-Za-z][\w-]{1,40})[<>=!]=?[\w.]{1,20}(?:, ?[<>=!]=?[\w.]{1,20}){0,9})"
)


def model(trace: str) -> str:
    """The model by the file of transformers that has its code."""
    found = _MODELING.search(trace)
    return found[1] if found else ""


def flags(said: str) -> str:
    """Of very many arguments that are refused at once the first three."""
    behind = said.partition("unrecognized arguments: ")[2]
    found = re.findall(r"(?:^| )--([A-Za-z][\w-]{1,40})", behind)
    return f"{', '.join(found[:3])} and more" if len(found) > 3 else ""


def argument(said: str) -> str:
    return arguments(said).get("argument", "")


def modules(said: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if match := _IMPORTED.search(said):
        found["name"], found["source"] = match[1], match[2]
        found["sourcepackage"] = packages.of(match[2])
        found["pin"] = moved.pin(found["sourcepackage"], match[1])
    if match := _MODULE.search(said):
        module = match[1].rstrip(".")
        package = packages.of(module)
        inner = "." in module and module.partition(".")[0] != "google"
        found["part" if inner else "module"] = module
        found["partpackage" if inner else "package"] = package
        found.update(moved.module(module, said))
        if not package and not inner:
            found["unlisted"] = module
    else:
        asked = (packages.listed(name) for name in _INSTALL.findall(said))
        found["package"] = next(filter(None, asked), "")
    for pattern in (_LIBRARY, _BINARY):
        if not found.get("library") and (match := pattern.search(said)):
            found["library"] = packages.of(match[1])
    for match in _ASKED.finditer(said):
        if packages.listed(match[2]):
            found["wanted"] = match[1]
            break
    return found


def arguments(said: str) -> dict[str, str]:
    match = _FLAG.search(said) or _KEYWORD.search(said)
    if match is None:
        return {}
    flag = match[1]
    bare = flag.lstrip("-").replace("-", "_")
    new = RENAMED.get(bare, "")
    stem = next((w for w in bare.split("_") if len(w) > 3), bare)
    return {
        "flag": flag,
        "argument": bare,
        "stem": stem,
        "newname": new,
        "dropped": DROPPED.get(bare, ""),
    }


def renamed(facts: Facts, said: str) -> dict[str, str]:
    """What the run's own release calls a refused argument."""
    found = arguments(said)
    new = swift.renamed(found.get("argument", ""), facts) or found.get("newname", "")
    return {"newname": new} if new else {}


def newflag(name: str, facts: Facts, said: str) -> str:
    """The new name as it is typed, with the value that the old one had."""
    value = facts.said.get(argument(said), "")
    return f"--{name} {value}" if re.fullmatch(r"\w[\w.-]{0,40}", value) else f"--{name}"
