"""Where the lab writes: the checkout's compat/ and docs/, or a folder of the user's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vlmguard.compat import verdicts

_CHECKOUT = Path(__file__).resolve().parents[2]


def in_checkout() -> bool:
    """Whether these sources are a checkout, whose tables are meant to be written."""
    return (_CHECKOUT / "pyproject.toml").exists() and (_CHECKOUT / "compat").is_dir()


def enter(folder: Path) -> Path | None:
    """Read and write tables in ``folder`` from now on; None in a checkout, which has its own.

    What the wheel brings is copied first, never over a file of the user's: installed files stay
    as they are.
    """
    if os.environ.get("VLMGUARD_TABLES"):
        folder = Path(os.environ["VLMGUARD_TABLES"])
    elif in_checkout():
        return None
    folder = folder.resolve()
    installed = Path(verdicts.__file__).parents[1] / "_compat"
    for file in sorted(installed.rglob("*")):
        target = folder / file.relative_to(installed)
        if file.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["VLMGUARD_TABLES"] = str(folder)
    verdicts.forget()
    return folder


def docs() -> Path:
    """The folder of compatibility.md: docs/, or that of the user's tables."""
    return verdicts.folder() if os.environ.get("VLMGUARD_TABLES") else _CHECKOUT / "docs"
