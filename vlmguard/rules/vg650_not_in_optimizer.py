"""Trainable tensors that no group of the optimizer holds.

What it does
    Compares the tensors that require a gradient with those that the optimizer's groups hold
    (under DeepSpeed its 16-bit groups), by tower.

Why it is bad
    They get gradients and never move. An optimizer that was made before the model was wrapped
    or changed holds the old tensors (pytorch/pytorch#149205); LLaVA-VL/LLaVA-NeXT#492: a
    tower's own learning rate is ignored under DeepSpeed.

When it is wrong
    If a second optimizer moves them. Each optimizer is watched for the tensors that it holds, and
    tensors that no optimizer holds are reported. Tensors that should not move should not require
    gradients.

Example
    AdamW(model.parameters()) before get_peft_model(model) or fully_shard(model)

Use instead
    Make the optimizer last, of the parameters of the model that trains: after adapters are put in,
    and after the model is wrapped or sharded. Tensors that are not meant to train can be frozen.

Evidence
    The threads above, as read. Own tests: tests/ledger.
"""
