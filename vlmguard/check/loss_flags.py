"""What flags and sources tell of a loss that becomes another than was meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from vlmguard.check.drafted_run import Draft
from vlmguard.check.reading import python_files, scripts
from vlmguard.check.reading.fields import Values
from vlmguard.core.findings import Finding

_COEFFICIENT = "router_aux_loss_coef"
_RECORDS = re.compile(r"_can_record_outputs\s*=\s*\{[^}]*router_logits")


def own(module: str, draft: Draft) -> None:
    """A script's own ``compute_loss``, where the Trainer leaves a division to it."""
    owner = scripts.own_loss(module) if draft.accumulation > 1 else ""
    if owner:
        draft.findings.append(Finding(
            "VG622", "warning",
            f"gradients become {draft.accumulation} times too large if the model's forward takes "
            f"**kwargs: {owner}.compute_loss ignores num_items_in_batch, and the Trainer does not "
            f"divide by the {draft.accumulation} micro-batches",
            advice=("pass num_items_in_batch to the model, or divide the sum by it",),
            evidence="own runs: the weights of all trained tokens sum to 4 instead of 1",
        ))  # fmt: skip


def smoothed(values: Values) -> bool:
    """Whether labels are smoothed."""
    factor = values.get("label_smoothing_factor")
    return isinstance(factor, (int, float)) and factor > 0


def unshifted(values: Values, config: Mapping[str, Any], draft: Draft) -> None:
    """Smoothed labels, which the Trainer shifts only for the classes of one list of its own."""
    names = config.get("architectures") or []
    listed = _listed() if smoothed(values) and names else frozenset()
    if listed and names[0] not in listed:
        draft.findings.append(Finding(
            "VG620", "warning",
            f"the model will learn to repeat each token: with label_smoothing_factor the Trainer "
            f"does not shift the labels of {names[0]}",
            advice=("set label_smoothing_factor to 0, or shift the labels in a loss of your own",),
            evidence="own runs: Qwen2.5-VL, transformers 5.23",
        ))  # fmt: skip


def _listed() -> frozenset[str]:
    """The classes of MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, read from the installed release."""
    tree = python_files.parsed("transformers.models.auto.modeling_auto")
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES" in map(
            ast.unparse, node.targets
        ):
            texts = (one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant))
            return frozenset(text for text in texts if isinstance(text, str))
    return frozenset()


def of_routers(values: Values, config: Mapping[str, Any]) -> bool:
    """Whether the loss has a part that balances experts, of logits that transformers records while
    blocks run; as `Run.router_loss` has it."""
    text = config.get("text_config")
    tables = [config, *([text] if isinstance(text, dict) else [])]
    asked = any(one.get(_COEFFICIENT) and one.get("output_router_logits") for one in tables)
    if not asked and not values.get(_COEFFICIENT):
        return False
    return any(_records(str(one.get("model_type", ""))) for one in tables)


def _records(kind: str) -> bool:
    kind = kind.removesuffix("_text").replace("-", "_")
    module = f"transformers.models.{kind}.modeling_{kind}"
    file = python_files.module_file(module) if kind else None
    return file is not None and bool(_RECORDS.search(file.read_text("utf-8", "replace")))
