"""A folder that answers the hub ids of TRL's tests: tiny models, made by TRL's own scripts.

    PYTHONPATH=CHECKOUT python tools/suites/hub.py OUT CHECKOUT

OUT becomes an ``HF_HOME``: models lie in it as a hub's cache has them, data sets under
``datasets/``, where the plug-in reads them. What the scripts read of a hub is made here: tokenizers
(byte-level BPE, trained on the checkout's own text, with the special tokens and the chat template
of their family), processors and configs of full size. The scripts shrink them, as they do for TRL.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUT, CHECKOUT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
os.environ.update(HF_HOME=str(OUT), HF_HUB_OFFLINE="1", VLMGUARD="off")

import numpy  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

REVISION = "0" * 40
WORDS = 1200
"""Tokens beside the special ones."""
MAKERS = "scripts.generate_tiny_models"
QWEN = "<|endoftext|> <|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "\
    "<|image_pad|> <|video_pad|> <think> </think> <tool_call> </tool_call> <tool_response> "\
    "</tool_response>"
LLAMA = "<|begin_of_text|> <|end_of_text|> <|eot_id|> <|start_header_id|> <|end_header_id|> "\
    "<|finetune_right_pad_id|>"
GEMMA = "<pad> <eos> <bos> <unk> <start_of_turn> <end_of_turn> <start_of_image> <end_of_image> "\
    "<image_soft_token>"
OTHER = "<unk> <s> </s> <pad> <image>"
SMOL = "<|im_start|> <end_of_utterance> <fake_token_around_image> <image> <global-img> <pad> <unk>"
TOKENS: dict[str, tuple[str, str, str, str | None, str]] = {
    # pattern of the model's id: special tokens, eos, pad, bos, file of its chat template
    r"Qwen/Qwen2\.5-VL.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen2_5_vl"),
    r"Qwen/Qwen2-VL.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen2_5_vl"),
    r"Qwen/Qwen3-VL.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen3_vl"),
    r"Qwen/Qwen3\.5-0.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen3_5_nothink"),
    r"Qwen/Qwen3\.5-4.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen3_5_think"),
    r"Qwen/Qwen3\.6.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen3_6"),
    r"Qwen/Qwen3.*2507": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen3_instruct_2507"),
    r"Qwen/Qwen3.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen3"),
    r"Qwen/.*": (QWEN, "<|im_end|>", "<|endoftext|>", None, "qwen2_5"),
    r"openai/gpt-oss.*": ("<|startoftext|> <|endoftext|> <|return|> <|start|> <|end|> <|message|> "
                          "<|channel|> <|call|>", "<|return|>", "<|endoftext|>", None, "gptoss"),
    r"meta-llama/Meta-Llama-3-.*": (LLAMA, "<|eot_id|>", "<|end_of_text|>", "<|begin_of_text|>",
                                    "llama3"),
    r"meta-llama/Llama-3\.1.*": (LLAMA, "<|eot_id|>", "<|end_of_text|>", "<|begin_of_text|>",
                                 "llama3_1"),
    r"meta-llama/.*": (LLAMA, "<|eot_id|>", "<|end_of_text|>", "<|begin_of_text|>", "llama3_2"),
    r"google/gemma-(3|4).*": (GEMMA, "<eos>", "<pad>", "<bos>", "gemma3"),
    r"google/gemma.*": (GEMMA, "<eos>", "<pad>", "<bos>", "gemma"),
    r"llava-hf/llava-v1\.6.*": (OTHER, "</s>", "<pad>", "<s>", "llava_next"),
    r"llava-hf/.*": (OTHER, "</s>", "<pad>", "<s>", "llava_next"),
    r"HuggingFace(M4|TB)/.*": (SMOL, "<end_of_utterance>", "<pad>", "<|im_start|>", "idefics3"),
    r"zai-org/.*": ("<|endoftext|> [MASK] <|user|> <|assistant|> <|system|> <|observation|>",
                    "<|endoftext|>", "<|endoftext|>", None, "glm4moe"),
    r"CohereLabs/tiny.*": ("<PAD> <BOS_TOKEN> <|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
                           "<PAD>", "<BOS_TOKEN>", "cohere2"),
    r"CohereLabs/.*": ("<PAD> <BOS_TOKEN> <|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<PAD>",
                       "<BOS_TOKEN>", "cohere"),
    r"microsoft/Phi-3\.5.*": (OTHER + " <|endoftext|>", "<|endoftext|>", "<|endoftext|>", "<s>",
                              "phi3_5"),
    r"microsoft/.*": (OTHER + " <|endoftext|>", "<|endoftext|>", "<|endoftext|>", "<s>", "phi3"),
    r"deepseek-ai/.*": (OTHER, "</s>", "</s>", "<s>", "deepseekv3"),
    r"LiquidAI/LFM2\.5.*": ("<|pad|> <|startoftext|> <|im_start|> <|im_end|>", "<|im_end|>",
                            "<|pad|>", "<|startoftext|>", "lfm2_2_5"),
    r"LiquidAI/.*": ("<|pad|> <|startoftext|> <|im_start|> <|im_end|>", "<|im_end|>", "<|pad|>",
                     "<|startoftext|>", "lfm2"),
    r".*": (OTHER, "</s>", "<pad>", "<s>", ""),
}  # fmt: skip
LLAVA = "{% for m in messages %}{{ m['role'].upper() + ': ' }}{% if m['content'] is string %}"\
    "{{ m['content'] }}{% else %}{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n"\
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"\
    "{{ '</s>' if m['role'] == 'assistant' else ' ' }}{% endfor %}"\
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
SEES: dict[str, str] = {
    r"Qwen/Qwen2\.5-VL.*": "Qwen2_5_VL", r"Qwen/Qwen2-VL.*": "Qwen2VL",
    r"Qwen/Qwen3-VL.*": "Qwen3VL", r"Qwen/Qwen3\.5.*": "Qwen3_5", r"Qwen/Qwen3\.6.*": "Qwen3_5Moe",
    r"google/gemma-3-.*": "Gemma3", r"llava-hf/llava-v1\.6.*": "LlavaNext",
    r"llava-hf/.*": "Llava", r"HuggingFaceM4/Idefics3.*": "Idefics3",
    r"HuggingFaceM4/.*": "Idefics2", r"HuggingFaceTB/.*": "SmolVLM",
}  # fmt: skip
"""Which class an id's processor and config are of."""


