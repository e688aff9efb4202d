"""A checkpoint's weights do not fit the model."""

from __future__ import annotations

import re

from vlmguard.explain import looks, shapes
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if "size mismatch" in facts.message:
        return (
            "the checkpoint's tensors have other shapes than the model's: "
            "another size of model, a vocabulary that was enlarged, or "
            "ZeRO-3 placeholders of shape [0] that were saved without "
            "gathering"
        )
    return (
        "the checkpoint names its parameters otherwise than the model: "
        "a prefix moved between releases of transformers (visual., "
        "model.visual., language_model.), an adapter was saved for "
        "another wrapper, or it is another model"
    )


# What parameters' names begin with; a callback of the user's own looks them up for itself.
_PARTS = (
    "vision_model.",
    "visual.",
    "vision_tower.",
    "model.",
    "language_model.",
    "base_model.",
    "transformer.",
    "module.",
    "lm_head",
)
_OWN = ("transformers/trainer_callback.py",)

# Names that transformers 4.52 gave to parts of a vision-language model.
_MOVED = ("missing keys in the checkpoint", '"model.visual.', '"model.language_model.')
_BEFORE = "in front of load_state_dict: the checkpoint's names"
_STEPS = (
    looks.CHECK,
    Do(
        "model.module.load_state_dict(state): the weights are those of the model inside of DDP",
        "none",
        when=("loading state_dict for DistributedDataParallel",),
        kind="release",
    ),
    Do(
        "python -m pip install \"transformers==$(python -c 'import json, sys; "
        'print(json.load(open(sys.argv[1]))["transformers_version"])\' {checkpoint}/config.json)"'
        ", and the same command: the release that saved it (4.52 moved visual. to "
        "model.visual.); what this run wrote since is not of these weights: delete it",
        "none",
        when=_MOVED,
        kind="release",
    ),
    Do(
        "{checkpoint} as the model itself, not to resume from (ms-swift: --model, else "
        "model_name_or_path): from_pretrained gives the weights their new names",
        "the optimizer's state, and the step, begin anew",
        when=_MOVED,
    ),
    Do(
        "from_pretrained(FOLDER) in place of load_state_dict, in {place}: it gives the names of "
        "releases before 4.52 (visual.) their new ones (model.visual., model.language_model.)",
        "none",
        when=_MOVED,
        kind="release",
    ),
    Do(
        'state = {k.removeprefix("{strip}."): v for k, v in state.items()}: in {place}, '
        f"{_BEFORE} begin with {{strip}}. (module.: saved out of DDP; _orig_mod.: compiled; "
        "base_model.model.: PEFT), the model's do not",
        "none",
        kind="release",
    ),
    Do(
        'state = {"{prepend}." + k: v for k, v in state.items()}: in {place}, '
        f"{_BEFORE} lack {{prepend}}., which the model's begin with",
        "none",
        kind="release",
    ),
    Do(
        "python zero_to_fp32.py . pytorch_model.bin, in the checkpoint's folder (where "
        "`latest` lies): it gathers what ZeRO-3 saved in parts",
        "minutes",
        when=("shape torch.Size([0]) from checkpoint",),
    ),
    Do(
        "zero2",
        "more memory: every rank holds all parameters; under ZeRO-3 they are empty here",
        when=("current model is torch.Size([0])",),
    ),
    Do(
        "--pretrain_mm_mlp_adapter with the projector of this language model's size: "
        "{projector} is another's (4096 wide: 7B, 5120: 13B)",
        "none",
        when=("for 0.weight", "mm_projector"),
        unless=("torch.Size([0])",),
        kind="release",
    ),
    Do(
        "--pretrain_mm_mlp_adapter with the projector of this tower and this language model "
        "(widths {pair}): the loaded one is of others ({savedpair}; tower 1024: CLIP-L, 1152: "
        "SigLIP; language model 4096: 7B, 5120: 13B, 3584: Qwen2-7B); or train one anew, without "
        "that flag",
        "none",
        kind="release",
    ),
    Do(
        "grep -r --include=adapter_config.json base_model_name_or_path .: the adapter is of that "
        "model, {savedwidth} wide; {base} is {width} wide: that model in this run, or an "
        "adapter of this one",
        "none",
        kind="adapter",
    ),
    Do(
        "grep -r --include=adapter_config.json base_model_name_or_path .: the adapter is of that "
        "model, {savedwidth} wide; this run's is {width} wide: that model in this run, or an "
        "adapter of this one",
        "none",
        kind="adapter",
    ),
    Do(
        "grep -E '\"(r|lora_rank|target_modules|base_model_name_or_path)\"' "
        "{adapter}/adapter_config.json: the same rank, modules and base model in this run",
        "none",
        when=("lora_",),
        kind="adapter",
    ),
    Do(
        "grep -rE '\"(r|lora_rank|target_modules|base_model_name_or_path)\"' "
        "--include=adapter_config.json .: the same rank, modules and base model in this run",
        "none",
        when=("lora_",),
        kind="adapter",
    ),
    Do(
        "num_labels of the checkpoint (its config.json: id2label); a new head instead: "
        "ignore_mismatched_sizes=True",
        "a new head starts at random",
        when=("classifier.", "score.weight", "for classifier"),
    ),
    Do(
        "grep -rn image_size --include=config.json .: the checkpoint's must be the model's "
        "(257 positions: 224, 577: 336, at patches of 14; 197: 224 at 16)",
        "none",
        when=("position_embedding", "pos_embed"),
        kind="release",
    ),
    Do(
        "model.resize_token_embeddings({vocabulary}), on a line before the weights or the "
        "adapter are loaded: they have {vocabulary} tokens",
        "none",
        unless=("torch.Size([0])",),
        kind="release",
    ),
    Do(
        "grep -rE '\"(hidden_size|vocab_size|num_hidden_layers|model_type|mm_vision_tower)\"' "
        "--include=config.json {modelfolder}: these weights are another model's or another "
        "size's: the shapes that the message names must stand there",
        "none",
        when=("size mismatch",),
        unless=("lora_", "torch.Size([0])"),
        kind="release",
    ),
    Do(
        "grep -rE '\"(hidden_size|vocab_size|num_hidden_layers|model_type|mm_vision_tower)\"' "
        "--include=config.json .: these weights are another model's or another size's: which "
        "of your folders has the shapes that the message names?",
        "none",
        when=("size mismatch",),
        unless=("lora_", "torch.Size([0])"),
        kind="release",
    ),
    Do(
        "grep transformers_version {modelfolder}/config.json; python -m pip show "
        "transformers: load "
        "with the release that saved it",
        "none",
        kind="release",
    ),
    Do(
        "grep -r --include=config.json transformers_version . | head; python -m pip show "
        "transformers | grep ^Version: load with the release that saved it: python -m pip "
        "install 'transformers==THAT'",
        "none",
        unless=("size mismatch for base_model",),
        kind="release",
    ),
    Do(
        "python -c 'import sys, safetensors; print(*safetensors.safe_open(sys.argv[1], "
        '"pt").keys(), sep=chr(10))\' FILE.safetensors | head, beside '
        "print(*model.state_dict(), sep=chr(10)): which prefix differs?",
        "none",
    ),
    Do(
        "model.resize_token_embeddings(N) before loading, N: the checkpoint's first dimension",
        "none",
        when=("embed_tokens", "word_embeddings", "wte", "lm_head", "vocab"),
        unless=("missing keys in the checkpoint", "copying a param with shape"),
    ),
)


