"""Values for the limits of a row, from what the run had: lengths in tokens, images in pixels."""

from __future__ import annotations

from vlmguard.explain import projects
from vlmguard.explain.logfacts import Facts

Values = tuple[tuple[str, str], ...]

# Where the log tells none: the framework's default, or what many runs have.
_LENGTH = {"LLaMA-Factory": 2048}  # cutoff_len, 0.9.0 to 0.9.5
_PIXELS = {"LLaMA-Factory": 768 * 768}  # image_max_pixels, 0.9.2 to 0.9.5
_OTHERS = ("model_max_length", "max_seq_length", "max_seq_len", "max_len")  # of other programs
MANY_PIXELS = 768 * 28 * 28  # Qwen2-VL's own recommendation for a smaller budget


MANY = 32768  # tokens of a row, beyond which images are made smaller before rows are made longer


def _length(facts: Facts, usual: int) -> int:
    told = facts.number("max_length", "cutoff_len", "sequence_len", *_OTHERS)
    project = projects.of(facts)
    return told or (project.length if project else _LENGTH.get(facts.framework, usual))


def now(facts: Facts) -> str:
    """ "; 2048 now", where the log tells a row's limit or the framework's default is known."""
    told = facts.number("max_length", "cutoff_len", "sequence_len", *_OTHERS)
    usual = _LENGTH.get(facts.framework)
    return f"; {told} now" if told else f"; {usual} by default" if usual else ""


def shorter(facts: Facts) -> Values:
    """Half the run's length."""
    return (("length", str(_length(facts, 8192) // 2)),)


def longer(facts: Facts, least: int = 0) -> Values:
    """Twice the run's length, and not less than ``least`` tokens with some room for text, as a
    power of two: the next row that is somewhat longer fits as well."""
    return (("length", str(max(_length(facts, 4096) * 2, room(least)))),)


def room(tokens: int) -> int:
    """A power of two that holds so many tokens and a quarter more."""
    return 1 << (max(tokens * 5 // 4, 1) - 1).bit_length()


def fewer_pixels(facts: Facts) -> Values:
    """At most half the run's pixels an image."""
    project = projects.of(facts)
    usual = project.pixels if project is not None else _PIXELS.get(facts.framework)
    now = facts.number("max_pixels", "image_max_pixels") or usual
    return (("pixels", str(min(MANY_PIXELS, now // 2) if now else MANY_PIXELS)),)
