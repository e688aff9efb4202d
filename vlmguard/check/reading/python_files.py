"""Reads a framework's Python files without importing them."""

from __future__ import annotations

import ast
import functools
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from vlmguard.runtime import definitions as finders

P = ParamSpec("P")
R = TypeVar("R")
# Where the names of a package are defined whose __init__ is long and lazy.
_HOME = {
    ("transformers", "TrainingArguments"): "transformers.training_args",
    ("transformers", "Seq2SeqTrainingArguments"): "transformers.training_args_seq2seq",
}


_STAR = re.compile(r"import\s*\*")
_CACHES: list[Any] = []


def cached(function: Callable[P, R]) -> Callable[P, R]:
    """Remembers answers until modules are looked for elsewhere."""
    made = functools.cache(function)
    _CACHES.append(made)
    return made  # type: ignore[return-value]


_BESIDE: list[str] = []
"""Folders that come before installed packages: those that a launched script sees."""


def look_beside(folders: Sequence[str]) -> None:
    """From now on modules are looked for in these folders first."""
    if list(folders) != _BESIDE:
        _BESIDE[:] = folders
        for each in _CACHES:
            each.cache_clear()


def local(name: str) -> bool:
    """Whether a module is the user's own: a script, or in one of those folders."""
    return name.startswith("file:") or _beside(name) is not None


def there(name: str) -> bool:
    """Whether the top-level package of a module is on this disk."""
    return local(name) or finders.find(name.partition(".")[0]) is not None


@cached
def _beside(name: str) -> Path | None:
    """The file of a module in the first folder that has its top-level name."""
    parts = name.split(".")
    folder = _home(parts[0])
    if folder is None:
        return None
    path = Path(folder, *parts)
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cached
def _home(top: str) -> str | None:
    """The first folder that has a top-level module of that name; of a folder without Python of its
    own, as a namespace package is, only where no package of that name is installed."""
    has = (folder for folder in _BESIDE
           if Path(folder, f"{top}.py").is_file() or _holds(Path(folder, top)))  # fmt: skip
    found = next(has, None)
    if found is None and installed(top) is None:
        spaces = (folder for folder in _BESIDE if any(Path(folder, top).glob("*/*.py")))
        return next(spaces, None)
    return found


def _holds(folder: Path) -> bool:
    """Whether a folder is a package with Python in it."""
    return (folder / "__init__.py").is_file() or (folder.is_dir() and any(folder.glob("*.py")))


@functools.cache
def package(name: str) -> Path | None:
    """The folder of a top-level package, installed or beside a script. Nothing of it runs."""
    for folder in _BESIDE:
        if _holds(Path(folder, name)):
            return Path(folder, name)
    return installed(name)


def installed(name: str) -> Path | None:
    """The folder of a top-level package that Python finds by itself."""
    spec = finders.find(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


@functools.cache
def module_file(name: str) -> Path | None:
    """The file of a module, by its dotted name, or ``file:PATH`` for a script."""
    if name.startswith("file:"):
        return Path(name.removeprefix("file:"))
    own = _beside(name)
    if own is not None:
        return own
    top, _, rest = name.partition(".")
    folder = package(top)
    if folder is None:
        return None
    path = folder.joinpath(*rest.split(".")) if rest else folder
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file() and not (candidate.name != "__init__.py" and not rest):
            return candidate
    return None


def text(name: str) -> str:
    """The beginning of a module's file, as far as one is read; "" where none can be."""
    file = module_file(name)
    try:
        with file.open(encoding="utf-8", errors="replace") if file else io.StringIO() as opened:
            return opened.read(LARGEST)
    except OSError:
        return ""


@functools.cache
def parsed(name: str) -> ast.Module | None:
    """A module's tree; None where there is no such file."""
    file = module_file(name)
    if file is None or file.stat().st_size > LARGEST:
        return None
    try:
        return ast.parse(file.read_text("utf-8", "replace"))
    except (SyntaxError, ValueError, RecursionError, OSError):
        return None


LARGEST = 4 << 20
"""Bytes of a source file."""


@dataclass(frozen=True)
class Class:
    """A class and where it is defined."""

    module: str
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    def __hash__(self) -> int:
        return hash((self.module, self.node.name))


def absolute(module: str, node: ast.ImportFrom) -> str:
    """The module that ``from … import`` in ``module`` names."""
    if not node.level:
        return node.module or ""
    file = module_file(module)
    parts = module.split(".")
    if file is not None and file.name != "__init__.py":
        parts = parts[:-1]
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


@functools.cache
def find(module: str, name: str, depth: int = 0) -> Class | None:
    """A class by the name that it has in ``module``, through imports."""
    module = _HOME.get((module, name), module)
    tree = parsed(module) if depth <= 12 and _may_have(module, name) else None
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return Class(module, node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            alike = any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
            found = find(module, node.value.id, depth + 1) if alike else None
            if found is not None:
                return found
    stars = []
    for imported in _imports(tree):
        target = absolute(module, imported)
        for alias in imported.names:
            if alias.name == "*":
                stars.append(target)
            elif (alias.asname or alias.name) == name:
                found = find(target, alias.name, depth + 1)
                if found is not None:
                    return found
    for target in stars:
        found = find(target, name, depth + 1)
        if found is not None:
            return found
    return None


def _may_have(module: str, name: str) -> bool:
    """Whether a name can come from there: it is written there, or all of a module is imported.

    So most modules of a large library are passed by: to read one costs a fiftieth of parsing it.
    """
    written = text(module)
    return name in written or bool(_STAR.search(written))


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))


_PLAIN = {"object", "Generic", "Protocol", "ABC", "Enum", "str", "int", "dict", "list"}


def lacking(one: Class) -> list[str]:
    """Names of base classes, of it or above it, that were not found in sources."""
    found = []
    for each in order(one):
        known = len(bases(each))
        names = [ast.unparse(base).partition("[")[0] for base in each.node.bases]
        names = [name for name in names if name.rpartition(".")[2] not in _PLAIN]
        if len(names) > known:
            found += names
    return found


@functools.cache
def bases(one: Class) -> list[Class]:
    """The base classes that can be found in sources."""
    found = []
    for base in one.node.bases:
        if isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name):
            target = find(one.module, base.id)
        elif isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
            target = find(_aliased(one.module, base.value.id), base.attr)
        else:
            target = None
        if target is not None:
            found.append(target)
    return found


def _aliased(module: str, name: str) -> str:
    tree = parsed(module)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return alias.name
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return f"{absolute(module, node)}.{alias.name}"
    return name


@functools.cache
def order(one: Class) -> list[Class]:
    """Method resolution order, as Python makes it."""
    parents = bases(one)
    return [one, *_merge([order(parent) for parent in parents] + [parents])]


def _merge(rows: Sequence[Sequence[Class]]) -> list[Class]:
    left = [list(row) for row in rows if row]
    made: list[Class] = []
    while left:
        head = next(
            (row[0] for row in left if not any(row[0] in other[1:] for other in left)), left[0][0]
        )
        made.append(head)
        left = [[c for c in row if c != head] for row in left]
        left = [row for row in left if row]
    return made


def method(one: Class, name: str) -> tuple[Class, str] | None:
    """A method's source, from the class that defines it."""
    for owner in order(one):
        for node in owner.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return owner, ast.unparse(node)
    return None


_CACHES += [package, module_file, parsed, find, bases, order]
