"""Rows that no other test has, for three frameworks: `python odd_rows.py OUT KIT`, in an
environment that has `datasets`.

Some that a framework drops, many words, larger pictures, two turns, files to evaluate on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ROWS = 16
LARGE = 280
"""Pixels along one side: 100 placeholders of Qwen2-VL's, where a small picture takes 4."""
LONG = "and so on " * 60


def sets(data: Any, out: Path) -> dict[str, list[Row]]:
    """Name → rows as ms-swift reads them."""
    small = [data._png(out / f"{number}.png", number) for number in range(6)]
    large = [data._png(out / f"large{number}.png", number, LARGE) for number in range(4)]
    videos = [data._y4m(out / f"{number}.y4m", number) for number in range(3)]

    def image(row: int) -> Row:
        return data._row("<image>what?", f"color {row}", [small[row % 6]])

    def text(row: int) -> Row:
        return data._row("hello there", f"text number {row}", [])

    def big(row: int) -> Row:
        return data._row("<image>what?", f"color {row}", [large[row % 4]])

    def invalid(make: Callable[[int], Row]) -> Callable[[int], Row]:
        """Rows 1 and 5 have a question alone, row 6 has nothing."""
        bad = {1: slice(1), 5: slice(1), 6: slice(0)}

        def rows(row: int) -> Row:
            made = make(row)
            messages = made["messages"][bad[row]] if row in bad else made["messages"]
            return {**made, "messages": messages}

        return rows

    def wordy(make: Callable[[int], Row]) -> Callable[[int], Row]:
        """Rows 2 and 5 are long."""

        def rows(row: int) -> Row:
            made = make(row)
            question, answer = made["messages"]
            said = question["content"] + (LONG if row in (2, 5) else "")
            return {**made, "messages": [{**question, "content": said}, answer]}

        return rows

    def empty(row: int) -> Row:
        """Every third answer says nothing."""
        made = image(row)
        question, answer = made["messages"]
        said = "" if row % 3 == 1 else answer["content"]
        return {**made, "messages": [question, {**answer, "content": said}]}

    def turns(row: int) -> Row:
        """Two turns, a picture in the second; rank 1 has none."""
        first, second = text(row)["messages"], (text if row % 2 else image)(row + 1)
        return {**second, "messages": [*first, *second["messages"]]}

    def video(row: int) -> Row:
        """Rank 1 has no video."""
        if row % 2:
            return text(row)
        return {**data._row("<video>what?", f"moving {row}", []), "videos": [videos[row % 3]]}

    def kinds(row: int) -> Row:
        """One picture, none, two, none."""
        return (image, text, lambda n: data._row("<image><image>what?", f"c {n}", small[:2]),
                text)[row % 4](row)  # fmt: skip

    makers = {
        "invalid": invalid(image), "invalid_text": invalid(text), "long": wordy(image),
        "long_text": wordy(text), "empty": empty, "large": big, "turns": turns, "video": video,
        "kinds": kinds, "unlike": lambda row: text(row) if row % 2 else image(row),
        "alike": image, "phases": lambda row: text(row) if row // 2 % 2 else image(row),
        "words": text,
    }  # fmt: skip
    found = {name: [make(row) for row in range(ROWS)] for name, make in makers.items()}
    return found | {"few": [image(row) for row in range(3)], "one": [image(0)]}


def build(out: Path, kit: Path) -> None:
    """Write all sets into ``out``, for each framework."""
    sys.path.insert(0, str(kit))
    import data
    import tables

    made = sets(data, out)
    for name, rows in made.items():
        _lines(out / f"{name}.jsonl", rows)
    pairs = {"dpo_kinds": "kinds", "dpo_phases": "phases", "dpo_unlike": "unlike"}
    for name, of in pairs.items():
        _lines(out / f"{name}.jsonl", [{**row, "rejected_response": "bad"} for row in made[of]])
    for name in ("large", "turns", "kinds", "unlike", "alike", "phases", "few", "words"):
        plain = [tables._trl(row) for row in made[name]]
        tables._parquet(out / "trl" / name, plain)
        tables._parquet(out / "trl" / f"dpo_{name}", [tables._preference(r) for r in made[name]])
    for train, test in (("alike", "unlike"), ("alike", "words")):
        folder = out / "trl" / f"{train}_{test}"
        tables._parquet(folder, [tables._trl(row) for row in made[train]])
        tables._parquet(folder / "test", [tables._trl(row) for row in made[test]])
        next((folder / "test").glob("*.parquet")).rename(folder / "test-00000-of-00001.parquet")
        (folder / "test").rmdir()
    made.pop("video")
    _llamafactory(tables, out / "llamafactory", made)


def _llamafactory(tables: Any, out: Path, made: dict[str, list[Row]]) -> None:
    out.mkdir()
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user"}
    entry = {"formatting": "sharegpt", "tags": {**tags, "assistant_tag": "assistant"}}
    columns = {"messages": "messages", "images": "images"}
    info: dict[str, Any] = {}
    for name, rows in made.items():
        full = [{"images": [], **row} for row in rows]
        info[name] = tables._table(out, name, full, entry, columns)
        if all(len(row["messages"]) == 2 for row in rows):
            ranked = [tables._ranked(row) for row in full]
            both = {**columns, "chosen": "chosen", "rejected": "rejected"}
            info[f"dpo_{name}"] = tables._table(out, f"dpo_{name}", ranked, entry, both,
                                                ranking=True)  # fmt: skip
            judged = [{**row, "good": number % 2 == 0} for number, row in enumerate(full)]
            tagged = {**columns, "kto_tag": "good"}
            info[f"kto_{name}"] = tables._table(out, f"kto_{name}", judged, entry, tagged)
    (out / "dataset_info.json").write_text(json.dumps(info))


def _lines(file: Path, rows: list[Row]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    build(Path(sys.argv[1]), Path(sys.argv[2]))
