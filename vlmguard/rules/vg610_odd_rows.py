"""Rows whose targets or tokens cannot be meant.

What it does
    Looks at the rows of the steps that the ledger watches, as they were collated: a row without
    any target, targets on image placeholders or pads, a begin-of-sequence token twice, targets
    that are not the row's own tokens at their place. It names the row and shows its text with
    the targets marked. That every token is a target, or that the end-of-sequence token never is
    one, is only shown.

Why it is bad
    A row without a target adds nothing; a target on a placeholder teaches the model to write
    placeholders. The loss goes down in both cases, and nothing else tells. People met it as
    NielsRogge/Transformers-Tutorials#511 (placeholders), OpenRLHF/OpenRLHF#393 (BOS twice),
    KempnerInstitute/KempnerForge#154 (shifted twice), huggingface/trl#5285 (truncation cut the
    targets off).

When it is wrong
    Your template may repeat a token on purpose. Your labels may be another text than the input.
    A collator may fill a batch with empty rows.

Example
    max_length smaller than the prompt: truncation leaves a row without one target

Use instead
    A larger max_length; a template that marks the assistant's turn; labels of -100 on
    placeholders and pads.

Evidence
    The threads above, as read. Own tests of each kind of row: tests/ledger.
"""
