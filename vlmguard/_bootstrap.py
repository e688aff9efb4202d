"""Watch for a framework's import, arm its adapter then, and call back after a module's import.

Called by ``vlmguard.pth`` (``vlmguard.start`` from Python 3.15, PEP 829) in every process: the
launcher, torchrun, each rank, dataloader workers. So: standard library only, no entry-point scan,
nothing is ever raised. Measured on CPython 3.11: under 1 ms; a look-up that misses, 0.2 µs.
"""

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False  # importing typing would take longer than this whole module
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Recognise = Callable[[ModuleSpec], bool]
    Imported = Callable[[ModuleType], None]


def _holds(spec: "ModuleSpec", *names: str) -> bool:
    """Whether the package that ``spec`` describes has the submodule ``names``, in a zip too."""
    from importlib.machinery import PathFinder

    places = [os.path.join(folder, *names[:-1]) for folder in spec.submodule_search_locations or ()]
    return PathFinder.find_spec(".".join((spec.name, *names)), places) is not None


def _is_ms_swift(spec: "ModuleSpec") -> bool:
    # `swift` is also OpenStack Swift's package.
    return _holds(spec, "cli", "sft")


class _Watcher:
    """A meta-path finder that finds nothing itself.

    A name that is watched, or has callbacks, is asked of all finders behind this one: Python's own,
    the one that ``pip install -e`` leaves, another tool's. What they find is handed on; a watched
    name then arms its adapter, and a name with callbacks gets a loader that calls back. Finders
    that do the same (wrapt's) may stand before and behind: each asks the other, so the same name is
    answered once a thread.
    """

    def __init__(self) -> None:
        self.watched: dict[str, tuple[str, Recognise | None]] = {}
        self.callbacks: dict[str, list[Imported]] = {}
        self.armed: set[str] = set()
        self.asking: set[tuple[str, int]] = set()
        self.told: dict[str, int] = {}  # module whose callbacks have run → its id
        self.missing: dict[str, int] = {}  # other name → how many modules there were then
        self.passed_by = False  # whether an old finder loads modules without this one

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in self.watched and name not in self.callbacks:
            if self.passed_by or (sys.meta_path and sys.meta_path[0] is not self):
                count = len(sys.modules)
                if self.missing.get(name) != count:  # accelerate looks for two names in each step
                    self._catch_up()
                    self.missing[name] = count
            return None
        key = (name, get_ident())
        if key in self.asking:
            return None
        self.asking.add(key)
        try:
            spec = self._ask(name, path, target)
            if spec is not None:
                self._see(name, spec)
                if name in self.callbacks and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec)  # type: ignore[assignment]
            return spec
        finally:
            self.asking.discard(key)

    def _behind(self) -> "list[Any]":
        """The finders that this import has not passed by yet."""
        finders = list(sys.meta_path)
        passed = finders[: finders.index(self) + 1] if self in finders else [self]
        return [finder for finder in finders if finder not in passed]

    def _ask(
        self, name: str, path: "Sequence[str] | None", target: "ModuleType | None"
    ) -> "ModuleSpec | None":
        for finder in self._behind():
            find = getattr(finder, "find_spec", None)
            if find is None:
                if _found_the_old_way(finder, name, path):
                    self.passed_by = True  # Python asks it again, and loads it in its own way
                    return None
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _see(self, name: str, spec: "ModuleSpec | None") -> None:
        """Arm the adapter of ``name``, unless another package has that name. Contained."""
        adapter, recognise = self.watched.get(name, ("", None))
        try:
            other = recognise is not None and (spec is None or not recognise(spec))
            if not adapter or other:
                return  # not the framework we know, at least not yet: keep looking
            self.watched.pop(name, None)  # first: the lines below may import it
            self.armed.add(adapter)
            from vlmguard.runtime import seams

            seams.arm(adapter)
        except Exception as error:
            self.watched.pop(name, None)
            _complain(f"could not arm {adapter} for {name}", error)

    def _catch_up(self) -> None:
        """Look for what has come in through a finder that stands before this one, or is old."""
        there = sys.modules
        for name in filter(_complete, self.watched.keys() & there.keys()):
            self._see(name, getattr(there.get(name), "__spec__", None))
        for name in self.callbacks.keys() & there.keys():
            module = there.get(name)
            if module is not None and self.told.get(name) != id(module) and _complete(name):
                _call_back(name, module)


def _found_the_old_way(finder: "Any", name: str, path: "Sequence[str] | None") -> bool:
    """Whether a finder without ``find_spec`` has it; such are asked by Python 3.10 and 3.11."""
    find = getattr(finder, "find_module", None) if sys.version_info < (3, 12) else None
    return find is not None and find(name, path) is not None


def _complete(name: str) -> bool:
    """Whether the module is imported, and has been executed."""
    try:
        return not getattr(sys.modules[name].__spec__, "_initializing", True)
    except Exception:  # it is gone already, or is not a module
        return False


class _Loader:
    """Stands before a module's loader until the module is executed, then is gone again.

    To whoever looks before that (``importlib.util.find_spec``, ``python -m``) it is that loader.
    """

    def __init__(self, spec: "ModuleSpec") -> None:
        self.spec, self.loader = spec, spec.loader

    def __getattr__(self, name: str) -> "Any":
        if name in ("spec", "loader"):  # this is a copy that was made without __init__
            raise AttributeError(name)
        return getattr(self.loader, name)

    @property  # type: ignore[misc]
    def __class__(self) -> "Any":
        return type(self.loader)

    def __reduce_ex__(self, protocol: "Any") -> "Any":
        return self.loader.__reduce_ex__(protocol)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        create = getattr(self.loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module: "Any") -> None:
        for spec in (self.spec, getattr(module, "__spec__", None)):
            if getattr(spec, "loader", None) is self:
                spec.loader = self.loader  # type: ignore[union-attr]
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self.loader
        self.loader.exec_module(module)  # type: ignore[union-attr]
        _call_back(module.__name__, module)


_watcher = _Watcher()


def _call_back(name: str, module: "ModuleType") -> None:
    module = sys.modules.get(name, module)  # lazy packages put another object in their place
    _watcher.told[name] = id(module)
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
        _watcher.watched[name] = (adapter, recognise)
        if sys.modules.get(name) is not None:
            _watcher._see(name, getattr(sys.modules[name], "__spec__", None))
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
        watch("torch.optim.optimizer", "vlmguard_torch")
        watch("torch.nn.parallel.distributed", "vlmguard_accelerate.plain_seams")
        sys.meta_path.insert(0, _watcher)
    except Exception as error:
        _complain("could not start", error)
