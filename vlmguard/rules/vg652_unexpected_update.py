"""A frozen tensor moved, or two tied tensors are no longer one tensor.

What it does
    Compares tensors that do not require a gradient before and after a step, and looks whether
    tied tensors (a head and the input embedding) are still one tensor.

Why it is bad
    A tensor that should keep its trained values changes with each step, most often by weight
    decay. If head and embedding are no longer tied, they get different values, and saving keeps
    one of the two.
    NVIDIA-NeMo/Automodel#2511, huggingface/peft#2864; hiyouga/LlamaFactory#10139 (a freeze flag
    that misses a tensor).

When it is wrong
    If your own code moves frozen tensors: an average of weights (EMA), buffers that are
    parameters.

Example
    modules_to_save with the head of a model whose embeddings are tied

Use instead
    Freeze before the optimizer is made. An optimizer that still holds frozen tensors moves them by
    momentum or weight decay: set their gradients to None, or make the optimizer anew. Tie again
    after loading (model.tie_weights()), or say tie_word_embeddings=False and train both. Under PEFT
    tie_weights() raises KeyError, and modules_to_save with both names trains two copies: say
    ensure_weight_tying=True in LoraConfig (peft 0.18 and newer).

Evidence
    The threads above, as read. Own tests: tests/ledger.
"""
