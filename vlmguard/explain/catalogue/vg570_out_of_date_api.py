"""Code and package disagree."""

from __future__ import annotations

import re

from vlmguard.explain import given, looks, named, pins
from vlmguard.explain.catalogue.out_of_date_steps import STEPS
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# Of the vision-language classes of transformers, which got new insides in 4.52.
_MOVED = re.compile(
    r"'((?:Qwen2|Qwen2_5_)\w{0,4}VL(?:Model|ForConditionalGeneration))' object has no attribute "
    r"'(visual|embed_tokens|layers|norm|language_model)'"
)


# Of a framework's own class, met in no code of the user's: the framework lost or forgot it.
_OWN_CLASS = re.compile(r"'\w{0,40}(?:Trainer|Arguments|Template)' object has no attribute '")
_NEWER = Do(
    "python -m pip install -U {builtin}: {owner} is its own class, and its own code asks it for "
    "{attribute}, which it lacks; the newest one already: the argument that led there",
    "other releases than those that are there",
    unless=("'GRPOTrainer' object", "'GRPOConfig' object", "DPOTrainer' obj", "'RLHFArguments'"),
)


def _why(facts: Facts) -> str:
    if "'tuple' object has no attribute" in facts.message:
        return (
            "the model's answer is a tuple, and this code asks for its parts by name, as "
            "transformers gives them since 4: an older release, return_dict=False, or a wrapper "
            "that takes the names away"
        )
    if "string indices" in facts.message:
        return (
            "the model's answer is a dictionary, as transformers gives it since 4, and this code "
            "unpacks it as a tuple: it gets the names"
        )
    if "values to unpack" in facts.message:
        return "a function of another package gives more or fewer values than this code takes"
    if "monkey_patch" in facts.trace:
        return (
            "the program replaces a function of transformers by its own, which was written for "
            "another release or another model (heads that share keys, other masks)"
        )
    return (
        "code calls something that the installed release of a package no longer has, or does not "
        "have yet"
    )


_SEQ2SEQ = re.compile(r"unexpected keyword argument 'decoder_\w{3,20}'")
_EMBEDS = re.compile(r"unexpected keyword argument '(?:input_ids|inputs_embeds)'")
_UNSLOTH = re.compile(r"-packages/unsloth(?:_zoo)?/|unsloth_compiled_cache/|\bUnsloth: ")


def _wrapped(facts: Facts) -> Do | None:
    """What peft's wrapper for another task hands over."""
    if "peft/peft_model.py" not in facts.trace:
        return None
    if _SEQ2SEQ.search(facts.message):
        task = 'LoraConfig(…, task_type="CAUSAL_LM"): SEQ_2_SEQ_LM, for models with an encoder and '
        return Do(task + "a decoder (T5), hands over what this one does not take", "none")
    if _EMBEDS.search(facts.message):
        task = "LoraConfig(…, task_type=None): the wrapper of a language task hands over what this "
        return Do(task + "model (a tower, a classifier of images) does not take", "none")
    return None


def _do(facts: Facts) -> tuple[Do, ...]:
    if wrapped := _wrapped(facts):
        return (wrapped, *STEPS)
    if _UNSLOTH.search(f"{facts.message} {facts.trace}"):
        return (looks.UNSLOTH, *STEPS)
    if root := named.quoted(f"{folder}[train]" if (folder := pins.checkout(facts)) else ""):
        own = f"python -m pip install -e {root}: the transformers that this repository pins"
        return (Do(own, "other releases than those that are there"), *STEPS)
    if pinned := pins.llava(facts):
        step = (
            f"python -m pip install {pinned}: the releases that LLaVA's own classes are written "
            "for; of a fork: python -m pip install -e . in its folder takes those that it pins"
        )
        return (Do(step, "other releases than those that are there"), *STEPS)
    moved = _MOVED.search(facts.message)
    if moved is None:
        of_framework = _OWN_CLASS.search(facts.message) and not given.place(facts.trace)
        return (_NEWER, *STEPS) if of_framework else STEPS
    if moved[2] == "language_model":
        newer = (
            "python -m pip install 'transformers>=4.52,<5': older ones have no {attribute} there"
        )
        return (Do(newer, "none"), *STEPS)
    older = (
        "python -m pip install 'transformers<4.52', where {owner} still has {attribute}; or the "
        "newest release of the program that asks for it"
    )
    return (Do(older, "none"), *STEPS)


