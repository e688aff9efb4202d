"""ms-swift's registries of models and templates, read from their sources."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vlmguard.check.reading import model_config as models
from vlmguard.check.reading import python_files
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.core.facts import Certainty

_MODELS = ("swift.model.models", "swift.llm.model.model")
_TEMPLATES = ("swift.template.templates", "swift.llm.template.template")
# ms-swift replaces the forward of these; only under DeepSpeed it adds a blank image.
_PATCHED = ("qwen3_vl", "qwen3_omni")
_ALWAYS, _UNDER_DEEPSPEED = "_get_inputs_embeds_hf", "is_deepspeed_enabled()"
_DELEGATES = re.compile(r"(\w+|super\([^)]*\))\._post_encode\(")
_LEFT = re.compile(r":\s*\n\s*return inputs\s*\Z")  # the model makes the embeddings
_HEARS_ONLY = re.compile(r"audio|asr|tts|speech|voice")


@dataclass(frozen=True)
class Known:
    """A model as ms-swift knows it.

    Attributes:
        type, template, arch: its words; "" where not known.
        multimodal: None if not known.
        sees: whether it has a vision tower rather than an audio tower alone.
        how: where that comes from.
    """

    type: str = ""
    template: str = ""
    arch: str = ""
    multimodal: bool | None = None
    sees: bool = True
    how: str = ""


@dataclass(frozen=True)
class _Entry:
    type: str
    multimodal: bool
    template: str
    arch: str
    ids: Mapping[str, str]
    architectures: tuple[str, ...]


def model(values: Values, files: Files, env: Mapping[str, str]) -> Known:
    """The model of a command: by ``--model_type``, its config.json, or its name."""
    name = values.get("model") or ""
    found = models.of(name if isinstance(name, str) else "", files, env)
    asked = values.get("model_type")
    template = values.get("template") or ""
    entry = _entry(found, asked if isinstance(asked, str) else "")
    if entry is None:
        seen = found.sees if found.config or found.sees else None
        hears = found.hears
        multimodal = (seen or hears) if seen is not None or hears is not None else None
        return Known(found.type, template, "", multimodal, bool(seen), found.how)
    base = os.path.basename(found.name.rstrip("/"))
    by_name = entry.ids.get(base.lower(), entry.template)
    how = found.how if found.config else "config.json is not on this disk; ms-swift's registry"
    sees = not (_HEARS_ONLY.search(entry.type) and "omni" not in entry.type)
    return Known(entry.type, template or by_name, entry.arch, entry.multimodal, sees, how)


def _entry(found: models.Model, asked: str) -> _Entry | None:
    base = os.path.basename(found.name.rstrip("/")).lower()
    words = [word for word in (asked, base, found.architecture) if word]
    entries = [entry for file in _folder(_MODELS) if _mentions(file, words)
               for entry in _entries(file)]  # fmt: skip
    for matches in (
        (e for e in entries if asked and e.type == asked),
        (e for e in entries if base and base in e.ids),
        (e for e in entries if found.architecture in e.architectures and e.type == found.type),
        (e for e in entries if found.architecture in e.architectures),
    ):
        entry = next(iter(matches), None)
        if entry is not None:
            return entry
    return None


def _folder(names: tuple[str, ...]) -> list[Path]:
    for name in names:
        file = python_files.module_file(name)
        if file is not None:
            return sorted(path for path in file.parent.glob("*.py") if path.name != "__init__.py")
    return []


@functools.cache
def _source(file: Path) -> str:
    return file.read_text("utf-8", "replace")


def _mentions(file: Path, words: list[str]) -> bool:
    text = _source(file).lower()
    return any(word.lower() in text for word in words)


@functools.cache
def _entries(file: Path) -> tuple[_Entry, ...]:
    tree = ast.parse(_source(file))
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and _called(n) == "ModelMeta")
    return tuple(entry for call in calls if (entry := _read(call)) is not None)


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _attribute(node: ast.expr | None) -> tuple[str, str]:
    """``TemplateType.qwen2_vl`` → ("TemplateType", "qwen2_vl")."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return "", ""


