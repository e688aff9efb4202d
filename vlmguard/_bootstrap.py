"""Watch for a framework's import, and arm its adapter then: all that runs at interpreter start.

Called by ``vlmguard.pth`` (``vlmguard.start`` from Python 3.15, PEP 829) in every process: the
launcher, torchrun, each rank, dataloader workers. So: standard library only, no entry-point scan,
nothing is ever raised. Measured on CPython 3.11: under 1 ms; a look-up that misses, 0.2 µs.
"""

import os
import sys


def _beside(spec, *path):  # type: ignore[no-untyped-def]
    """Whether the package that ``spec`` describes holds the file ``path``."""
    return any(
        os.path.isfile(os.path.join(folder, *path))
        for folder in spec.submodule_search_locations or ()
    )


def _is_ms_swift(spec):  # type: ignore[no-untyped-def]
    # `swift` is also OpenStack Swift's package.
    return _beside(spec, "cli", "sft.py")


class _Watcher:
    """A meta-path finder that finds nothing: it sees a watched name pass by and arms its adapter."""

    def __init__(self):  # type: ignore[no-untyped-def]
        self.watched = {}  # type: ignore[var-annotated]
        self.armed = set()  # type: ignore[var-annotated]

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name in self.watched:
            adapter, recognise = self.watched.pop(name)  # popped first: what follows may import it
            try:
                self._see(name, path, adapter, recognise)
            except Exception as error:
                _complain(f"could not arm {adapter} for {name}", error)
        return None

    def _see(self, name, path, adapter, recognise):  # type: ignore[no-untyped-def]
        if recognise is not None:
            from importlib.machinery import PathFinder

            spec = PathFinder.find_spec(name, path)
            if spec is None or not recognise(spec):
                # Not the framework we know, at least not yet: keep looking.
                self.watched[name] = (adapter, recognise)
                return
        self.armed.add(adapter)
        from vlmguard import arming

        arming.arm(adapter)


_watcher = _Watcher()


def _complain(what, error):  # type: ignore[no-untyped-def]
    try:
        sys.stderr.write(f"vlmguard: {what}: {type(error).__name__}: {error}; going on without it\n")
    except Exception:
        pass


def watch(name, adapter, recognise=None):  # type: ignore[no-untyped-def]
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
            from vlmguard import arming

            _watcher.armed.add(adapter)
            arming.arm(adapter)
        else:
            _watcher.watched[name] = (adapter, recognise)
    except Exception as error:
        _complain(f"could not watch {name}", error)


def install():  # type: ignore[no-untyped-def]
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
