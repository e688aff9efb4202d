"""The optimizer gets the right gradient, times a factor that nothing explains.

What it does
    Compares what the backward made with what the optimizer gets (VG640). If all tensors
    differ by one common factor, it looks for the reason: a loss scaler, or clipping, which only
    makes gradients smaller and leaves them at the set norm. It reports any other factor: a sum
    instead of a mean, a scale that was divided twice, a negative factor.

Why it is bad
    The learning rate means something else, and a negative factor climbs the loss.
    deepspeedai/DeepSpeed#7837 and modelscope/ms-swift#6815 (the loss scale divided twice),
    deepspeedai/DeepSpeed#8614 (gradients negated after a norm that was not finite).

When it is wrong
    Your own code may scale gradients between backward and step.

Example
    an all_reduce of one's own without the division by the number of ranks

Use instead
    A mean over ranks; the loss scale divided out once, before clipping.

Evidence
    The threads above, as read. Own measurement: clipping under AdamW changes all 57 tensors of
    a model by one factor, and is not reported. tests/ledger.
"""
