"""Frameworks installed in other forms than in our environments: over one of these that lacks the
framework, or in an environment over a Python that has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from tests.kit import envs


def call(*words: str | Path, **more: object) -> str:
    """What a command prints. It has to succeed."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr[-3000:]
    return str(done.stdout)


def packages(env: str) -> Path:
    """The folder of an environment's installed packages."""
    return next(Path(envs.program(env)).parents[1].glob("lib/python*/site-packages"))


def layered(env: str, package: str, folder: Path) -> Path:
    """A Python over an environment of ours that lacks the framework → its program."""
    lower = folder / "lower"
    lower.mkdir()
    for each in packages(env).iterdir():
        if not each.name.lower().replace("-", "_").startswith((package.lower(), f"ms_{package}")):
            (lower / each.name).symlink_to(each)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    upper = next(folder.glob("venv/lib/python*/site-packages"))
    (upper / "zz_lower.pth").write_text(f"import site; site.addsitedir({str(lower)!r})\n")
    return folder / "venv" / "bin" / "python"


def below(env: str, folder: Path) -> Path:
    """An environment made with ``--system-site-packages`` over a Python that has the packages of
    one of ours → its program. The Python below is a copy, with links to the library."""
    real = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base, library = folder / "base", folder / "base" / "lib" / name
    library.mkdir(parents=True)
    (base / "bin").mkdir()
    shutil.copy2(real, base / "bin" / name)
    for each in (real.parents[1] / "lib" / name).iterdir():
        if each.name != "site-packages":
            (library / each.name).symlink_to(each)
    (library / "site-packages").symlink_to(packages(env))
    words = ("-m", "venv", "--without-pip", "--system-site-packages", folder / "venv")
    call(base / "bin" / name, *words, env={"VLMGUARD": "off"})
    return folder / "venv" / "bin" / "python"


def copied(env: str, package: str, into: Path) -> Path:
    """The framework's folder as our environment has it, bytecode included → where it is now."""
    shutil.copytree(packages(env) / package, into / package)
    return into / package


def archived(folder: Path, file: Path, **more: Path) -> Path:
    """A zip of what is in a folder, without bytecode, and of files by the names to give them."""
    found = {str(each.relative_to(folder)): each for each in folder.rglob("*")}
    with zipfile.ZipFile(file, "w") as archive:
        for name, each in {**found, **more}.items():
            if "__pycache__" not in name:
                archive.write(each, name)
    return file
