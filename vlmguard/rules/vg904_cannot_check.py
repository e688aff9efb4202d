"""Something about this run cannot be checked; it goes on unchecked there.

What it does
    Says in one line what the guard was given that it cannot read, such as a batch that is no
    mapping.

Why it is bad
    The checks on that part stay silent, whatever is in it.

When it is wrong
    Never; it is a note.

Example
    A batch of bare tensors; tensors on different devices; a model whose family is unknown

Use instead
    Hand over what the note names, for example `processor=`.

Evidence
    vlmguard_colossalai.watch.
"""

from __future__ import annotations

CODE = "VG904"
NAME = "cannot-check"
DEFAULT = "warn"
