"""The loss teaches another token than the row's next one.

What it does
    Reads the gradient at the hidden states in front of the head, at no more than 64 positions
    of a micro-batch. For cross-entropy this gradient shows which token is learned there, and with
    which weight. The rule warns if it fits the token of the same position and not the next one.
    If it fits neither, the report says "not plain cross-entropy" and there is no warning.

Why it is bad
    A model that is taught to repeat each token loses what it knew, and its loss falls quickly.
    With `label_smoothing_factor` the Trainer shifts labels only for the model classes of one list.
    Of eleven vision-language classes that we looked up, only Gemma3 and Gemma4 are in it. All
    others learn to repeat. Measured with a smoothing of 1e-9: the loss was 10.88357, which is the
    unshifted cross-entropy; the right loss was 11.98466.

When it is wrong
    Some models are meant to predict the same position: masked language models.

Example
    --label_smoothing_factor 0.1 with Qwen2.5-VL and transformers 5.23

Use instead
    label_smoothing_factor 0, or a loss of your own that shifts. A collator must not shift
    labels.

Evidence
    Own measurement: transformers 5.23, 2 gloo ranks on CPU. The residual (0: fits, 1: does not) is
    5e-3 for the same token and 0.99 for the next one. KempnerInstitute/KempnerForge#154,
    huggingface/transformers#40863 as read. tests/ledger.
"""
