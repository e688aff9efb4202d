"""An ms-swift external plug-in: a vision tower that runs without gradients, whoever trains it.

Says when an optimizer has stepped.
"""

from __future__ import annotations

import torch
from swift.template.base import Template

_whole = Template._get_inputs_embeds_hf


def _without(inputs_embeds, inputs, visual, processor, config):
    def tower(*args, **kwargs):
        with torch.no_grad():
            return visual(*args, **kwargs)

    tower.dtype = visual.dtype
    return _whole(inputs_embeds, inputs, tower, processor, config)


Template._get_inputs_embeds_hf = staticmethod(_without)
_step = torch.optim.SGD.step


def step(self, *args, **kwargs):
    print("SGD STEPPED", flush=True)
    return _step(self, *args, **kwargs)


torch.optim.SGD.step = step
