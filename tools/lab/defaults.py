"""``python -m tools.lab defaults``: what a release does when the user says nothing, and since when.

Each default is read from the released source by its syntax tree, nothing is imported. The first
release of every minor is read, and where two of them differ every release between them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tools.lab import releases, toml
from tools.lab.releases import Source
from tools.lab.seamtable import Say, first_of_minors
from vlmguard.compat import verdicts


@dataclass(frozen=True)
class Default:
    """One default of one package.

    Attributes:
        name: short; ``doctor`` and rules find it by package and name.
        first: the oldest release to read.
        what: what the value is the answer to.
        read: source → value; raises LookupError where the source has another shape.
    """

    package: str
    name: str
    first: str
    what: str
    read: Callable[[Source], str]


def measure(default: Default, say: Say = print) -> dict[str, Any]:
    """The default's row: its value from which release to which.

    Raises:
        releases.Unavailable: pip names no releases of the package.
    """
    names = releases.versions(default.package, default.first)

    @functools.cache
    def value(name: str) -> str:
        say(f"{default.package} {name}: {default.name}")
        try:
            return default.read(Source(releases.archive(default.package, name)))
        except LookupError as error:
            return f"not understood: {error}"

    read = first_of_minors(names)
    for before, after in itertools.pairwise(read):
        if value(before) != value(after):
            for between in names[names.index(before) : names.index(after)]:
                value(between)
    spans: list[dict[str, str]] = []
    for name in (n for n in names if n in read or _was_read(names, read, n, value)):
        if spans and spans[-1]["value"] == value(name):
            spans[-1]["to"] = name
        else:
            spans.append({"value": value(name), "from": name, "to": name})
    return {"package": default.package, "name": default.name, "what": default.what, "span": spans}


def _was_read(
    names: tuple[str, ...], read: tuple[str, ...], name: str, value: Callable[[str], str]
) -> bool:
    """Whether ``name`` lies between two first releases that differ."""
    at = names.index(name)
    before = max(r for r in map(names.index, read) if r <= at)
    after = min(r for r in map(names.index, read) if r >= at)
    return value(names[before]) != value(names[after])


def function(source: Source, module: str, name: str) -> ast.FunctionDef:
    """A function or method by name. Raises LookupError."""
    text = source.module(module)
    for node in ast.walk(ast.parse(text or "")):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module} has no {name}")


def _first(source: Source, *places: tuple[str, str]) -> ast.FunctionDef:
    for module, name in places:
        try:
            return function(source, module, name)
        except LookupError:
            continue
    raise LookupError(f"none of {', '.join(name for _, name in places)}")


def transformers_variant(source: Source) -> str:
    """``use_reentrant`` of ``gradient_checkpointing_enable()`` without keywords."""
    module = "transformers.modeling_utils"
    node = _first(
        source,
        (module, "_activation_checkpointing_enable"),
        (module, "gradient_checkpointing_enable"),
    )
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            for key, value in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "use_reentrant":
                    return ast.unparse(value)
    named = {argument.arg for argument in node.args.args}
    return "torch's default" if named != {"self"} else "none: the model's code decides"


def transformers_find_unused(source: Source) -> str:
    """DDP's ``find_unused_parameters`` where the argument is not given."""
    module = "transformers.trainer"
    for name in ("_build_accelerator_args", "create_accelerator_and_postprocess", "_wrap_model"):
        try:
            node = function(source, module, name)
        except LookupError:
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.If) and "ddp_find_unused_parameters" in ast.unparse(part.test):
                return f"{_plain(_chain(part.orelse))} (decided in Trainer.{name})"
    raise LookupError("no decision about find_unused_parameters")


def _chain(branches: list[ast.stmt]) -> str:
    """``if a: x = 1 … else: x = 2`` in words."""
    first = branches[0]
    if isinstance(first, ast.If):
        return f"{_chain(first.body)} if {ast.unparse(first.test)}, else {_chain(first.orelse)}"
    if isinstance(first, ast.Assign):
        return ast.unparse(first.value)
    raise LookupError(ast.unparse(first))


def _plain(words: str) -> str:
    """Without what only says where a value is kept, and without transformers 5.23's new word."""
    for owner in ("self.args.", "args.", "self."):
        words = words.replace(owner, "")
    return words.replace("activation_checkpointing", "gradient_checkpointing")


def swift_variant(source: Source) -> str:
    """ms-swift's ``use_reentrant_`` where the user gives no keyword."""
    places = ("swift.trainers.mixin", "swift.trainers.arguments")
    node = _first(source, *((module, "_fix_gradient_checkpointing") for module in places))
    for part in ast.walk(node):
        if isinstance(part, ast.If) and ast.unparse(part.test) == "use_reentrant_ is None":
            return _plain(_chain(part.body))
    for part in ast.walk(node):
        if not isinstance(part, ast.Assign) or not isinstance(part.value, ast.IfExp):
            continue
        if ast.unparse(part.targets[0]) == "use_reentrant_":
            return _plain(ast.unparse(part.value.orelse))
    raise LookupError("no decision about use_reentrant_")


def _sft(source: Source) -> Iterator[ast.AST]:
    for name in ("trl.trainer.sft_config", "trl.trainer.sft_trainer"):
        yield from ast.walk(ast.parse(source.module(name) or ""))


def trl_variant(source: Source) -> str:
    """TRL's SFT: ``use_reentrant`` where the user gives no keyword."""
    for part in _sft(source):
        if isinstance(part, ast.If):
            calls = (n for n in part.body if "setdefault('use_reentrant'" in ast.unparse(n))
            inner = next((n for n in calls if isinstance(n, ast.Expr)), None)
            if inner is not None and isinstance(inner.value, ast.Call):
                return _plain(f"{ast.unparse(inner.value.args[1])} if {ast.unparse(part.test)}")
    return "transformers' default"