# A table of tokens that is longer than config.json says: from_pretrained makes the shorter one.
_LONGER = re.compile(
    r"Trying to set a tensor of shape torch\.Size\(\[(\d{5,7}), (\d{2,5})\]\) in \"weight\" "
    r"\(which has shape torch\.Size\(\[(\d{5,7}), \2\]\)\)"
)


def _enlarged(facts: Facts) -> tuple[Do, ...]:
    """Tokens that were added: to the model's own file, or before an adapter is loaded."""
    if match := _LONGER.search(facts.message):
        change = f's/"vocab_size": {match[3]}/"vocab_size": {match[1]}/'
        told = f"the weights have {match[1]} tokens, and config.json says {match[3]}"
        return tuple(
            Do(f"sed -i '{change}' {folder}/config.json: {told}", "none", kind="longer")
            for folder in ("{modelfolder}", "MODEL")
        )
    if facts.framework != "LLaMA-Factory" or "modules_to_save" not in facts.message:
        return ()
    step = (
        "resize_vocab: true, and as model_name_or_path a copy of the base model with the adapter's "
        "tokenizer.json, tokenizer_config.json and special_tokens_map.json in it: the embeddings "
        "are made as long as the tokenizer ({vocabulary}) before the adapter is loaded"
    )
    return (Do(step, "none", unless=("torch.Size([0])",)),)


