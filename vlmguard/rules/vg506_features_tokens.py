""" "Image features and image tokens do not match".

What it does
    Explains an exception whose message has one of: Image features and image tokens do not
    match; Videos features and video tokens do not match.

Why it is bad
    The row and the cause (truncation) are not named.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    Image features and image tokens do not match

Use instead
    raise max_length, or lower the pixel budget (MAX_PIXELS); dropping the images is no cure

Evidence
    huggingface/trl#5927, huggingface/transformers#37222; catalogue row 2.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = (
    "Image features and image tokens do not match",
    "Videos features and video tokens do not match",
)
ADVICE = "raise max_length, or lower the pixel budget (MAX_PIXELS); dropping the images is no cure "
WHY = "an image's placeholders were cut, usually by max_length "

CODE = "VG506"
NAME = "explain-features-tokens"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