def trl_zero3(source: Source) -> str:
    """TRL's SFT: ``use_reentrant`` with PEFT under ZeRO-3."""
    for part in _sft(source):
        if isinstance(part, ast.Assign) and "['use_reentrant']" in ast.unparse(part.targets[0]):
            return f"{ast.unparse(part.value)}, whatever the user says"
    return "as elsewhere"


def trl_on(source: Source) -> str:
    """TRL's SFT: whether checkpointing is on where nothing is said."""
    for name in ("trl.trainer.sft_config", "trl.trainer.base_config"):
        for part in ast.walk(ast.parse(source.module(name) or "")):
            if not isinstance(part, ast.AnnAssign):
                continue
            if ast.unparse(part.target) == "gradient_checkpointing":
                words = part.value.keywords if isinstance(part.value, ast.Call) else []
                return next((ast.unparse(w.value) for w in words if w.arg == "default"), "?")
    return "transformers' default (False)"


def deepspeed_clipping(source: Source) -> str:
    """DeepSpeed's clipping for a config without the key ``gradient_clipping``."""
    for part in ast.walk(ast.parse(source.module("deepspeed.runtime.constants") or "")):
        target = ast.unparse(part.targets[0]) if isinstance(part, ast.Assign) else ""
        if isinstance(part, ast.Assign) and target == "GRADIENT_CLIPPING_DEFAULT":
            return str(float(ast.literal_eval(part.value)))
    raise LookupError("no GRADIENT_CLIPPING_DEFAULT")


def llamafactory_variant(source: Source) -> str:
    """LLaMA-Factory: ``use_reentrant`` where the user says nothing."""
    for part in ast.walk(ast.parse(source.module("llamafactory.hparams.model_args") or "")):
        if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "use_reentrant_gc":
            words = part.value.keywords if isinstance(part.value, ast.Call) else []
            return next((ast.unparse(w.value) for w in words if w.arg == "default"), "?")
    module = "llamafactory.model.model_utils.checkpointing"
    node = function(source, module, "prepare_model_for_training")
    found = re.search(r"'use_reentrant': (\w+)", ast.unparse(node))
    if found is None:
        raise LookupError(f"{module} names no use_reentrant")
    return found[1]


def llamafactory_find_unused(source: Source) -> str:
    """LLaMA-Factory: DDP's ``find_unused_parameters`` where the user says nothing."""
    for part in ast.walk(ast.parse(source.module("llamafactory.hparams.parser") or "")):
        if not isinstance(part, ast.If) or "ddp_find_unused" not in ast.unparse(part.test):
            continue
        for inner in part.body:
            if isinstance(inner, ast.Assign):
                rest = [_test(each) for each in _all_of(part.test) if "is None" not in _test(each)]
                return f"{ast.unparse(inner.value)} if {' and '.join(rest)}"
    return "transformers' default"


def _all_of(test: ast.expr) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) else [test]


def _test(part: ast.expr) -> str:
    return ast.unparse(part).replace("training_args.", "").replace("finetuning_args.", "")


def llamafactory_blank(source: Source) -> str:
    """LLaMA-Factory: to which batches its collator adds a blank image."""
    for part in ast.walk(ast.parse(source.module("llamafactory.data.collator") or "")):
        if isinstance(part, ast.If) and "sum(batch_imglens)" in ast.unparse(part.test):
            return f"if {ast.unparse(part.test).replace('self.template.', '')}"
    return "none"


DEFAULTS = (
    Default("transformers", "checkpoint variant", "4.30",
            "use_reentrant of gradient_checkpointing_enable() without keywords",
            transformers_variant),
    Default("transformers", "find_unused", "4.30",
            "DDP's find_unused_parameters without --ddp_find_unused_parameters",
            transformers_find_unused),
    Default("ms-swift", "checkpoint variant", "3.0",
            "use_reentrant without --gradient_checkpointing_kwargs", swift_variant),
    Default("trl", "checkpointing", "0.7", "gradient_checkpointing of SFTConfig", trl_on),
    Default("trl", "checkpoint variant", "0.7",
            "use_reentrant of SFTTrainer without gradient_checkpointing_kwargs", trl_variant),
    Default("trl", "checkpoint variant, PEFT with ZeRO-3", "0.7",
            "use_reentrant of SFTTrainer with PEFT under ZeRO-3", trl_zero3),
    Default("llamafactory", "checkpoint variant", "0.9.0",
            "use_reentrant without use_reentrant_gc", llamafactory_variant),
    Default("llamafactory", "find_unused", "0.9.0",
            "DDP's find_unused_parameters without ddp_find_unused_parameters",
            llamafactory_find_unused),
    Default("llamafactory", "blank image", "0.9.0",
            "batches to which the collator adds a blank image", llamafactory_blank),
    Default("deepspeed", "gradient_clipping", "0.14.5",
            "clipping norm for a config without the key gradient_clipping; 0.0 is none",
            deepspeed_clipping),
)  # fmt: skip


def write(only: Iterable[str] = (), say: Say = print) -> None:
    """Measure `DEFAULTS` and replace ``compat/defaults.toml``.

    Args:
        only: packages to measure; the others' rows stay.
    """
    wanted = set(only)
    kept = [row for row in verdicts.table("defaults")["default"] if row["package"] not in wanted]
    rows = [measure(each, say) for each in DEFAULTS if not wanted or each.package in wanted]
    data = {"format": verdicts.FORMAT, "default": [*(kept if wanted else []), *rows]}
    toml.write(verdicts.folder() / "defaults.toml", "defaults", data)
