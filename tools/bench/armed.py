"""Two environments that differ in one file: vlmguard's ``.pth``, or a null control."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NULL = "import sys; sys.flags\n"
"""Read and executed as ours is, and does nothing."""


def two(folder: Path, packages: Path | None = None) -> tuple[str, str]:
    """The Pythons of the armed and of the null environment.

    Args:
        packages: a site-packages folder that both can import from; its own ``.pth`` files are not
            read.
    """
    return tuple(_one(folder / name, name == "armed", packages) for name in ("armed", "null"))  # type: ignore[return-value]


def _one(folder: Path, armed: bool, packages: Path | None) -> str:
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for each in (ROOT / "vlmguard", *(ROOT / "plugins").iterdir()):
        if (each / "__init__.py").exists():
            (site / each.name).symlink_to(each)
    ours = (ROOT / "vlmguard" / "_startup" / "vlmguard.pth").read_text("utf-8")
    (site / "vlmguard.pth").write_text(ours if armed else NULL, encoding="utf-8")
    if packages is not None:
        (site / "beside.pth").write_text(f"{packages}\n", encoding="utf-8")
    return str(folder / "bin" / "python")


def packages_of(python: str) -> Path:
    """The site-packages folder of an interpreter."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def loaded(python: str, module: str, variables: dict[str, str]) -> set[str]:
    """The modules that are there after its import."""
    code = f"import {module}, sys; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [python, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def outside(modules: set[str]) -> list[str]:
    """Those that are neither of the standard library nor ours."""
    known = sys.stdlib_module_names
    return sorted(m for m in modules if m.split(".")[0] not in known and not m.startswith("vlm"))
