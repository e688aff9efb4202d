"""Watch for a framework's import, arm its adapter then, and call back after a module's import.

Called by ``vlmguard.pth`` (``vlmguard.start`` from Python 3.15, PEP 829) in every process: the
launcher, torchrun, each rank, dataloader workers. So: standard library only, no entry-point scan,
nothing is ever raised. Measured on CPython 3.11: under 1 ms; a look-up that misses, 0.2 µs.
"""

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False  # importing typing would cost more than all that is here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Recognise = Callable[[ModuleSpec], bool]
    Imported = Callable[[ModuleType], None]


def _beside(spec: "ModuleSpec", *path: str) -> bool:
    """Whether the package that ``spec`` describes holds the file ``path``."""
    return any(
        os.path.isfile(os.path.join(folder, *path))
        for folder in spec.submodule_search_locations or ()
    )


def _is_ms_swift(spec: "ModuleSpec") -> bool:
    # `swift` is also OpenStack Swift's package.
    return _beside(spec, "cli", "sft.py")


class _Watcher:
    """A meta-path finder that finds nothing itself.

    A watched name arms its adapter. A name with callbacks is asked of the finders behind this one,
    and what they find gets a loader that calls back. Finders that do the same (wrapt's, another
    tool's) may stand before and behind: each asks the other, so the same name is answered once a
    thread.
    """

    def __init__(self) -> None:
        self.watched: dict[str, tuple[str, Recognise | None]] = {}
        self.callbacks: dict[str, list[Imported]] = {}
        self.armed: set[str] = set()
        self.asking: set[tuple[str, int]] = set()

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in self.watched and name not in self.callbacks:
            return None
        key = (name, get_ident())
        if key in self.asking:
            return None
        self.asking.add(key)
        try:
            passed = self._before()
            armed = name in self.watched and self._see(name, path)
            if not armed and name not in self.callbacks:
                return None
            spec = self._ask(passed, name, path, target)
            if name in self.callbacks and spec is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
            return spec
        finally:
            self.asking.discard(key)

    def _before(self) -> "list[Any]":
        """The finders that this import has passed by: asked already, or not interested."""
        finders = list(sys.meta_path)
        return finders[: finders.index(self) + 1] if self in finders else [self]

    def _ask(
        self,
        passed: "Iterable[Any]",
        name: str,
        path: "Sequence[str] | None",
        target: "ModuleType | None",
    ) -> "ModuleSpec | None":
        # An adapter may have put a finder before us: this import has already passed it by.
        for finder in list(sys.meta_path):
            if finder in passed or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _see(self, name: str, path: "Sequence[str] | None") -> bool:
        """Arm the adapter of ``name``, unless another package has that name. Contained."""
        adapter, recognise = self.watched.pop(name)  # popped first: what follows may import it
        try:
            if recognise is not None:
                from importlib.machinery import PathFinder

                spec = PathFinder.find_spec(name, path)
                if spec is None or not recognise(spec):
                    # Not the framework we know, at least not yet: keep looking.
                    self.watched[name] = (adapter, recognise)
                    return False
            self.armed.add(adapter)
            from vlmguard.runtime import arming

            arming.arm(adapter)
        except Exception as error:
            _complain(f"could not arm {adapter} for {name}", error)
        return True


class _Loader:
    """Stands before a module's loader until the module is executed, then is gone again."""

    def __init__(self, loader: "Any") -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> "Any":
        if name == "loader":  # copied without __init__
            raise AttributeError(name)
        return getattr(self.loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        create = getattr(self.loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module: "Any") -> None:
        if module.__spec__.loader is self:
            module.__spec__.loader = self.loader
        if module.__loader__ is self:
            module.__loader__ = self.loader
        self.loader.exec_module(module)
        _call_back(module.__name__, module)


_watcher = _Watcher()


def _call_back(name: str, module: "ModuleType") -> None:
    module = sys.modules.get(name, module)  # lazy packages put another object in their place
    for call in list(_watcher.callbacks.get(name, ())):
        try:  # an exception here would break the host's own import
            call(module)
        except Exception as error:
            _complain(f"could not look at {name}", error)


def _complain(what: str, error: Exception) -> None:
    text = f"vlmguard: {what}: {type(error).__name__}: {error}; going on without it\n"
    try:  # noqa: SIM105 (contextlib is not imported for this)
        sys.stderr.write(text)
    except Exception:
        pass


def after(name: str, call: "Imported") -> None:
    """Call ``call(module)`` after each import of the module ``name`` from now on, reloads included.

    What it raises is said on standard error and goes no further. The same ``call`` is kept once.
    """
    calls = _watcher.callbacks.setdefault(name, [])
    if call not in calls:
        calls.append(call)
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def watch(name: str, adapter: str, recognise: "Recognise | None" = None) -> None:
    """Arm the module ``adapter`` when the module ``name`` is about to be imported.

    Public: an adapter for another framework ships its own one-line ``.pth`` that calls this.

    Args:
        name: import name of the framework, ``"swift"``, or of the module of it that only training
            needs, ``"transformers.trainer"``.
        adapter: import name of the adapter module, e.g. ``"vlmguard_swift"``.
        recognise: called with the module's spec; false means "another package of that name".
    """
    try:
        if adapter in _watcher.armed or name in _watcher.watched:
            return
        if name in sys.modules:
            from vlmguard.runtime import arming

            _watcher.armed.add(adapter)
            arming.arm(adapter)
        else:
            _watcher.watched[name] = (adapter, recognise)
    except Exception as error:
        _complain(f"could not watch {name}", error)


def install() -> None:
    """Start watching. Idempotent (a venv on 3.11 reads ``.pth`` files twice); never raises."""
    try:
        if _watcher in sys.meta_path:
            return
        watch("transformers.trainer", "vlmguard_transformers")
        watch("transformers.hf_argparser", "vlmguard_transformers")
        watch("swift", "vlmguard_swift", _is_ms_swift)
        watch("trl", "vlmguard_trl")
        watch("llamafactory", "vlmguard_llamafactory")
        watch("accelerate.accelerator", "vlmguard_accelerate")
        watch("FlagEmbedding", "vlmguard_flagembedding")
        watch("colossalai", "vlmguard_colossalai")
        sys.meta_path.insert(0, _watcher)
    except Exception as error:
        _complain("could not start", error)
