"""This transformers does not know the model."""

from __future__ import annotations

import re

from vlmguard.explain import given, looks, named, pins
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# Configurations of models that see, by what their classes are called.
_SEES = re.compile(
    r"VL|Llava|Idefics|Mllama|PaliGemma|Gemma3Config|Florence|Omni|Pixtral|Mistral3|Glm4v|Ovis|Aria"
)
_HEADLESS = re.compile(
    r"configuration class <class '([\w.]{1,160})'> for this kind of AutoModel: (\w{1,60})"
)
_IMAGES = "AutoModelForImageTextToText"


def _why(facts: Facts) -> str:
    if match := _HEADLESS.search(facts.message):
        config = match[1].rpartition(".")[2]
        return f"{match[2]} has no model for a {config}: that model is made by another Auto class"
    if match := _TAKEN.search(facts.message):
        return (
            f"the code registers a model of its own as {match[1]}, and transformers has one of "
            "that name by now: it is newer than the code"
        )
    if "rocessor was not found" in facts.message and "edges" in facts.said:
        return (
            "the program goes on without the processor, which this release of transformers refused "
            "some lines above: the size in its preprocessor_config.json has other keys"
        )
    if "rocessor was not found" in facts.message:
        return "the folder lacks the files of the model's processor or tokenizer"
    return (
        "the checkpoint's model_type or class is newer than the installed transformers, or its own "
        "code (trust_remote_code) does not fit it"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if match := _TAKEN.search(facts.message):
        return _taken(match[1], facts)
    if "rocessor was not found" in facts.message and "edges" in facts.said:
        return looks.EDGES
    if "rocessor was not found" in facts.message and (converted := _converted(facts)):
        return (Do(converted, "another checkpoint of the same model"), *_STEPS)
    if (match := _HEADLESS.search(facts.message)) is None:
        return _STEPS
    config, asked = match[1].rpartition(".")[2], match[2]
    sees = _SEES.search(config) is not None and "VisionConfig" not in config
    right = _IMAGES if sees and asked != _IMAGES else "AutoModel"
    newer = " (transformers 4.46 and later)" if right == _IMAGES else ""
    own, place = given.own_line(facts.trace), named.quoted(given.place(facts.trace))
    if "trl/trainer/" in facts.trace and "from_pretrained" not in own:
        return (*_handed(right, asked, own, place, facts), *_STEPS)
    step = f"{right}.from_pretrained(…) in place of {asked}{newer}: a {config} has no such head"
    return (Do(step, "none"), *_STEPS)


# InternVL's own form has no processor; LLaMA-Factory (from 0.9.3 on) lists the converted ones.
_INTERN = re.compile(r"(?i)(internvl(\d)(?:_(5))?(?:-\d{1,3}B(?:-A3B)?)?)(?!.{0,40}-hf)")


def _converted(facts: Facts) -> str:
    """The checkpoint in transformers' own form, for LLaMA-Factory."""
    match = _INTERN.search(facts.model)
    if match is None or facts.framework != "LLaMA-Factory":
        return ""
    name, kind = match[1], match[2] + (match[3] or "")
    ends = {"3": "-hf", "35": "-HF", "25": "-MPO-hf"}.get(kind, "")
    known = ends and "B" in name and (kind != "25" or name.endswith(("-2B", "-8B")))
    repo = f"OpenGVLab/{name}{ends}" if known else "OpenGVLab/InternVL3-8B-hf"
    return (
        f"model_name_or_path: {repo}: {name} as it is here has no processor that transformers "
        "knows; that needs python -m pip install -U llamafactory 'transformers>=4.52'"
    )


_TAKEN = re.compile(r"'([\w-]{2,40})' is already used by a Transformers config")


def _taken(name: str, facts: Facts) -> tuple[Do, ...]:
    """Code of a time before transformers had the model: a newer release is what broke it."""
    place = named.quoted(given.place(facts.trace))
    where = f"in {place}" if place else "where the code registers it"
    pinned = pins.llava(facts)
    older = f"python -m pip install {pinned}: this code's own pins: later ones have a {name} too"
    kept = (
        f'AutoConfig.register("{name}", …, exist_ok=True): {where}: transformers has a {name} of '
        "its own by now; or the release of transformers that this code's requirements name"
    )
    return (*((Do(older, "none"),) if pinned else ()), Do(kept, "none"))


_TRAINER = re.compile(r"\b([A-Z]\w{1,20}Trainer)\(")


def _handed(right: str, asked: str, own: str, place: str, facts: Facts) -> tuple[Do, ...]:
    """TRL loads what it is given by name with a class of its own: hand over a model instead."""
    newer = "python -m pip install -U trl: its newer releases (1.x) take the class from the "
    upgrade = Do(f"{newer}model's config, and not always {asked}", "other names of arguments")
    if not place:
        return (upgrade,)
    name = (
        facts.model if re.fullmatch(r"(?:\.{0,2}/|\w)[\w.+~-]*/[\w./+~-]+", facts.model) else "NAME"
    )
    match = _TRAINER.search(own)
    trainer = match[1] if match is not None else "SFTTrainer"
    step = (
        f'model = {right}.from_pretrained("{name}", torch_dtype="auto"): in front of {place}, and '
        f"there {trainer}(model=model, processing_class=AutoProcessor.from_pretrained(…), "
        f"data_collator=…) in place of the name: TRL itself calls {asked} for a name; both classes "
        "from transformers"
    )
    return (Do(step, "none"), upgrade)


_STEPS = (
    Do(
        "python -m pip install {pin}: {name} came with it",
        "other defaults: see vlmguard compat",
        kind="newer",
    ),
    Do(
        looks.SPELT_ALIKE,
        "none",
        when=("from 'transformers'",),
        kind="newer",
    ),
    Do(
        "hf download {repo} --include '*.py' --force-download: the model's own code is "
        "missing beside its weights",
        "none",
        when=(".py.",),
    ),
    Do(
        "python -c 'import torchvision, transformers; print(torchvision.__version__, "
        "transformers.__version__)': fast image processors need torchvision (python -m "
        "pip install torchvision); it is there: python -m pip install -U transformers",
        "none",
        when=("ProcessorFast",),
        kind="newer",
    ),
    Do(
        "hf download BASE_MODEL --include '*.py' --local-dir {path}: the model's own code was not "
        "saved with the weights (a base model on this disk: copy its *.py into {path})",
        "none",
        when=(".py. Checkout", ".py'. Checkout"),
        kind="newer",
    ),
    Do(
        "ls {path}: adapter_config.json is there: an adapter: "
        "PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(BASE), {path}), "
        "BASE by grep base_model {path}/adapter_config.json; else it is no whole model: "
        "copy config.json from the base model's folder",
        "none",
        when=(
            "have a file named config.json",
            "no file named config.json",
        ),
        kind="folder",
    ),
    Do(
        "ls -l {path}; grep -n model_type {path}/config.json: the folder must be the "
        "model's own, with a config.json",
        "none",
        when=("Should have a `model_type`", "config.json"),
        kind="folder",
    ),
    Do(
        "template: {texttemplate}: this size of the model is of text alone, and the template that "
        "was given asks for images",
        "none",
        when=("Processor was not found",),
    ),
    Do(
        "python -m pip install -U {modelpin}: this model's classes came with it (a framework "
        "that refuses it: its own newest release)",
        "other defaults: see vlmguard compat",
        when=("Processor was not found",),
    ),
    *(
        Do(
            "python -c 'import sys; from transformers import AutoProcessor; "
            f"AutoProcessor.from_pretrained(sys.argv[1])' {model}: it says what the program keeps "
            "to itself: a file that is missing (take it from the base model), a package, a release",
            "a minute",
            when=("Processor was not found",),
            kind="processor",
        )
        for model in ("{modelfolder}", "{modelrepo}", "MODEL")
    ),
    Do(
        "ls MODEL/preprocessor_config.json MODEL/tokenizer_config.json: missing: copy them, and "
        "the tokenizer's other files, from the base model's folder",
        "none",
        when=("Processor was not found",),
    ),
    Do("own_code", "runs the model's own code", when=("trust_remote_code",)),
    Do(
        "python -m pip install -U ms-swift: {modeltype} must be in its list of models; a local "
        "copy under another name: --model_type NAME (and --template NAME) by hand",
        "none",
        when=("is not registered", "model_type"),
        unless=("Should have", "Transformers does not recognize"),
    ),
    Do(
        "python -m pip install {typepin}: {modeltype} came with it",
        "other defaults: see vlmguard compat",
        unless=("auto_map",),
        kind="newer",
    ),
    Do(
        "python -m pip install -U transformers: {modeltype} is newer than the one that is here "
        "(or the release that the model's page names)",
        "other defaults: see vlmguard compat",
        unless=("auto_map",),
        kind="newer",
    ),
    Do(
        "python -m pip install -U transformers, to the release that the model's page names",
        "other defaults: see vlmguard compat",
        kind="newer",
    ),
    Do("own_code", "runs the model's own code", unless=("trust_remote_code",)),
)

FAILURE = Known(
    code="VG556",
    name="explain-model-type",
    title="transformers has no class for the model, or lacks its files, as it is asked here",
    zh="当前 transformers 版本不认识该模型",
    why=_why,
    do=_do,
    wrong="A folder without config.json, or with another model's, says the same.",
    signs=(
        Sign("rocessor was not found, please check and update"),
        Sign("feature extractor was not found, please check and update"),
        # A tokenizer without the tokens that the processor of another release keeps there.
        Sign("has no attribute video_token"),
        Sign("has no attribute image_token"),
        Sign("has no attribute audio_token"),
        Sign("has no attribute start_image_token"),
        Sign("has no attribute context_image_token"),
        Sign("has no attribute boi_token"),
        Sign("Unrecognized model identifier:"),
        Sign("in `transformers`. If this is a custom class"),
        Sign("configuration_auto.py", where="trace", also=("KeyError: '",)),
        Sign("KeyError: 'qwen"),
        Sign("KeyError: 'llava"),
        Sign("KeyError: 'internvl"),
        Sign("KeyError: 'gemma"),
        Sign("KeyError: 'minicpm"),
        Sign("ForConditionalGeneration' from 'transformers'"),
        Sign("does not recognize this architecture"),
        Sign("has already been registered in the MODEL", releases="ms-swift 4"),
        Sign("Unrecognized model in"),
        Sign("Unrecognized configuration class"),
        Sign("contains custom code which must be executed to correctly load"),
        Sign("Please pass the argument `trust_remote_code=True`"),
        Sign("KeyError: '", also=("CONFIG_MAPPING",)),
        Sign("_extra_content", where="trace", also=("KeyError",)),
        Sign("Tokenizer class"),
        Sign("Unrecognized processing class"),
        Sign("Unrecognized image processor"),
        Sign("Can't instantiate a processor"),
        Sign("does not appear to have a file named", also=(".py",)),
        Sign("is not a valid JSON file", no=("It looks like the config file at",)),
        Sign("model_type` key in its config.json"),
        Sign("Please explicitly pass the model_type"),
        Sign("There are multiple model_type"),
        Sign("Couldn't instantiate the backend tokenizer"),
        Sign("untagged enum"),
        Sign("requires you to execute custom code"),
        Sign("Please specify the model_type"),
        Sign("model_type: '", also=("not in",)),
        Sign("Could not load any video processor"),
        Sign(
            "Unable to load tokenizer model",
        ),
        Sign("has no attribute", also=("MODEL_MAPPING",), no=("PEFT_MODEL_MAPPING",)),
        Sign(
            "is not supported for this kind of AutoModel",
        ),
        Sign("specify the `model_type`"),
        Sign("auto_factory.py", where="raised"),
        Sign("configuration_auto.py", where="raised"),
        Sign("tokenization_auto.py", where="raised"),
        Sign("processing_auto.py", where="raised"),
        Sign("dynamic_module_utils.py", where="raised"),
        Sign("Processor was not found"),
        Sign("transformers/modeling_utils.py in from_pretrained", where="raised"),
        Sign("transformers/configuration_utils.py", where="raised"),
        Sign("tokenization_utils_base.py in from_pretrained", where="raised"),
        Sign("tokenization_utils_base.py in _from_pretrained", where="raised"),
        Sign("processing_utils.py in from_pretrained", where="raised"),
        Sign("in get_processor_dict", where="raised"),
        Sign("model_type: '", also=("is not registered",), releases="ms-swift 2, 3"),
        Sign("KeyError: 'auto_map'"),
        Sign("KeyError: 'modernbert"),
        Sign("KeyError: 'mistral"),
        Sign("KeyError: 'deepseek"),
        Sign("KeyError: 'glm"),
        Sign("KeyError: 'paligemma"),
        Sign("KeyError: 'mllama"),
        Sign("KeyError: 'ernie"),
        Sign("KeyError: 'kimi"),
        Sign("KeyError: 'gpt_oss"),
        Sign("KeyError: 'granite"),
        Sign("KeyError: 'smolvlm"),
        Sign("KeyError: 'ovis"),
        Sign("Failed to automatically match `model_type`", releases="ms-swift"),
        Sign("no suitable `model_type` was found", releases="ms-swift 4"),
        Sign("/model/patcher.py", where="raised", releases="LLaMA-Factory"),
        Sign("unsloth/models/loader.py", where="raised"),
        Sign("only works on transformers", releases="unsloth"),
        Sign("Please download llava models with hf-compatible format", releases="LLaMA-Factory"),
        Sign("in a Hugging Face–compatible format", releases="LLaMA-Factory"),
        Sign("model_type", where="else"),
        Sign("model type", where="else"),
        Sign("trust_remote_code", where="else"),
        Sign("'NoneType' object has no attribute 'image_processor'"),
    ),
    examples=(
        Example(
            "ValueError: The checkpoint you are trying to load has model "
            "type `qwen9_vl` but Transformers does not recognize this "
            "architecture.",
            "made by causing it (names and numbers changed), transformers 5.19.0",
        ),
        Example(
            "ValueError: Unrecognized model in /models/x. Should have a "
            "`model_type` key in its config.json",
            "made by causing it (names and numbers changed), transformers 5.19.0",
        ),
    ),
    evidence="transformers/models/auto/configuration_auto.py, 5.19.0.",
    narrow=2,
)
