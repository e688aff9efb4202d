"""Watch for a framework's import, and arm its adapter then: all that runs at interpreter start.

Called by ``vlmguard.pth`` (``vlmguard.start`` from Python 3.15, PEP 829) in every process: the
launcher, torchrun, each rank, dataloader workers. So: standard library only, no entry-point scan,
nothing is ever raised. Measured on CPython 3.11: under 1 ms; a look-up that misses, 0.2 µs.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing would cost more than all that is here
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec


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
    """A meta-path finder that finds nothing itself: a watched name arms its adapter."""

    def __init__(self) -> None:
        self.watched: dict[str, tuple[str, Callable[[ModuleSpec], bool] | None]] = {}
        self.armed: set[str] = set()

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: object = None
    ) -> "ModuleSpec | None":
        if name not in self.watched:
            return None
        adapter, recognise = self.watched.pop(name)  # popped first: what follows may import it
        try:
            self._see(name, path, adapter, recognise)
            return self._ask_anew(name, path)
        except Exception as error:
            _complain(f"could not arm {adapter} for {name}", error)
            return None

    def _ask_anew(self, name: str, path: "Sequence[str] | None") -> "ModuleSpec | None":
        # Arming may have put a finder before us (wrapt's): this import has already passed it by.
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(name, path)
            if spec is not None:
                return spec
        return None

    def _see(
        self,
        name: str,
        path: "Sequence[str] | None",
        adapter: str,
        recognise: "Callable[[ModuleSpec], bool] | None",
    ) -> None:
        if recognise is not None:
            from importlib.machinery import PathFinder

            spec = PathFinder.find_spec(name, path)
            if spec is None or not recognise(spec):
                # Not the framework we know, at least not yet: keep looking.
                self.watched[name] = (adapter, recognise)
                return
        self.armed.add(adapter)
        from vlmguard.runtime import arming

        arming.arm(adapter)


_watcher = _Watcher()


def _complain(what: str, error: Exception) -> None:
    text = f"vlmguard: {what}: {type(error).__name__}: {error}; going on without it\n"
    try:  # noqa: SIM105 (contextlib is not imported for this)
        sys.stderr.write(text)
    except Exception:
        pass


def watch(name: str, adapter: str, recognise: "Callable[[ModuleSpec], bool] | None" = None) -> None:
    """Arm the module ``adapter`` when the top-level package ``name`` is first imported.

    Public: an adapter for another framework ships its own one-line ``.pth`` that calls this.

    Args:
        name: import name of the framework, e.g. ``"swift"``.
        adapter: import name of the adapter module, e.g. ``"vlmguard_swift"``.
        recognise: called with the package's spec; false means "another package of that name".
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
        watch("swift", "vlmguard_swift", _is_ms_swift)
        watch("FlagEmbedding", "vlmguard_flagembedding")
        watch("colossalai", "vlmguard_colossalai")
        sys.meta_path.insert(0, _watcher)
    except Exception as error:
        _complain("could not start", error)
