"""After huggingface/trl#6617: TRL's SFT on a vision-language model, by its name, and text alone.

    torchrun --nproc_per_node 2 text_only.py --model DIR <SFTConfig>
"""

from __future__ import annotations

import dataclasses

from datasets import Dataset
from transformers import HfArgumentParser
from trl import SFTConfig, SFTTrainer


@dataclasses.dataclass
class Mine:
    """The script's own arguments."""

    model: str = ""


def main():
    mine, args = HfArgumentParser((Mine, SFTConfig)).parse_args_into_dataclasses()
    # As messages: of bare text TRL 0.25 asks a processor for an end that it does not have.
    rows = [
        {
            "prompt": [{"role": "user", "content": f"What is 2+{n}?"}],
            "completion": [{"role": "assistant", "content": f"{2 + n}."}],
        }
        for n in range(8)
    ]
    args.model_init_kwargs = {"attn_implementation": "eager", "dtype": "float32"}
    SFTTrainer(model=mine.model, args=args, train_dataset=Dataset.from_list(rows)).train()


if __name__ == "__main__":
    main()
