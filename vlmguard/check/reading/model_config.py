"""A model's traits, from its config.json on the disk or in a hub's cache. Nothing is loaded."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import known, read_file

_SEES = ("vision_config", "visual", "vision_tower", "mm_vision_tower", "vit_config", "vision_cfg",
         "vision_tower_config", "image_token_id", "image_token_index", "vq_config",
         "perceiver_config")  # fmt: skip
_HEARS = ("audio_config", "speech_config", "audio_encoder_config")
_NAMED = re.compile(
    r"(?i)(?<![a-z])(vl|vlm|vision|llava|internvl|minicpm-?[vo]|omni|pixtral|paligemma|ovis|"
    r"idefics|smolvlm|kimi-vl|deepseek-vl|phi-[34][.\d]*-(vision|multimodal)|got-ocr|molmo|aria)"
    r"(?![a-z])|qwen[\d.]*-?vl|gemma-?3n?-(4|12|27)b|glm-4(\.\d)?v"
)
_TYPES = re.compile(
    r"(_vl|vl_|vl$|llava|vision|omni|idefics|paligemma|mllama|pixtral|gemma3$|gemma3n|smolvlm|"
    r"internvl|minicpmv|minicpmo|ovis|aya_vision|kimi_vl|glm4v|qwen3_5|florence|got_ocr|janus|"
    r"gemma4|mistral3|llama4)"
)


@dataclass(frozen=True)
class Model:
    """What is known of a model.

    Attributes:
        name: as the command names it.
        config: its config.json, {} if there is none here.
        sees, hears: whether it has a tower for images or for sound; None if not known.
        how: where that comes from.
        traits: what a framework's registry adds.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    sees: bool | None = None
    hears: bool | None = None
    how: str = ""
    traits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        return str(self.config.get("model_type", ""))

    @property
    def architecture(self) -> str:
        found = self.config.get("architectures") or [""]
        return str(found[0])


def of(name: str, files: Files, env: Mapping[str, str]) -> Model:
    """Raises `Unreadable` for a local folder without config.json, or a damaged one."""
    if not name or not known(name):
        return Model(name or "", how="the model is not known here")
    folder = files.path(name)
    if os.path.isdir(folder):
        path = os.path.join(folder, "config.json")
        if not os.path.isfile(path):
            if os.path.isfile(os.path.join(folder, "adapter_config.json")):
                return Model(name, how="an adapter; its base model was not looked up")
            raise Unreadable(f"{name}: a folder without config.json")
        return _from(name, path, f"{name}/config.json")
    if local(name):
        return Model(name, sees=_guess(name), how="not on this disk; by its name")
    cached = _cached(name, env)
    if cached:
        return _from(name, cached, "config.json in the hub's cache")
    return Model(name, sees=_guess(name), how="not on this disk; by its name")


def local(name: str) -> bool:
    """Whether a name can only be a path: a hub's has one slash and begins with a letter."""
    if not known(name):
        return False
    return name.startswith(("/", "./", "../", "~")) or name.strip("/").count("/") > 1


def home(name: str, files: Files, env: Mapping[str, str]) -> str:
    """The folder on this disk that holds a model's config.json; "" where there is none."""
    if not name or not known(name):
        return ""
    folder = files.path(name)
    if os.path.isfile(os.path.join(folder, "config.json")):
        return folder
    return "" if os.path.isdir(folder) or local(name) else os.path.dirname(_cached(name, env))


def _guess(name: str) -> bool | None:
    """By name alone: a yes may be believed, the rest is not known."""
    return True if _NAMED.search(os.path.basename(name.rstrip("/"))) else None


def _from(name: str, path: str, how: str) -> Model:
    text = read_file(path)
    if text is None:
        raise Unreadable(f"{path}: it cannot be read")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path}: {error}") from None
    if not isinstance(config, dict):
        raise Unreadable(f"{path}: not a table")
    inner = config.get("thinker_config")
    keys = {*config, *(inner if isinstance(inner, dict) else {})}
    sees = bool(keys & set(_SEES)) or bool(_TYPES.search(str(config.get("model_type", ""))))
    return Model(name, config, sees, bool(keys & set(_HEARS)), how)


def hubs(env: Mapping[str, str]) -> tuple[str, str]:
    """The folders in which the hubs of Hugging Face and ModelScope keep files."""
    home = env.get("HOME", os.path.expanduser("~"))
    hugging = env.get("HF_HOME", os.path.join(home, ".cache", "huggingface"))
    hub = env.get("HF_HUB_CACHE", env.get("HUGGINGFACE_HUB_CACHE", os.path.join(hugging, "hub")))
    scope = env.get("MODELSCOPE_CACHE", os.path.join(home, ".cache", "modelscope", "hub"))
    return hub, scope


def _cached(name: str, env: Mapping[str, str]) -> str:
    """The newest config.json of a hub's cache for "org/name"; "" for none."""
    hub, scope = hubs(env)
    flat = "models--" + name.replace("/", "--")
    patterns = [os.path.join(hub, flat, "snapshots", "*", "config.json")]
    for base in (scope, os.path.join(scope, "models"), os.path.join(scope, "hub", "models")):
        patterns.append(os.path.join(base, name, "config.json"))
        patterns.append(os.path.join(base, name.replace(".", "___"), "config.json"))
    found = [path for pattern in patterns for path in glob.glob(pattern)]
    return max(found, key=os.path.getmtime) if found else ""
