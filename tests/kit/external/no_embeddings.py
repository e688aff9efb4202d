"""An ms-swift external plug-in: a vision tower that shows nobody its input embeddings.

As towers of checkpoints with code of their own do; transformers then cannot have gradients start
there.
"""

from __future__ import annotations

import swift.model.models.qwen as qwen
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel


def _none(self):
    raise NotImplementedError


Qwen2VisionTransformerPretrainedModel.get_input_embeddings = _none
qwen.patch_get_input_embeddings = lambda model, keys: None
