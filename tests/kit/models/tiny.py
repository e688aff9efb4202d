"""What all tiny models share: sizes, a tokenizer of bytes, and weights that say something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models

TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "attention_dropout": 0.0,
}
VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
}
LOUDER = 4
"""The usual 0.02 makes attention in a model this small uniform: gradients of q and k drown in
rounding, and then nothing could be said about them."""
QUIET = 0.06
"""Standard deviation from which a weight needs no amplifying."""


def louder(model: transformers.PreTrainedModel, below: float = QUIET) -> None:
    """Amplify the matrices whose standard deviation is the usual small one."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1 and weight.std() < below:
                weight.mul_(LOUDER)


def content(image: str, video: str = "") -> str:
    """A chat template's line of a message, whose content is a string or a list of parts."""
    return (
        "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
        f"{{% if c['type'] == 'image' %}}{image}{{% elif c['type'] == 'video' %}}{video}"
        "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"
    )


def bytes_tokenizer(special: Mapping[str, int]) -> Tokenizer:
    """One token per byte (ids 0 to 255), and the special ones with the ids given."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)} | dict(special)
    tokenizer = Tokenizer(tokenizer_models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = [AddedToken(token, special=True, normalized=False) for token in special]
    tokenizer.add_special_tokens(tokens)
    return tokenizer


def fast_tokenizer(
    special: Mapping[str, int], **names: Any
) -> transformers.PreTrainedTokenizerFast:
    """The same, as transformers wants it; `names` say which token is `eos_token` and so on."""
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_tokenizer(special), model_max_length=4096, **names
    )


def numbered(tokens: list[str], first: int) -> dict[str, int]:
    """Ids from `first` on, without a hole."""
    return {token: first + number for number, token in enumerate(tokens)}
