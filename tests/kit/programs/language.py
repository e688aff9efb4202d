"""A plain Trainer on a language model, as most scripts around transformers are.

    python language.py --model DIR <TrainingArguments>
"""

from __future__ import annotations

import dataclasses

import preferences
import torch
import transformers
from preferences import language_model
from transformers import AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments


@dataclasses.dataclass
class Mine(preferences.Mine):
    """And whether the model has experts, whose balance is a part of the loss."""

    experts: bool = False


def balanced(tokenizer):
    """A tiny Qwen3-MoE with random weights."""
    config = transformers.Qwen3MoeConfig(
        vocab_size=len(tokenizer) + 151700, hidden_size=32, intermediate_size=64,
        moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, head_dim=16,
        num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, attn_implementation="eager",
        output_router_logits=True, router_aux_loss_coef=1.0,
    )  # fmt: skip
    transformers.set_seed(7)
    return transformers.AutoModelForCausalLM.from_config(config)


class Rows(torch.utils.data.Dataset):
    """Token ids, none of the rows the same."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, row):
        tokens = torch.arange(row, row + 12)
        return {"input_ids": tokens, "labels": tokens}


def main():
    mine, args = HfArgumentParser((Mine, TrainingArguments)).parse_args_into_dataclasses()
    make = balanced if mine.experts else language_model
    model = make(AutoTokenizer.from_pretrained(mine.model))
    Trainer(model=model, args=args, train_dataset=Rows()).train()


if __name__ == "__main__":
    main()
