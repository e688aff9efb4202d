"""Tiny vision-language models with random weights, their processors, and batches, all offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import known
import torch
from torch import nn

TOWERS = (
    "visual",
    "vision",
    "vision_tower",
    "multi_modal_projector",
    "bridge",
    "image_encoder",
    "connector",
    "vision_encoder",
    "vision_model",
    "projector",
    "stage1",
    "stage2",
)
SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<image>",
)
FIRST_SPECIAL = 256
IDS = {token: FIRST_SPECIAL + i for i, token in enumerate(SPECIAL)}
VOCAB = FIRST_SPECIAL + len(SPECIAL) + 7
QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _tokenizer(image: str) -> Any:
    import transformers as hf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    fast = hf.Qwen2TokenizerFast if image == QWEN_IMAGE else hf.PreTrainedTokenizerFast
    tokenizer = fast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=32768,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.chat_template = TEMPLATE.replace("IMAGE", image)
    return tokenizer


def _qwen_text() -> dict[str, Any]:
    return {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "bos_token_id": IDS["<|endoftext|>"],
        "eos_token_id": IDS["<|im_end|>"],
        "vision_start_token_id": IDS["<|vision_start|>"],
        "vision_end_token_id": IDS["<|vision_end|>"],
        "vision_token_id": IDS["<|vision_pad|>"],
        "image_token_id": IDS["<|image_pad|>"],
        "video_token_id": IDS["<|video_pad|>"],
    }


def _qwen2_vl() -> tuple[nn.Module, Any]:
    import transformers as hf

    vision = {
        "depth": 2,
        "embed_dim": 32,
        "hidden_size": 32,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "in_chans": 3,
    }
    config = hf.Qwen2VLConfig(**_qwen_text(), vision_config=vision)
    images = hf.Qwen2VLImageProcessor(min_pixels=28 * 28 * 4, max_pixels=28 * 28 * 64)
    tokenizer = _tokenizer(QWEN_IMAGE)
    processor = hf.Qwen2VLProcessor(images, tokenizer, chat_template=tokenizer.chat_template)
    return hf.Qwen2VLForConditionalGeneration(config), processor


def _qwen2_5_vl() -> tuple[nn.Module, Any]:
    import transformers as hf

    vision = {
        "depth": 2,
        "hidden_size": 32,
        "out_hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "in_chans": 3,
        "window_size": 112,
        "fullatt_block_indexes": [1],
    }
    config = hf.Qwen2_5_VLConfig(**_qwen_text(), vision_config=vision)
    images = hf.Qwen2VLImageProcessor(min_pixels=28 * 28 * 4, max_pixels=28 * 28 * 64)
    tokenizer = _tokenizer(QWEN_IMAGE)
    processor = hf.Qwen2_5_VLProcessor(images, tokenizer, chat_template=tokenizer.chat_template)
    return hf.Qwen2_5_VLForConditionalGeneration(config), processor


def _llava_default() -> tuple[nn.Module, Any]:
    """As LLaVA-1.5 is released: features from the layer before the last, the rest never used."""
    model, processor = _llava(-2)
    return model, processor


def _llava(feature_layer: int = -1) -> tuple[nn.Module, Any]:
    import transformers as hf

    text = hf.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
    )
    vision = hf.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        projection_dim=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
    )
    config = hf.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=IDS["<image>"],
        vision_feature_layer=feature_layer,
        pad_token_id=IDS["<|endoftext|>"],
    )
    images = hf.CLIPImageProcessor(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
    )
    tokenizer = _tokenizer("<image>")
    processor = hf.LlavaProcessor(
        images,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    return hf.LlavaForConditionalGeneration(config), processor


HF = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "llava": _llava,
    "llava_default": _llava_default,
}


def build(out: Path, kind: str, seed: int = 0) -> None:
    """A checkpoint folder as `save_pretrained` leaves it, so that a worker loads it like a user."""
    torch.manual_seed(seed)
    model, processor = HF[kind]()
    model.save_pretrained(out)
    processor.save_pretrained(out)


class TwoTower(nn.Module):
    """A vision and a text tower in plain torch: no config, no family, images where a token says."""

    image_token_id = IDS["<image>"]

    def __init__(self, width: int = 24, patches: int = 4) -> None:
        super().__init__()
        self.vision = nn.Sequential(
            nn.Flatten(2), nn.Linear(3 * 8 * 8, width), nn.GELU(), nn.Linear(width, width)
        )
        self.bridge = nn.Linear(width, width)
        self.embed = nn.Embedding(VOCAB, width)
        self.mixer = nn.Linear(width, width)
        self.head = nn.Linear(width, VOCAB)
        self.patches = patches

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        hidden = self.embed(input_ids)
        if pixel_values is not None:
            features = self.bridge(self.vision(pixel_values)).flatten(0, 1).to(hidden.dtype)
            hidden = hidden.clone()
            hidden[input_ids == self.image_token_id] = features
        steps = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)[None, :, None]
        causal = hidden.cumsum(1) / steps.to(hidden.dtype)
        logits = self.head(torch.tanh(self.mixer(causal)) + hidden)
        out = {"logits": logits}
        if labels is not None:
            out["loss"] = nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100
            )
        return out


class TwoTowerProcessor:
    """The call of a transformers processor, for a model that transformers does not know."""

    image_token = "<image>"

    def __init__(self) -> None:
        self.tokenizer = _tokenizer("<image>")
        self.image_token_id = IDS["<image>"]

    def __call__(
        self, images: Any = None, text: Any = None, return_tensors: str = "pt", **kwargs: Any
    ) -> dict[str, torch.Tensor]:
        import numpy

        texts = [text] if isinstance(text, str) else list(text)
        out: dict[str, torch.Tensor] = {}
        if images is not None:
            small = [numpy.asarray(image.convert("RGB").resize((16, 16))) for image in images]
            pixels = torch.stack([torch.tensor(a) for a in small]).float() / 255 - 0.5
            tiles = pixels.permute(0, 3, 1, 2).unfold(2, 8, 8).unfold(3, 8, 8)
            out["pixel_values"] = tiles.permute(0, 2, 3, 1, 4, 5).reshape(-1, 4, 3, 8, 8)
            texts = [t.replace(self.image_token, self.image_token * 4) for t in texts]
        out.update(self.tokenizer(texts, return_tensors=return_tensors, padding=True))
        return out


class OtherTowers(nn.Module):
    """Two towers of another shape: convolution, recurrence, other names, another key, an object."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, width)
        self.image_encoder = nn.ModuleList([nn.Conv2d(3, 8, 8, stride=8), nn.LayerNorm(8)])
        self.connector = nn.Linear(8, width, bias=False)
        self.reader = nn.ModuleDict({"mix": nn.Linear(width, width), "out": nn.Linear(width, 40)})
        self.unit = nn.Linear(40, VOCAB)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        images: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> Any:
        hidden = self.words(input_ids)
        if images is not None:
            convolved = self.image_encoder[0](images).flatten(2).transpose(1, 2)
            seen = self.connector(self.image_encoder[1](convolved))
            place = (input_ids == IDS["<image>"]).unsqueeze(-1).expand_as(hidden)
            hidden = hidden.masked_scatter(place, seen.to(hidden.dtype))
        state, states = torch.zeros_like(hidden[:, 0]), []
        for token in hidden.unbind(1):
            state = torch.tanh(self.reader["mix"](state) + token)
            states.append(state)
        logits = self.unit(torch.relu(self.reader["out"](torch.stack(states, 1))))
        loss = nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100
        )
        return SimpleNamespace(loss=loss, logits=logits)


