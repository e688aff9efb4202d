"""An argument is unknown or has a wrong value."""

from __future__ import annotations

from vlmguard.explain.catalogue import arguments_signs, arguments_steps
from vlmguard.explain.failure import Example, Known
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if "'Namespace' object has no attribute" in facts.message:
        return (
            "the code reads an argument that the parser of this script does not define: script and "
            "module are of different releases, or the module was written for another script"
        )
    if "more than 1 value per channel" in facts.message:
        return "BatchNorm trains on at least two rows, and the batch (the last one?) has one"
    if any(f"'{kind}' object" in facts.message for kind in arguments_steps.SETTINGS):
        return "the code reads a setting that the configuration's file does not have"
    if "NoneType" in facts.message:
        return "a path or an argument that the code needs was not given: it is None"
    if "by zero" in facts.message:
        return "the number of accumulation steps is 0, and something is divided by it"
    return (
        "the program refused its arguments before it did anything: a flag of another release, a "
        "misspelling, or a value that does not fit"
    )


FAILURE = Known(
    code="VG553",
    name="explain-arguments",
    title="An argument or setting is unknown to this release, or its value does not fit",
    zh="参数或配置项未知，或取值不合要求",
    why=_why,
    do=arguments_steps.steps,
    wrong="Ignoring unknown arguments lets the run go on without what you asked for.",
    signs=arguments_signs.SIGNS,
    examples=(
        Example(
            "ValueError: Some specified arguments are not used by the "
            "HfArgumentParser: ['--evaluation_strategy', 'no']",
            "made by causing it, transformers 5.19.0",
        ),
        Example(
            "train.py: error: unrecognized arguments: --train_type lora",
            "made by causing it, Python 3.11",
        ),
    ),
    evidence="transformers' and Python's own messages.",
)
