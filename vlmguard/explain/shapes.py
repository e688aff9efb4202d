"""What shapes that do not fit say: an adapter's rank, or the width of the model that it is of."""

from __future__ import annotations

import re

_ADAPTER = re.compile(
    r"lora_([AB])[\w.]{0,40}: copying a param with shape torch\.Size\(\[(\d{1,7}), (\d{1,7})\]\) "
    r"from checkpoint, the shape in current model is torch\.Size\(\[(\d{1,7}), (\d{1,7})\]\)"
)


def of_adapter(said: str, model: str) -> dict[str, str]:
    """lora_A is rank by width in, lora_B width out by rank: which of the two differs.

    ``model`` is what the run calls its base model.
    """
    match = _ADAPTER.search(said)
    if match is None:
        return {}
    one, other = (int(match[2]), int(match[3])), (int(match[4]), int(match[5]))
    if match[1] == "B":
        one, other = one[::-1], other[::-1]
    if one[0] != other[0]:
        return {"savedrank": str(one[0]), "rank": str(other[0])}
    found = {"savedwidth": str(one[1]), "width": str(other[1])}
    return {**found, "base": model} if model else found
