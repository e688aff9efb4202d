"""The loss teaches another token than the row's next one.

What it does
    Reads the gradient at the hidden states in front of the head, at no more than 64 positions
    of a micro-batch. For cross-entropy it says which token is learned there and with which
    weight. It speaks if that is not the next token and the same reading fits the token
    itself. If neither fits, the report says "not plain cross-entropy", which is not a finding.

Why it is bad
    A model that is taught to repeat each token loses what it knew, and its loss falls quickly.
    With `label_smoothing_factor` the Trainer shifts labels only for classes of one list: of
    eleven vision-language classes only Gemma3 and Gemma4 are in it. All others learn to repeat:
    the loss with a smoothing of 1e-9 is 10.88357, the unshifted cross-entropy; right is
    11.98466.

When it is wrong
    Some models are meant to predict the same position: masked language models.

Example
    --label_smoothing_factor 0.1 with Qwen2.5-VL and transformers 5.23

Use instead
    label_smoothing_factor 0, or a loss of your own that shifts. A collator must not shift
    labels.

Evidence
    Own measurement: transformers 5.23, 2 gloo ranks on CPU: the residual is 5e-3 for the same
    token and 0.99 for the next one. KempnerInstitute/KempnerForge#154,
    huggingface/transformers#40863 as read. tests/ledger.
"""
