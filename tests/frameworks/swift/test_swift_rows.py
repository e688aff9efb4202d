"""The kinds of rows in real Hugging Face data sets, read in ms-swift's own environment."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.kit import envs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
READ = """
import json, sys
from types import SimpleNamespace
from datasets import Dataset
from vlmguard_transformers.rows import columns as rows

for columns in json.loads(sys.argv[1]):
    data = Dataset.from_dict(columns)
    if "messages" in columns and sys.argv[2] == "json":
        from datasets import Json, List
        data = data.cast_column("messages", List(Json()))
    found = rows.kinds(data)
    assert rows.kinds(SimpleNamespace(dataset=data)) == found
    order = rows.in_order(data)
    assert order is None or (len(order), set(order)) == (len(data), found)
    last = data.select(range(len(data) - 1, -1, -1))
    assert order is None or rows.in_order(last) == order[::-1]
    assert order is not None or "images" not in columns
    print(json.dumps(found and sorted(found)))
assert rows.kinds([1, 2]) is rows.kinds(None) is None
"""


def talk(content: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": content}]


EXPECTED = [
    ({"messages": [talk("a")] * 2, "images": [["a.png"], ["b.png"]]}, ["image"]),
    ({"messages": [talk("a")] * 2, "images": [["a.png"], None]}, ["image", "text"]),
    ({"messages": [talk("a")] * 2, "images": [["a.png"], []]}, ["image", "text"]),
    ({"messages": [talk("a"), talk("b < c")]}, ["text"]),
    ({"messages": [talk("a"), talk("<img>a.png</img>")]}, None),
    ({"messages": [talk([{"type": "image", "image": "a.png"}])]}, None),
    ({"messages": [talk("a")], "images": [[]], "videos": [["a.mp4"]]}, ["video"]),
    ({"messages": [talk("a")], "audios": [["a.wav"]]}, ["audio"]),
    ({"input_ids": [[1, 2]]}, None),
]


@pytest.mark.parametrize("messages", ["struct", "json"])
def test_kinds(messages: str) -> None:
    tables = json.dumps([columns for columns, _ in EXPECTED])
    done = subprocess.run(
        [envs.program("swift"), "-c", READ, tables, messages],
        env={"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "VLMGUARD": "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [k for _, k in EXPECTED]
