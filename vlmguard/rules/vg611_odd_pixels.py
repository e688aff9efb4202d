"""Images that cannot be what the processor makes of a picture.

What it does
    Looks at the pixels of the steps that the ledger watches: all of one value, equal for every
    image of a batch, in the range of raw bytes where the processor normalises, or fewer images
    than grids.

Why it is bad
    The tower learns from noise and the language model learns to ignore it. Frameworks replace a
    picture that fails to load by a black one or by another sample (VG203), and go on.

When it is wrong
    A data set may hold blank pictures or repeat one, or the model may normalise inside its
    forward.

Example
    pixel_values of 0 to 255 for a tower that was trained on normalised ones

Use instead
    The processor of the checkpoint, with do_rescale and do_normalize as it was saved.

Evidence
    Own tests of each kind: tests/ledger. Replaced pictures were seen in ms-swift (VG203).
"""
