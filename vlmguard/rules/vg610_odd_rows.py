"""Rows whose targets or tokens look like a mistake.

What it does
    Looks at the collated rows of the steps that the ledger watches. A target is a token whose
    label is not -100. The rule reports a row without any target, targets on image placeholders
    or pads, two begin-of-sequence tokens, and labels that differ from the row's own token at the
    same position. It names the row and shows its text with the targets marked. If every token is
    a target, the end-of-sequence token never is, or several texts stand in one row with nothing
    that keeps them apart, the report says so without a warning.

Why it is bad
    A row without a target adds nothing. A target on a placeholder teaches the model to write
    placeholders. The loss goes down in both cases, and no error is raised. Known reports:
    NielsRogge/Transformers-Tutorials#511 (placeholders), OpenRLHF/OpenRLHF#393 (BOS twice),
    KempnerInstitute/KempnerForge#154 (shifted twice), huggingface/trl#5285 (truncation cut the
    targets off).

When it is wrong
    Your template may repeat a token on purpose. Your labels may belong to another text than the
    input, as in a translation model. A collator may fill a batch with empty rows.

Example
    max_length smaller than the prompt: truncation leaves a row without one target

Use instead
    A larger max_length; a template that marks the assistant's turn; labels of -100 on
    placeholders and pads; add_special_tokens=False where the chat template writes the first token.
    Labels are like input_ids, with -100 where nothing is learned: the model shifts them.

Evidence
    The threads above, as read. Own tests of each kind of row: tests/ledger.
"""
