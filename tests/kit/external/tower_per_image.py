"""An ms-swift external plug-in: the vision tower runs once per image, as MiniCPM-V's does."""

from __future__ import annotations

import torch

try:
    from swift.template.base import Template
except ImportError:  # 3.x
    from swift.llm.template.base import Template

_together = Template._get_inputs_embeds_hf


class OnePerImage:
    """A tower that takes the images of a batch apart and runs the real one on each."""

    def __init__(self, visual):
        self.visual, self.dtype = visual, visual.dtype

    def __call__(self, pixel_values, grid_thw):
        sizes = [int(grid.prod()) for grid in grid_thw]
        outputs = [
            self.visual(pixels, grid_thw=grid[None])
            for pixels, grid in zip(pixel_values.split(sizes), grid_thw, strict=True)
        ]
        return torch.cat([getattr(output, "pooler_output", output) for output in outputs])


def _apart(inputs_embeds, inputs, visual, processor, config):
    return _together(inputs_embeds, inputs, OnePerImage(visual), processor, config)


Template._get_inputs_embeds_hf = staticmethod(_apart)
