"""What this package raises."""

from __future__ import annotations


class CannotBlank(Exception):
    """Why no blank input can be made for a model, or put into it."""
