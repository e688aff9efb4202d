"""The environments that tests and demo run in: `python tests/kit/envs.py make NAME…`.

Standard library only, because it runs before anything is installed. An environment is one section
of constraints.txt, which pins everything, so pip resolves nothing: first torch and the build
tools, then all other lines with --no-deps, then this checkout itself, editable.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("VLMGUARD_ENVS", ROOT / ".envs"))
PINS = ROOT / "constraints.txt"

SHARED = HOME != ROOT / ".envs"
"""Whether these environments are another checkout's (VLMGUARD_ENVS), with its vlmguard in them."""
SOURCES = (str(ROOT), str(ROOT / "plugins")) if SHARED else ()
"""For PYTHONPATH: this checkout before the one that the environments were made from."""
FIRST = {"torch", "numpy", "setuptools", "wheel", "packaging", "hatchling", "editables", "ninja"}
"""Installed before, and with their dependencies: what the other packages need to be built."""
PYTHONS = ((3, 11),)
"""Releases of Python that constraints.txt was resolved for: wheels differ between them."""
AT_ONCE = 2
"""Environments that are made at the same time: one downloads while the other unpacks."""
ROOM = 16
"""GB that all environments and a run of the tests take."""
AGAIN = 10.0
"""Seconds before a step of pip is tried again."""
EDITABLE = ("pyproject.toml", "vlmguard/_startup/*", "plugins/*/__init__.py")
"""A change in these is not seen through an editable install: it is installed again."""


def sections() -> dict[str, list[str]]:
    """The pins of constraints.txt by environment; a section starts at a line `# [name]`."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in PINS.read_text(encoding="utf-8").splitlines():
        if title := re.fullmatch(r"# \[([\w.-]+)\].*", line):
            current = found.setdefault(title[1], [])
        elif line.strip() and not line.startswith("#"):
            current.append(line.strip())
    return found


def path(name: str) -> Path:
    """Where the environment lies; it need not exist yet."""
    return HOME / name


def program(name: str, tool: str = "python") -> str:
    """A program of the environment, which is made if it is missing or stale."""
    make(name)
    return str(path(name) / "bin" / tool)


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> None:
    """Leave with what to type where this Python is not one that the pins are for."""
    if version in PYTHONS or os.environ.get("VLMGUARD_ANY_PYTHON"):
        return
    names = " or ".join(f"{major}.{minor}" for major, minor in PYTHONS)
    found = [f"python{a}.{b}" for a, b in PYTHONS if shutil.which(f"python{a}.{b}")]
    there = f"make PYTHON={found[0]} …" if found else f"install Python {names}"
    sys.exit(
        f"[envs] this is Python {version[0]}.{version[1]}; the packages of {PINS.name} are pinned "
        f"for Python {names}: {there} (VLMGUARD_ANY_PYTHON=1 tries it all the same)"
    )


def make(name: str) -> None:
    """Bring the environment up to its recipe; costs nothing if it is."""
    check_python()
    pins = sections().get(name)
    if pins is None:
        sys.exit(f"no section [{name}] in {PINS.name}; there are {', '.join(sections())}")
    packages = _digest("\n".join(pins), sys.version)
    ourselves = _digest(packages, *(file.read_text() for file in _editable()))
    with _locked(name):
        if _stamp(name, "packages") != packages:
            free = shutil.disk_usage(HOME.parent).free / 1e9
            if free < ROOM:
                print(f"[envs] {name}: {free:.1f} GB are free; all environments together and "
                      f"their tests take {ROOM} GB", flush=True)  # fmt: skip
            _install(name, pins)
            _stamp(name, "packages", packages)
        if SHARED and _stamp(name, "vlmguard"):
            return
        if _stamp(name, "vlmguard") != ourselves and (ROOT / "pyproject.toml").exists():
            _pip(name, "vlmguard itself", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
            _stamp(name, "vlmguard", ourselves)


def _install(name: str, pins: list[str]) -> None:
    shutil.rmtree(path(name), ignore_errors=True)
    _run(name, "an empty environment", sys.executable, "-m", "venv", str(path(name)))
    first = [pin for pin in pins if re.split(r"[=<>@ ]", pin)[0].lower() in FIRST]
    pinned = path(name) / "constraints.txt"
    pinned.write_text("\n".join(pins) + "\n", encoding="utf-8")
    _pip(name, "torch and build tools", "-c", str(pinned), *first)
    rest = ("--no-deps", "--no-build-isolation", "-r", str(pinned))
    _pip(name, f"{len(pins)} pinned packages", *rest)


def _pip(name: str, what: str, *arguments: str) -> None:
    python = str(path(name) / "bin" / "python")
    quiet = ("-qq", "--disable-pip-version-check", "--no-compile")
    command = (python, "-m", "pip", "install", *quiet, *arguments)
    _run(name, what, *command, tries=3)


def _run(name: str, what: str, *command: str, tries: int = 1) -> None:
    """Run one step, with a line every 20 seconds so that nobody takes it for hung.

    tries: how often in all, where it fails: an index does not always answer.
    """
    print(f"[envs] {name}: {what} …", flush=True)
    started = time.monotonic()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(20):
            seconds = time.monotonic() - started
            print(f"[envs] {name}: {what}, {seconds:.0f} s so far", flush=True)

    threading.Thread(target=tick, daemon=True).start()
    try:
        for left in reversed(range(tries)):
            code = subprocess.run(command, check=False, env=_environment(), cwd=HOME).returncode
            if code == 0:
                break
            failed = f"[envs] {name}: {what} failed with exit code {code}"
            print(failed, flush=True)
            if not left:
                sys.exit(failed)
            time.sleep(AGAIN)
    finally:
        done.set()
    print(f"[envs] {name}: {what}, done in {time.monotonic() - started:.0f} s", flush=True)


def _environment() -> dict[str, str]:
    """DS_BUILD_OPS=0: DeepSpeed must not compile kernels. No PYTHONPATH: it would hide packages."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**kept, "DS_BUILD_OPS": "0", "VLMGUARD": "off"}


def _editable() -> list[Path]:
    return sorted(file for pattern in EDITABLE for file in ROOT.glob(pattern) if file.is_file())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _stamp(name: str, what: str, value: str | None = None) -> str:
    file = path(name) / f".{what}.stamp"
    if value is not None:
        file.write_text(value)
    return file.read_text() if file.exists() else ""


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """`make NAME…` makes, `bin NAME [TOOL]` prints a program's path."""
    match arguments:
        case ["make", *names] if names:
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(make, names))
        case ["bin", name, *tool]:
            print(program(name, *tool[:1]))
        case _:
            sys.exit("usage: envs.py make NAME… | bin NAME [TOOL]")


if __name__ == "__main__":
    main(sys.argv[1:])