class OtherProcessor(TwoTowerProcessor):
    """Its images go by another name and have another shape."""

    def __call__(
        self, images: Any = None, text: Any = None, return_tensors: str = "pt", **kwargs: Any
    ) -> dict[str, torch.Tensor]:
        out = super().__call__(images, text, return_tensors, **kwargs)
        tiles = out.pop("pixel_values", None)
        if tiles is not None:  # (n, 4, 3, 8, 8) → (n, 3, 16, 16)
            whole = tiles.reshape(-1, 2, 2, 3, 8, 8).permute(0, 3, 1, 4, 2, 5)
            out["images"] = whole.reshape(-1, 3, 16, 16)
        return out


class Rows(nn.Module):
    """No placeholder: each row has an image before its text, under a name of its own."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.vision_encoder = nn.Sequential(nn.Linear(3 * 8 * 8, width), nn.Tanh())
        self.projector = nn.Linear(width, width)
        self.embed = nn.Embedding(VOCAB, width)
        self.head = nn.Linear(width, VOCAB)

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor,
        patches: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        hidden = self.embed(input_ids)
        if patches is not None:
            hidden = torch.cat([self.projector(self.vision_encoder(patches)), hidden], 1)
        steps = torch.arange(1, hidden.shape[1] + 1)[None, :, None]
        causal = (hidden.cumsum(1) / steps.to(hidden.dtype))[:, -input_ids.shape[1] :]
        logits = self.head(torch.tanh(causal))
        loss = nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100
        )
        return {"loss": loss}


class RowsProcessor:
    """It names no image token, and its texts hold none."""

    def __init__(self) -> None:
        self.inner = TwoTowerProcessor()

    def __call__(self, images: Any = None, text: Any = None, **kwargs: Any) -> Any:
        out = self.inner(images, [t.replace("<image>", "") + " " for t in text], **kwargs)
        if (tiles := out.pop("pixel_values", None)) is not None:
            out["patches"] = tiles.flatten(2)
        return out


class Nameless(TwoTower):
    """Nothing in its names tells a tower."""

    def __init__(self) -> None:
        super().__init__()
        self.stage1, self.stage2 = self._modules.pop("vision"), self._modules.pop("bridge")

    @property
    def vision(self) -> nn.Module:
        return self.stage1

    @property
    def bridge(self) -> nn.Module:
        return self.stage2


class OwnDummy(TwoTower):
    """Its own forward runs the tower in a batch without an image, and adds nothing of it."""

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        out = super().forward(input_ids, labels, pixel_values, attention_mask)
        if pixel_values is None:
            weight = self.bridge.weight
            blank = torch.zeros(1, 4, 3, 8, 8, dtype=out["logits"].dtype, device=weight.device)
            out["loss"] = out["loss"] + 0 * self.bridge(self.vision(blank)).sum()
        return out


class Counted(TwoTower):
    """It is told how long the rows are, by an entry that nothing but itself understands."""

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        lengths: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        if lengths is not None and lengths.max() != input_ids.shape[1]:
            raise ValueError("lengths do not fit the rows")
        return super().forward(input_ids, labels, pixel_values, attention_mask)


class Whole(TwoTower):
    """Its images come as whole numbers under a key of their own."""

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        tiles: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        pixels = None if tiles is None else tiles.to(torch.bfloat16) / 255 - 0.5
        return super().forward(input_ids, labels, pixels, attention_mask)


class WholeProcessor(TwoTowerProcessor):
    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        out = super().__call__(*args, **kwargs)
        if (pixels := out.pop("pixel_values", None)) is not None:
            out["tiles"] = ((pixels + 0.5) * 255).to(torch.uint8)
        return out


class Wrapped(nn.Module):
    """A known model inside a module of the user's own, whose loss is taken from its logits."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.vlm = inner

    def forward(self, **batch: torch.Tensor) -> dict[str, torch.Tensor]:
        labels = batch.pop("labels")
        logits = self.vlm(**batch).logits
        return {
            "loss": nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100
            )
        }


