"""What was observed of a model: pure data in names of the user's own model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class KindFacts:
    """One kind of row. Paths name a module (all parameters below it) or one parameter.

    Attributes:
    kind: text, image, images (two), video, image+video, audio.
    reason: why no such row could be run; empty where it ran, and all else holds only then.
    unused: what gets no gradient.
    towers: outermost modules that this row calls and a text row does not.
    repeats: outermost modules with parameters that are called more than once in one forward, and
        how often.
    order: modules outside of stacks in the order of their first calls.
    towers_first: whether the first tower runs before the input embeddings; None without either.
    """

    kind: str
    reason: str = ""
    unused: tuple[str, ...] = ()
    towers: tuple[str, ...] = ()
    repeats: tuple[tuple[str, int], ...] = ()
    order: tuple[str, ...] = ()
    towers_first: bool | None = None

    @property
    def ran(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Tried:
    """What a blank input does in a row of text, seen on the copy (`blank_trial`).

    Attributes:
    kind: image, video, audio; or those proven, joined by "+", for their blanks together.
    proven: it runs all that a real input runs, and changes no bit; False where it was seen to fail
        that, None where it could not be tried.
    reason: why it is not proven.
    candidate: which of `example_media.candidates` the blank is made of; None: from the config.
    behind: modules to be called with its features, as paths in the module that runs its towers:
        the model's forward calls them, and the method for its features does not.
    """

    kind: str
    proven: bool | None
    reason: str = ""
    candidate: int | None = None
    behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observed:
    """Attributes:
    provenance: "observed", or "may" where nothing could be: then only `reason` speaks.
    model: the class that was copied.
    part: path of the module of the user's model that was copied, empty for the whole.
    kinds: one entry for each kind of row that the class accepts.
    never_used: what gets no gradient from any kind although it is called, or its neighbours in the
        stack are (layers behind LLaVA's feature layer); None where an accepted kind was not run.
    never_called: what else gets none: nothing calls it, or an input of a sort unknown here does.
    skipped: what a text row leaves unused although its neighbours in the same stack are used
        (Mllama's cross-attention layers).
    per_item: modules called more often the more images a row has.
    shared: names of one and the same weight, where it has several.
    unsure: parameters that nothing in the copy answers for.
    stacks: path, layers, and the layers that the copy kept, for stacks that were cut.
    patched: innermost modules whose forward was replaced on the instance; the copy has the class's.
        What was replaced on others (ms-swift does) was put on the copy.
    dropped: what an image or audio row gives a gradient, and none under reentrant checkpointing;
        () where that was not asked.
    blanks: an answer for each kind of blank input that was to be tried.
    counts_items: whether the loss is divided by ``num_items_in_batch`` where that is passed: False
        where no kind of row does it, None where that is not known.
    seconds: what it took.
    """

    provenance: str
    reason: str = ""
    model: str = ""
    part: str = ""
    kinds: tuple[KindFacts, ...] = ()
    never_used: tuple[str, ...] | None = None
    never_called: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    per_item: tuple[str, ...] = ()
    shared: tuple[tuple[str, ...], ...] = ()
    unsure: tuple[str, ...] = ()
    stacks: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    patched: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    blanks: tuple[Tried, ...] = ()
    counts_items: bool | None = None
    seconds: float = field(default=0.0, compare=False)

    def __bool__(self) -> bool:
        return self.provenance == "observed"

    def of(self, kind: str) -> KindFacts | None:
        """The facts of a kind that ran, or None."""
        return next((facts for facts in self.kinds if facts.kind == kind and facts.ran), None)

    def blank(self, kind: str) -> Tried | None:
        """What was found of the blank input of this kind; None where none was tried."""
        return next((each for each in self.blanks if each.kind == kind), None)

    def unused(self, name: str, kinds: Iterable[str]) -> bool | None:
        """Whether some of these kinds of rows leave a parameter of the user's model without a
        gradient; None where that was not observed."""
        if not self or under(plain(name), self.unsure):
            return None
        facts = [self.of(kind) for kind in kinds]
        if any(one is not None and under(plain(name), one.unused) for one in facts):
            return True
        return None if None in facts else False

    def repeats(self, kinds: Iterable[str]) -> bool | None:
        """Whether some of these kinds of rows call a tower or a layer more than once."""
        facts = [self.of(kind) for kind in kinds]
        if any(one is not None and one.repeats for one in facts):
            return True
        return None if not self or None in facts else False


def may(reason: str, model: str = "", seconds: float = 0.0) -> Observed:
    """Nothing is known, for this reason."""
    return Observed("may", reason, model, seconds=seconds)


def under(name: str, paths: Iterable[str]) -> bool:
    """Whether a name is one of the paths or lies below one."""
    return any(name == path or name.startswith(path + ".") for path in paths)


def plain(name: str) -> str:
    """A parameter's name without what PEFT and DDP put in front."""
    for prefix in ("module.", "base_model.model."):
        name = name.removeprefix(prefix)
    return name


def to_data(observed: Observed) -> dict[str, Any]:
    """As JSON takes it."""
    return asdict(observed)


def from_data(data: Any) -> Observed:
    """The same again. Raises TypeError or ValueError for what no `to_data` wrote."""
    if not isinstance(data, dict):
        raise TypeError("no table")
    kinds = tuple(_kind(part) for part in _list(data.pop("kinds")))
    stacks = tuple(
        (_text(p), _whole(n), tuple(map(_whole, _list(k)))) for p, n, k in _list(data.pop("stacks"))
    )
    shared = tuple(_texts(group) for group in _list(data.pop("shared")))
    never = data.pop("never_used")
    lists = {
        name: _texts(data.pop(name))
        for name in ("never_called", "skipped", "per_item", "unsure", "patched", "dropped")
    }
    words = {name: _text(data.pop(name)) for name in ("provenance", "reason", "model", "part")}
    blanks = tuple(_tried(part) for part in _list(data.pop("blanks")))
    counts = _maybe(data.pop("counts_items"))
    seconds = float(data.pop("seconds"))
    if data or words["provenance"] not in ("observed", "may"):
        raise ValueError("not ours")
    return Observed(
        **words,
        **lists,
        kinds=kinds,
        stacks=stacks,
        shared=shared,
        never_used=None if never is None else _texts(never),
        blanks=blanks,
        counts_items=counts,
        seconds=seconds,
    )


def _kind(data: Any) -> KindFacts:
    if not isinstance(data, dict) or set(data) != set(KindFacts.__dataclass_fields__):
        raise TypeError("no kind")
    return KindFacts(
        _text(data["kind"]),
        _text(data["reason"]),
        _texts(data["unused"]),
        _texts(data["towers"]),
        tuple((_text(path), _whole(number)) for path, number in _list(data["repeats"])),
        _texts(data["order"]),
        _maybe(data["towers_first"]),
    )


def _tried(data: Any) -> Tried:
    if not isinstance(data, dict) or set(data) != set(Tried.__dataclass_fields__):
        raise TypeError("no trial")
    candidate = data["candidate"]
    return Tried(
        _text(data["kind"]),
        _maybe(data["proven"]),
        _text(data["reason"]),
        None if candidate is None else _whole(candidate),
        _texts(data["behind"]),
    )


def _list(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError("no list")
    return list(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in _list(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("no number")
    return value


def _maybe(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError("neither yes nor no")
    return value


def reason(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200]


def name_of(model: Any) -> str:
    """The class of a model, as `Observed` names it."""
    return f"{type(model).__module__}.{type(model).__qualname__}"
