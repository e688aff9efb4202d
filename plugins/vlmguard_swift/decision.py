"""ms-swift's own decision about the checkpoint variant: read it, undo it, have it made again.

``_fix_gradient_checkpointing`` replaces ``torch.utils.checkpoint.checkpoint`` by a function that
ignores every call's own ``use_reentrant``, once a process: in ``TrainingArguments.__post_init__``
(3.0 – 3.5, before a model exists) or ``SwiftMixin.__init__`` (from 3.6).
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

import torch.utils.checkpoint as checkpointing

from vlmguard_torch.transaction import Transaction

_FREE = "use_reentrant_"


def _cell(function: Any) -> CellType | None:
    if not isinstance(function, FunctionType) or _FREE not in function.__code__.co_freevars:
        return None
    return (function.__closure__ or ())[function.__code__.co_freevars.index(_FREE)]


def effective() -> bool | None:
    """The variant that every checkpoint call of this process will run; None if undecided."""
    if not hasattr(checkpointing, "_old_checkpoint"):
        return None
    cell = _cell(checkpointing.checkpoint)
    return None if cell is None else bool(cell.cell_contents)


def remake(trainer: Any, use_reentrant: bool, transaction: Transaction) -> None:
    """Undo the decision, tell ms-swift what to decide, and let it decide again."""
    import transformers.modeling_utils as modeling

    before = effective()
    args = trainer.args
    asked = dict(args.gradient_checkpointing_kwargs or {})
    transaction.set(
        args, "gradient_checkpointing_kwargs", {**asked, "use_reentrant": use_reentrant}
    )
    stale = checkpointing.checkpoint
    original = getattr(checkpointing, "_old_checkpoint", None)
    alias = getattr(modeling, "checkpoint", None)

    def restore() -> None:
        checkpointing.checkpoint = stale
        if original is not None:
            checkpointing._old_checkpoint = original
        elif hasattr(checkpointing, "_old_checkpoint"):
            del checkpointing._old_checkpoint
        if alias is not None:
            modeling.checkpoint = alias

    transaction.did(restore, f"use_reentrant: {before} → {use_reentrant}")
    if original is not None:
        checkpointing.checkpoint = original
        del checkpointing._old_checkpoint
    if hasattr(trainer, "_fix_gradient_checkpointing"):
        trainer._fix_gradient_checkpointing()
    else:
        args._fix_gradient_checkpointing()
    cell = _cell(stale)
    if cell is not None:  # modules that hold the old function follow too
        held = cell.cell_contents
        cell.cell_contents = use_reentrant
        transaction.did(lambda: setattr(cell, "cell_contents", held))
