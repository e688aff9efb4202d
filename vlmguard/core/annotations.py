"""Workflow commands of GitHub: one line, in which nothing can be read as another one."""

from __future__ import annotations


def annotation(level: str, told: str, **properties: object) -> str:
    """``level``: error, warning or notice; ``properties``: file, line, title."""
    named = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{level} {named}::{_text(told)}"


def _text(told: str) -> str:
    return told.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(told: str) -> str:
    return _text(told).replace(":", "%3A").replace(",", "%2C")
