"""Released wheels and sdists, read without importing or unpacking them.

Everything goes through pip: what releases there are (``pip index versions``) and the archive of one
(``pip download --no-deps``), kept in a cache folder. Modules are read from inside the archive.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from packaging.version import Version


class Unavailable(Exception):
    """pip could not answer; the message is the last line that it wrote."""


def cache() -> Path:
    """The folder of archives: ``$XDG_CACHE_HOME/vlmguard/releases``."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "vlmguard" / "releases"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(*words: str) -> str:
    # pip runs setup.py for the metadata of a DeepSpeed or ColossalAI sdist. It must build nothing.
    environment = {**os.environ, "DS_BUILD_OPS": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [sys.executable, "-m", "pip", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["pip failed"])[-1])
    return done.stdout


@functools.cache
def versions(name: str, first: str = "0", last: str = "9999") -> tuple[str, ...]:
    """Final releases from ``first`` to ``last``, oldest first. Raises `Unavailable`."""
    found = re.search(r"^Available versions: (.*)$", _pip("index", "versions", name), re.M)
    if found is None:
        raise Unavailable(f"pip names no version of {name}")
    wanted = (Version(word.strip()) for word in found[1].split(","))
    low, high = Version(first), Version(last)
    return tuple(str(v) for v in sorted(wanted) if low <= v <= high and not v.is_prerelease)


def archive(name: str, release: str) -> Path:
    """The wheel, or the sdist where there is none, from the cache or by pip.

    Raises:
        Unavailable: pip has no such release, or its setup.py fails.
    """
    stem = re.sub(r"[-_.]+", "[-_.]", name)
    pattern = re.compile(rf"{stem}-{re.escape(release)}(-.*\.whl|\.tar\.gz|\.zip)", re.I)

    def there() -> Path | None:
        return next((p for p in cache().iterdir() if pattern.fullmatch(p.name)), None)

    found = there()
    if found is None:
        _pip("download", "-q", "--no-deps", "-d", str(cache()), f"{name}=={release}")
        found = there()
    if found is None:
        raise Unavailable(f"pip downloaded no {name} {release}")
    return found


class Source:
    """The Python files of one archive: module name → text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._texts = _python_files(path)

    def module(self, name: str) -> str | None:
        """Source of a module or package; None if the release has none of that name."""
        stem = name.replace(".", "/")
        for file in (f"{stem}/__init__.py", f"{stem}.py"):
            if file in self._texts:
                return self._texts[file].decode("utf-8", "replace")
        return None

    def modules(self, top: str) -> list[str]:
        """Names of all modules under the top-level package, sorted."""
        names = (file.removesuffix(".py").removesuffix("/__init__") for file in self._texts)
        return sorted(n.replace("/", ".") for n in names if n == top or n.startswith(top + "/"))


def _python_files(path: Path) -> dict[str, bytes]:
    """Path inside the project → bytes; an sdist's own folder and ``src`` are left out."""
    if path.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(path) as opened:
            files = {n: opened.read(n) for n in opened.namelist() if n.endswith(".py")}
    else:
        with tarfile.open(path) as tar:
            members = (m for m in tar if m.isfile() and m.name.endswith(".py"))
            files = {m.name: found.read() for m in members if (found := tar.extractfile(m))}
    if path.suffix == ".whl":
        return files
    inner = {name.partition("/")[2]: text for name, text in files.items()}
    return {name.removeprefix("src/"): text for name, text in inner.items()}