_ADAPTERS_FILE = Do(
    "grep -E '\"(r|target_modules|base_model_name_or_path|peft_type)\"' "
    "ADAPTER/adapter_config.json: it says another rank than the weights beside it, which have "
    "{savedrank}: of another run or of another peft; put that run's file back, or "
    '"r": {savedrank} in it, where all else is right',
    "none",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """An adapter's own rank, where that is what differs."""
    found = shapes.of_adapter(facts.message, "")
    if (was := shapes.named(facts.model, found.get("savedwidth", "0"))) and "width" in found:
        step = (
            f"grep -r --include=adapter_config.json base_model_name_or_path .: {was}, by its width "
            "({savedwidth}; this run's model: {width}): that model in this run, or an adapter of "
            "this one"
        )
        return (Do(step, "none", kind="adapter"), *_STEPS)
    rank = (Do("adapter_rank", "none", tuple(found.items())),) if "savedrank" in found else ()
    if rank and "peft/peft_model.py" in facts.trace and "in from_pretrained" in facts.trace:
        rank = (_ADAPTERS_FILE,)  # its file makes the adapter, not the run's own LoraConfig
    other = _of_another_size(facts)
    return other if len(other) > 1 else (*_enlarged(facts), *other, *rank, *_STEPS)


def _of_another_size(facts: Facts) -> tuple[Do, ...]:
    """The checkpoint of another size of the model, which a script may have resumed by itself."""
    widths = shapes.of_widths(facts.message)
    if widths is None:
        return ()
    saved, own = (f"{w} wide{_known(facts.message, w)}" for w in widths)
    said = f"its weights are {saved}, this model is {own}"
    was = shapes.size(facts.message, widths[0])
    resumed = facts.said.get("resume_from_checkpoint", "")
    yaml = facts.framework in ("LLaMA-Factory", "axolotl") and "output_dir" not in facts.typed
    flag = "{}: {}" if yaml else "--{} {}"
    if "/" not in resumed or not re.fullmatch(r"[\w./@+~-]{3,200}", resumed):
        base = was or "the model that it was saved from (its config.json has hidden_size)"
        return (Do(f"{base} as the model for this checkpoint: {said}", "none"),) if was else ()
    folder = resumed.rstrip("/").rpartition("/")[0] or "."
    new = flag.format("output_dir", f"{folder}_new")
    if "resume_from_checkpoint" in facts.typed:
        new = "leave --resume_from_checkpoint out, and " + new
    steps = [Do(f"{new}: {resumed} is another run's, which was resumed: {said}", "starts anew")]
    if was:
        name = flag.format("model_name_or_path", was)
        steps.append(Do(f"{name}, to go on with {resumed}: it is of that size", "none"))
    look = f"grep -E '\"(hidden_size|num_hidden_layers|_name_or_path)\"' {resumed}/config.json"
    return (*steps, Do(f"{look}: whose it is", "none"))


def _known(said: str, width: str) -> str:
    name = shapes.size(said, width).partition("/")[2].removesuffix("-Instruct")
    return f" ({name})" if name else ""


FAILURE = Known(
    code="VG522",
    name="explain-state-keys",
    title="The checkpoint's weights do not fit this model",
    zh="检查点中的参数名或形状与模型不符",
    why=_why,
    do=_do,
    wrong="strict=False or ignore_mismatched_sizes loads the rest and leaves the tower random.",
    signs=(
        Sign("Unexpected embed_tokens_weight shape"),
        Sign(" dimension mismatch: ", also=(" vs ",)),
        Sign("Error(s) in loading state_dict"),
        Sign('unexpected key "', also=("in state_dict",), releases="torch before 0.4"),
        Sign("missing keys in state_dict"),
        Sign("size mismatch for"),
        Sign("size mismatch for ", where="line", also=(" from checkpoint",)),
        Sign("Unexpected key(s) in state_dict"),
        Sign("Missing key(s) in state_dict"),
        Sign("You set `ignore_mismatched_sizes` to `False`"),
        Sign("ignore_mismatched_sizes", also=("mismatch",)),
        Sign("shape mismatch", also=("checkpoint",)),
        Sign("Trying to set a tensor of shape"),
        Sign("KeyError: '", also=(".weight'",), no=_OWN),
        Sign("KeyError: decoder.layers."),
        Sign("KeyError: model.layers."),
        Sign("is neither a parameter, buffer, nor extra state"),
        Sign("Can't find weights for"),
        Sign("-packages/peft/utils/save_and_load.py", where="raised"),
        Sign(" in load_state_dict()", where="within", no=("optim", "scheduler", "scaler")),
        *(Sign(f"KeyError: '{part}", no=_OWN) for part in _PARTS),
        Sign("convert_weights.py", where="raised"),
        Sign("Neither a state dict nor checkpoint files"),
        Sign("does not have a parameter or a buffer named"),
        Sign("Vocabulary size mismatch after resizing"),
        Sign("Incompatible shapes found for LoRA weights"),
        Sign("Expected pattern"),
        Sign("Reward model is not correctly loaded"),
        Sign("While copying the parameter named"),
        Sign("expected shape", also=("but got", "torch.Size")),
        Sign("state_dict", where="else"),
        Sign("state dict", where="else"),
    ),
    examples=(
        Example(
            "RuntimeError: Error(s) in loading state_dict for "
            "Linear:\n\tsize mismatch for weight: copying a param with "
            "shape torch.Size([4, 4]) from checkpoint, the shape in "
            "current model is torch.Size([8, 8]).",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="modelscope/ms-swift#7947; row 23.",
)
