"""Makes the environments of the release sets that ``compat/envs.toml`` lists.

One virtual environment a torch release and one overlay folder a release of deepspeed,
transformers and peft, put together by PYTHONPATH: any combination for little more than a torch.
Torch builds for CUDA are installed without their libraries (see `standins`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.lab import standins
from tools.lab.records import home as home_of_records
from vlmguard.compat.choice import folder
from vlmguard.core.settings import read_toml


class CannotInstall(Exception):
    """An environment that pip or the import test refused; the message is the reason."""


@dataclass(frozen=True)
class ReleaseSet:
    """One row of ``compat/envs.toml``; measure: a part, see `cases.of_part`."""

    name: str
    torch: str
    deepspeed: str
    transformers: str
    peft: str
    measure: str = "flips"

    @property
    def releases(self) -> dict[str, str]:
        """Package → release, in the order of the records."""
        names = ("torch", "deepspeed", "transformers", "peft")
        return {name: getattr(self, name) for name in names}


_ROOT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """Where environments lie: ``$VLMGUARD_LAB``, or ``.envs/lab``."""
    found = os.environ.get("VLMGUARD_LAB")
    if found:
        return Path(found)
    return _ROOT / ".envs" / "lab"


def recipe() -> dict[str, Any]:
    """The parsed ``compat/envs.toml``."""
    return read_toml(folder() / "envs.toml")


def sets() -> dict[str, ReleaseSet]:
    """All release sets by name, in the order in which they are worth measuring."""
    return {row["name"]: ReleaseSet(**row) for row in recipe()["set"]}


def python(of: ReleaseSet) -> Path:
    """The interpreter of the set's torch environment; it need not exist yet."""
    return _place(of.torch) / "bin" / "python"


def _place(release: str) -> Path:
    return home() / f"torch-{release}"


def overlays(of: ReleaseSet) -> list[Path]:
    """The folders that go on PYTHONPATH, first one first."""
    names = ("deepspeed", "transformers", "peft")
    return [home() / f"{name}-{of.releases[name]}" for name in names]


def environment(of: ReleaseSet) -> dict[str, str]:
    """The variables under which a process sees this release set and only it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, [*overlays(of), _ours()])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DS_ACCELERATOR": "cpu",
        "DS_BUILD_OPS": "0",
        "ACCELERATE_TORCH_DEVICE": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLMGUARD": "off",
    }


def _ours() -> Path:
    """A folder of vlmguard and its tools alone: their neighbours are another environment's."""
    place = home() / f"vlmguard-{zlib.crc32(bytes(_ROOT)):08x}"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("vlmguard", "tools"):
        with contextlib.suppress(FileExistsError):
            (place / name).symlink_to(_ROOT / name, target_is_directory=True)
    return place


def make(of: ReleaseSet) -> None:
    """Bring the set's environment into being; costs nothing if it is there.

    Raises `CannotInstall` with the reason, which is written down as well for the sets of
    ``compat/envs.toml`` (`states`).
    """
    try:
        _torch(of.torch)
        for name, overlay in zip(("deepspeed", "transformers", "peft"), overlays(of), strict=True):
            _overlay(name, of.releases[name], overlay)
        _imports(of)
    except CannotInstall as error:
        _note(of, "failed", str(error))
        raise
    _note(of, "made", None)


def _torch(release: str) -> None:
    place = _place(release)
    with _locked(place) as done:
        if done:
            return
        shutil.rmtree(place, ignore_errors=True)
        _run("an empty environment", sys.executable, "-m", "venv", str(place))
        pip = (str(place / "bin" / "python"), "-m", "pip", "install", "-qq")
        # accelerate needs torch, and pip would also install all that a CUDA build needs.
        _run(f"torch {release}", *pip, "--no-deps", f"torch=={release}", _accelerate(release))
        _run("base packages", *pip, *_base(release))
        standins.complete(place, lambda *wheels: _run("CUDA runtime", *pip, *wheels))


def _accelerate(release: str) -> str:
    row = recipe()["torch"].get(release, {})
    return f"accelerate=={row['accelerate']}" if "accelerate" in row else "accelerate"


def _base(release: str) -> list[str]:
    row = recipe()["torch"].get(release, {})
    return [row.get("numpy", "numpy"), *recipe()["base"]["packages"]]


def _overlay(name: str, release: str, place: Path) -> None:
    with _locked(place) as done:
        if done:
            return
        shutil.rmtree(place, ignore_errors=True)
        into = (sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(place))
        _run(f"{name} {release}", *into, f"{name}=={release}")
        needs = recipe().get(name, {}).get(release, {}).get("needs") or _own_needs(name, place)
        if needs:
            _run(f"what {name} {release} needs", *into, *needs)


def _own_needs(name: str, place: Path) -> list[str]:
    """What transformers asks of the packages that every release pins anew, by its metadata."""
    if name != "transformers":
        return []
    (file,) = place.glob(f"{name}-*.dist-info/METADATA")
    pinned = re.findall(r"^Requires-Dist: (tokenizers|huggingface[-_]hub) ?\(?([^;)\n]*)\)?$",
                        file.read_text("utf-8"), re.M)  # fmt: skip
    return [f"{package}{spec}" for package, spec in pinned]


def _imports(of: ReleaseSet) -> None:
    """Import everything once; not again as long as nothing was installed anew."""
    mark = home() / ("imports-" + "-".join(of.releases.values()) + ".done")
    parts = [place.with_name(place.name + ".done") for place in (_place(of.torch), *overlays(of))]
    newest = max((part.stat().st_mtime for part in parts if part.exists()), default=0)
    if mark.exists() and mark.stat().st_mtime >= newest:
        return
    code = "import torch, deepspeed, transformers, peft; from torch import distributed as d; "
    code += "assert d.is_gloo_available()"
    _run("import test", str(python(of)), "-c", code, variables=environment(of))
    mark.touch()


def _run(what: str, *command: str, variables: dict[str, str] | None = None) -> None:
    used = variables or {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    used = {**used, "DS_BUILD_OPS": "0", "VLMGUARD": "off", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    # In a neutral folder: a package in the working directory would hide the installed one.
    home().mkdir(parents=True, exist_ok=True)
    ended = subprocess.run(
        command, env=used, cwd=home(), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()] or ["no output"]
        told = next((line for line in reversed(lines) if "rror" in line), lines[-1])
        raise CannotInstall(f"{what}: {told.strip()[:300]}")


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[bool]:
    """Yields whether the place is complete; marks it so if the body ends well."""
    place.parent.mkdir(parents=True, exist_ok=True)
    mark = place.with_name(place.name + ".done")
    with place.with_name(place.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        there = mark.exists()
        yield there
        if not there:
            mark.touch()


def remove(release: str) -> None:
    """Delete a torch environment (1 to 2 GB); its overlays stay."""
    place = _place(release)
    place.with_name(place.name + ".done").unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)


def _states() -> Path:
    return home_of_records() / "envs.json"


def states() -> dict[str, dict[str, Any]]:
    """Set → {"state": "made" or "failed", "reason", "releases"}, as far as it was tried."""
    file = _states()
    found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _note(of: ReleaseSet, state: str, reason: str | None) -> None:
    if of.name not in sets():
        return
    _states().parent.mkdir(parents=True, exist_ok=True)
    with _states().with_name(".envs.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        told = {**states(), of.name: {"state": state, "reason": reason, "releases": of.releases}}
        _states().write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
