"""The tiny models: each module has ``build(seed) -> nn.Module`` and ``batch(…) -> Batch``.

A model takes a `Batch` and gives the loss. Sizes are such that a step takes milliseconds and every
tensor still gets an update far above rounding.
"""
