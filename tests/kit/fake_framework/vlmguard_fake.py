"""A profile for a framework of the tests' own: all that an adapter for another one costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard.runtime.seams import Seam
from vlmguard_transformers.profile import Paths, Profile

SEAMS = (Seam("rows", ("fake_framework:load",), "vlmguard_fake:load", "sees the rows"),)
PROFILE = "vlmguard_fake:PROFILE_OF_FAKE"


def load(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


class Fake(Profile):
    name = "fake"
    distributions = ("fake-framework",)
    owns = ("fake_framework:FakeTrainer",)
    flags: Mapping[str, str] = {"SetVariant": "--reentrant {use_reentrant}"}
    words: Mapping[str, str] = {"eyes": "vision"}
    speaks = True
    seams = SEAMS

    def towers(self, trainer: Any) -> Paths:
        return {"vision": ("eyes",), "llm": ("words",)}

    def forwards(self, trainer: Any) -> int:
        return 2

    def rows(self, trainer: Any, dataset: Any) -> frozenset[str] | None:
        return frozenset(dataset)


PROFILE_OF_FAKE = Fake()
