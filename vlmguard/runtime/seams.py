"""Seams: the places where a framework's own function is wrapped.

An adapter lists them as data; `arm`, `detach` and ``vlmguard doctor`` read the same list. A seam is
attached when its module is imported, never before. The wrapped call is the framework's; each
wrapper makes it exactly once, outside our containment.

Standard library only, and so should be the module that lists the seams: it is imported with the
framework, in inference scripts too. A wrapper that is named, ``"module:function"``, is imported at
its first call.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from vlmguard import _bootstrap
from vlmguard.runtime.stub import Hook, Place

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
Where = Literal["attached", "lost", "waiting", "missing", "absent"]


class Seam(NamedTuple):  # not a dataclass: that would import dataclasses and inspect
    """One place in a framework. Two that are equal are one seam: it is attached once.

    Attributes:
        name: short and unique within the adapter.
        targets: ``module:Class.attribute``, one for each layout the framework had. The first one
            that a release has is *the* seam; others are ignored.
        wrapper: ``"module:function"`` or the function, with wrapt's signature
            ``(wrapped, instance, args, kwargs)``; instance is None for a function of a module and
            a static method, the class for a class method.
        why: what it is there for, shown by ``doctor``.
        when_off: keep it when ``VLMGUARD=off`` (our command-line flags must be taken out then too).
        optional: its absence costs nothing worth a finding (a feature that this release lacks).
        rests: whether calls of this method may go straight to the framework's while every open run
            is settled (`rest`).
        failed: ``"module:function"``, called with (instance, error) where such a call raises.
    """

    name: str
    targets: tuple[str, ...]
    wrapper: Wrapper | str
    why: str
    when_off: bool = False
    optional: bool = False
    rests: bool = False
    failed: str = ""


class _Attached:
    """A seam, and the hook that it is at a place."""

    def __init__(self, seam: Seam, target: str, place: Place) -> None:
        self.seam, self.target, self.place = seam, target, place
        self.hook = Hook(seam)
        place.hooks = (*place.hooks, self.hook)
        place.rests = False

    def remove(self) -> None:
        place = self.place
        place.hooks = tuple(hook for hook in place.hooks if hook is not self.hook)
        if not place.hooks:
            place.restore()


_wanted: list[Seam] = []
_attached: list[_Attached] = []
_places: list[Place] = []
_looked: set[str] = set()  # targets whose module was imported, with or without them


armed: list[str] = []
"""Adapters whose seams are attached."""


def arm(adapter: str) -> None:
    """Attach the seams of the module ``adapter`` (its ``SEAMS``), once.

    Light, since ``find_spec("swift")`` alone gets here.
    """
    if adapter in armed:
        return
    armed.append(adapter)
    attach(importlib.import_module(adapter).SEAMS)


def attach(seams: Iterable[Seam]) -> None:
    """Wrap each seam's target when its module is imported (now, if it already is).

    The one attached last is the outermost.
    """
    for seam in seams:
        if seam in _wanted:
            continue
        _wanted.append(seam)
        for target in seam.targets:
            name = target.partition(":")[0]
            _bootstrap.after(name, _imported)
            if name in sys.modules:
                _try(seam, target, sys.modules[name])


def over(kind: type, name: str, seam: Seam) -> Callable[[], None]:
    """Wrap a method of a class that was only now met, where it or a base defines it, and answer
    with what takes the wrapper off.

    A method that this seam's wrapper stands at already is left alone, and so is a class without it.
    """
    owner = next((each for each in kind.__mro__ if name in vars(each)), None)
    there = (f for f in _attached if f.place.owner is owner and f.place.name == name)
    if owner is None or any(each.seam.wrapper == seam.wrapper for each in there):
        return lambda: None
    found = _Attached(seam, f"{owner.__module__}:{owner.__qualname__}.{name}", _place(owner, name))
    return found.remove


def rest() -> None:
    """Nothing is left to look at in a step: seams that may rest do, until `wake`."""
    for place in _places:
        place.rest()


def wake() -> None:
    """Something new has begun: no seam rests."""
    for place in _places:
        place.rests = False


def detach(seams: Iterable[Seam]) -> None:
    """Take the seams off; others on the same places stay. Aliases made by ``from x import f`` stay
    too, and pass calls on."""
    for seam in list(seams):
        if seam in _wanted:
            _wanted.remove(seam)
        for found in [each for each in _attached if each.seam == seam]:
            _attached.remove(found)
            found.remove()


def _imported(module: Any) -> None:
    """Attach what is wanted in a module that has just been executed."""
    for seam in list(_wanted):
        for target in seam.targets:
            if sys.modules.get(target.partition(":")[0]) is module:
                _try(seam, target, module)


def _try(seam: Seam, target: str, module: Any) -> None:
    try:
        _wrap(seam, target, module)
    except Exception as error:
        from vlmguard.runtime import stderr

        stderr.say(f"seam {seam.name} ({target}): {error}; left alone")


def _wrap(seam: Seam, target: str, module: Any) -> None:
    _looked.add(target)
    owner, name = _owner(module, target)
    earlier = next((found for found in _attached if found.seam == seam), None)
    if earlier is not None:
        if earlier.target != target or (earlier.place.owner is owner and earlier.place.held()):
            return
        _attached.remove(earlier)  # the module was executed again
        earlier.remove()
    if owner is None or vars(owner).get(name) is None:
        return
    _attached.append(_Attached(seam, target, _place(owner, name)))


def _owner(module: Any, target: str) -> tuple[Any, str]:
    """The class or module that holds the target, None if there is none, and the last name."""
    *parents, name = target.partition(":")[2].split(".")
    owner = module
    for part in parents:
        owner = getattr(owner, part, None)
    return owner, name


def _place(owner: Any, name: str) -> Place:
    """The place's own object: the one whose stub still stands there, else a new one on top."""
    for place in _places:
        if place.owner is owner and place.name == name and place.held():
            return place
    place = Place(owner, name, vars(owner)[name])
    _places[:] = [*(known for known in _places if known.hooks), place]
    place.put()
    return place


