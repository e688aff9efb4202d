"""Calls that two releases do not agree on: which one has to move, and to where."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

TABLE = (
    Settled(
        said=("Optimizer", "object has no attribute 'train'"),
        trace=("accelerate/optimizer.py",),
        steps=(
            "python -m pip install -U 'accelerate>=0.34' 'transformers>=4.46.2': their call of "
            "optimizer.train() asks first whether there is one",
        ),
        mended="accelerate 0.34",
    ),
    Settled(
        said=("unexpected keyword argument 'keep_torch_compile'",),
        steps=(
            "python -m pip install -U 'accelerate>=1.3': the Trainer hands over what its "
            "unwrap_model knows since then",
        ),
        mended="accelerate 1.3",
    ),
    Settled(
        said=("forward() got an unexpected keyword argument 'num_items_in_batch'",),
        steps=(
            "python -m pip install -U 'transformers>=4.49': 4.46 to 4.48 handed it to models that "
            "do not take it",
            "trainer.model_accepts_loss_kwargs = False: in front of trainer.train(), where this "
            "transformers has to stay",
        ),
        mended="transformers 4.49",
    ),
    Settled(
        said=("forward() got an unexpected keyword argument 'num_items_in_batch'",),
        steps=(
            "trainer.model_accepts_loss_kwargs = False: in front of trainer.train(): the Trainer "
            "takes a forward with **kwargs for one that knows num_items_in_batch, and a wrapper "
            "hands it on to one that does not",
        ),
    ),
)
