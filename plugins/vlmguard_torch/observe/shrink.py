"""A config made tiny: the same class builds from it, in a tenth of a second instead of minutes.

Widths shrink; vocabulary, special ids and every index of a layer stay true. A deep stack keeps
only some of its layers; which, says `Stack`.
"""

from __future__ import annotations

import copy
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vlmguard_torch.observe.stacks import Stack, by_layer, count, cut

HIDDEN, HEADS, HEAD = 32, 2, 16
SIDE = 4
"""Patches along one side of an image, at least."""
_JOINED = ("scale_factor", "downsample_factor", "spatial_merge_size")
FRAMES = 48
"""Positions of an audio encoder with learned ones (Whisper: 1500, for 30 s)."""
MOST_LAYERS = 12
"""Of one stack; see `stacks.keep`."""

_HEADS = re.compile(
    r"((swa_|conf_|encoder_|decoder_|num_sliding_)?num_|encoder_|decoder_)?attention_heads"
    r"|conf_num_attention_heads|num_heads|n_heads?|resampler_(n_)?heads"
    r"|linear_num_(key_|value_)?heads|index_n_heads"
)
_KV_HEADS = re.compile(r"(swa_)?num_(key_value|kv)_heads|multi_query_group_num")
_WIDTH = re.compile(
    r"hidden_size|embed_dim|d_model|n_embd|hidden_dim|projection_dim|word_embed_proj_dim"
    r"|(\w+_)?hidden_size|vision_output_dim|projector_(in|out)put_dim|output_dim|out_hidden_size"
    r"|output_channels|image_token_embed_dim|embedding_size|downsample_channels"
    r"|adapter_(in|out)_dim|adapter_input_size"
)
_FFN = re.compile(
    r"(\w+_)?intermediate_size(_mlp)?|(\w+_)?ffn_dim|mlp_dim|d_ff|n_inner|ffn_hidden_size"
)
_HEAD = re.compile(
    r"(global_|swa_|index_|linear_)?head_dim|attention_head_dim|v_head_dim|qk_(nope|rope)_head_dim"
    r"|linear_(key|value)_head_dim|resampler_(dim_head|head_dim)|d_kv|dim_head|(q|kv)_lora_rank"
    r"|query_pre_attn_scalar"
)
_AT_MOST = {
    "num_experts": 4, "n_routed_experts": 4, "num_local_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "top_k_experts": 2,
    "n_group": 1, "topk_group": 1, "max_source_positions": FRAMES,
    "num_nextn_predict_layers": 0, "resampler_depth": 2, "ngram_vocab_size_base": 1000,
    "hidden_size_per_layer_input": 4,
}  # fmt: skip
_RATE = re.compile(r"\d+/([1-9]\d?)")
"""Of patches along a side: "4/8" joins windows of eight."""
_IDS = ("_token_id", "_token_index")
_TOKENS = ("mm_tokens_per_image", "image_seq_length", "num_image_tokens")


@dataclass(frozen=True)
class Shrunk:
    """Attributes:
    config: the tiny config; the given one is untouched.
    stacks: which layers remain of each kind of stack.
    """

    config: Any
    stacks: tuple[Stack, ...]


def shrink(config: Any, most_layers: int = MOST_LAYERS, inputs: bool = True) -> Shrunk:
    """A tiny copy of a transformers config and the configs in it.

    inputs: whether images and sounds become small, too; False where the model's own processor
    makes them.

    Raises whatever copying a foreign object may raise; the caller contains it.
    """
    tiny = copy.deepcopy(config)
    parts = [part for part in parts_of(tiny) if not _named(part)]
    known = {width for part in parts if isinstance(width := _own_width(part), int)}
    if any(_layers_in_pairs(part) for part in parts):
        most_layers = sys.maxsize
    stacks = []
    for part in parts:
        seen = part is getattr(tiny, "vision_config", None)
        beside = [vars(other) for other in parts if other is not part and other is not tiny]
        around = (vars(tiny), beside) if seen else ()
        stacks += cut(vars(part), most_layers, *around)
    for part in parts:
        _turned(vars(part))
        longest = vars(part).get("max_source_positions")
        width = _own_width(part)
        for overridden in by_layer(vars(part)).values():
            _widths(overridden, width, known)
        _widths(vars(part), width, known)
        if longest is not None and not inputs:
            part.max_source_positions = longest
    if inputs:
        _images(parts)
    _vocabulary(tiny, parts)
    for part in parts:
        _rotary(vars(part))
        _plain(vars(part))
    return Shrunk(tiny, tuple(stacks))