def matched(table: dict[str, Any], name: str) -> Any:
    """The first entry whose pattern is the whole of ``name``; None where there is none."""
    return next((value for key, value in table.items() if re.fullmatch(key, name)), None)


def corpus() -> list[str]:
    """Text that tokens are learnt from."""
    files = [*CHECKOUT.glob("docs/source/*.md"), *CHECKOUT.glob("scripts/generate_zen*.py")]
    return [file.read_text("utf-8") for file in sorted(files)]


def learnt(special: list[str]) -> tokenizers.Tokenizer:
    """A byte-level BPE whose special tokens come last."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=WORDS, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(corpus(), trainer)
    made.add_special_tokens(
        [tokenizers.AddedToken(token, special=True, normalized=False) for token in special]
    )
    return made


def template(name: str) -> str:
    """TRL's copy of a family's chat template."""
    file = CHECKOUT / "trl" / "chat_templates" / f"{name}.jinja"
    return file.read_text("utf-8") if name else ""


def tokenizer(name: str, *args: Any, **more: Any) -> Any:
    """What `AutoTokenizer.from_pretrained` gives the scripts."""
    words, eos, pad, bos, chat = matched(TOKENS, name)
    text = LLAVA if name.startswith("llava-hf/llava-1.5") else template(chat)
    found = re.findall(r"<\|[\w-]+\|>", text)
    roles = {"eos_token": eos, "pad_token": pad, **({"bos_token": bos} if bos else {})}
    if "<unk>" in words:
        roles["unk_token"] = "<unk>"
    special = list(dict.fromkeys([*words.split(), *found]))
    images = {
        "Gemma3": {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
                   "image_token": "<image_soft_token>"},
        "SmolVLM": {"fake_image_token": "<fake_token_around_image>", "image_token": "<image>",
                    "global_image_token": "<global-img>"},
    }.get(matched(SEES, name) or "", {})  # fmt: skip
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=learnt(special), model_max_length=32768, **roles,
        **({"extra_special_tokens": images} if images else {}),
    )  # fmt: skip
    made.chat_template = text or None
    return made


def processor(name: str, *args: Any, **more: Any) -> Any:
    """What `AutoProcessor.from_pretrained` gives the scripts."""
    kind = matched(SEES, name)
    if kind is None:
        raise OSError(f"no stand-in for the processor of {name}")
    words = tokenizer(name)
    made = PROCESSORS[kind](words)
    made.chat_template = words.chat_template
    return made


def _qwen(kind: str, patch: int, video: str) -> Callable[[Any], Any]:
    def make(words: Any) -> Any:
        images = transformers.Qwen2VLImageProcessor(patch_size=patch)
        videos = getattr(transformers, video)(patch_size=patch)
        told = {"image_processor": images, "tokenizer": words, "video_processor": videos}
        return getattr(transformers, f"{kind}Processor")(**told)

    return make


SIDE = 56
"""Pixels of an image of LLaVA's; 336 are 576 tokens and a test of half a minute."""
TILES = [[56, 112], [112, 56], [112, 112]]


