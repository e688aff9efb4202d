"""What torch was built for, and whether this machine's GPUs are among it: for ``vlmguard doctor``.

It runs in a Python of its own, which a broken installation of CUDA may take with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

from vlmguard.cli import probe

LIMIT = 60.0
"""Seconds for importing torch and asking the driver."""


def look() -> list[str]:
    """What `told` says of the torch that is installed here; [] without one."""
    try:
        done = subprocess.run(
            [*probe.python(), "-m", __name__],
            env={**os.environ, "VLMGUARD": "off"}, capture_output=True, text=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"torch could not be asked for GPUs: no answer in {LIMIT:g} s"]
    last = done.stderr.strip().rpartition("\n")[2]
    failed = [f"torch could not be asked for GPUs: {last}"] if done.returncode else []
    return [*done.stdout.splitlines(), *failed]


def told(torch: Any) -> Iterator[str]:
    """The build, each GPU, and whether a convolution runs. ``torch``: the module."""
    if torch.version.cuda is None:
        yield "torch was built without CUDA"
        return
    known = torch.cuda.get_arch_list()
    kinds = f": {', '.join(known)}" if known else ""  # torch names none where it sees no GPU
    yield f"torch was built for CUDA {torch.version.cuda}{kinds}"
    if not torch.cuda.is_available():
        yield "  it sees no GPU: the driver, or CUDA_VISIBLE_DEVICES"
        return
    for number in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(number)
        name = f"sm_{major}{minor}"
        fits = any(_runs(each, major, minor) for each in known)
        more = "" if fits else ": NOT among them; install a torch that was built for it"
        yield f"  GPU {number}: {torch.cuda.get_device_name(number)}, {name}{more}"
    yield f"  a convolution in bfloat16: {_convolution(torch)}"


def _runs(built: str, major: int, minor: int) -> bool:
    """Code for sm_80 runs on 8.0 and 8.6; code for compute_80 is compiled anew for later cards."""
    kind, _, digits = built.rstrip("abcdefghijklmnopqrstuvwxyz").partition("_")
    at = int(digits[:-1]), int(digits[-1])
    return at <= (major, minor) and (kind == "compute" or at[0] == major)


def _convolution(torch: Any) -> str:
    try:
        layer = torch.nn.Conv2d(3, 8, 14, 14).cuda().bfloat16()
        layer(torch.randn(1, 3, 336, 336).cuda().bfloat16())
        torch.cuda.synchronize()
    except Exception as error:  # any library may raise any of its own
        first = str(error).partition("\n")[0]
        return f"FAILS, so it is the installation, not a model or data: {first}"
    return f"runs (cuDNN {torch.backends.cudnn.version()})"


def main() -> None:
    try:
        import torch
    except ImportError:
        return
    for line in told(torch):
        print(line, flush=True)


if __name__ == "__main__":
    main()
