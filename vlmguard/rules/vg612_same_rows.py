"""Ranks train on the same rows, or a resumed run trains on rows again.

What it does
    Compares digests of the rows: of all ranks of one data-parallel group in one step, and of
    the first steps after a resume with those of the first steps before it. Ranks of one
    tensor-parallel or sequence-parallel group share their rows and are not compared.

Why it is bad
    Eight ranks on the same rows cost eight times the time of one and learn what one learns.
    k2-fsa/icefall#1616 and huggingface/accelerate#2694 (the same rows),
    modelscope/ms-swift#10050, huggingface/transformers#40691, huggingface/accelerate#4071 and
    #4233 (a resume that replays).

When it is wrong
    A sampler may repeat rows on purpose: GRPO has several answers to one prompt. A tiny data set
    soon starts again from its first row.

Example
    a loop of its own whose DataLoader has no DistributedSampler

Use instead
    A DistributedSampler with the ranks of the data-parallel group, and set_epoch for each
    epoch.

Evidence
    The threads above, as read. Own tests with two ranks: tests/ledger.
"""