def _llava(kind: str) -> Callable[[Any], Any]:
    def make(words: Any) -> Any:
        size = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
        images = (
            transformers.CLIPImageProcessor(**size)
            if kind == "Llava"
            else transformers.LlavaNextImageProcessor(**size, image_grid_pinpoints=TILES)
        )
        return getattr(transformers, f"{kind}Processor")(
            images, words, patch_size=14, vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
        )  # fmt: skip

    return make


PROCESSORS: dict[str, Callable[[Any], Any]] = {
    "Qwen2VL": _qwen("Qwen2VL", 14, "Qwen2VLVideoProcessor"),
    "Qwen2_5_VL": _qwen("Qwen2_5_VL", 14, "Qwen2VLVideoProcessor"),
    "Qwen3VL": _qwen("Qwen3VL", 16, "Qwen3VLVideoProcessor"),
    "Qwen3_5": _qwen("Qwen3VL", 16, "Qwen3VLVideoProcessor"),
    "Qwen3_5Moe": _qwen("Qwen3VL", 16, "Qwen3VLVideoProcessor"),
    "Gemma3": lambda words: transformers.Gemma3Processor(
        transformers.Gemma3ImageProcessor(size={"height": 224, "width": 224}), words,
        image_seq_length=256,
    ),
    "Llava": _llava("Llava"),
    "LlavaNext": _llava("LlavaNext"),
    "Idefics2": lambda words: transformers.Idefics2Processor(
        transformers.Idefics2ImageProcessor(do_image_splitting=False), words, image_seq_len=64
    ),
    "Idefics3": lambda words: transformers.Idefics3Processor(
        transformers.Idefics3ImageProcessor(size={"longest_edge": 364}), words, image_seq_len=169
    ),
    "SmolVLM": lambda words: transformers.SmolVLMProcessor(
        transformers.SmolVLMImageProcessor(
            size={"longest_edge": 364}, max_image_size={"longest_edge": 364},
        ), words, transformers.SmolVLMVideoProcessor(), image_seq_len=169,
    ),
}  # fmt: skip
IDS = {"image_token_id": ("<|image_pad|>", "<image>", "<image_soft_token>"),
       "image_token_index": ("<image>", "<image_soft_token>"),
       "video_token_id": ("<|video_pad|>",), "vision_start_token_id": ("<|vision_start|>",),
       "vision_end_token_id": ("<|vision_end|>",), "boi_token_index": ("<start_of_image>",),
       "eoi_token_index": ("<end_of_image>",), "boi_token_id": ("<start_of_image>",),
       "eoi_token_id": ("<end_of_image>",)}  # fmt: skip
SMALL = {"intermediate_size": 32, "moe_intermediate_size": 32,
         "shared_expert_intermediate_size": 32, "num_experts": 4}  # fmt: skip

SIDES = {"Llava": {"patch_size": 14, "image_size": SIDE},
         "LlavaNext": {"patch_size": 14, "image_size": SIDE},
         "Gemma3": {"patch_size": 14, "image_size": 224, "vision_use_head": False},
         "Idefics3": {"patch_size": 14, "image_size": 364},
         "SmolVLM": {"patch_size": 14, "image_size": 364}}  # fmt: skip
"""Where the published checkpoint is not as the class's defaults."""


def config(name: str, *args: Any, **more: Any) -> Any:
    """What `AutoConfig.from_pretrained` gives the scripts: the class's own defaults, our ids."""
    kind = matched(SEES, name)
    if kind is None:
        return _of_text(name, more)
    words = tokenizer(name)
    made = getattr(transformers, f"{kind}Config")()
    roles = _roles(words)
    for part in (made.text_config, made.vision_config):
        for key, value in {**SMALL, "vocab_size": len(words), **roles}.items():
            if hasattr(part, key):
                setattr(part, key, value)
    for key, value in SIDES.get(kind, {}).items():
        setattr(made.vision_config, key, value)
    if kind == "LlavaNext":
        made.image_grid_pinpoints = TILES
    for key, tokens in IDS.items():
        known = [token for token in tokens if token in words.get_vocab()]
        if known and hasattr(made, key):
            setattr(made, key, words.convert_tokens_to_ids(known[0]))
    for key in ("text_config", "vision_config"):
        if "rope_scaling" in more.get(key, {}):
            rope = {"rope_theta": 1e6, **more[key].pop("rope_scaling")}
            more[key]["rope_parameters"] = rope
    more.pop("rope_scaling", None)
    return type(made).from_dict(made.to_dict(), **more)


def _of_text(name: str, more: dict[str, Any]) -> Any:
    kinds = {"Qwen/Qwen2": "Qwen2", "Qwen/Qwen3-30": "Qwen3Moe", "Qwen/Qwen3": "Qwen3",
             "meta-llama": "Llama", "EleutherAI": "GPTNeoX", "google/flan": "T5",
             "facebook/bart": "Bart"}  # fmt: skip
    kind = next(value for key, value in kinds.items() if name.startswith(key))
    words = tokenizer(name)
    own = {"vocab_size": len(words), "pad_token_id": words.pad_token_id}
    return getattr(transformers, f"{kind}Config")(**{**own, **more})


