"""Forward hooks that only look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from vlmguard.runtime.faults import contain
from vlmguard_torch.calls import NO_HOOK, is_compiling

Look = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], None]
Hear = Callable[[BaseException], None]


def _away(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """What a copied or pickled model's hook does."""


class Hooked:
    """What has put hooks on something."""

    _handles: list[Any]

    def close(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


class ForwardHook:
    """Calls ``look(module, args, kwargs)`` before each forward of a module; its faults are ours.

    Goes with no copy of the model, and into no file of it.
    """

    what, look = "looking on", staticmethod(_away)

    def __init__(self, what: str = "looking on", look: Look = _away) -> None:
        self.what, self.look = what, look

    def on(self, module: Any) -> Any:
        """Put it on; answers with the handle that takes it off."""
        return module.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Any = None) -> None:
        # Without kwargs: taken off by a hook before it, in the forward that torch calls it for.
        if kwargs is not None and not is_compiling():
            contain(self.what, self.look, module, args, kwargs)

    def __reduce__(self) -> Any:
        return NO_HOOK


def _unseen(module: Any, output: Any) -> None:
    """What a copied or pickled model's hook does."""


class Behind:
    """Calls ``look(module, output)`` behind each forward of a module; its faults are ours.

    In a compiled model it does nothing, and is traced as nothing.
    """

    what, look = "looking on", staticmethod(_unseen)

    def __init__(self, what: str = "looking on", look: Callable[[Any, Any], None] = _unseen):
        self.what, self.look = what, look

    def on(self, module: Any) -> Any:
        """Put it on; answers with the handle that takes it off."""
        return module.register_forward_hook(self)

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        if not is_compiling():
            contain(self.what, self.look, module, output)

    def __reduce__(self) -> Any:
        return NO_HOOK


def _unheard(error: BaseException) -> None:
    """What a copied or pickled model's witness does."""


class Witness:
    """Calls ``hear(error)`` where a module's forward raises; the error goes on unchanged."""

    what, hear = "looking on", staticmethod(_unheard)

    def __init__(self, what: str = "looking on", hear: Hear = _unheard) -> None:
        self.what, self.hear = what, hear

    def on(self, module: Any) -> Any:
        """Put it on; answers with the handle that takes it off."""
        return module.register_forward_hook(self, with_kwargs=True, always_call=True)

    def __call__(self, module: Any, args: Any, kwargs: Any, result: Any = None) -> None:
        if result is not None or is_compiling():
            return
        error = sys.exc_info()[1]  # torch calls such hooks where it handles what was raised
        if error is not None:
            contain(self.what, self.hear, error)

    def __reduce__(self) -> Any:
        return NO_HOOK
