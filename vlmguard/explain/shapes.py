"""What weights that do not fit say: an adapter's rank, its model's width, a prefix of names."""

from __future__ import annotations

import re
from collections import Counter

_ADAPTER = re.compile(
    r"lora_([AB])[\w.]{0,40}: copying a param with shape torch\.Size\(\[(\d{1,7}), (\d{1,7})\]\) "
    r"from checkpoint, the shape in current model is torch\.Size\(\[(\d{1,7}), (\d{1,7})\]\)"
)


def of_adapter(said: str, model: str) -> dict[str, str]:
    """lora_A is rank by width in, lora_B width out by rank: which of the two differs.

    ``model`` is what the run calls its base model.
    """
    match = _ADAPTER.search(said)
    if match is None:
        return {}
    one, other = (int(match[2]), int(match[3])), (int(match[4]), int(match[5]))
    if match[1] == "B":
        one, other = one[::-1], other[::-1]
    if one[0] != other[0]:
        return {"savedrank": str(one[0]), "rank": str(other[0])}
    found = {"savedwidth": str(one[1]), "width": str(other[1])}
    return {**found, "base": model} if model else found


_PROJECTOR = re.compile(
    r"mm_projector[\w.]{0,20}: copying a param with shape torch\.Size\(\[(\d{2,6}), (\d{2,6})\]\) "
    r"from checkpoint, the shape in current model is torch\.Size\(\[(\d{2,6}), (\d{2,6})\]\)"
)


def of_projector(said: str) -> dict[str, str]:
    """The widths of the tower and of the language model that a LLaVA's projector joins."""
    match = _PROJECTOR.search(said)
    if match is None:
        return {}
    return {"savedpair": f"{match[2]}, {match[1]}", "pair": f"{match[4]}, {match[3]}"}


_WIDTHS = re.compile(
    r"(?:embed_tokens|word_embeddings|wte|lm_head)[\w.]{0,60}: copying a param with shape "
    r"torch\.Size\(\[\d{4,7}, (\d{3,5})\]\) from checkpoint, the shape in current model is "
    r"torch\.Size\(\[\d{4,7}, (\d{3,5})\]\)"
)
_OF_CLASS = re.compile(r"loading state_dict for (\w{2,40})ForConditionalGeneration")
# Width of the language model → size, by config.json of each.
_SIZES = {
    "Qwen3VL": ("Qwen3-VL", {2048: "2B", 2560: "4B", 4096: "8B", 5120: "32B"}),
    "Qwen2_5_VL": ("Qwen2.5-VL", {2048: "3B", 3584: "7B", 5120: "32B", 8192: "72B"}),
    "Qwen2VL": ("Qwen2-VL", {1536: "2B", 3584: "7B", 8192: "72B"}),
}


def of_widths(said: str) -> tuple[str, str] | None:
    """The widths of the language model that was saved and of this one, where they differ."""
    match = _WIDTHS.search(said)
    return (match[1], match[2]) if match is not None and match[1] != match[2] else None


def size(said: str, width: str) -> str:
    """The model of that width, of the family whose class could not be loaded; "" if not known."""
    match = _OF_CLASS.search(said)
    return _of_family(match[1] if match is not None else "", width)


_NAMED = re.compile(r"(?i)qwen(3|2[._]5|2)[-_]?vl-\d{1,2}b(?!-a)")


def named(model: str, width: str) -> str:
    """The model of that width, of the family that this one's name tells; "" if not known."""
    match = _NAMED.search(model)
    if match is None:
        return ""
    return _of_family({"3": "Qwen3VL", "2": "Qwen2VL"}.get(match[1], "Qwen2_5_VL"), width)


def _of_family(name: str, width: str) -> str:
    family, sizes = _SIZES.get(name, ("", {}))
    found = sizes.get(int(width))
    return f"Qwen/{family}-{found}-Instruct" if found else ""


_LISTS = re.compile(
    r"Missing key\(s\) in state_dict: (.{1,6000}?)\.? {0,2}"
    r"Unexpected key\(s\) in state_dict: (.{1,6000})"
)
_NAME = re.compile(r"\"([\w.]{1,200})\"")
MOST = 40  # names of each list


def of_names(said: str) -> dict[str, str]:
    """The prefix, without its dot, that a checkpoint's names have and the model's have not, or the
    other way round: where most of the names differ in that alone."""
    match = _LISTS.search(said)
    if match is None:
        return {}
    missing, surplus = _NAME.findall(match[1])[:MOST], _NAME.findall(match[2])[:MOST]
    votes = Counter[tuple[str, str]]()
    for ours in missing:
        for theirs in surplus:
            if theirs.endswith(f".{ours}"):
                votes["strip", theirs[: -len(ours) - 1]] += 1
            elif ours.endswith(f".{theirs}"):
                votes["prepend", ours[: -len(theirs) - 1]] += 1
    found = votes.most_common(1)
    enough = found and found[0][1] * 2 >= min(len(missing), len(surplus))
    return {found[0][0][0]: found[0][0][1]} if enough else {}