def generation_config(name: str, *args: Any, **more: Any) -> Any:
    """What `GenerationConfig.from_pretrained` gives the scripts."""
    words = tokenizer(name)
    return transformers.GenerationConfig(**_roles(words))


def _roles(words: Any) -> dict[str, Any]:
    names = [f"{role}_token_id" for role in ("pad", "bos", "eos")]
    return {name: getattr(words, name) for name in names}


def keep(model: Any, words: Any, generation: Any, prefix: Any = None, suffix: Any = None,
         create_pr: Any = None) -> None:  # fmt: skip
    """Instead of `push_to_hub`: into the cache, as a download would lie there."""
    name = "-".join(filter(None, (prefix, type(model).__name__, suffix)))
    folder = OUT / "hub" / f"models--trl-internal-testing--{name}"
    snapshot = folder / "snapshots" / REVISION
    snapshot.mkdir(parents=True, exist_ok=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(REVISION)
    model.save_pretrained(snapshot)
    for part in (words, generation):
        if part is not None:
            part.save_pretrained(snapshot)


def models() -> None:
    """Every script of the checkout; what one cannot make is said, and the next one made."""
    common = importlib.import_module(f"{MAKERS}._common")
    nothing = lambda *args, **more: None  # noqa: E731
    common.push_to_hub = keep
    common.check_transformers_version = common.check_dtype_pattern = nothing
    common.print_config_diff = nothing
    transformers.AutoTokenizer.from_pretrained = tokenizer
    transformers.AutoProcessor.from_pretrained = processor
    transformers.AutoConfig.from_pretrained = config
    transformers.GenerationConfig.from_pretrained = generation_config
    folder = CHECKOUT / "scripts" / "generate_tiny_models"
    scripts = [file for file in sorted(folder.glob("for_*/*.py")) if file.stem != "__init__"]
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    for file in sorted(scripts, key=lambda file: "peft" in file.stem):
        if wanted not in file.stem:
            continue
        torch.manual_seed(0)
        try:
            runpy.run_module(f"{MAKERS}.{file.parent.name}.{file.stem}", run_name="__main__")
        except Exception as error:
            print(f"not made: {file.stem}: {error!r}"[:300], flush=True)
            if os.environ.get("TRACE"):
                traceback.print_exc()


ALSO = {
    "LlamaForCausalLM-3.2": (
        "hf-internal-testing/tiny-random-LlamaForCausalLM nickypro/tinyllama-15M "
        "peft-internal-testing/tiny-random-LlamaForCausalLM "
        "trl-internal-testing/tiny-random-LlamaForCausalLM"
    ),
    "OPTForCausalLM": (
        "peft-internal-testing/opt-125m peft-internal-testing/tiny-random-OPTForCausalLM "
        "facebook/opt-125m facebook/opt-350m hf-internal-testing/tiny-random-OPTForCausalLM"
    ),
    "GPT2LMHeadModel": (
        "openai-community/gpt2 gpt2 peft-internal-testing/tiny-random-gpt2 "
        "hf-internal-testing/tiny-random-gpt2 hf-internal-testing/tiny-random-GPT2LMHeadModel"
    ),
    "T5ForConditionalGeneration": (
        "google-t5/t5-small google/flan-t5-base peft-internal-testing/tiny-random-t5"
    ),
}
"""Ids that other suites ask for, by the tiny model that answers."""


def aliases() -> None:
    """Further names in the cache for models that are there."""
    for name, ids in ALSO.items():
        made = OUT / "hub" / f"models--trl-internal-testing--tiny-{name}"
        for each in ids.split():
            link = OUT / "hub" / f"models--{each.replace('/', '--')}"
            if made.exists() and not link.exists():
                link.symlink_to(made.name)


def data_sets() -> None:
    """What TRL's scripts would push: saved under ``datasets/``."""
    import datasets

    def push(self: Any, repo: str, config_name: str = "default", **more: Any) -> None:
        self.save_to_disk(str(OUT / "datasets" / repo.replace("/", "--") / config_name))

    datasets.DatasetDict.push_to_hub = push
    for name in ("zen", "zen_image", "zen_multi_image", "toolcall", "harmony"):
        numpy.random.seed(0)
        made = runpy.run_module(f"scripts.generate_{name}_dataset", run_name="made")
        repo = f"trl-internal-testing/{name.replace('_', '-')}"
        made["main"](test_size=0.1, push_to_hub=True, repo_id=repo)


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) == 3:
        data_sets()
    models()
    aliases()