FAILURE = Known(
    code="VG570",
    name="explain-out-of-date-api",
    title="Two packages' releases do not fit each other",
    zh="依赖包版本互不兼容（API 变更）",
    why=_why,
    do=_do,
    wrong="A typing mistake in code of your own says the same.",
    signs=(
        Sign("type Tensor is not JSON serializable", also=("in save_to_json",)),
        Sign("/unsloth_compiled_cache/", where="raised", also=("TypeError",)),
        Sign("/unsloth_compiled_cache/", where="raised", also=("KeyError",)),
        Sign("/unsloth_compiled_cache/", where="raised", also=("AttributeError",)),
        Sign("/unsloth/models/rl.py", where="raised", releases="unsloth, beside another TRL"),
        Sign("'dict' object has no attribute", also=("-packages/transformers/",)),
        Sign(
            "not in ALL_PARALLEL_STYLES",
            where="trace",
            releases="transformers 4.52, torch before 2.5",
        ),
        Sign("'NoneType' object has no attribute 'print_trainable_parameters'"),
        Sign("KeyError: 'prompt_input_ids'", releases="trl, of another release"),
        Sign("init_process_group() got multiple values for keyword argument"),
        Sign("has no attribute", also=("AttributeError", "module '"), no=("NoneType",)),
        Sign("has no attribute", also=("AttributeError", "transformers_modules"), no=("NoneType",)),
        Sign(
            "AttributeError: 'DynamicCache' object has no attribute",
        ),
        Sign(
            "AttributeError: 'Cache'",
        ),
        Sign("tokenizer is now"),
        Sign("unexpected keyword argument 'processing_class'"),
        Sign("unexpected keyword argument 'tokenizer'"),
        Sign("unexpected keyword argument 'num_items_in_batch'"),
        Sign('is only supported in "transformers>='),
        Sign("unexpected keyword argument 'dispatch_batches'"),
        Sign("'seen_tokens'"),
        Sign("'get_max_length'"),
        Sign("'get_usable_length'"),
        Sign("unexpected keyword argument 'cache_position'"),
        Sign("unexpected keyword argument 'dtype'"),
        Sign("Config' object has no attribute"),
        Sign("Arguments' object has no attribute", no=("'image_processor'",)),
        Sign("Trainer' object has no attribute"),
        Sign("Tokenizer' object has no attribute"),
        Sign("TokenizerFast' object has no attribute"),
        Sign("Processor' object has no attribute"),
        Sign("Model' object has no attribute"),
        Sign("ForConditionalGeneration' object has no attribute"),
        Sign("ForCausalLM' object has no attribute"),
        Sign("Cache' object has no attribute"),
        Sign("Optimizer' object has no attribute"),
        Sign("Optimizer_Stage3' object has no attribute"),
        Sign("Attention' object has no attribute"),
        Sign("AttentionBlock' object has no attribute"),
        Sign("DecoderLayer' object has no attribute"),
        Sign("Template' object has no attribute"),
        Sign("Plugin' object has no attribute"),
        Sign("DDP' object has no attribute"),
        Sign("Wrapper' object has no attribute"),
        Sign("Accelerator' object has no attribute"),
        Sign("GradientCheckpointingLayer' object has no attribute"),
        Sign(
            "got an unexpected keyword argument",
            no=(
                "Arguments.__init__()",
                "Config.__init__()",
                "Args.__init__()",
                "Plugin.__init__()",
                "_calculate_rewards",
                "_reward()",
                "_reward_func()",
                "_forward_unimplemented",  # a class without a forward of its own
            ),
        ),
        Sign("'AdamW' object has no attribute 'train'"),
        Sign("has no setter"),
        Sign("object has no attribute '_initialize_weights'"),
        Sign("object has no attribute '_supports_sdpa'"),
        Sign("object has no attribute 'all_tied_weights_keys'"),
        Sign("object has no attribute '_tied_weights_keys'"),
        Sign("object has no attribute 'is_gradient_checkpointing'"),
        Sign("name 'init_empty_weights' is not defined"),
        Sign("takes", also=("positional arguments but", "were given"), no=("_reward(", "reward_f")),
        Sign("takes", also=("positional argument but", "were given"), no=("_reward(", "reward_f")),
        Sign("State' object has no attribute", no=("last_model_checkpoint",)),
        Sign("Engine' object has no attribute"),
        Sign(
            "-packages/",
            where="raised",
            also=("AttributeError: '",),
            no=(
                "NoneType",
                "'list'",
                "'dict'",
                "'str'",
                "'int'",
                "'tuple'",
                "'float'",
                "'Tensor'",
                "'numpy.",
                "'builtin_",
            ),
        ),
        Sign("-packages/", where="raised", also=("TypeError", "positional argument")),
        Sign("`mm_token_type_ids` is missing"),
        Sign("Loading a dataset cached in a LocalFileSystem is not supported"),
        Sign("can only be an entire path component"),
        Sign("Feature type", also=("not found",)),
        Sign("seed_worker() missing", releases="transformers 4.52"),
        Sign("'Column' object has no attribute", releases="datasets ≥ 4"),
        Sign("Info' object has no attribute"),
        Sign("-packages/unsloth", where="raised", also=("NoneType",)),
        Sign("DataLoader' object has no attribute"),
        Sign("position_ids should be a 3D tensor", releases="verl"),
        Sign("KeyError: 'sequence_parallel_attention'"),
        Sign("_unwrapped_old_generate", releases="unsloth"),
        Sign("unsloth_compiled_cache/", where="raised", also=("AttributeError",)),
        Sign("unsloth/import_fixes.py", where="raised"),
        Sign("variable 'default_config'", also=("transformers/configuration_utils.py",)),
        Sign("Unsloth: Could not find an embedding module", releases="unsloth 2025.1"),
        Sign("Unsloth: Unsuccessfully patched", releases="unsloth"),
        Sign("Unsloth: Please make a Github issue immediately", releases="unsloth"),
        Sign("some weights are not initialized. Please try updating Unsloth", releases="unsloth"),
        Sign("Unsupported torch version detected", releases="LLaMA-Factory"),
        Sign("You are using the old version of InternLM2 model", releases="xtuner"),
        Sign("version of PEFT you are using is not compatible"),
        Sign("Unexpected keyword argument"),
        Sign("PEFT version", also=("not compatible",)),
        Sign(
            "`model_kwargs` are not used by the model",
            releases="transformers, of a newer processor",
        ),
        Sign("got multiple values for keyword argument"),
        Sign("got multiple values for argument"),
        Sign("is required for a normal functioning", also=("but found",), releases="transformers"),
        Sign("Output' object is not iterable"),
        Sign("Output' object is not subscriptable"),
        Sign(
            "required positional argument",
            also=("missing", "-packages/"),  # a call within a user's own code is a slip of theirs
            no=(
                *("_reward", "reward_f", "Reward.__call__", "ORM.__call__", "forward() missing"),
                *("compute_metrics", "main() missing", "train() missing", "<lambda>", "collate"),
            ),
        ),
        Sign("DataParallel' object has no attribute '_"),
        Sign("has no attribute `", also=("AttributeError",)),
        Sign("-packages/", where="raised", also=("type object '", "has no attribute")),
        Sign("`model_kwargs` are not used by the model"),
        Sign("requires transformers", where="else"),
        Sign("requires torch", where="else"),
        Sign("requires PyTorch", where="else"),
        Sign("and later versions", where="else"),
        Sign("lease upgrade", where="else"),
        Sign("lease update", where="else"),
        Sign("lease downgrade", where="else"),
        Sign("requires transformers>=", where="else"),
        Sign("version of transformers", where="else"),
        Sign("version of torch", where="else"),
        Sign("or newer is required", where="else"),
        Sign("or higher is required", where="else"),
        Sign("s deprecated and", where="else"),
        Sign("tensor' object has no attribute 'cast'"),
        Sign("type object 'Dataset' has no attribute"),
        Sign("Trainer' has no attribute", also=("type object",)),
        Sign("Tokenizer' has no attribute", also=("type object",)),
        Sign("Processor' has no attribute", also=("type object",)),
        Sign("Arguments' has no attribute", also=("type object",)),
        Sign("monkey_patch.py", where="raised"),
        Sign("/unsloth_zoo/", where="raised", also=("KeyError",)),
        Sign("/unsloth_zoo/", where="raised", also=("TypeError",)),
        Sign("/unsloth_zoo/", where="raised", also=("AttributeError",)),
        Sign("KeyError", also=("transformers_modules", "/configuration_")),
        Sign("Please file a bug report! Error patching", releases="unsloth"),
        Sign("Booster.boost() missing"),
    ),
    examples=(
        Example(
            "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
            "made by causing it, transformers 5.19.0",
        ),
        Example(
            "AttributeError: 'DynamicCache' object has no attribute 'seen_tokens'",
            "model code written for transformers 4.40",
        ),
    ),
    evidence="transformers' migration notes.",
    narrow=1,
)
