"""Asks child processes how this Python starts: whether vlmguard is in place, what it would wrap.

Nothing of this process is believed: ``vlmguard doctor`` has vlmguard imported, a training script
has not. A child is started as this Python was (its flags, its environment), and looks at itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MARK = "vlmguard-probe:"
LIMIT = 180.0
"""Seconds for one child; importing a framework on a busy machine takes tens of them."""

_START = """
import sys
start = sys.modules.get("vlmguard._bootstrap")
watcher = getattr(start, "_watcher", None)
in_place = watcher is not None and watcher in sys.meta_path
import json, os
told = {"in_place": in_place, "no_site": bool(sys.flags.no_site), "path": sys.path}
try:
    import vlmguard.auto
    from vlmguard import _bootstrap
    from vlmguard.cli import installed
    from vlmguard.runtime import definitions
    told["home"] = os.path.dirname(os.path.dirname(os.path.abspath(vlmguard.__file__)))
    told["frameworks"], told["absent"], told["others"] = [], [], {}
    for name, (adapter, recognise) in sorted(_bootstrap._watcher.watched.items()):
        top = name.partition(".")[0]
        spec = definitions.find(top)
        if spec is None:
            told["absent"].append(top)
        elif recognise is not None and not recognise(spec):
            told["others"][top] = installed.of(top, spec)["place"]
        elif adapter not in [each["adapter"] for each in told["frameworks"]]:
            row = {"package": name, "adapter": adapter, **installed.of(top, spec)}
            told["frameworks"].append(row)
except Exception as error:
    told["error"] = f"{type(error).__name__}: {error}"
print("\\n" + MARK + json.dumps(told))
"""

_ATTACH = """
import importlib, json, sys
name, adapter = sys.argv[1:]
import vlmguard.auto
told = {"seams": [], "error": "", "armed": False, "version": ""}
try:
    importlib.import_module(name)
    version = getattr(sys.modules[name.partition(".")[0]], "__version__", "")
    told["version"] = version if isinstance(version, str) else ""
    from vlmguard.core.errors import innermost
    from vlmguard.runtime import seams
    told["armed"] = adapter in seams.armed
    for seam in importlib.import_module(adapter).SEAMS:
        why = ""
        for target in seam.targets:
            module = target.partition(":")[0]
            try:
                importlib.import_module(module)
            except Exception as error:
                lacks = isinstance(error, ModuleNotFoundError) and error.name
                if not (lacks and f"{module}.".startswith(f"{lacks}.")):  # in this release
                    why = f"{module}: {innermost(error)}"
        state, target = seams.where(seam)
        told["seams"].append([seam.name, state, target, seam.why, seam.optional, why])
except Exception as error:
    told["error"] = f"{type(error).__name__}: {error}"
print("\\n" + MARK + json.dumps(told))
"""


@dataclass(frozen=True)
class Framework:
    """A framework that is installed and has an adapter.

    Attributes:
        package, adapter: names to import.
        name, release: of the distribution; "" where no metadata tell the release.
        place, how: the folder or zip that holds it, and how it was installed (`installed.of`).
    """

    package: str
    adapter: str
    name: str
    release: str
    place: str = ""
    how: str = ""


@dataclass(frozen=True)
class Start:
    """How a Python like this one starts.

    Attributes:
        in_place: the watcher was there before any code of the user's ran.
        no_site: it was started with ``-S``, which reads no ``.pth`` file.
        home: the folder that vlmguard was imported from; "" if it could not be.
        path: its ``sys.path``.
        frameworks: those that are installed and have an adapter.
        absent: packages with an adapter that cannot be imported here.
        others: package → place, where another package has a framework's name.
        error: what went wrong with asking; "" if nothing did.
    """

    in_place: bool
    no_site: bool = False
    home: str = ""
    path: tuple[str, ...] = ()
    frameworks: tuple[Framework, ...] = ()
    absent: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Seam:
    """One place in a framework, as a child found it that imported the framework."""

    name: str
    state: str
    target: str
    why: str
    optional: bool
    error: str

    @property
    def lost(self) -> bool:
        """Whether something is not guarded for want of it."""
        return self.state not in ("attached", "absent") and not self.optional


@dataclass(frozen=True)
class Attached:
    """The seams of one framework, or why they could not be looked at.

    Attributes:
        version: what the imported package says of itself (``__version__``); "" if nothing.
        unseen: the framework was imported, and the watcher did not notice.
    """

    framework: Framework
    seams: tuple[Seam, ...] = field(default=())
    error: str = ""
    version: str = ""
    unseen: bool = False


def start() -> Start:
    """Start a Python and ask it."""
    told, error = _ask(_START, ())
    if told is None:
        return Start(False, error=error)
    return Start(
        told["in_place"],
        told["no_site"],
        told.get("home", ""),
        tuple(told["path"]),
        tuple(Framework(**row) for row in told.get("frameworks", ())),
        tuple(dict.fromkeys(told.get("absent", ()))),
        told.get("others", {}),
        told.get("error", ""),
    )


def attach(framework: Framework) -> Attached:
    """Start a Python that imports the framework, and ask it which seams are attached."""
    told, error = _ask(_ATTACH, (framework.package, framework.adapter))
    if told is None:
        return Attached(framework, error=error)
    found = tuple(Seam(*row) for row in told["seams"])
    unseen = not told["armed"] and not told["error"]
    return Attached(framework, found, told["error"], told["version"], unseen)


def python() -> list[str]:
    """The command that starts a Python as this one was started: the same program and flags."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags]


def _ask(code: str, words: tuple[str, ...]) -> tuple[dict[str, Any] | None, str]:
    command = [*python(), "-c", f"MARK = {MARK!r}\n{code}", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)[:200]
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return None, last[:300]
    return json.loads(lines[-1].removeprefix(MARK)), ""
