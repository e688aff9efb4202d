"""A DeepSpeed config without ``gradient_clipping``, on a release that then clips.

What it does
    Fires under ZeRO where the config has no such key and DeepSpeed's own default, by the
    table of defaults, is a norm.

Why it is bad
    Gradients are clipped although nothing asks for it, even with --max_grad_norm 0: the
    Trainer fills a value of "auto", never a key that is not there. The releases before did
    not clip, so the same files train otherwise.

When it is wrong
    If you want that norm. Write the key, and the warning goes away.

Example
    deepspeed 0.19.3, a config of before, --max_grad_norm 0

Use instead
    "gradient_clipping": "auto" in the config (takes --max_grad_norm); 0.0 clips nothing.

Evidence
    deepspeed's runtime/constants.py in every release from 0.14.5; deepspeedai/DeepSpeed#8068.
"""

from __future__ import annotations

from vlmguard.compat import defaults
from vlmguard.core.facts import ZERO, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG403"
NAME = "missing-clipping"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.strategy not in ZERO or run.clipping != "missing":
        return None
    default = defaults.value(run.releases, "deepspeed", "gradient_clipping")
    if default is None or float(default.value) == 0.0:
        return None
    return Finding(
        CODE,
        "warning",
        f"DeepSpeed since {default.since} clips at {default.value} where its config has no "
        "gradient_clipping",
        advice='write "gradient_clipping": "auto" (takes --max_grad_norm) or 0.0 (clips nothing)',
        evidence=f"deepspeed {default.since}, runtime/constants.py; before: {default.before}",
    )
