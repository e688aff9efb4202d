"""A Python script or module that trains: which argument classes it parses, read from its tree."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vlmguard.check.reading import python_files
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import known

_TRAINS = re.compile(r"\.backward\(|Trainer\b|TrainingArguments|\bdeepspeed\.initialize|Booster\(")
_STARTS = re.compile(
    r"\brunpy\.run_|\bexec\(open\(|(?:import_module|__import__|system|Popen|\brun|call|check_output)"
    r"\([^)]{0,200}(?:train|tune|sft|torchrun|deepspeed|accelerate|swift)"
)
"""Other code that a script starts, and that trains by its name."""
_TRAINERS = re.compile(r"(?:^|[._])(?:pre|fine)?_?(?:train|tun|sft|rlhf|dpo|grpo)")
_CONFIG = re.compile(r"Config$|Arguments$")
_LIBRARIES = ("accelerate", "deepspeed", "peft", "torch", "transformers", "trl")
"""What they train with stands in the script itself."""
_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
_PARSES = ("parse_args_into_dataclasses", "parse_args_and_config")
_PARSES_WITH = ("args", "return_remaining_strings")
_WHOLE = ("None", "False", "sys.argv[1:]")
"""With one of these the parser reads the whole command, and all of it or none."""


def module(target: str, files: Files) -> str:
    """A job's target as a module for `python_files`; "" where there is no such file here."""
    if not known(target):
        return ""
    if target.startswith("-m "):
        name = target.removeprefix("-m ")
        for candidate in (f"{name}.__main__", name):
            file = python_files.module_file(candidate)
            if file is not None and file.name != "__init__.py":
                return candidate
        return ""
    path = files.path(target)
    return f"file:{path}" if path.endswith(".py") and os.path.isfile(path) else ""


MOST, DEEPEST = 60, 4
"""How many of a script's own modules are read, and how far from it."""


@python_files.cached
def followed(module: str) -> list[str]:
    """A script and the modules of its own that it imports, nearest first."""
    found = [module]
    edge = [module]
    for _ in range(DEEPEST):
        met = dict.fromkeys(name for one in edge for name in _local_imports(one))
        edge = [name for name in met if name not in found][: MOST - len(found)]
        found += edge
    return found


def _local_imports(module: str) -> Iterator[str]:
    return (name for name in _imported(module) if python_files.local(name))


def _imported(module: str) -> Iterator[str]:
    """Every name that stands for a module in its imports."""
    tree = python_files.parsed(module)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            ours = module.startswith("file:")
            home = node.module if ours else python_files.absolute(module, node)
            yield from filter(None, [home, *(f"{home}.{alias.name}" for alias in node.names)])


def absent(module: str) -> list[str]:
    """Modules that it imports, that train by their names, and that are not on this disk."""
    return [name for name in _trainers(module) if not python_files.there(name)]


@python_files.cached
def _trainers(module: str) -> list[str]:
    """What it and its own modules import that trains by its name."""
    met = dict.fromkeys(name for each in followed(module) for name in _imported(each))
    return [name for name in met if _TRAINERS.search(name)]


def trains(module: str) -> bool:
    """Whether a script or one of its own modules makes a trainer, or goes backward, or imports a
    module that does so and trains by its name: a repository's own, installed."""
    theirs = [name for name in _trainers(module) if name.partition(".")[0] not in _LIBRARIES]
    own = [python_files.text(name) for name in followed(module)]
    texts = (*own, *map(python_files.text, theirs))
    return any(map(_TRAINS.search, texts)) or any(map(_STARTS.search, own))


def own_loss(module: str) -> str:
    """The class of a script whose ``compute_loss`` takes no notice of the number of tokens that
    the Trainer divides by; "" for none."""
    for name in followed(module):
        tree = python_files.parsed(name)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.ClassDef) and (found := _compute_loss(node)):
                text = "".join(map(ast.unparse, found.body))
                if "num_items_in_batch" not in text and "super()" not in text:
                    return node.name
    return ""


def _compute_loss(node: ast.ClassDef) -> ast.FunctionDef | None:
    trainer = any("Trainer" in ast.unparse(base) for base in node.bases)
    made = (one for one in node.body if isinstance(one, ast.FunctionDef))
    return next((one for one in made if trainer and one.name == "compute_loss"), None)


