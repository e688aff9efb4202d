"""A failure that a framework's own code raised: its next release, before a look at its lines."""

from __future__ import annotations

import re

from vlmguard.explain import frames, named
from vlmguard.explain.event import Event

# Frameworks that are run by a command of their own, by their package.
_INSTALLED = {
    "swift": "ms-swift",
    "llamafactory": "llamafactory",
    "axolotl": "axolotl",
    "FlagEmbedding": "FlagEmbedding",
    "colossalai": "colossalai",
    "verl": "verl",
}
_PACKAGE = re.compile(r"-packages/(\w{2,30})/")
# A clone of one, and what is the user's own in it.
_CLONE = re.compile(
    r"((?:.{0,200}?/)?(ms-swift|LLaMA-Factory|EasyR1|axolotl|verl|FlagEmbedding|ColossalAI))/(.+)$"
)
_OWN = re.compile(r"^(?:examples?|recipes?|scripts?|custom\w*|plugins?|data)/")
# Of checks a newer release has the same; these are slips.
_SLIPS = (
    "NameError",
    "UnboundLocalError",
    "AttributeError",
    "TypeError",
    "IndexError",
    "KeyError",
    "ZeroDivisionError",
)
_SIZES = "must match the size of tensor"


def update(event: Event) -> str:
    """The command that brings a newer release, or ""."""
    if event.type not in _SLIPS and _SIZES not in event.message:
        return ""
    told = event.cause.frames if event.cause is not None and event.cause.frames else event.frames
    path = next((p for p, _, _ in reversed(told) if not _standard(p)), "").replace("\\", "/")
    found = _newer(path)
    said = f"it was raised in its own code ({path.rpartition('/')[2]}), mostly mended by now; if "
    said += "not, an issue there with this traceback; until then the argument that led there"
    return f"{found}: {said}" if found else ""


def of_trace(trace: str) -> str:
    """The command that brings a newer release of what raised it, of a traceback's text."""
    paths = [p for p in frames.paths(trace) if not _standard(p)]
    return _newer(paths[-1].replace("\\", "/")) if paths else ""


# Modules that FlagEmbedding has no more: its newest release would not find the program.
_BEFORE_1_3 = re.compile(
    r"/FlagEmbedding/(?:baai_general_embedding|BGE_M3|reranker|llm_reranker|llm_embedder|visual)/"
)


def clone(trace: str, module: str) -> str:
    """The clone of the package of ``module`` that the traceback runs through, ""."""
    for path in reversed(frames.paths(trace)):
        match = _CLONE.match(path)
        if match is not None and module and match[2].lower() == module.partition(".")[0].lower():
            return match[1]
    return ""


def _newer(path: str) -> str:
    if _BEFORE_1_3.search(path):
        return "python -m pip install -U 'FlagEmbedding<1.3'"
    if match := _PACKAGE.search(path):
        name = _INSTALLED.get(match[1], "")
        return f"python -m pip install -U {name}" if name else ""
    match = _CLONE.match(path)
    root = named.quoted(match[1]) if match is not None else ""
    if match is None or not root or _OWN.search(match[3]):
        return ""
    return f"git -C {root} pull; python -m pip install -e {root}"


def _standard(path: str) -> bool:
    if path.endswith("torch/nn/modules/module.py"):  # its __getattr__ speaks for the class
        return True
    return "-packages/" not in path and ("/lib/python" in path or path.startswith("<"))
