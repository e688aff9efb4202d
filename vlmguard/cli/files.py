"""``vlmguard files``: which files of a model, a data set or a cache are cut or broken.

The file itself tells whether it is whole. A safetensors header says how long the file is. A zip
file (``.bin``, ``.pt`` of torch 1.6 and later) has its directory at the end. JSON has an end, and
an image can be decoded.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from vlmguard.cli import messages

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_POINTER = b"version https://git-lfs"
_PAGES = (b"<!doctype", b"<html")
_NOTES = "__metadata__"
_MAX_HEADER = 100_000_000  # bytes; safetensors refuses a longer one


class BrokenError(Exception):
    """Why a file is not whole."""


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("files")(files)


def files(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            help="files and folders (default: the caches of Hugging Face and ModelScope)",
            metavar="PATH",
        ),
    ] = None,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="also print the names of the tensors in safetensors files"),
    ] = False,
    processor: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="check no files: load this model's processor, and say why that fails",
        ),
    ] = "",
) -> None:
    """Find the cut and broken files of a model, a data set or a cache.

    It reads safetensors, .bin, .pt, JSON, YAML and images. For a broken file in Hugging Face's
    cache it prints the command that downloads the file again.

    Example: `vlmguard files Qwen2.5-VL-7B-Instruct/ data/`

    Exit status: 0, all files that it can judge are whole; 1, some are not, or the processor does
    not load; 2, a path does not exist.
    """
    if processor:
        raise typer.Exit(_load(processor))
    from vlmguard.check.reading.model_config import hubs

    given = places or [Path(each) for each in hubs(os.environ) if Path(each).exists()]
    for place in given:
        if not place.exists():
            messages.fail(f"{place}: no such file or folder")
    judged, broken = 0, 0
    for path in found(given):
        try:
            judged += check(path)
            if keys and path.suffix == ".safetensors":
                names = sorted(header(path)[1])
                typer.echo("\n  ".join([f"{path}:", *names]))
        except BrokenError as error:
            judged, broken = judged + 1, broken + 1
            typer.echo(f"broken: {path}: {error}")
            again = fetch(path)
            if again:
                typer.echo(f"  {again}")
    where = ", ".join(map(str, given)) or "no cache"
    typer.echo(f"{judged} files judged, {broken} broken: {where}")
    raise typer.Exit(1 if broken else 0)


def _load(model: str) -> int:
    """A framework may keep the reason to itself why there is no processor."""
    try:
        found = import_module("transformers").AutoProcessor.from_pretrained(model)
    except Exception as error:  # each library raises its own
        typer.echo(f"broken: the processor of {model}: {type(error).__name__}: {error}")
        return 1
    typer.echo(f"{model}: {type(found).__name__} loads")
    return 0


def found(places: list[Path]) -> Iterator[Path]:
    """All files, each once, by its first name. A hub's cache has each file as a blob, too: that
    has no ending, and is not judged."""
    for place in places:
        if not place.is_dir():
            yield place
            continue
        for folder, folders, names in os.walk(place, followlinks=False):
            folders.sort()
            yield from (Path(folder, name) for name in sorted(names))


def check(path: Path) -> bool:
    """Whether the file could be judged: there may be no way, or Pillow is not installed.

    Raises:
        BrokenError: it is not whole.
    """
    judge = _judge(path.suffix.lower())
    if judge is None:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(len(_POINTER))
        if start == _POINTER:
            raise BrokenError("a git-lfs pointer, not the file: git lfs pull")
        if start.lower().startswith(_PAGES):
            raise BrokenError("a web page, not the file")
        if path.stat().st_size == 0:
            raise BrokenError("empty")
        return judge(path)
    except OSError as error:
        raise BrokenError(error.strerror or str(error)) from error


def _judge(suffix: str) -> Callable[[Path], bool] | None:
    known: dict[str, Callable[[Path], bool]] = {
        ".safetensors": _safetensors,
        **dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), _torch),
        ".json": _json,
        **dict.fromkeys((".yaml", ".yml"), _yaml),
        **dict.fromkeys(IMAGES, _image),
    }
    return known.get(suffix)


def header(path: Path) -> tuple[int, dict[str, int]]:
    """The length of a safetensors file's header in bytes, and for each tensor's name where it ends,
    in bytes behind the header.

    Raises:
        BrokenError: there is no header.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
        if length > min(size, _MAX_HEADER):
            raise BrokenError(f"its header would be {length} bytes long")
        try:
            told = json.loads(file.read(length))
            tensors = {key: one["data_offsets"][1] for key, one in told.items() if key != _NOTES}
            return length, tensors
        except (ValueError, AttributeError, KeyError, IndexError, TypeError) as error:
            raise BrokenError(f"its header cannot be read: {error}") from error


def _safetensors(path: Path) -> bool:
    length, tensors = header(path)
    whole = 8 + length + max(tensors.values(), default=0)
    if path.stat().st_size != whole:
        raise BrokenError(f"{path.stat().st_size} bytes of {whole}")
    return True


def _torch(path: Path) -> bool:
    """A pickle, as torch wrote before 1.6, does not tell its length."""
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"PK" and not zipfile.is_zipfile(path):
        raise BrokenError("cut: the end of the zip file is missing")
    return start == b"PK"


def _json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError as error:
        raise BrokenError(f"no JSON: {error}") from error
    return True


def _yaml(path: Path) -> bool:
    try:
        import yaml
    except ImportError:
        return False
    try:
        list(yaml.compose_all(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BrokenError(f"no YAML: {' '.join(str(error).split())}") from error
    return True


def _image(path: Path) -> bool:
    try:
        from PIL import Image
    except ImportError:
        return False
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(path) as image:
            image.load()
    except Exception as error:  # each decoder raises its own
        raise BrokenError(f"no image that Pillow can read: {error}") from error
    return True


def fetch(path: Path) -> str:
    """What fetches the file of a hub's cache again, or ""."""
    parts = path.absolute().parts
    for at, part in enumerate(parts):
        kind, _, name = part.partition("--")
        if kind in ("models", "datasets") and name and parts[at + 1 : at + 2] == ("snapshots",):
            repo, inner = name.replace("--", "/"), "/".join(parts[at + 3 :])
            more = " --repo-type dataset" if kind == "datasets" else ""
            return f"hf download {repo} {inner}{more} --force-download"
    return ""
