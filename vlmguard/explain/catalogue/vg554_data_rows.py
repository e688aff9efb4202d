"""The data set cannot be read or lacks a column."""

from __future__ import annotations

import re
import shlex

from vlmguard.explain import given
from vlmguard.explain.catalogue import empty_lists_steps
from vlmguard.explain.catalogue.data_rows_signs import SIGNS
from vlmguard.explain.catalogue.data_rows_steps import NOTHING, STEPS
from vlmguard.explain.failure import Do, Example, Known
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in NOTHING):
        return (
            "the code counts batches, rows or tokens, and there were none: the data set is empty "
            "here, or smaller than one batch of all ranks (micro-batch × ranks × accumulation)"
        )
    return (
        "a data file is missing, is no valid JSON, or its rows have other columns than the "
        "template expects"
    )


_KEY = re.compile(r"KeyError: '(\w{1,60})'")
_SOURCE = re.compile(r'File "(/[^"\n]{1,200}?)/swift/(?:llm|template|dataset)/')
_OWN = {"ms-swift": "ms-swift", "LLaMA-Factory": "llamafactory", "axolotl": "axolotl"}
_TENSORS = ("input_ids", "attention_mask", "position_ids", "labels")  # a batch's, never a row's
_RENAMED = ("columns", "key", "form")  # kinds of steps that ask for the rows' keys


def _of_framework(facts: Facts) -> bool:
    """Whether no line of the user's own code is among those that failed."""
    return facts.framework in _OWN and not given.place(facts.trace)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Where the log shows that the rows have the key, the code that asks for it is at fault."""
    if empty := empty_lists_steps.steps(facts):
        return empty
    key = _KEY.search(facts.message)
    columns = facts.said.get("columns", "").split(", ")
    if key is not None and "trl/trainer/" in facts.trace and facts.framework in _OWN:
        said = f"python -m pip install -U {_OWN[facts.framework]}: its trainer hands the rows to a "
        said += f"TRL of another time, which asks for {key[1]}; it is no column that you lack"
        return (Do(said, "other releases than those that are there"), *STEPS)
    if key is not None and key[1] in _TENSORS and _of_framework(facts):
        said = f"python -m pip install -U {_OWN[facts.framework]}: {key[1]} is made of the rows by "
        said += "it, and no column of them: its hooks or what is patched in (liger) lost it"
        left = tuple(do for do in STEPS if do.kind not in _RENAMED)
        return (Do(said, "other releases than those that are there"), *left)
    if key is None or key[1] not in columns or facts.framework != "ms-swift":
        return STEPS
    why = f"the log's rows have {key[1]} (features): it is the framework that loses it"
    folder = _SOURCE.search(facts.trace)
    newer = Do(f"python -m pip install -U ms-swift: {why}", "another release")
    if folder is not None and "-packages" not in folder[1]:
        checkout = shlex.quote(folder[1])
        newer = Do(f"git -C {checkout} pull && python -m pip install -e {checkout}: {why}")
    release = re.match(r"(\d{1,3}\.\d{1,3})\.\d{1,3}\.?dev", facts.releases.get("swift", ""))
    older = Do(
        f"python -m pip install 'ms-swift<{release[1] if release else 'THIS_RELEASE'}': the last "
        "one before this " + ("state of development" if release else "one"),
        "fewer features",
    )
    cached = Do("--load_from_cache_file false, with the same command", "the rows are read anew")
    left = tuple(do for do in STEPS if do.kind not in _RENAMED and do.when)
    return (newer, older, cached, *left)


FAILURE = Known(
    code="VG554",
    name="explain-data-rows",
    title="The data set cannot be read, is empty, or its rows are not as expected",
    zh="数据集无法读取、为空或字段不符",
    why=_why,
    do=_do,
    wrong="If it only fails on some ranks, a file is missing on those nodes.",
    signs=SIGNS,
    examples=(
        Example(
            "datasets.exceptions.DatasetGenerationError: An error occurred "
            "while generating the dataset",
            "datasets/builder.py, 4.8.4",
        ),
        Example(
            "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 27 (char 26)",
            "made by causing it (names and numbers changed), Python 3.11",
        ),
    ),
    evidence="datasets' and Python's own messages.",
)
