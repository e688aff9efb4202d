"""Scripts around TRL's trainers of preferences on text: DPO with LoRA on a language model, after
huggingface/trl#4782, and ORPO, which leaves a model's tower unused.

    torchrun --nproc_per_node 2 preferences.py dpo --model DIR <DPOConfig>
    torchrun --nproc_per_node 2 preferences.py orpo --model DIR <ORPOConfig>
"""

from __future__ import annotations

import dataclasses
import sys

import torch
import transformers

ANSWERS = ("color", "number", "picture", "word")


@dataclasses.dataclass
class Mine:
    """The script's own arguments."""

    model: str = ""
    lora: bool = False


def rows(count: int = 8):
    """Prompts as text, none of them the same."""
    from datasets import Dataset

    made = [
        {"prompt": f"Question {n}:", "chosen": f" a {ANSWERS[n % 4]} {n}", "rejected": " bad"}
        for n in range(count)
    ]
    return Dataset.from_list(made)


def language_model(tokenizer):
    """A tiny Qwen2 with random weights, loud enough for attention to say something."""
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer) + 151700, hidden_size=32, intermediate_size=64,
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        attn_implementation="eager",
    )  # fmt: skip
    transformers.set_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(4)
    return model


def dpo(tokenizer):
    from peft import LoraConfig
    from trl import DPOConfig, DPOTrainer

    _, args = transformers.HfArgumentParser((Mine, DPOConfig)).parse_args_into_dataclasses()
    DPOTrainer(
        model=language_model(tokenizer), args=args, train_dataset=rows(),
        processing_class=tokenizer, peft_config=LoraConfig(),
    ).train()  # fmt: skip


def orpo(tokenizer):
    from peft import LoraConfig
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    mine, args = transformers.HfArgumentParser((Mine, ORPOConfig)).parse_args_into_dataclasses()
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        mine.model, attn_implementation="eager", dtype=torch.float32
    )
    tokenizer.bos_token = tokenizer.bos_token or tokenizer.pad_token
    ORPOTrainer(
        model=model, args=args, train_dataset=rows(), processing_class=tokenizer,
        peft_config=LoraConfig(target_modules=["q_proj", "v_proj"]) if mine.lora else None,
    ).train()  # fmt: skip


def main():
    what = sys.argv.pop(1)
    place = sys.argv[sys.argv.index("--model") + 1]
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    {"dpo": dpo, "orpo": orpo}[what](tokenizer)


if __name__ == "__main__":
    main()
