"""The weights of a step's targets do not sum to one.

What it does
    Adds the weights that the targets of a step have in the loss, over all micro-batches and
    ranks. For a mean over tokens they sum to 1. It reports the sum. If the sum is the
    number of micro-batches or ranks, it also names the usual cause.

Why it is bad
    The gradient is that many times too large, so the learning rate and clipping mean something
    else: clipping at 1 then scales nearly every step down. The most common cause is a
    `compute_loss` of one's own that takes no notice of `num_items_in_batch`: the Trainer does
    not divide then. With an accumulation of 2 on 2 ranks the sum is 4.00000.

When it is wrong
    The loss may be scaled on purpose, or have weights of its own for tokens or samples. If no
    accumulation was declared, it is a note in the report: two backwards of a step may be two
    losses.

Example
    a Trainer whose compute_loss returns model(**inputs).loss, with gradient_accumulation_steps
    8

Use instead
    Hand num_items_in_batch on to the loss, or divide by it. For known models whose
    loss ignores num_items_in_batch, VG115 fixes the scale.

Evidence
    Own measurement: 2 gloo ranks on CPU. A plain Trainer reads 1.00000, with and without
    accumulation, and one that ignores num_items_in_batch 4.00000. Two divide twice and read 0.5:
    one whose accelerator is made with gradient_accumulation_steps=2 (as LLaVA-NeXT's Trainer makes
    its own), and one whose own training_step calls accelerator.backward under DeepSpeed.
    With label_smoothing_factor an update in ms-swift 4.6.0 was 8.0 times one batch of the same
    rows (2 ranks, 4 micro-batches). huggingface/transformers#34191, #37197, #37766 as read.
    docs/ledger_tried.md, tests/ledger.
"""
