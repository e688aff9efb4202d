"""LoRA asked of a booster whose plug-in has none."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG509",
    name="explain-lora-unsupported",
    title="This booster plug-in has no LoRA of its own",
    zh="该 booster 插件自身不支持 LoRA",
    why="this plug-in has no LoRA of its own, but it trains a model that already has adapters",
    do=(
        Do(
            "model = peft.get_peft_model(model, lora_config) in place of "
            "booster.enable_lora(…) in {place}, before booster.boost",
            "none",
            kind="peft",
        ),
        Do(
            "model = peft.get_peft_model(model, lora_config) in place of "
            "booster.enable_lora(…), before booster.boost",
            "none",
            kind="peft",
        ),
        Do(
            "TorchDDPPlugin() or LowLevelZeroPlugin(stage=2) as the booster's plug-in, which have "
            "enable_lora (often --plugin torch_ddp or zero2)",
            "more memory: the weights are not sharded",
        ),
    ),
    wrong="The message alone decides.",
    signs=(
        Sign(
            "does not support lora", beside=("The plugin ",)
        ),  # the call's own line has lora_config
        Sign("does not support lora", no=("lora_",)),
        Sign("does not support lora", beside=("lugin",)),
        Sign("does not support LoRA", also=("lugin",)),
    ),
    examples=(
        Example(
            "AssertionError: The plugin <class "
            "'colossalai.booster.plugin.gemini_plugin.GeminiPlugin'> does "
            "not support lora.",
            "colossalai 0.5.0",
        ),
    ),
    evidence="hpcaitech/ColossalAI#5290; catalogue row 25. Own measurement: "
    "peft 0.13.2 before boost trains.",
)
