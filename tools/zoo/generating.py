"""Whether the blank input holds in ``generate``: the answer of a row of text stays the same, and it
runs what a row with a real input runs, in the same order. Ranks that gather need that order.
"""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_torch.blank import blank_input, neutral
from vlmguard_torch.observe.example_rows import Rows
from vlmguard_torch.observe.observed import Observed, reason

WORDS = {"max_new_tokens": 2, "min_new_tokens": 2, "do_sample": False, "pad_token_id": 0}
LEFT_OUT = ("labels", "decoder_input_ids", "decoder_attention_mask")


def told_of(model: Any, facts: Observed, kinds: tuple[str, ...], rows: Rows) -> str:
    """What goes wrong with the blanks of ``kinds`` together; "" if nothing does, and "not tried: …"
    if the class does not generate from such rows without them."""
    model.eval()
    try:
        text, _ = _answer(model, rows.taken["text"])
        real = {kind: _answer(model, rows.taken[kind])[1] for kind in kinds}
    except Exception as error:
        return f"not tried: {reason(error)}"
    handle = blank_input.install(model, kinds=kinds, **neutral.recipe(model, facts))
    try:
        done, ran = _answer(model, rows.taken["text"])
        beside = {kind: _answer(model, rows.taken[kind])[1] for kind in kinds}
        fault, padded = handle.fault, handle.padded
    except Exception as error:
        return reason(error)
    finally:
        handle.close()
    if fault or not padded:
        return fault or "no blank ran"
    if not torch.equal(done, text):
        return "the answer to a row of text is another"
    if len(kinds) == 1 and beside != real:
        return "a row with a real input runs other modules than without the hooks"
    return next((_apart(ran, one) for one in beside.values() if ran != one), "")


def _answer(model: Any, row: dict[str, Any]) -> tuple[torch.Tensor, list[str]]:
    """The tokens, and the modules with weights of their own in the order in which they ran."""
    ran: list[str] = []
    hooks = [
        module.register_forward_pre_hook(lambda *_, path=path: ran.append(path))
        for path, module in model.named_modules()
        if path and "experts." not in path and any(True for _ in module.parameters(recurse=False))
    ]
    try:
        with torch.no_grad():
            asked = {key: value for key, value in row.items() if key not in LEFT_OUT}
            told = model.generate(**asked, **WORDS)
    finally:
        for hook in hooks:
            hook.remove()
    told = getattr(told, "sequences", told)
    return told[0] if isinstance(told, tuple) else told, ran


def _apart(one: list[str], other: list[str]) -> str:
    pairs = [(here, there) for here, there in zip(one, other, strict=False) if here != there]
    if pairs:
        return f"a row of text runs {pairs[0][0]} where a real input runs {pairs[0][1]}"
    return f"a row of text runs {len(one)} modules, a real input {len(other)}"
