"""Tiny random checkpoints, built offline by the environment that will train them.

    python tests/kit/models OUT FAMILY

Weights come from a fixed seed.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch
from families import FAMILIES


def main(out: Path, family: str) -> None:
    """Write model, tokenizer and processor of one family into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    importlib.import_module(FAMILIES[family][0]).build(out, family).save_pretrained(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
