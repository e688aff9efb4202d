"""Tokenizers and processors of families that the test kit has no tiny model of.

    python tools/scripts/processors.py OUT FAMILY

Built by transformers itself, in the environment that will use them. Tokenizers know bytes and the
special tokens that processor and template ask for.
"""

from __future__ import annotations

import sys
from pathlib import Path

import transformers

KIT = Path(__file__).resolve().parents[2] / "tests" / "kit" / "models"
sys.path.insert(0, str(KIT))
from tiny import fast_tokenizer, numbered  # noqa: E402

LLAMA4 = (
    "<|begin_of_text|> <|end_of_text|> <|header_start|> <|header_end|> <|eot|> <|eom|> <|pad|> "
    "<|image_start|> <|image_end|> <|tile_x_separator|> <|tile_y_separator|> <|image|>"
).split()

def llama4(out: Path) -> None:
    special = {**numbered(LLAMA4, 200072), "<|patch|>": 200092}
    tokenizer = fast_tokenizer(special, bos_token="<|begin_of_text|>", eos_token="<|eot|>",
                               pad_token="<|pad|>")  # fmt: skip
    kind = getattr(transformers, "Llama4ImageProcessorFast", None)
    images = (kind or transformers.Llama4ImageProcessor)(
        size={"height": 336, "width": 336}, max_patches=4
    )
    transformers.Llama4Processor(images, tokenizer, patch_size=14).save_pretrained(out)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    {"llama4": llama4}[sys.argv[2]](Path(sys.argv[1]))
