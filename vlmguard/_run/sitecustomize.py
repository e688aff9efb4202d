"""Put on PYTHONPATH by ``vlmguard run``: arms this Python, then runs the user's sitecustomize."""

import os
import sys


def _arm() -> None:
    try:
        from vlmguard import _bootstrap
    except ImportError:
        sys.path += [p for p in os.environ.get("VLMGUARD_PATH", "").split(os.pathsep) if p]
        from vlmguard import _bootstrap
    _bootstrap.install()


def _go_on() -> None:
    """The sitecustomize that this one stands before, if there is one."""
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _arm()
except Exception as error:
    sys.stderr.write(f"vlmguard: run: {sys.executable} is not guarded: {error}\n")
_go_on()
