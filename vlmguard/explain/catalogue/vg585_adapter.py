"""PEFT refuses an adapter."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_ABSENT = (
    "Can't find 'adapter_config.json'",
    "No such file",
    "does not contain a LoRA weight",
    "LoRA weights not found",
)


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in _ABSENT):
        return (
            "the adapter's folder is not there, is not the one that was saved, or holds no adapter "
            "(a merged or a fully trained model, an adapter under another file's name)"
        )
    return (
        "the adapter's configuration has values that do not go together, names an adapter that is "
        "not there, or a model that has an adapter already was given another one"
    )


_STEPS = (
    Do(
        "model.set_adapter(…) with one of the names behind 'not found in': the first "
        "adapter is 'default', the others are called as load_adapter(…, adapter_name=…) "
        "called them",
        "none",
        when=(
            "not found in odict_keys",
            "not found in dict_keys",
        ),
        kind="first",
    ),
    Do(
        "python -m pip install -U peft: the adapter was saved by a newer one, whose "
        "configuration has {argument}; or take {argument} out of adapter_config.json",
        "none",
        when=("Config.__init__() got an unexpected keyword",),
        kind="first",
    ),
    Do(
        "python -m pip install -U peft: this one does not wrap that layer; still so: "
        "leave it out of target_modules (modules_to_save, trainable_token_indices)",
        "none",
        when=(
            "wraps an unknown layer",
            "is not supported. Currently, only",
        ),
        kind="first",
    ),
    Do(
        "model = model.merge_and_unload() before the trainer gets it, or no peft_config "
        "beside a model that has an adapter already",
        "a merged adapter cannot be taken out again",
        when=(
            "together with a `peft_config`",
            "first merge and unload",
        ),
        kind="first",
    ),
    Do(
        "model.add_adapter(config, adapter_name='second'), or "
        "model.delete_adapter('default') first: the model has one of this name",
        "none",
        when=(
            "already exists. Please use a different name",
            "already exists",
        ),
        kind="first",
    ),
    Do(
        "ls -la {path}: adapter_config.json and adapter_model.safetensors must be there, and "
        "{path} count from where the job starts; a folder of a whole model is given as the "
        "model, not as an adapter",
        "none",
        when=_ABSENT,
        kind="first",
    ),
    Do(
        "ls -la ADAPTER: adapter_config.json and adapter_model.safetensors must be there "
        "(adapter_model.bin before peft 0.7); a folder of a whole model is given as the model",
        "none",
        when=_ABSENT,
        kind="first",
    ),
    Do(
        "one peft_config, given once: to the trainer, or to get_peft_model, not to both",
        "none",
        kind="first",
    ),
    Do(
        "to go on with an adapter: load it with is_trainable=True, or merge it first "
        "(merge_and_unload)",
        "a merged adapter cannot be taken out again",
    ),
    Do(
        "no modules_to_save, DoRA or rank patterns first; then one of them after another",
        "fewer weights learn",
    ),
    Do("pip install -U peft, and the release that wrote the adapter's configuration", "none"),
)


_MADE = Do(
    "python -m pip install -U peft: the code gives {argument} to the adapter's configuration, "
    "which this older peft does not know",
    "none",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    refused = "Config.__init__() got an unexpected keyword" in facts.message
    if refused and facts.trace and "from_pretrained" not in facts.trace:
        return (_MADE,)
    dora = Do(
        "without DoRA: use_dora: false (--use_dora false, LoraConfig(use_dora=False))",
        "LoRA's own quality",
    )
    return (dora, *_STEPS) if "lora/dora.py" in facts.trace else _STEPS


FAILURE = Known(
    code="VG585",
    name="explain-adapter",
    title="PEFT refuses the adapter: its configuration, or how adapters are put together",
    zh="PEFT 适配器配置无效，或多个适配器不能这样组合",
    why=_why,
    do=_do,
    wrong="target_modules='all-linear' quietens some of these and reaches the frozen tower, too.",
    signs=(
        Sign("LoraConfig.__init__() got an unexpected keyword argument"),
        Sign("PeftConfig.__init__() got an unexpected keyword argument"),
        Sign("LoraConfig.init() got an unexpected keyword argument"),
        Sign("PeftConfig.init() got an unexpected keyword argument"),
        Sign("dapter", also=("FileNotFoundError",)),
        Sign("dapter_config.json", also=("OSError",)),
        Sign("Can't find 'adapter_config.json'"),
        Sign("pytorch_lora_weights", also=("No such file",)),
        Sign("non_lora_trainables", also=("No such file",)),
        Sign("does not contain a LoRA weight"),
        Sign("in merge_lora", where="raised", also=("No such file",)),
        Sign("in load_lora", where="raised", also=("No such file",)),
        Sign("-packages/peft/config.py", where="raised"),
        Sign("in load_adapter", where="raised"),
        Sign("You passed a `PeftModel` instance together with a `peft_config`"),
        Sign("Adapter with name", also=("already exists",)),
        Sign("adapter(s) could not be found"),
        Sign("No adapter loaded"),
        Sign("`peft_config` must be a"),
        Sign("peft_config` must be a `peft.PeftConfig`"),
        Sign("Cannot merge", also=("adapter",)),
        Sign("supports only 1 adapter with bias"),
        Sign("swift/llm/tuner.py", where="raised", releases="ms-swift 2"),
        Sign("swift/llm/train/tuner.py", where="raised"),
        Sign("vera_target_modules"),
        Sign("swift/pipelines/train/tuner.py in prepare_adapter", where="raised"),
        Sign("r` should be a positive integer"),
        Sign("PEFT type"),
        Sign("Applying a PEFT adapter to `lm_head` is not supported"),
        Sign("layers_to_transform"),
        Sign("modules_to_save", also=("Error",)),
        Sign("-packages/peft/", where="raised"),
        Sign("transformers/integrations/peft.py", where="raised"),
        Sign("swift/tuners/", where="raised"),
        Sign("model_utils/adapter", where="raised"),
        Sign("llamafactory/model/adapter.py", where="raised"),
        Sign("in get_peft_model()", where="within"),
        Sign("in inject_adapter()", where="within"),
        Sign("in add_adapter()", where="within"),
        Sign("in load_adapter()", where="within"),
        Sign("Adapter(s)", also=("not found",)),
        Sign("Adapter ", also=("does not exist",)),
        Sign("AdaLoRA does not work when"),
        Sign("don't allow for a budgeting phase"),
        Sign("NaNs detected in the merged weights"),
        Sign("Cannot combine adapters with different"),
        Sign("No adapter layers found"),
        Sign("Found no adapter matching"),
        Sign("does not support past key values which are required for prefix"),
        Sign("prompt learning"),
        Sign("Invalid task type:"),
        Sign("is missing required keys"),
        Sign("does not support DoRA"),
        Sign("does not support LOFTQ"),
        Sign("does not support DoRA yet"),
        Sign("use_dora=False"),
        Sign("init_lora_weights"),
        Sign("Something went wrong when trying to pad"),
        Sign("loftq_config"),
        Sign("All adapters must have the same r value"),
        Sign("Cannot pass `adapter_names` when the model is in training"),
        Sign("before .backward() with enabled gradient checkpointing"),
        Sign("is larger than the weight shape"),
        Sign("does not support mixed adapter"),
        Sign("lora.", also=("does not work with",)),
        Sign("does not support aLoRA"),
        Sign("without also targeting"),
        Sign("does not support merging"),
        Sign("does not appear to be a valid PeftModel"),
        Sign("all adapter configs should follow the same"),
        Sign("prompt_tuning_init"),
        Sign("Invalid `prompt_embeddings` shape"),
        Sign("Unsloth: Your model already has LoRA adapters", releases="unsloth"),
        Sign("unsloth/models/llama.py in get_peft_model", where="raised"),
        Sign("unsloth/models/vision.py in get_peft_model", where="raised"),
        Sign("in validate_loftq_config", where="raised", releases="unsloth"),
        Sign("adapter", where="else"),
        Sign("PEFT", where="else"),
        Sign("LoRA", where="else"),
        Sign("lora_", where="else"),
        Sign("TrainableTokensLayer"),
        Sign("marked to be trained fully"),
    ),
    examples=(
        Example(
            "ValueError: You passed a `PeftModel` instance together with a `peft_config` to the "
            "trainer. Please first merge and unload the existing adapter",
            "trl/trainer/grpo_trainer.py, 1.16",
        ),
        Example(
            "ValueError: Adapter with name default already exists. Please use a different name.",
            "transformers/integrations/peft.py, 5.19.0",
        ),
    ),
    evidence="PEFT's, transformers' and TRL's own checks.",
    narrow=0,
)
