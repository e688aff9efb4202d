"""Trainable tensors to which no gradient comes in a whole step.

What it does
    Counts, from one step of the optimizer to the next, which trainable tensors got a gradient,
    by tower and by kind of row. It speaks of a whole tower that got none, of tensors that got
    one in an earlier step of the same kind of rows, and of modules that only ran with gradients
    switched off. Tensors that a model never uses (LLaVA's layers behind the feature layer) are
    one note.

Why it is bad
    They never train. The loss falls all the same, since the rest trains, and it is found in the
    evaluation. Llama4 under ZeRO-3 with ms-swift's default flags: 37 of 41 vision tensors got
    no gradient, 42 of 66 updates were wrong, exit 0.

When it is wrong
    A part may be frozen in stages or drawn at random (LISA, layer drop), or a row may not use it.
    A part that is not meant to train should not require gradients.

Example
    a vision tower whose forward is decorated with torch.no_grad

Use instead
    A forward without torch.no_grad, detach or .data around the tower; non-reentrant
    checkpointing, or enable_input_require_grads() with the reentrant one. If it is not meant to
    train, freeze it.

Evidence
    haotian-liu/LLaVA#1537, QwenLM/Qwen-VL#124, huggingface/trl#1936 as read. Own measurement: 2
    gloo ranks on CPU, ms-swift 4.6.0. tests/ledger.
"""