def _read(call: ast.Call) -> _Entry | None:
    if not call.args:
        return None
    owner, kind = _attribute(call.args[0])
    words = {keyword.arg: keyword.value for keyword in call.keywords}
    template = _attribute(words.get("template"))[1]
    for argument in call.args[1:]:
        if _attribute(argument)[0].endswith("TemplateType"):
            template = template or _attribute(argument)[1]
    listed = words.get("architectures")
    names = [n.value for n in ast.walk(listed) if isinstance(n, ast.Constant)] if listed else []
    ids: dict[str, str] = {}
    for group in (n for n in ast.walk(call) if isinstance(n, ast.Call)):
        if _called(group) == "ModelGroup":
            own = next((_attribute(a)[1] for a in [*group.args, *(k.value for k in group.keywords)]
                        if _attribute(a)[0].endswith("TemplateType")), "")  # fmt: skip
            for name in _ids(group):
                ids[name] = own or template
    if not template and len(set(ids.values())) == 1:  # ms-swift asks the user if several fit
        template = next(iter(ids.values()))
    return _Entry(kind, owner.startswith("MLLM"), template, _attribute(words.get("model_arch"))[1],
                  ids, tuple(str(name) for name in names))  # fmt: skip


def _ids(group: ast.Call) -> Iterator[str]:
    for node in ast.walk(group):
        if isinstance(node, ast.Call) and _called(node) == "Model":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield os.path.basename(argument.value).lower()


def pads(known: Known, strategy: str) -> Certainty:
    """Whether ms-swift itself runs the tower on a blank image in a batch without one."""
    if not known.multimodal:
        return "no"
    deepspeed = strategy.startswith("zero")
    patched: Certainty = "yes" if deepspeed and known.arch in _PATCHED else "no"
    if not known.template:
        return "possible"
    texts = _encoding(known.template)
    if not texts:
        return patched
    if any(_ALWAYS in text for text in texts):
        return "yes"
    if any(_UNDER_DEEPSPEED in text for text in texts):
        return "yes" if deepspeed else "no"
    return "yes" if patched == "yes" else "possible"


def encodes(known: Known) -> bool:
    """Whether the template turns media into embeddings itself, or may: it is not known."""
    return not known.template or bool(_encoding(known.template))


def _encoding(template: str) -> list[str]:
    """The sources with which a template embeds; [] where that is left to the model."""
    owner = _template(template)
    texts = list(_texts(owner, 4)) if owner is not None else []
    return [text for text in texts if not _LEFT.search(text)]


@functools.cache
def _template(name: str) -> python_files.Class | None:
    """The class of a template, where it is registered with one."""
    for folder in _TEMPLATES:
        if python_files.module_file(folder) is None:
            continue
        for file in _folder((folder,)):
            if not re.search(rf"TemplateType\.{re.escape(name)}\b", _source(file)):
                continue
            for call in ast.walk(ast.parse(_source(file))):
                if not isinstance(call, ast.Call) or not call.args:
                    continue
                if _attribute(call.args[0]) == ("", "") or _attribute(call.args[0])[1] != name:
                    continue
                words = {keyword.arg: keyword.value for keyword in call.keywords}
                given = words.get("template_cls")
                if isinstance(given, ast.Name):
                    return python_files.find(f"{folder}.{file.stem}", given.id)
    return None


def _texts(owner: python_files.Class, depth: int) -> Iterator[str]:
    """The source of ``_post_encode`` and of those that it delegates to; none for the base's."""
    found = python_files.method(owner, "_post_encode")
    if found is None or found[0].name == "Template" or depth == 0:
        return
    where, text = found
    yield text
    for name in _DELEGATES.findall(text):
        if name.startswith("super"):
            above = python_files.order(where)[1:]
            target = next((c for c in above if python_files.method(c, "_post_encode")), None)
        else:
            target = python_files.find(where.module, name)
        if target is not None and target != where:
            yield from _texts(target, depth - 1)
