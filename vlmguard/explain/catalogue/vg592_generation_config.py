"""Saving is refused because the model's generation settings contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_EDIT = (
    "python -c 'import json, sys; p = sys.argv[1]; c = json.load(open(p)); "
    'c["do_sample"] = True; json.dump(c, open(p, "w"), indent=2)\''
)
_COMMANDS = {  # whose users have no script to write a line in → where the model is named
    "LLaMA-Factory": "model_name_or_path",
    "ms-swift": "--model",
    "axolotl": "base_model",
}
_STEPS = (
    Do(
        "python -c 'import sys; from transformers import GenerationConfig as G; g = "
        "G.from_pretrained(sys.argv[1]); g.do_sample = True; "
        "g.save_pretrained(sys.argv[1])' {modelfolder}: training does not read it",
        "none",
        kind="file",
    ),
    Do(
        f"{_EDIT} $(hf download {{modelrepo}} generation_config.json --quiet): its copy in the "
        "hub's cache, which training does not read",
        "none",
        kind="file",
    ),
    Do(
        f"{_EDIT} MODEL/generation_config.json: MODEL is the folder behind {{argument}}; training "
        "does not read it",
        "none",
        kind="file",
    ),
    Do(
        "model.generation_config.do_sample = True, before training, in a script of your own",
        "none",
        kind="script",
    ),
    Do(
        'in the base model\'s generation_config.json: "do_sample": true, or take temperature, '
        "top_p and top_k out",
        "none: training does not read them",
        kind="edit",
    ),
    Do("try it before the long run: --max_steps 2 --save_steps 1", "a minute"),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """The file first, where a framework's own command loads it; the script's line elsewhere."""
    argument = _COMMANDS.get(facts.framework, "")
    file = tuple(do for do in _STEPS if do.kind == "file")
    if not argument:
        return tuple(do for do in _STEPS if "{argument}" not in do.action)
    told = (replace(do, action=do.action.replace("{argument}", argument)) for do in file)
    return (*told, *(do for do in _STEPS if do.kind not in ("file", "script", "edit")))


FAILURE = Known(
    code="VG592",
    name="explain-generation-config",
    title="Saving refused: the model's generation settings contradict themselves",
    zh="保存失败：generation_config.json 中的生成参数相互矛盾",
    why=(
        "transformers checks the generation settings whenever a checkpoint is written: the model's "
        "generation_config.json sets temperature, top_p or another value of sampling while "
        "do_sample is off. Loading only warns of it, so the first save is what ends the run"
    ),
    do=_do,
    wrong=(
        "Where the settings were changed by the script after loading, the file is right and the "
        "script is what to mend. The weights of the step before are not lost if an earlier "
        "checkpoint was written."
    ),
    signs=(
        Sign("generation config instance is invalid", releases="transformers 4.38 to 4.55"),
        Sign("GenerationConfig is invalid", releases="transformers ≥ 4.56"),
        Sign("`do_sample` is set to `False`. However,", no=("UserWarning: ",)),
        Sign("only used in sample-based generation modes", also=("ValueError",)),
        Sign("You should set `do_sample=True`", also=("ValueError",)),
        Sign("generation/configuration_utils.py in save_pretrained", where="raised"),
        Sign("generation/configuration_utils.py in validate", where="raised"),
        Sign("generation_config", where="else"),
        Sign("GenerationConfig", where="else"),
    ),
    examples=(
        Example(
            "ValueError: The generation config instance is invalid -- `.validate()` throws "
            "warnings and/or exceptions. Fix these issues to save the configuration.",
            "transformers/generation/configuration_utils.py, 4.40",
        ),
        Example(
            "ValueError: GenerationConfig is invalid: \n- `temperature`: `do_sample` is not set to "
            "`True`. However, `temperature` is set to `1e-06`",
            "transformers/generation/configuration_utils.py, 4.57",
        ),
    ),
    evidence="haotian-liu/LLaVA#1144, haotian-liu/LLaVA#1635, HKUDS/UrbanGPT#21.",
    narrow=1,
)
