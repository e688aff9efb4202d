"""What is changed of a repository or its packages so that it runs on a CPU and can be compared. A
recipe names those that it needs; `repository_changes` makes them."""

from __future__ import annotations

CHANGES: dict[str, tuple[str, str]] = {
    "order": ("transformers.trainer", "rows come in the order of the file"),
    "sdpa": ("transformers.modeling_utils", "sdpa attention in the place of flash attention"),
    "alone": ("torch.distributed", "a process without a group is rank 0 of 1"),
    "synchronize": ("torch.cuda", "no CUDA device is waited for or chosen"),
    "gloo": ("torch.distributed.distributed_c10d", "gloo in the place of nccl"),
    "sgd": ("torch.optim", "SGD in the place of AdamW: an update is a gradient times a rate"),
    "deepspeed": ("accelerate.state", "DeepSpeed on a CPU, where this accelerate has DDP alone"),
    "groups": (
        "torch.optim",
        "an optimizer's group without parameters is left out: DeepSpeed drops it, and torch's "
        "schedule counts groups strictly since 2.10",
    ),
    "seed": ("torch", "new weights of a model are drawn from one seed"),
    "loop": ("torch.nn.parallel.distributed", "weights are kept where a loop wraps its model"),
    "pictures": ("torchvision.io", "Pillow opens pictures: torchvision's binary does not load"),
}
"""Name → the module after whose import it is made, and what it does."""
