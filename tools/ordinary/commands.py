"""Commands of frameworks in a rank: TRL's scripts, ms-swift's and LLaMA-Factory's commands,
FlagEmbedding's modules. Their words are made by `words`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import transformers

from tests.kit import launched
from tools.ordinary import account, heard
from tools.ordinary.draws import Draw


class Keeper(transformers.TrainerCallback):  # type: ignore[misc]
    """One of the callbacks that every Trainer has: it takes the account when a training ends."""

    models: ClassVar[list[Any]] = []
    optimizers: ClassVar[list[Any]] = []
    found: ClassVar[list[dict[str, Any]]] = []
    evaluated: ClassVar[list[int]] = []

    def on_prediction_step(self, *_: Any, **more: Any) -> None:
        Keeper.evaluated.append(1)

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None,
                     optimizer: Any = None, **_: Any) -> None:  # fmt: skip
        Keeper.models.append(model)
        Keeper.optimizers.append(optimizer)
        Keeper.found.append(account.of_run({"model": model}, [optimizer], state.log_history, {}))


def work(draw: Draw, folder: str, told: dict[str, Any]) -> dict[str, Any]:
    """Run the command as its launcher does; what its training came to."""
    from transformers import trainer

    trainer.DEFAULT_CALLBACKS.append(Keeper)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, text in told["files"].items():
        (place / name).write_text(text, encoding="utf-8")
    os.environ.update(told["environment"])
    os.chdir(place)
    launched.program(*told["words"])
    if not Keeper.found:
        raise RuntimeError("the command trained nothing")
    # Count hooks and attributes again after the run.
    after = account.standing({"model": Keeper.models[-1]}, [Keeper.optimizers[-1]])
    found = {**Keeper.found[-1], **after, "heard": heard.told(), "evaluated": len(Keeper.evaluated)}
    weak = account.weakly(*Keeper.models)
    Keeper.models.clear()
    Keeper.optimizers.clear()
    return found | account.left(weak)
