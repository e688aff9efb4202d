"""A file, a folder or a hub's repository that a failure names."""

from __future__ import annotations

import re

_PATH = r"((?:[A-Za-z]:[\\/]{1,2}|\.{0,2}/)?[\w.@+~-][\w./\\@+~ -]{1,220}|/[\w./@+~ -]{1,220})"
_FILES = [
    re.compile(r"(?:No such file or directory|Is a directory|Not a directory|Permission denied|"
               r"Read-only file system|File exists|Stale file handle|Input/output error|"
               r"No space left on device|Disk quota exceeded)"
               rf"[:\]]{{0,2}} ['\"]{_PATH}['\"]"),
    re.compile(rf"['\"]{_PATH}['\"] (?:does not exist|is not a (?:valid )?(?:file|directory))"),
    re.compile(r"(?:Unable to find|Cannot find|cannot find(?: file)?|Couldn't find|could not find|"
               r"ERROR opening|cannot identify image file|Failed to open|can't open file|"
               r"unable to open file|Failed to fetch video idx \d{1,9} from|image file is truncated"
               r"|while deserializing header|found in directory|Error opening)"
               r":? ['\"]?(/[\w./@+~-]{1,220}|[\w.@+~-][\w./@+~-]{1,200}\.\w{1,12})"),
    re.compile(r"checkpoint file for '[^'\n]{1,220}' at ['\"]?([\w./@+~-]{1,220}\w)"),
    re.compile(r"found in directory:? ['\"]?([\w.@+~:/\\][\w./\\@+~:-]{1,220})"),
    re.compile(rf"Error: {_PATH} does not appear to have"),
    re.compile(r"configuration file `([\w./@+~-]{1,220})`"),
    re.compile(r"Invalid checkpoint path ([\w.@+~/][\w./@+~-]{1,220})"),
    re.compile(r"File ([\w.@+~/][\w./@+~-]{0,220}) cannot be opened"),
    re.compile(r"no such file: ['\"]?([\w.@+~/][\w./@+~-]{0,220})"),
    re.compile(r"(?:Received: |valid checkpoint at |Error: path: |Error: py_dir: |Couldn't reach |"
               r"Can't find '[\w.]{1,40}' at |Unable to find (?!the ))"
               r"['\"]?([\w.@+~/][\w./@+~-]{1,200})"),
    re.compile(r"file lock ['\"]([\w./@+~-]{1,220}\.lock)['\"]"),
    re.compile(r"(?:Checkpoint at |^|\s)([\w.@+~-][\w./@+~-]{1,200}\."
               r"(?:ckpt|pth|pt|swp|safetensors|bin))(?: not found|: buffer nbytes)"),
    re.compile(r"(?:File|file|directory|folder|forward|path|dataset|checkpoint at)s? ['\"]?"
               r"(/[\w./@+~-]{2,220})"),
    re.compile(r"(?<![\w./:<])(/[\w.@+~-]{1,80}/[\w./@+~-]{1,200})"),
]  # fmt: skip
_LOOSE = _FILES[-2:]  # any path: a frame's own source is not the file that is meant
_SOURCES = (".py", ".cpp", ".cu", ".so", ".cc", ".h")
BLANK = re.compile(r" {1,3}(\.[A-Za-z][A-Za-z0-9]{1,4})$")  # in front of a name's ending
_REPO = [
    re.compile(r"https?://(?:huggingface\.co|hf-mirror\.com)/(?:api/(?:models|datasets)/|datasets/)?"
               r"([\w.-]{1,96}/[\w.-]{1,96})"),
    re.compile(r"Couldn't reach ['\"]([\w.-]{1,96}/[\w.-]{1,96})['\"] on the Hub"),
    re.compile(r"modelscope\.cn/(?:api/v1/)?(?:models|datasets)/([\w.-]{1,96}/[\w.-]{1,96})"),
    re.compile(r"Can't load [\w ]{1,40} for ['\"]([\w.-]{1,96}/[\w.-]{1,96})['\"]"),
    re.compile(r"looks like ([\w.-]{1,96}/[\w.-]{1,96}) is not the path"),
    re.compile(r"(?:access model|the (?:model|tokenizer) for|Repository Not Found for|"
               r"Access to model|not exist in:|"
               r"Access to dataset|load) ['\"]?([\w.-]{1,96}/[\w.-]{1,96})"),
    re.compile(r"Error: ([\w.-]{1,96}/[\w.-]{1,96}) does not appear to have"),
    re.compile(r"^[\w.]{0,80}: ['\"]?([\w.-]{1,96}/[\w.-]{1,96})['\"]? is not a local folder"),
]  # fmt: skip
LOADED = re.compile(  # the line of code that asked for it
    r"(?:from_pretrained|snapshot_download|hf_hub_download)\(\s{0,4}['\"]"
    r"([A-Za-z][\w.-]{0,95}/[\w.-]{1,96})['\"]"
)
_CACHED = re.compile(r"/models--([\w.-]{1,96}?)--([\w.-]{1,96})/")  # the hub's folder
_PAGES = ("docs", "models", "datasets", "spaces", "settings", "join", "blog", "api")


def path(said: str) -> str:
    """A file that the message names; of its several forms the most telling."""
    for pattern in _FILES:
        for match in pattern.finditer(said):
            if pattern not in _LOOSE or not match[1].endswith(_SOURCES):
                return match[1]
    return ""


def repo(said: str) -> str:
    for pattern in _REPO:
        for match in pattern.finditer(said):
            if match[1].partition("/")[0] not in _PAGES:
                return match[1].removesuffix("/resolve").rstrip(".")
    cached = _CACHED.search(said)
    return f"{cached[1]}/{cached[2]}" if cached is not None else ""
