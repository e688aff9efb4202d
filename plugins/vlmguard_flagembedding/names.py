"""FlagEmbedding's model is a module around the one that the user named: its parameters, by the
names that they have in that one's checkpoint, and the parts they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vlmguard_torch.layout.towers import without_adapters

Paths = dict[str, tuple[str, ...]]


class Named:
    """The parameters of a FlagEmbedding model; as much of a module as our readers need."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def inner(self) -> Any:
        """The transformers model, without PEFT around it."""
        return without_adapters(self.model.model)

    @property
    def embeds(self) -> bool:
        """An embedder, which encodes queries and passages; a reranker encodes pairs."""
        return any(kind.__name__ == "AbsEmbedderModel" for kind in type(self.model).__mro__)

    def named_parameters(self, **options: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in self.model.named_parameters(**options):
            yield name.removeprefix("model."), parameter

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        for name, module in self.model.named_modules():
            if name != "model":  # its own body may have this name
                yield name.removeprefix("model."), module

    def towers(self) -> Paths:
        """What rules tell apart: the text model with its heads, and a pooler nobody calls."""
        return {"pooler": self._idle_pooler(), "llm": (*self._inside(), *self._beside())}

    def parts(self) -> Paths:
        """The words that a freeze wish may use besides names; the longest path decides."""
        head = self._path(self.inner.get_output_embeddings()) or tuple(
            name for name in ("classifier", "score") if hasattr(self.inner, name)
        )
        return {
            "embeddings": self._embeddings(),
            "head": (*head, *self._beside()),
            "llm": self._inside(),
        }

    def _inside(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inner.named_children())

    def _beside(self) -> tuple[str, ...]:
        """m3's own heads."""
        return tuple(
            name
            for name, module in self.model.named_children()
            if name != "model" and next(module.parameters(), None) is not None
        )

    def _embeddings(self) -> tuple[str, ...]:
        """An encoder keeps words, positions, types and their norm in one module."""
        words = self._path(self.inner.get_input_embeddings())
        return tuple(
            above if (above := path.rpartition(".")[0]).endswith("embeddings") else path
            for path in words
        )

    def _idle_pooler(self) -> tuple[str, ...]:
        """Embedders take the last hidden state: what lies behind it is never called."""
        pooler = getattr(self.inner, "pooler", None)
        return ("pooler",) if self.embeds and pooler is not None else ()

    def _path(self, module: Any) -> tuple[str, ...]:
        found = (name for name, each in self.inner.named_modules() if each is module)
        return tuple(found) if module is not None else ()
