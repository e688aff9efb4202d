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
from vlmguard_transformers.data import columns as rows

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


SHARDS = """
import random
from swift.dataloader.shard import BatchSamplerShard
from vlmguard_transformers import row_order

chance, seen = random.Random(1), []
for _ in range(400):
    world, batch, drops = chance.randint(2, 4), chance.randint(1, 3), chance.random() < 0.5
    kinds = [chance.choice(["image"] * 3 + ["text"]) for _ in range(chance.randint(0, 9))]
    ranks = []
    for rank in range(world):
        BatchSamplerShard.rank, BatchSamplerShard.world_size = rank, world
        micros = BatchSamplerShard(len(kinds), batch, False, drops, 0)
        ranks.append([{kinds[at] for at in rows} - {"text"} for rows in micros])
    alike = all(micro.count(micro[0]) == world for micro in zip(*ranks, strict=True))
    assert row_order.alike_by_turns(kinds, world, batch, drops) is alike, (kinds, world, batch)
    seen.append(alike)
print(sum(seen), len(seen))
"""


def test_the_order_in_which_ms_swift_shards_rows() -> None:
    done = subprocess.run(
        [envs.program("swift"), "-c", SHARDS],
        env={"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "VLMGUARD": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    alike, whole = map(int, done.stdout.split()[-2:])
    assert 0 < alike < whole
