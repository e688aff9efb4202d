"""A plain Trainer on a language model, as most scripts around transformers are.

    python language.py --model DIR <TrainingArguments>
"""

from __future__ import annotations

import torch
from preferences import Mine, language_model
from transformers import AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    """Token ids, none of the rows the same."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, row):
        tokens = torch.arange(row, row + 12)
        return {"input_ids": tokens, "labels": tokens}


def main():
    mine, args = HfArgumentParser((Mine, TrainingArguments)).parse_args_into_dataclasses()
    model = language_model(AutoTokenizer.from_pretrained(mine.model))
    Trainer(model=model, args=args, train_dataset=Rows()).train()


if __name__ == "__main__":
    main()
