"""Code and package disagree."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG570",
    name="explain-out-of-date-api",
    title="Two packages' releases do not fit each other",
    zh="依赖包版本互不兼容（API 变更）",
    why="code calls something that the installed release of a package "
    "no longer has, or does not have yet",
    do=(
        Do("the releases that the framework pins: its requirements, vlmguard doctor", "none"),
        Do(
            "for a model with its own code (trust_remote_code): the "
            "transformers that its config.json names",
            "none",
        ),
    ),
    wrong="A typing mistake in code of your own says the same.",
    signs=(
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
        Sign("unexpected keyword argument 'dispatch_batches'"),
        Sign("'seen_tokens'"),
        Sign("'get_max_length'"),
        Sign("'get_usable_length'"),
        Sign("unexpected keyword argument 'cache_position'"),
        Sign("unexpected keyword argument 'dtype'"),
        Sign("Config' object has no attribute"),
        Sign("Arguments' object has no attribute"),
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
                "_calculate_rewards",
                "_reward()",
                "_reward_func()",
            ),
        ),
        Sign("'AdamW' object has no attribute 'train'"),
        Sign("has no setter"),
        Sign("name 'init_empty_weights' is not defined"),
        Sign("takes", also=("positional arguments but", "were given")),
        Sign("takes", also=("positional argument but", "were given")),
        Sign("State' object has no attribute"),
        Sign("Engine' object has no attribute"),
        Sign(
            "-packages/",
            where="raised",
            also=("AttributeError: '",),
            no=(
                "in __getattr__",
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
