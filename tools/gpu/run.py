"""What only a GPU can tell, in at most ten minutes: ``python tools/gpu/run.py --out gpu.json``.

For one CUDA device and a Python that has torch with CUDA and transformers 5. This folder is all of
ours that it needs, and vlmguard itself with pluggy and packaging, accelerate and peft: installed,
on PYTHONPATH, or as a folder of wheels (``make gpu-wheels``), which are laid into a folder of their
own. Results are JSON, written after each part. ``--cpu`` rehearses it with tiny sizes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NEEDED = ("torch", "transformers", "accelerate", "peft", "pluggy", "packaging", "vlmguard",
          "vlmguard_transformers")  # fmt: skip
LIMIT = 600.0
"""Seconds for all of it; a part that would begin after this is left out, and the JSON says so."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="rehearse, with tiny sizes")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to run from")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--only", nargs="*", help="names of parts")
    given = parser.parse_args()
    if given.wheels and "VLMGUARD_GPU_SITE" not in os.environ:
        return _with_wheels(given.wheels)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not here: {', '.join(missing)}; install them, or give --wheels", file=sys.stderr)
        return 2
    import torch

    device = "cpu" if given.cpu else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print("torch sees no CUDA device; --cpu rehearses the script", file=sys.stderr)
        return 2
    return _measure(device, given.out, given.only)


def _with_wheels(wheels: Path) -> int:
    """Run again with the packages that are missing here."""
    site = tempfile.mkdtemp(prefix="vlmguard-gpu-site-")
    found = sorted(wheels.glob("*.whl"))
    files = [str(f) for f in found if importlib.util.find_spec(f.name.split("-")[0]) is None]
    lay = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target"]
    if files:
        subprocess.run([*lay, site, *files], check=True)
    path = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))
    variables = {**os.environ, "PYTHONPATH": path, "VLMGUARD_GPU_SITE": site}
    return subprocess.run([sys.executable, *sys.argv], env=variables).returncode


def parts(device: str) -> dict[str, Callable[[], Any]]:
    """What is measured, in this order: what must be known first, the longest last."""
    import costs
    import ranks
    import sync
    import toggled
    import torch

    tiny = device == "cpu"
    dtype = torch.float32 if tiny else torch.bfloat16
    size = "tiny" if tiny else "2b"

    def step() -> Any:
        return toggled.run(size, device, dtype, 4 if tiny else 30)

    def mends() -> Any:
        found = costs.all_of(size, device, dtype, 2 if tiny else 10)
        return {"size": size, "dtype": str(dtype), **found}

    return {
        "sync": lambda: sync.look(device, dtype),
        "ranks": lambda: ranks.all_of(device, 25 if tiny else 60),
        "step": step,
        "costs": mends,
        "gemini": _gemini,
    }


def _gemini() -> str:
    """ColossalAI is built against a torch of its own and is not carried by wheels alone."""
    return "there, not run" if importlib.util.find_spec("colossalai") else "not brought along"


def _measure(device: str, out: Path, only: list[str] | None) -> int:
    import machine
    import torch

    import vlmguard

    started = time.monotonic()
    found: dict[str, Any] = {
        "rehearsal": device == "cpu",
        "machine": machine.words(device),
        "vlmguard": vlmguard.__version__,
        "taken": time.strftime("%Y-%m-%d"),
    }
    failed = []
    for name, part in parts(device).items():
        if only and name not in only:
            continue
        began = time.monotonic()
        if began - started > LIMIT:
            found[name] = {"left_out": "no time was left"}
            continue
        print(f"[gpu] {name} …", flush=True)
        try:
            found[name] = part()
        except Exception as error:  # the other parts may still work
            failed.append(name)
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
        print(f"[gpu] {name}, {time.monotonic() - began:.0f} s", flush=True)
        found["seconds"] = round(time.monotonic() - started)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if device == "cuda":
            torch.cuda.empty_cache()
    print(f"[gpu] {out}" + (f"; failed: {', '.join(failed)}" if failed else ""), flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
