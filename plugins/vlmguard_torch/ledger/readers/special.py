"""Token ids with a meaning of their own, by a model's configs and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MEDIA = (
    *(f"{kind}_token_{end}" for kind in ("image", "video", "audio") for end in ("id", "index")),
    "media_placeholder_token_id",
    "img_context_token_id",
)


@dataclass(frozen=True)
class Special:
    """Ids that begin a text, end one, fill it up, and stand for media; empty where unknown."""

    bos: tuple[int, ...]
    eos: tuple[int, ...]
    pad: tuple[int, ...]
    media: tuple[int, ...]

    @property
    def only_pad(self) -> tuple[int, ...]:
        """Ids that are nothing but pads."""
        return tuple(each for each in self.pad if each not in (*self.bos, *self.eos))

    @property
    def only_bos(self) -> tuple[int, ...]:
        """Ids that do nothing but begin a text."""
        return tuple(each for each in self.bos if each not in (*self.pad, *self.eos))


def of(model: Any, tokenizer: Any) -> Special:
    """What configs and tokenizer say, all of it."""
    places = [*_configs(model), getattr(tokenizer, "tokenizer", tokenizer), tokenizer]
    found = {name: _ids(places, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return Special(media=_ids(places, *_MEDIA), **found)


def writes(model: Any) -> bool | None:
    """Whether it is, or holds, a causal language model: its labels are its rows' own next tokens.
    Those of a masked model, of a classifier of tokens and of an encoder with a decoder are not.
    None where no class says so."""
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False) is True:
        return False
    told = [each for each in model.modules() if hasattr(type(each), "can_generate")]
    return any(each.can_generate() for each in told) if told else None


def _configs(model: Any) -> Iterator[dict[str, Any]]:
    """What they hold. Their properties are not asked: some say that they are deprecated."""
    for owner in (model, *model.modules()):
        config = getattr(owner, "config", None)
        if config is not None:
            words = getattr(config, "text_config", None)
            for each in (config, words, getattr(owner, "generation_config", None), owner):
                yield getattr(each, "__dict__", {})
            return


def _ids(places: list[Any], *names: str) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for place in places:
        for name in names:
            value = place.get(name) if isinstance(place, dict) else getattr(place, name, None)
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(each, int) and not isinstance(each, bool) and each >= 0:
                    found[each] = None
    return tuple(found)
