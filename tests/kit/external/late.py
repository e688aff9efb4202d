"""An ms-swift external plug-in: a callback that unfreezes a layer at step 3, and a reward that
fails at one of the later rows."""

from __future__ import annotations

from swift.callbacks import TrainerCallback, callbacks_map
from swift.rewards import ORM, orms


class Unfreeze(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            for name, parameter in self.trainer.model.named_parameters():
                if name.endswith("language_model.norm.weight"):
                    parameter.requires_grad_(True)


class Fails(ORM):
    """At the row whose solution is "color 13": the fourteenth."""

    def __call__(self, completions, **kwargs):
        if "color 13" in str(kwargs):
            raise KeyError("solution of row 14")
        return [float(number % 2) for number in range(len(completions))]


callbacks_map["unfreeze"] = Unfreeze
orms["fails"] = Fails