def where(seam: Seam) -> tuple[Where, str]:
    """What became of the seam, and at which target.

    Returns:
        "attached"; "lost": somebody replaced the function later, and no call gets to the seam any
        more; "waiting" for an import; "missing" from this release; "absent" with its package, which
        is not installed (DeepSpeed need not be). The target is "" in the last two.
    """
    for found in _attached:
        if found.seam == seam:
            return ("attached" if _reached(found) else "lost"), found.target
    waiting = next((t for t in seam.targets if t not in _looked and _there(t)), "")
    if waiting:
        return "waiting", waiting
    return ("missing" if any(map(_installed, seam.targets)) else "absent"), ""


def _reached(found: _Attached) -> bool:
    """Whether calls get to the seam. A subclass that overrides it is its owner's affair."""
    module = sys.modules.get(found.target.partition(":")[0])
    owner, _ = _owner(module, found.target)
    kept = found.place.owner
    same = owner is kept or (isinstance(owner, type) and kept in owner.__mro__)
    return same and found.place.reached()


def missing(seams: Iterable[Seam]) -> tuple[str, ...]:
    """Names of the seams that this release of the framework does not have."""
    return tuple(_named(seams, "missing"))


def lost(seams: Iterable[Seam]) -> tuple[str, ...]:
    """Names of the seams whose function somebody replaced after they were attached."""
    return tuple(_named(seams, "lost"))


def _named(seams: Iterable[Seam], state: Where) -> Iterator[str]:
    return (seam.name for seam in seams if not seam.optional and where(seam)[0] == state)


def _installed(target: str) -> bool:
    from vlmguard.runtime import definitions

    return definitions.installed(target)


def _there(target: str) -> bool:
    from vlmguard.runtime import definitions

    return definitions.has(target)