def wrapped() -> nn.Module:
    inner = _llava()[0]
    inner.vision_tower.vision_model.post_layernorm.requires_grad_(False)  # never used
    return Wrapped(inner)


PLAIN = {
    "two_tower": (TwoTower, TwoTowerProcessor),
    "other": (OtherTowers, OtherProcessor),
    "nameless": (Nameless, TwoTowerProcessor),
    "rows": (Rows, RowsProcessor),
    "own_dummy": (OwnDummy, TwoTowerProcessor),
    "counted": (Counted, TwoTowerProcessor),
    "whole": (Whole, WholeProcessor),
    "wrapped": (wrapped, lambda: _llava()[1]),
    "idefics2": (known.idefics2, known.IdeficsProcessor),
    "idefics3": (known.idefics3, known.IdeficsProcessor),
    "mllama": (known.mllama, known.MllamaProcessor),
}


def load(folder: Path, kind: str, seed: int = 0) -> tuple[nn.Module, Any, str]:
    """Model, processor and the text that stands for one image."""
    import transformers as hf

    if kind in PLAIN:
        torch.manual_seed(seed)
        model_class, processor_class = PLAIN[kind]
        return model_class(), processor_class(), "<image>"
    classes = {
        "qwen2_vl": (hf.Qwen2VLForConditionalGeneration, hf.Qwen2VLProcessor, QWEN_IMAGE),
        "qwen2_5_vl": (hf.Qwen2_5_VLForConditionalGeneration, hf.Qwen2_5_VLProcessor, QWEN_IMAGE),
        "llava": (hf.LlavaForConditionalGeneration, hf.LlavaProcessor, "<image>"),
        "llava_default": (hf.LlavaForConditionalGeneration, hf.LlavaProcessor, "<image>"),
    }
    model_class, processor_class, image = classes[kind]
    model = model_class.from_pretrained(folder)
    if kind == "llava":  # its features are taken before this norm: Gemini wants every weight used
        model.vision_tower.vision_model.post_layernorm.requires_grad_(False)
    return model, processor_class.from_pretrained(folder), image


@dataclass(frozen=True)
class Batches:
    """Batches by name, the same for a given seed in every run."""

    processor: Any
    image: str

    def make(self, what: str, seed: int) -> Any:
        """`image`, `text`, `mixed` (one row of each), and the broken kinds."""
        from PIL import Image

        generator = torch.Generator().manual_seed(seed)
        words = "".join(chr(97 + int(i)) for i in torch.randint(26, (14,), generator=generator))
        text = [False, False]
        rows = {"text": text, "counted": text, "mixed": [True, False]}.get(what, [True, True])
        pictures = [
            Image.fromarray(
                torch.randint(256, (56, 56, 3), generator=generator, dtype=torch.uint8).numpy()
            )
            for shown in rows
            if shown
        ]
        prompts = [f"{self.image if shown else ''}say {i}:" for i, shown in enumerate(rows)]
        texts = [f"{prompt}{words}{i}<|im_end|>" for i, prompt in enumerate(prompts)]
        batch = dict(
            self.processor(text=texts, images=pictures or None, return_tensors="pt", padding=True)
        )
        labels = batch["input_ids"].masked_fill(batch["input_ids"] >= FIRST_SPECIAL, -100)
        labels[:, :4] = -100
        batch["labels"] = labels
        if what == "no_grid":
            batch.pop("image_grid_thw")
        elif what == "counted":
            batch["lengths"] = batch["attention_mask"].sum(1)
        elif what == "no_pixels":
            batch = {k: v for k, v in batch.items() if k not in ("pixel_values", "image_grid_thw")}
        return batch


if __name__ == "__main__":  # OUT KIND
    import sys

    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    build(Path(sys.argv[1]), sys.argv[2])
