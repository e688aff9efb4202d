"""The one exception of ours that escapes containment."""

from __future__ import annotations


class Stop(RuntimeError):
    """Training must not go on. Takes one string: a dataloader worker re-raises it as such."""


class SettingsError(Stop):
    """A setting that cannot be read, or names nothing."""
