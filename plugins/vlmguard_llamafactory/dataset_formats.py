"""Formats of LLaMA-Factory's data sets, as dataset_info.json describes them.

Rows of one format go through the framework's own reading as they are. Only where a command mixes
formats are they written alike, so that their order can be set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
OWN: Mapping[str, Any] = {
    "formatting": "sharegpt",
    "columns": {"messages": "messages", "images": "images"},
    "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
             "assistant_tag": "assistant", "system_tag": "system"},
}  # fmt: skip
"""How stand-in rows, and those of several formats, are written."""
_PLACES = ("hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name", "file_name",
           "num_samples", "split", "subset", "folder")  # fmt: skip
_MEDIA = ("images", "videos", "audios")
_TAGS = {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt",
         "system_tag": "system"}  # fmt: skip
"""LLaMA-Factory's defaults [read]."""


def bare(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without where its rows lie."""
    return {key: value for key, value in entry.items() if key not in _PLACES}


def one(entries: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all rows are written alike."""
    return len({json.dumps(bare(entry), sort_keys=True) for entry in entries}) <= 1


def mixed(rows: Sequence[Row], entries: Sequence[Mapping[str, Any]]) -> tuple[list[Row], Row]:
    """Conversations of several formats as `OWN` has them, and the entry that reads them."""
    media = [name for name in _MEDIA if any(_columns(each).get(name) for each in entries)]
    made = [_alike(row, next((each for each in entries if _fits(row, each)), {}), media)
            for row in rows]  # fmt: skip
    columns = {"messages": "messages", **{name: name for name in media}}
    return made, {**OWN, "columns": columns}


def _columns(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = entry.get("columns") or {}
    return found


def _text(entry: Mapping[str, Any]) -> str:
    """The column that a row of this format always has."""
    if entry.get("formatting", "alpaca") == "alpaca":
        return str(_columns(entry).get("prompt") or "instruction")
    return str(_columns(entry).get("messages") or "conversations")


def _fits(row: Row, entry: Mapping[str, Any]) -> bool:
    return row.get(_text(entry)) is not None


def _alike(row: Row, entry: Mapping[str, Any], media: Sequence[str]) -> Row:
    columns = _columns(entry)
    alpaca = entry.get("formatting", "alpaca") == "alpaca"
    said = _asked(row, columns) if alpaca else _said(row, entry)
    return {
        "messages": said,
        **{name: row.get(columns.get(name, ""), None) or [] for name in media},
    }


def _asked(row: Row, columns: Mapping[str, Any]) -> list[Row]:
    parts = [row.get(columns.get("prompt") or "instruction"),
             row.get(columns.get("query") or "input")]  # fmt: skip
    question = "\n".join(str(part) for part in parts if part)
    answer = str(row.get(columns.get("response") or "output") or "")
    told = row.get(columns.get("history") or "history") or []
    turns = [*((str(a), str(b)) for a, b in told), (question, answer)]
    return [{"role": role, "content": text} for turn in turns
            for role, text in zip(("user", "assistant"), turn, strict=True)]  # fmt: skip


def _said(row: Row, entry: Mapping[str, Any]) -> list[Row]:
    tags = {**_TAGS, **(entry.get("tags") or {})}
    roles = {tags["user_tag"]: "user", tags["assistant_tag"]: "assistant",
             tags["system_tag"]: "system"}  # fmt: skip
    return [
        {"role": roles.get(each[tags["role_tag"]], "user"), "content": each[tags["content_tag"]]}
        for each in row[_text(entry)]
    ]
