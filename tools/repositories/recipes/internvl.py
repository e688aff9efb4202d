"""OpenGVLab/InternVL: internvl_chat, shell/internvl2.5/2nd_finetune, full and LoRA."""

# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Sequence

from tools.repositories import made
from tools.repositories.recipe import Cell, Place, Recipe, cells, conversations, deepspeed, trainer

OVER = "repositories-4.37"
SCRIPT = "internvl/train/internvl_chat_finetune.py"
TRAIN = {
    "backend='nccl'": "backend='gloo'",
    "torch_dtype=torch.bfloat16": "torch_dtype=torch.float32",
    "llm_config._attn_implementation = 'flash_attention_2'": "llm_config._attn_implementation = 'sdpa'",
}
VISION = """
import sys, torch, tiny
from internvl.model.internvl_chat import InternVisionConfig, InternVisionModel
torch.manual_seed(2)
config = InternVisionConfig(
    image_size=56, patch_size=14, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=2, qk_normalization=False, qkv_bias=True, use_flash_attn=False,
    drop_path_rate=0.0, norm_type="layer_norm", initializer_factor=1.0)
model = InternVisionModel(config)
tiny.louder(model)
model.save_pretrained(sys.argv[1])
"""


def _words(cell: Cell, place: Place) -> Sequence[str]:
    rows = json.loads(conversations(place).read_text())
    lines = place.data / "rows.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)) + "\n")
    entry = {"root": str(place.data), "annotation": str(lines), "data_augment": False}
    meta = place.data / "meta.json"
    meta.write_text(json.dumps({"tiny": {**entry, "repeat_time": 1, "length": len(rows)}}))
    changes = dict(TRAIN)
    if place.alone:
        changes["gradient_checkpointing = True"] = "gradient_checkpointing = False"
    made.altered(place.work / SCRIPT, changes)
    made.altered(place.work / "internvl" / "dist_utils.py", {"rank % num_gpus": "0"})
    sampler = place.work / "internvl" / "patch" / "train_sampler_patch.py"
    made.altered(sampler, {"return RandomSampler(": "return torch.utils.data.SequentialSampler("})
    inside = place.work / "internvl" / "model" / "internvl_chat" / "modeling_internvl_chat.py"
    made.altered(inside, {"lora_dropout=0.05": "lora_dropout=0.0"})
    llama = made.llama("trl", OVER, place.data / "llama")
    vision = place.data / "vit"
    made.by("trl", OVER, VISION, str(vision), folder=place.work)
    lora = cell.tuning == "lora"
    return [
        *(SCRIPT, "--llm_path", str(llama), "--vision_path", str(vision)),
        *("--conv_style", "internvl2_5", "--use_fast_tokenizer", "False"),
        *("--meta_path", str(meta), "--overwrite_output_dir", "True", "--force_image_size", "56"),
        *("--max_dynamic_patch", "1", "--down_sample_ratio", "0.5", "--drop_path_rate", "0.0"),
        *("--freeze_llm", str(lora), "--freeze_mlp", str(lora), "--vision_select_layer", "-1"),
        *("--freeze_backbone", str(cell.tower == "frozen")),
        *(("--use_llm_lora", "4") if lora else ()),
        *("--max_seq_length", "1024", "--do_train", "True", "--group_by_length", "False"),
        *("--grad_checkpoint", str(not place.alone), "--dynamic_image_size", "True"),
        *("--use_thumbnail", "False", "--ps_version", "v2"),
        *deepspeed(place, {"zero1": "zero_stage1_config.json", "zero3": "zero_stage3_config.json"}[cell.strategy], sizes=True),
        *trainer(place, evaluation_strategy="no", gradient_checkpointing=None),
    ]


RECIPE = Recipe(
    name="OpenGVLab/InternVL",
    folder="internvl_chat",
    script=f"internvl_chat/{SCRIPT}",
    over=OVER,
    words=_words,
    cells=[
        *cells("internvit+llama", ("zero1",), "trained/full", "frozen/full", "frozen/lora"),
        *cells("internvit+llama", ("zero3",), "trained/full"),
    ],
    changes=("alone", "synchronize", "deepspeed", "groups"),
    altered="float32, sdpa, gloo, rows in order, no dropout: its script, dist_utils, sampler and model",
    variables=(("LAUNCHER", "pytorch"),),
)
