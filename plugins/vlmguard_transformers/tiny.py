"""A tiny random language model and its tokenizer, built offline: what self-tests train."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
}


def tokenizer() -> Any:
    """One token per byte, and three special ones."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {token: number for number, token in enumerate([*alphabet, *SPECIAL])}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        unk_token=SPECIAL[0],
        cls_token=SPECIAL[1],
        sep_token=SPECIAL[2],
        additional_special_tokens=list(SPECIAL[1:]),
        chat_template=TEMPLATE,
        model_max_length=512,
    )


def save(folder: Path) -> Path:
    """Write a Qwen2 of two layers and its tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    words = tokenizer()
    config = transformers.Qwen2Config(
        **SHAPE, vocab_size=len(words), eos_token_id=words.eos_token_id, tie_word_embeddings=False
    )
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_encoder(folder: Path) -> Path:
    """Write a BERT of two layers and its tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    words = tokenizer()
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = transformers.BertConfig(
        **{name: SHAPE[name] for name in (*names, "max_position_embeddings")},
        vocab_size=len(words),
        pad_token_id=words.pad_token_id,
    )
    transformers.BertModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
