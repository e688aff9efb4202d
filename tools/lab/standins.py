"""Makes a CUDA build of torch importable on a machine without CUDA libraries.

Such a wheel is 1 to 2 GB; the NVIDIA libraries that it names would be 4 GB more and are never
called on a CPU. The two small ones whose calls happen at import (runtime and CUPTI) come as the
real wheels; each other one becomes a library of the right name, symbols and symbol versions whose
functions abort. Never ``libcuda.so.1``: torch looks for it to learn that there is no driver.
Needs readelf, nm and gcc.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

_NVIDIA = re.compile(r"^lib(cu|nv|nccl)")
_REAL = re.compile(r"^lib(cudart|cupti|cuda)\.so")
_CALLS = re.compile(
    r"^(nccl|cudnn|cublas|cusparse|cusolver|cufft|curand|cufile|cuFile|cudss|nvrtc|nvJit|nvtx|nvshmem)"
)
_WHEELS = re.compile(r"^(nvidia-cuda-(?:runtime|cupti)[\w-]*)\s*\(?==\s*([\w.]+)")


def complete(place: Path, install: Callable[..., None]) -> None:
    """Give the torch in the environment ``place`` what it links against.

    install: installs wheels by requirement. Raises CalledProcessError where gcc refuses.
    """
    lib = next(place.glob("lib/python*/site-packages/torch/lib"))
    objects = sorted(file for file in lib.glob("*.so*") if not file.is_symlink())
    missing = _missing(lib, objects)
    if missing:  # a build for the CPU misses none
        install("--no-deps", *_runtime_wheels(place))
        _write(lib, objects, missing)


def _runtime_wheels(place: Path) -> list[str]:
    """The two real wheels, at the release that torch's own metadata names."""
    code = "import importlib.metadata as m, json; print(json.dumps(m.requires('torch')))"
    python = str(place / "bin" / "python")
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    required: list[str] = json.loads(told)
    found = [f"{m[1]}=={m[2]}" for line in required if (m := _WHEELS.match(line))]
    # Newer releases name one package whose extras are the libraries.
    toolkit = next((m[1] for x in required if (m := re.match(r"cuda-toolkit.*?==([\d.]+)", x))), "")
    if not found and toolkit:
        major_minor = ".".join(toolkit.split(".")[:2])
        found = [f"nvidia-cuda-{name}=={major_minor}.*" for name in ("runtime", "cupti")]
    return found


def _missing(lib: Path, objects: Iterable[Path]) -> set[str]:
    needed = {name for file in objects for name in _needed(file)}
    there = {file.name for file in lib.iterdir()}
    return {n for n in needed if _NVIDIA.match(n) and not _REAL.match(n) and n not in there}


def _needed(file: Path) -> list[str]:
    return re.findall(r"NEEDED.*\[(.+)\]", _tool("readelf", "-d", str(file)))


def _write(lib: Path, objects: list[Path], missing: set[str]) -> None:
    home_of = {version: name for file in objects for version, name in _versions(file, missing)}
    versioned: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    plain: set[str] = set()
    defined: set[str] = set()
    for file in objects:
        for kind, symbol in _symbols(file):
            name, _, version = symbol.replace("tests.bench.test_bench", "@").partition("@")
            if kind not in "Uw":
                defined.add(name)
            elif version in home_of:
                versioned[home_of[version]][version].add(name)
            elif not version and _CALLS.match(name):
                plain.add(name)
    # A symbol without a version may come from any loaded library: the first one gets them all.
    rest = plain - defined
    for name in sorted(missing):
        _compile(lib / name, versioned[name], rest)
        rest = set()


def _versions(file: Path, missing: set[str]) -> Iterable[tuple[str, str]]:
    """(symbol version, library) pairs that the object asks of a missing library."""
    library = ""
    for line in _tool("readelf", "-VW", str(file)).splitlines():
        if named := re.search(r"File: (\S+)", line):
            library = named[1]
        elif (version := re.search(r"Name: (\S+)", line)) and library in missing:
            yield version[1], library


def _symbols(file: Path) -> Iterable[tuple[str, str]]:
    """(kind letter, symbol) pairs; undefined ones have the kind U or w."""
    for line in _tool("nm", "-D", "--with-symbol-versions", str(file)).splitlines():
        parts = line.split()
        if len(parts) >= 2:
            yield parts[-2], parts[-1]


def _compile(target: Path, versioned: dict[str, set[str]], plain: set[str]) -> None:
    names = sorted({name for group in versioned.values() for name in group} | plain)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "standin.c")
        body = "".join(f"void {name}(void) {{ abort(); }}\n" for name in names)
        source.write_text("#include <stdlib.h>\n" + body)
        command = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", str(source), "-o", str(target)]
        command.append(f"-Wl,-soname,{target.name}")
        if versioned:
            script = Path(scratch, "standin.map")
            script.write_text(
                "".join(
                    f"{version} {{ global: {'; '.join(sorted(names))}; }};\n"
                    for version, names in sorted(versioned.items())
                )
            )
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True, capture_output=True)


def _tool(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