def parts_of(config: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The config and all configs in it, each once."""
    seen = set() if seen is None else seen
    if id(config) in seen:
        return
    seen.add(id(config))
    yield config
    for value in list(vars(config).values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from parts_of(value, seen)


def _named(part: Any) -> bool:
    """Whether it only names a model of another library, whose sizes are not in it (timm's)."""
    return isinstance(vars(part).get("architecture"), str)


def _layers_in_pairs(part: Any) -> bool:
    """Whether it names layers of two stacks together, as Granite 4 Vision's ``deepstack_layer_map``
    does: in a cut stack some would be missing, and what they use would look unused."""
    return any(
        "layer" in key and _many(value) and value and all(map(_many, value))
        for key, value in vars(part).items()
    )


def _own_width(part: Any) -> int | None:
    for name in ("hidden_size", "embed_dim", "d_model", "n_embd"):
        if isinstance(value := getattr(part, name, None), int):
            return value
    return None


def _widths(own: dict[str, Any], width: int | None, known: set[int]) -> None:
    heads = next((value for key, value in own.items() if _HEADS.fullmatch(key) and count(value)), 0)
    for key, value in own.items():
        if _many(value) and value and all(map(count, value)):
            if _HEADS.fullmatch(key) or key == "num_groups":
                own[key] = [HEADS for _ in value]
            elif _WIDTH.fullmatch(key) or key == "hidden_sizes":
                own[key] = [HIDDEN for _ in value]
        if not count(value):
            continue
        if _HEADS.fullmatch(key):
            own[key] = HEADS
        elif _KV_HEADS.fullmatch(key):
            own[key] = HEADS if value >= heads else 1
        elif _FFN.fullmatch(key):
            own[key] = _in_proportion(value, [width], 2 * HIDDEN)
        elif _HEAD.fullmatch(key):
            own[key] = HEAD
        elif key == "qk_head_dim":
            own[key] = 2 * HEAD
        elif _WIDTH.fullmatch(key):
            own[key] = (
                HIDDEN if value in known else _in_proportion(value, [width, *sorted(known)], HIDDEN)
            )
        elif key in _AT_MOST:
            own[key] = min(value, _AT_MOST[key])


def _in_proportion(value: int, widths: Iterable[int | None], otherwise: int) -> int:
    """A multiple stays one: Mllama's towers hand on six layers side by side."""
    for width in widths:
        if width and value % width == 0 and 1 < value // width <= 8:
            return value // width * HIDDEN
    return otherwise


def _images(parts: Sequence[Any]) -> None:
    """Images of few patches, and as many tokens as they then give."""
    side = _side(parts)
    before = after = None
    for part in parts:
        patch, size = _first(getattr(part, "patch_size", None)), getattr(part, "image_size", None)
        if count(old := _first(size)):
            patch = patch if count(patch) else 14
            before, after = max(1, old // patch), patch * side
            part.image_size = type(size)(after for _ in size) if _many(size) else after
            if vars(part).get("num_position_embeddings") == before**2:
                part.num_position_embeddings = side**2
    for part in parts:
        for key in _TOKENS:
            if before and count(value := vars(part).get(key)):
                setattr(part, key, max(1, round(math.sqrt(value) * side / before)) ** 2)
        if after and vars(part).get("image_grid_pinpoints"):
            part.image_grid_pinpoints = [[after, after]]
        for value in vars(part).values() if before else ():
            _by_patches(value, before, side)


def _by_patches(value: Any, before: int, side: int) -> None:
    """Aria's queries by the number of an image's patches: of fewer patches, fewer queries."""
    if not isinstance(value, dict) or not value or not all(str(key).isdigit() for key in value):
        return
    if before**2 in map(int, value) and all(map(count, value.values())):
        smaller = {
            max(1, round(int(key) * side**2 / before**2)): max(1, round(number * side / before))
            for key, number in value.items()
        }
        value.clear()
        value.update(smaller)


def _side(parts: Sequence[Any]) -> int:
    """Patches along one side of an image: `SIDE`, or more where they are joined by another number
    (SmolVLM joins three by three, Granite 4 Vision eight by eight)."""
    joined = {value for part in parts for key in _JOINED if count(value := vars(part).get(key))}
    rates = [str(vars(part).get("downsample_rate")) for part in parts]
    joined |= {int(found[1]) for rate in rates if (found := _RATE.fullmatch(rate))}
    return 2 * math.lcm(*joined) if any(SIDE % value for value in joined) else SIDE


def _vocabulary(config: Any, parts: Sequence[Any]) -> None:
    """Kept, but every id that means something has a row in it."""
    ids = [value for part in parts for key, value in vars(part).items() if key.endswith(_IDS)]
    largest = max((value for value in ids if isinstance(value, int)), default=0)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for part in (text, config):
        if count(value := vars(part).get("vocab_size")):
            part.vocab_size = max(value, largest + 1)


def _many(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _first(value: Any) -> Any:
    return value[0] if _many(value) and value else value


def _rotary(own: dict[str, Any]) -> None:
    """Rotary sections and factors that must add up to half a head."""
    for key in ("rope_scaling", "rope_parameters"):
        for rope in _dicts(own.get(key)):
            half = max(1, int(HEAD * (rope.get("partial_rotary_factor") or 1.0)) // 2)
            if "rope_theta" in rope or "mrope_section" in rope:  # a class without it ignores it
                rope["mrope_section"] = scaled(rope.get("mrope_section") or (3, 3, 2), half)
            for factor in ("short_factor", "long_factor"):
                if isinstance(rope.get(factor), list):
                    rope[factor] = rope[factor][:half]


def _turned(own: dict[str, Any]) -> None:
    """Where a config tells twice how much of a head its position turns, as a number and as a part
    of the head (Dots 3): both shrink to one number, so the part becomes the whole."""
    turned, head = own.get("qk_rope_head_dim"), own.get("head_dim")
    if not isinstance(turned, int) or not isinstance(head, int):
        return
    for rope in _dicts(own.get("rope_parameters")):
        if round(head * (rope.get("partial_rotary_factor") or 0)) == turned:
            rope["partial_rotary_factor"] = 1.0


def scaled(sections: Sequence[int], total: int) -> list[int]:
    """The sections in proportion, none of them empty where there is room, `total` together."""
    parts = [max(1, section * total // sum(sections)) for section in sections]
    parts[-1] = max(0, parts[-1] + total - sum(parts))
    while sum(parts) > total:
        parts[parts.index(max(parts))] -= 1
    return parts


def _dicts(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, dict):
        return []
    return [value, *(inner for inner in value.values() if isinstance(inner, dict))]


def _plain(own: dict[str, Any]) -> None:
    """No quantisation, no random depth, no kernels, float32."""
    own.pop("quantization_config", None)
    for key, value in own.items():
        if key.endswith("layerdrop") and isinstance(value, float):
            own[key] = 0.0
        elif key == "use_cache":
            own[key] = False
        elif key in ("dtype", "torch_dtype", "_dtype"):
            own[key] = None
        elif key in ("_attn_implementation_internal", "_experts_implementation_internal"):
            own[key] = "eager"
