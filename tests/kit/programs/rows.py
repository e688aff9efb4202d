"""Rows and batches of a tiny vision-language model, as a user's own script makes them: tensors
alone, no processor. Row ``i`` of ``mixed`` goes to rank ``i % 2``."""

from __future__ import annotations

import torch
import transformers
from packaging.version import Version

GRID = (1, 4, 4)  # time, height, width in patches: 4 tokens behind the merger
TOKENS = 4
_BLANK = -1


def kind_of(data: str, row: int) -> str:
    """What row ``row`` of a data set holds: image, text, video, image+video, image
    image; of ``mixed/blank``: a blank image in place of none."""
    data, _, blank = data.partition("/")
    if blank:
        kind = kind_of(data, row)
        return "blank image" if kind == "text" else kind
    match data:
        case "mixed":
            return "text" if row % 2 else "image"
        case "uneven":
            return "image" if row % 2 else "image image"
        case "with video":
            return "image" if row % 2 else "image+video"
        case "late":
            return "image" if row < 4 or row % 2 else "image image"
        case "crossed":  # accumulated in twos: each rank has both kinds, never the same at a time
            return "text" if (row // 2 + row) % 2 else "image"
        case "phases":
            return "text" if row // 2 % 2 else "image"
        case _:
            return data


class Rows(torch.utils.data.Dataset):
    """Row numbers with their kinds."""

    def __init__(self, data: str, count: int = 12) -> None:
        self.data, self.count = data, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> dict[str, object]:
        return {"row": row, "kind": kind_of(self.data, row)}


class Collate:
    """Rows of Qwen2-VL's family or of LLaVA → a batch for ``model(**batch)``."""

    def __init__(self, tokenizer, config) -> None:
        self.tokenizer, self.config = tokenizer, config

    def __call__(self, rows):
        encoded = [self._tokens(row) for row in rows]
        batch = {
            "input_ids": self._padded([ids for ids, _, _ in encoded], 0),
            "attention_mask": self._padded([[1] * len(ids) for ids, _, _ in encoded], 0),
            "labels": self._padded([labels for _, _, labels in encoded], -100),
        }
        images = [_BLANK if "blank" in row["kind"] else row["row"] + 500 * number
                  for row in rows for number in range(row["kind"].count("image"))]  # fmt: skip
        videos = [row["row"] for row in rows if "video" in row["kind"]]
        if self.config.model_type == "llava":
            photos = [_random(row, (3, 28, 28)) for row in images]
            return batch | ({"pixel_values": torch.stack(photos)} if photos else {})
        if Version(transformers.__version__) >= Version("5.3"):
            batch["mm_token_type_ids"] = self._padded([types for _, types, _ in encoded], 0)
        if images:
            batch |= {"pixel_values": self._patches(images), "image_grid_thw": _grids(images)}
        if videos:
            patches = self._patches([1000 + row for row in videos])
            batch |= {"pixel_values_videos": patches, "video_grid_thw": _grids(videos)}
        return batch

    def _tokens(self, row):
        """Token ids, 0/1/2 for text/image/video, labels."""
        config, parts = self.config, []
        if config.model_type == "llava":
            image = getattr(config, "image_token_id", None) or config.image_token_index
            parts += [([image] * TOKENS, 1)] if "image" in row["kind"] else []
        else:
            for number, medium in enumerate(("image", "video"), start=1):
                for _ in range(row["kind"].count(medium)):
                    token = getattr(config, f"{medium}_token_id")
                    parts += [([config.vision_start_token_id], 0), ([token] * TOKENS, number)]
                    parts += [([config.vision_end_token_id], 0)]
        asked = [*parts, (self._encoded(f"what is in row {row['row']}?"), 0)]
        answer = self._encoded(f"color {row['row']}")
        ids = [token for tokens, _ in asked for token in tokens]
        types = [number for tokens, number in asked for _ in tokens]
        return ids + answer, types + [0] * len(answer), [-100] * len(ids) + answer

    def _encoded(self, text):
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _patches(self, seeds):
        patch = self.config.vision_config.patch_size
        shape = (GRID[0] * GRID[1] * GRID[2], 3 * 2 * patch * patch)
        return torch.cat([_random(seed, shape) for seed in seeds])

    @staticmethod
    def _padded(lists, value):
        longest = max(map(len, lists))
        return torch.tensor([each + [value] * (longest - len(each)) for each in lists])


def _random(seed, shape):
    """Noise of a seed; of none a black picture, as a processor normalises it."""
    if seed == _BLANK:
        return torch.full(shape, -1.8)
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _grids(rows):
    return torch.tensor([GRID] * len(rows))
