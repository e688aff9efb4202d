"""What a recipe makes for its script: altered copies, tokenizers, data sets of parquet."""

# ruff: noqa: E501
from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit import envs, runs

MODELS = Path(runs.KIT) / "models"


def altered(file: Path, changes: Mapping[str, str]) -> None:
    """Replace each text; one that is not there is an error, for nothing is changed by chance."""
    text = file.read_text("utf-8")
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"{file.name} has no {old!r}")
        text = text.replace(old, new)
    file.write_text(text, "utf-8")


def by(env: str, over: str, code: str, *words: str, folder: Path) -> None:
    """Run ``code`` in the environment that will train; it may import the kit's tiny models."""
    paths = [str(MODELS), str(Path(__file__).parent / "stubs"), runs.search_path(env, over)]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "VLMGUARD": "off"}
    given |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HOME": str(folder / "hf")}
    command = [envs.program(env), "-c", code, *words]
    done = subprocess.run(
        command, env=given, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


_TOKENIZER = """
import sys, tiny
special = tiny.numbered(sys.argv[2].split(), 256)
names = dict(pair.split("=", 1) for pair in sys.argv[3].split())
tiny.fast_tokenizer(special, **names).save_pretrained(sys.argv[1])
"""


def tokenizer(env: str, over: str, out: Path, special: str, names: str) -> None:
    """One token a byte, and those of ``special``; ``names`` as "eos_token=</s>"."""
    out.mkdir(parents=True)
    by(env, over, _TOKENIZER, str(out), special, names, folder=out)


_PARQUET = """
import sys, json, datasets, PIL.Image
rows = json.load(open(sys.argv[1]))
for row in rows:
    for name, value in row.items():
        if name.startswith(("image", "negative")):
            each = value if isinstance(value, list) else [value]
            found = [PIL.Image.open(file).copy() for file in each]
            row[name] = found if isinstance(value, list) else found[0]
datasets.Dataset.from_list(rows).to_parquet(sys.argv[2])
"""


def parquet(env: str, over: str, rows: Sequence[Mapping[str, object]], out: Path) -> None:
    """Rows as a file; what stands under ``image…`` or ``negative…`` names pictures beside it."""
    listed = out.with_suffix(".json")
    listed.write_text(json.dumps(rows))
    by(env, over, _PARQUET, str(listed), str(out), folder=out.parent)
    listed.unlink()


_LLAMA = """
import sys, torch, transformers, sentencepiece, tiny
from transformers import LlamaConfig, LlamaForCausalLM, LlamaTokenizer
out = sys.argv[1]
words = "what is number here a small red square blue house one two three four green grass grows".split()
lines = [" ".join(words[i:] + words[:i]) for i in range(len(words))] * 5
lines += [" ".join(words).upper(), "USER: ASSISTANT: 0 1 2 3 4 5 6 7 8 9 ? . , ' chat"]
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(lines), model_prefix=out + "/tokenizer", vocab_size=330, byte_fallback=True,
    model_type="bpe", hard_vocab_limit=False, character_coverage=1.0, minloglevel=2)
tokenizer = LlamaTokenizer(out + "/tokenizer.model", pad_token="<unk>", model_max_length=2048)
tokenizer.save_pretrained(out)
text = {key: value for key, value in tiny.TEXT.items() if key != "head_dim"}
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(**text, vocab_size=len(tokenizer), pad_token_id=0))
tiny.louder(model, below=float("inf"))
model.save_pretrained(out)
"""
_CLIP = """
import sys, torch, transformers, tiny
torch.manual_seed(1)
config = transformers.CLIPVisionConfig(**tiny.VISION, image_size=28, patch_size=14, projection_dim=32)
model = transformers.CLIPVisionModel(config)
tiny.louder(model)
model.save_pretrained(sys.argv[1])
side = {"height": 28, "width": 28}
transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size=side).save_pretrained(sys.argv[1])
"""


def llama(env: str, over: str, out: Path) -> Path:
    """A tiny Llama of random weights, with a tokenizer of sentencepiece."""
    out.mkdir(parents=True)
    by(env, over, _LLAMA, str(out), folder=out)
    return out


def clip(env: str, over: str, out: Path) -> Path:
    """A tiny CLIP tower of random weights, four patches an image."""
    out.mkdir(parents=True)
    by(env, over, _CLIP, str(out), folder=out)
    return out
