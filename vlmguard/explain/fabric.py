"""What NCCL's line of a failed InfiniBand or RoCE completion names."""

from __future__ import annotations

import re

_HOST = re.compile(r"(?:^|[\s|])([A-Za-z][\w.-]{1,60}):\d{1,8}:\d{1,8} \[\d{1,2}\]")
_PEER = re.compile(r"ompletion from peer (\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][\w.-]{1,60})<")
_CARD = re.compile(r"\bhca ([a-z][\w-]{1,30})")
# The node that says that its own port went down; what the other one sees is a consequence.
_PORT = re.compile(
    r"(?m)^(?:\S{0,40}[ |])?([A-Za-z][\w.-]{1,60}):\d{1,8}:\d{1,8} \[\d{1,2}\] [^\n]{0,120}"
    r"Got async event : port error"
)


def passing(text: str, said: dict[str, str]) -> None:
    """Adds the node whose port went down, where it is one alone."""
    if "async event : port error" in text:
        found = set(_PORT.findall(text)) | set(said.get("portnode", "").split())
        said["portnode"] = " ".join(sorted(found))


def names(said: str) -> dict[str, str]:
    """The node that says it, the one on the other side, and the card."""
    patterns = {"ibhost": _HOST, "ibpeer": _PEER, "hca": _CARD}
    found = {name: pattern.search(said) for name, pattern in patterns.items()}
    return {name: match[1] if match else "" for name, match in found.items()}
