"""Where a model's own forward runs its towers, found in the model: no list of classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vlmguard_torch.errors import CannotBlank
from vlmguard_torch.layout import cross_attention, features, towers

KINDS = ("image", "video", "audio")


@dataclass(frozen=True)
class ModelLayout:
    """What the hooks need to know of one model.

    Attributes:
        owner: the module whose forward embeds the tokens, runs the towers and calls the language
            model (``LlavaModel`` in ``LlavaForConditionalGeneration``).
        above: the models around it, outermost first, the given one included; some can generate.
        decoders: module paths in ``owner``; the first of them that is called with embeddings is
            called when every tower has run. Empty where ``owner`` has its layers itself.
        embedding: the module path of the token embeddings in ``owner``.
        early: the towers run before the tokens are embedded.
        towers: kind of input → module paths in ``owner`` that run for it.
        aligners: module paths between towers and language model, as far as names tell.
        crossing: layers of the language model that read images, where it has some (Mllama).
        own: parameters that ``owner`` holds itself and names in its forward (LLaVA's newline,
            before transformers 4.52): put beside the features where these do not have them.
    """

    owner: Any
    above: tuple[Any, ...]
    decoders: tuple[str, ...]
    embedding: str
    early: bool
    towers: dict[str, tuple[str, ...]]
    aligners: tuple[str, ...]
    crossing: tuple[str, ...]
    own: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of input whose features ``owner`` computes, in the order that it does."""
        if self.crossing:
            return ("image",)
        asked = _asked(self.owner)
        return tuple(sorted(asked, key=lambda kind: (asked[kind] < 0, asked[kind])))

    @property
    def guessed(self) -> bool:
        """Whether some features are computed in a way that the model does not name itself."""
        return any(features.guessed(self.owner, kind) for kind in self.kinds)

    @property
    def watched(self) -> tuple[str, ...]:
        """The towers themselves."""
        return tuple(dict.fromkeys(path for where in self.towers.values() for path in where))

    @property
    def seeing(self) -> tuple[str, ...]:
        """All module paths that idle in a forward without an input for them."""
        return (*self.watched, *self.aligners, *self.crossing)


def find(model: Any, named: Mapping[str, tuple[str, ...]] | None = None) -> ModelLayout:
    """named: kind ("vision", "audio", "aligner") → plain module paths in the model, where they are
    known better than by name. Raises `CannotBlank` for a model that shows no features of an image,
    a video or audio.
    """
    base = towers.without_adapters(model)
    chain = _chain(base)
    able = [module for module in chain if features_of(module)]
    able = [module for module in chain if cross_attention.is_crossing(module)] or able
    if not able:
        name = type(base).__name__
        raise CannotBlank(f"{name} has no get_image_features, nor the like for video or audio")
    owner = able[-1]
    if hasattr(owner, "get_text_features"):
        raise CannotBlank(f"{type(owner).__name__} compares text with images and generates nothing")
    embedding = _path_of(owner, _embedding(base))
    names = towers.seeing(owner) if named is None else _below(base, owner, named)
    names = names or _beside(owner, embedding)
    seeing = [path for kind in ("vision", "audio") for path in names.get(kind, ())]
    if any(embedding.startswith(path + ".") for path in seeing):
        raise CannotBlank(f"{type(owner).__name__} embeds no tokens")
    return ModelLayout(
        owner,
        tuple(chain[: chain.index(owner) + 1]),
        _decoders(owner, embedding),
        embedding,
        _early(owner),
        {kind: _of(kind, names) for kind in KINDS},
        names.get("aligner", ()),
        cross_attention.layers(owner),
        _own(owner),
    )


def _below(
    base: Any, owner: Any, named: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The paths as ``owner`` has them; what lies outside it is not its tower."""
    above = _path_of(base, owner) + "." if owner is not base else ""
    return {
        kind: tuple(path.removeprefix(above) for path in where if path.startswith(above))
        for kind, where in named.items()
    }


def _beside(owner: Any, embedding: str) -> dict[str, tuple[str, ...]]:
    """Where no name tells: what lies beside the language model, if there is one kind of tower."""
    kinds = {"audio" if kind == "audio" else "vision" for kind in features_of(owner)}
    language = embedding.split(".")[0]
    weighty = [
        name
        for name, child in owner.named_children()
        if name != language and any(True for _ in child.parameters())
    ]
    if len(kinds) > 1 or not weighty:
        raise CannotBlank(f"no module of {type(owner).__name__} has the name of a tower")
    return {kinds.pop(): tuple(weighty)}


def features_of(module: Any) -> tuple[str, ...]:
    """The kinds of input whose features this module computes."""
    return tuple(kind for kind in KINDS if features.known(module, kind))


def _embedding(base: Any) -> Any:
    try:
        return base.get_input_embeddings()
    except (AttributeError, NotImplementedError, TypeError) as error:
        raise CannotBlank(f"{type(base).__name__} shows no input embeddings: {error}") from error


def _chain(base: Any) -> list[Any]:
    """The modules on the way from ``base`` to its token embeddings, both ends included."""
    embedding = _embedding(base)
    names = _path_of(base, embedding).split(".")
    chain = [base]
    for name in names:
        chain.append(getattr(chain[-1], name))
    return chain


def _path_of(root: Any, wanted: Any) -> str:
    for name, module in root.named_modules():
        if module is wanted:
            return str(name)
    raise CannotBlank(f"{type(wanted).__name__} is not a module of {type(root).__name__}")


def _decoders(owner: Any, embedding: str) -> tuple[str, ...]:
    """Modules between ``owner`` and the embedding, and the encoder of an encoder-decoder."""
    parts = embedding.split(".")
    found = [".".join(parts[:depth]) for depth in range(1, len(parts))]
    for path in tuple(found):
        inner = owner.get_submodule(path)
        if getattr(getattr(inner, "config", None), "is_encoder_decoder", False):
            found += [f"{path}.{name}" for name in ("encoder",) if hasattr(inner, name)]
    return tuple(dict.fromkeys(found))


def _of(kind: str, names: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The towers that run for ``kind``: a name with "video" in it is for videos alone."""
    if kind == "audio":
        return names.get("audio", ())
    other = "video_" if kind == "image" else "image_"
    return tuple(path for path in names.get("vision", ()) if other not in path.rsplit(".", 1)[-1])


def _early(owner: Any) -> bool:
    """Whether ``owner``'s forward asks for features before it asks for embeddings, as its source
    has it: no rank but those with an image could see it happen."""
    first = min((where for where in _asked(owner).values() if where >= 0), default=-1)
    source = _forward(owner)
    embeds = [source.find(call) for call in ("get_input_embeddings()(", "embed_tokens(")]
    embedded = min((where for where in embeds if where >= 0), default=-1)
    return first >= 0 and (embedded < 0 or first < embedded)


def _asked(owner: Any) -> dict[str, int]:
    """Kind of input → where ``owner``'s forward asks for its features; -1 where it does not."""
    source = _forward(owner)
    return {kind: source.find(features.asked(owner, kind)) for kind in features_of(owner)}


def _own(owner: Any) -> tuple[str, ...]:
    source = _forward(owner)
    named = (name for name, _ in owner.named_parameters(recurse=False))
    return tuple(name for name in named if re.search(rf"\bself\.{name}\b", source))


def _forward(owner: Any) -> str:
    try:
        return inspect.getsource(inspect.unwrap(type(owner).forward))
    except (OSError, TypeError):
        return ""
