"""The blank input of a trainer's models: whether one can be made, put in, taken out.

Imported where a blank may be wanted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from vlmguard.core.facts import PARTITIONED
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.model import observation
from vlmguard_transformers.model_reading import BLANKS, Reading

if TYPE_CHECKING:
    from vlmguard_torch.transaction import Transaction


def obstacle(trainer: Any, kinds: tuple[str, ...] | None, needed: bool = True) -> str:
    """Why no blank input can run the trained model's towers, seen on a small copy of it; "" if one
    can, or if nothing could be tried (`untried`). In a compiled model it costs graph breaks, and is
    made only where it is ``needed`` for certain."""
    from vlmguard_torch.blank import neutral

    try:
        if not needed and hf.compiles(trainer):
            return "the model is compiled"
        facts = observation.with_blanks(trainer, kinds)
        return neutral.why_not(trainer.model, facts, kinds)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def install(read: Reading, transaction: Transaction) -> None:
    """Put it in every model of the run that the strategy partitions, in the trained one else."""
    from vlmguard_torch.blank import blank_input, neutral, rank_divergence

    state = read.state
    assert state is not None
    partitioned = read.strategy in PARTITIONED
    found = read.profile.models(read.trainer) if partitioned else [read.trainer.model]
    handles = state.kept.setdefault(BLANKS, [])
    wanted = state.kept.get("blank kinds")
    in_training = state.kept.get("blank in training", True)
    facts = observation.with_blanks(read.trainer, wanted)
    for model in found:
        handle = blank_input.install(
            model,
            when=("always" if in_training else "evaluation") if partitioned else "training",
            kinds=wanted,
            say=_say,
            failed=partial(rank_divergence.judge, state, len(handles)),
            traced=state.kept.get("blank needed", True),
            **neutral.recipe(model, facts),
        )
        handles.append(handle)
        transaction.did(lambda h=handle: (h.close(), handles.remove(h)))
        state.at_close(handle.close)
    if read.strategy == "zero3":
        _gather_experts_whole(found, state, transaction)
    if (why := neutral.untried(read.trainer.model, facts, wanted)) and report.rank() == 0:
        report.line(
            f"the blank input could not be tried on a small copy of the model ({why}): it is made "
            "as the class names its parts, and ranks would wait for a part that it left out"
        )
    transaction.did(lambda: None, "a forward without media gets a blank input", "blank")


def _gather_experts_whole(models: list[Any], state: RunState, transaction: Transaction) -> None:
    """With the blank, ZeRO-3 meets the same modules in every step, so it gathers ahead. Experts
    that are called as often as rows choose would end that on one rank alone: a hang."""
    from vlmguard_torch.layout import experts

    for module in (each for model in models for each in experts.looped(model)):
        undo = experts.make_leaf(module)
        transaction.did(undo, "fused experts are leaf modules of ZeRO-3", "blank")
        state.at_close(undo)


def _say(text: str) -> None:
    report.line(text.removeprefix("vlmguard: "))
