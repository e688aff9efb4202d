"""What is not upset, and why."""

from __future__ import annotations

OUTSIDE = (
    "vlmguard._bootstrap",  # called by Python's import, tried in tests/core/test_bootstrap.py
    "vlmguard.runtime.stub",  # it only passes calls on to the framework
    "vlmguard.runtime.stub:is_off",
    "vlmguard_transformers.lifecycle:_guarded",  # contains a training and an evaluation
    "vlmguard.runtime.faults",  # containment itself
    "vlmguard_torch.module_calls:Hook",  # contains a hook on a module
    "vlmguard_torch.module_calls:sure",
    "vlmguard_torch.blank.hooks:Blank._broke",
    "vlmguard.runtime.stderr",
    "vlmguard.core.errors",
    "vlmguard.guard:state_of",  # contains faults, too
    "vlmguard_torch.module_calls:ForwardHook.__call__",
    "vlmguard_torch.module_calls:Behind.__call__",
    "vlmguard_torch.module_calls:Witness.__call__",
    "vlmguard_accelerate.plain_loop:_stepped",  # contains a hook on an optimizer
    "vlmguard_torch.stepping:AtStep._before",
    "vlmguard_torch.stepping:AtStep._after",
    "vlmguard_torch.ledger.watcher:Watcher.before",
    "vlmguard_torch.ledger.watcher:Watcher.after",
    "vlmguard.ranks",  # the campaign itself uses it
)