def classes(module: str) -> list[python_files.Class]:
    """The classes that its HfArgumentParser (or TRL's) is made of; [] where it has none, and where
    the script itself reads its command by argparse: a module's parser is then not asked.

    Raises:
        LookupError: one of them is not installed here; names it.
    """
    own = False
    for each, node in _calls(module):
        if own and each != module:
            return []
        own = own or (each == module and _name(node.func) == "ArgumentParser")
        if _name(node.func) in _PARSERS and node.args:
            names = _names(node.args[0], python_files.parsed(each))
            found = {name: python_files.find(each, name) for name in names}
            for name, one in found.items():
                if one is None:
                    raise LookupError(name)
            return [one for one in found.values() if one is not None]
    return []


def _calls(module: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call in it and in modules of its own, with the module that it is in."""
    for each in followed(module):
        tree = python_files.parsed(each)
        calls = (node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.Call))
        yield from ((each, node) for node in calls)


@python_files.cached
def takes_words(module: str) -> bool:
    """Whether a script may take words off its command before its parser reads the rest, or asks
    the parser for the words that are left over."""
    trees = [python_files.parsed(each) for each in followed(module)] if module else []
    return any(_takes(node) for tree in trees if tree for node in ast.walk(tree))


def _takes(node: ast.AST) -> bool:
    if isinstance(node, (ast.Assign, ast.Delete)):
        return any(ast.unparse(one).startswith("sys.argv") for one in node.targets)
    if not isinstance(node, ast.Call):
        return False
    if _name(node.func) in _PARSES:
        named = [word.value for word in node.keywords if word.arg in _PARSES_WITH]
        return any(ast.unparse(one) not in _WHOLE for one in (*node.args[:2], *named))
    called = ast.unparse(node.func).removeprefix("sys.")
    return called in ("argv.pop", "argv.remove")


@dataclass(frozen=True)
class Made:
    """Training arguments that a script makes in its own code.

    Attributes:
        given: those that are written there as they are.
        other: names of those that only running it tells.
    """

    one: python_files.Class
    given: Mapping[str, object]
    other: tuple[str, ...]


@python_files.cached
def made(module: str) -> Made | None:
    """The one call that makes training arguments, in a script without a parser of them.

    None where there is no such call or more than one, or where it takes what is not written there.
    """
    found = []
    for each, node in _calls(module):
        if _name(node.func) in _PARSERS and node.args:
            return None
        name = _name(node.func)
        one = python_files.find(each, name) if _CONFIG.search(name) else None
        if one and any(parent.name == "TrainingArguments" for parent in python_files.order(one)):
            found.append((one, node))
    if len(found) != 1 or found[0][1].args:
        return None
    one, node = found[0]
    given: dict[str, object] = {}
    other = []
    for word in node.keywords:
        if word.arg is None:
            return None
        try:
            given[word.arg] = ast.literal_eval(word.value)
        except ValueError:
            other.append(word.arg)
    return Made(one, given, tuple(other))


def overrides(module: str) -> tuple[dict[str, object], list[str]]:
    """What the script itself sets on its arguments: literal values, and names of the others."""
    told: dict[str, object] = {}
    other: list[str] = []
    trees = [python_files.parsed(each) for each in followed(module)]
    for node in (node for tree in trees if tree for node in ast.walk(tree)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if not isinstance(target, ast.Attribute) or not _name(target.value).endswith("args"):
                continue
            try:
                told[target.attr] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            except ValueError:
                other.append(target.attr)
    return told, other


@python_files.cached
def imports(module: str) -> set[str]:
    """Top-level packages that it, or a module of its own that it imports, imports anywhere."""
    found = set()
    trees = [python_files.parsed(each) for each in followed(module)] if module else []
    for node in (node for tree in trees if tree for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.expr, tree: ast.Module | None) -> list[str]:
    """The names in a tuple of classes, through one variable."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return [name for item in node.elts if (name := _name(item))]
    if isinstance(node, ast.Name):
        for assigned in ast.walk(tree) if tree else ():
            if isinstance(assigned, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in assigned.targets
            ):
                return _names(assigned.value, None)
        return [node.id]
    return []
