"""Builds, offline, the tiny models and data that FlagEmbedding's seven training modules need.

Run it with the oldest transformers of the environment: every later release loads what an older
one saved, not the other way round. All dropout is zero, so that two runs differ only by what the
tests change.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

PROMPT = "Does passage B answer query A ? Yes or No ."
WORDS = (
    PROMPT + " cat dog tree river apple stone light dark fast slow big small red green blue"
).split()
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "<instruct>", "<query>", "<response>"]
VOCABULARY = 512
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "bos_token_id": SPECIAL.index("<s>"),
    "eos_token_id": SPECIAL.index("</s>"),
    "pad_token_id": SPECIAL.index("<pad>"),
    # Wide weights: with the usual 0.02 a random model maps every text to almost the same point.
    "initializer_range": 0.2,
}


def _sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def tokenizer(rng: random.Random) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on the words the data is made of."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 12,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([_sentence(rng, 12) for _ in range(300)] + ["Yes", "No"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        mask_token="<mask>",
        cls_token="<s>",
        sep_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=512,
    )


def llama() -> PreTrainedModel:
    """For the decoder-only embedders and rerankers."""
    return LlamaForCausalLM(
        LlamaConfig(**SHAPE, num_key_value_heads=2, max_position_embeddings=512)
    )


def xlmr() -> PreTrainedModel:
    """For the encoder-only embedders and reranker; its pooler is never used by an embedder."""
    return XLMRobertaModel(
        XLMRobertaConfig(
            **SHAPE,
            max_position_embeddings=520,
            type_vocab_size=1,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def minicpm() -> PreTrainedModel:
    """For the layerwise reranker: FlagEmbedding's own model, as a raw checkpoint.

    The reranker asks AutoConfig for the model type `minicpm`, which no transformers knows: like
    the published checkpoint, this one brings the configuration's code (needs trust_remote_code).
    """
    from FlagEmbedding.finetune.reranker.decoder_only.layerwise import (
        configuration_minicpm_reranker as configuration,
    )
    from FlagEmbedding.finetune.reranker.decoder_only.layerwise import (
        modeling_minicpm_reranker as modeling,
    )

    return modeling.LayerWiseMiniCPMForCausalLM(
        configuration.LayerWiseMiniCPMConfig(
            **SHAPE,
            num_key_value_heads=4,
            max_position_embeddings=512,
            start_layer=SHAPE["num_hidden_layers"],
            head_multi=False,
            head_type="raw",
            auto_map={"AutoConfig": "configuration_minicpm.MiniCPMConfig"},
        )
    )


MINICPM_CODE = """\
from FlagEmbedding.finetune.reranker.decoder_only.layerwise.configuration_minicpm_reranker import (
    LayerWiseMiniCPMConfig,
)


class MiniCPMConfig(LayerWiseMiniCPMConfig):
    model_type = "minicpm"
"""


def rows(rng: random.Random, count: int) -> list[dict[str, object]]:
    """Query, positives and negatives, with what icl and the rerankers read beside them."""
    return [
        {
            "query": _sentence(rng, 6),
            "pos": [_sentence(rng, 12)],
            "neg": [_sentence(rng, 12) for _ in range(6)],
            "prompt": PROMPT,
            "type": "normal",
        }
        for _ in range(count)
    ]


def zero(stage: int, **optimization: int) -> dict[str, object]:
    """A DeepSpeed config that changes nothing but how gradients and weights are partitioned."""
    return {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": stage, **optimization},
    }


DEEPSPEED = {
    "zero1": zero(1),
    "zero2": zero(2),
    "zero3": zero(3),
    # Smaller than the model, as for any model of real size under the default bucket of 5e8.
    "zero3_small_bucket": zero(3, reduce_bucket_size=2000),
}


def build(out: Path) -> None:
    """Write every model with its tokenizer, train.jsonl and the DeepSpeed configs below `out`."""
    rng = random.Random(0)
    tok = tokenizer(rng)
    for name, make in (("llama", llama), ("xlmr", xlmr), ("minicpm", minicpm)):
        torch.manual_seed(0)
        make().save_pretrained(out / name)
        tok.save_pretrained(out / name)
    (out / "minicpm" / "configuration_minicpm.py").write_text(MINICPM_CODE)
    for name, config in DEEPSPEED.items():
        (out / f"{name}.json").write_text(json.dumps(config))
    with (out / "train.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(rng, 64))


if __name__ == "__main__":
    build(Path(sys.argv[1]))
