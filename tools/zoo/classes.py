"""Which classes of the installed transformers may have a tower: read from its files, none imported.
Whether one has is seen on its model (`worker.py`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import util
from pathlib import Path

_MEDIA = re.compile(r"def get_(image|video|audio)_features|pixel_values|input_features")


def every() -> tuple[str, ...]:
    """Names of public classes that generate, in files that speak of pixels or sounds."""
    spec = util.find_spec("transformers")
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0], "models")
    found = {name for file in root.glob("*/modeling_*.py") for name in _in(file)}
    return tuple(sorted(found))


def _in(file: Path) -> Iterator[str]:
    text = file.read_text("utf-8")
    if not _MEDIA.search(text):
        return
    tree = ast.parse(text)
    public = _public(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in public and _generates(node):
            yield node.name


def _public(tree: ast.Module) -> set[str]:
    """What the file exports."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def _generates(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base) for base in node.bases}
    return "GenerationMixin" in bases or node.name.endswith("ForConditionalGeneration")
