"""A framework's argument fields, types and defaults, read from its sources; a command parsed by
them as Hugging Face's HfArgumentParser does. No ``__post_init__`` runs, nothing is imported.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from vlmguard.check.reading import python_files
from vlmguard.check.shell.state import known
from vlmguard.core.settings import nearest

_TRUE, _FALSE = {"yes", "true", "t", "y", "1"}, {"no", "false", "f", "n", "0"}


class Wrong(Exception):
    """A command that the framework's own parser would refuse; its message."""


class _Missing:
    def __repr__(self) -> str:
        return "‹set by the framework›"


COMPUTED: Any = _Missing()
"""A default that only running the framework tells."""


@dataclass(frozen=True)
class Field:
    """One argument: its type as it stands in the source, its default, its choices."""

    name: str
    type: str
    default: Any
    choices: tuple[Any, ...] = ()
    aliases: tuple[str, ...] = ()
    owner: str = ""
    nargs: str = ""

    @property
    def boolean(self) -> bool:
        return self.type in ("bool", "Optional[bool]", "bool | None", "Union[bool, None]")

    @property
    def many(self) -> bool:
        return re.match(r"(Optional\[)?(List|list)\b", self.type) is not None

    @property
    def required(self) -> bool:
        return self.default is ...


@dataclass
class Values:
    """Arguments as they stand: what was given, else the field's own default.

    Attributes:
        releases: what it will run on: the installed, or those that were asked for.
    """

    fields: Mapping[str, Field]
    given: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """The value; ``default`` if there is no such field or its default is computed."""
        if name in self.given:
            return self.given[name]
        if name in self.changed:
            return self.changed[name]
        found = self.fields.get(name)
        if found is None or found.default is COMPUTED or found.default is ...:
            return default
        return found.default

    def has(self, name: str) -> bool:
        """Whether this release has the field."""
        return name in self.fields

    def true(self, name: str) -> bool:
        return bool(self.get(name))


@functools.cache
def of(classes: tuple[python_files.Class, ...]) -> dict[str, Field]:
    """The fields of dataclasses, inherited ones too; the most derived definition wins."""
    found: dict[str, Field] = {}
    for one in classes:
        for owner in reversed(python_files.order(one)):
            for node in owner.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    made = _field(node, owner)
                    if made is not None:
                        found[made.name] = made
    return found


def _field(node: ast.AnnAssign, owner: python_files.Class) -> Field | None:
    assert isinstance(node.target, ast.Name)
    kind = ast.unparse(node.annotation).strip("'\"").replace("typing.", "")
    if kind.startswith(("ClassVar", "InitVar")):
        return None
    default: Any = ...
    aliases: tuple[str, ...] = ()
    choices = _literals(kind)
    nargs = ""
    if node.value is not None:
        default = _value(node.value)
        call = node.value
        if isinstance(call, ast.Call) and ast.unparse(call.func) in (
            "field", "dataclasses.field", "HfArg"):  # fmt: skip
            words = {keyword.arg: keyword.value for keyword in call.keywords}
            if isinstance(words.get("init"), ast.Constant) and words["init"].value is False:  # type: ignore[attr-defined]
                return None
            default = ...
            if "default" in words:
                default = _value(words["default"])
            elif "default_factory" in words:
                default = _made(words["default_factory"])
            metadata = words.get("metadata")
            told = _value(metadata) if metadata is not None else {}
            if isinstance(told, dict):
                choices = choices or tuple(told.get("choices", ()) or ())
                nargs = str(told.get("nargs") or "")
            raw = words.get("aliases")
            aliases = tuple(_value(raw) or ()) if raw is not None else ()
    return Field(node.target.id, kind, default, choices, aliases, owner.name, nargs)


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return COMPUTED


def _made(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in ("list", "dict", "set"):
        return {"list": list, "dict": dict, "set": set}[node.id]()
    return _value(node.body) if isinstance(node, ast.Lambda) else COMPUTED


def _literals(kind: str) -> tuple[Any, ...]:
    """The values of a ``Literal`` anywhere in a type: beside None, in a list."""
    try:
        nodes = list(ast.walk(ast.parse(kind, mode="eval"))) if "Literal[" in kind else []
        return tuple(
            value for node in nodes
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal")
            for value in ast.literal_eval(f"({ast.unparse(node.slice).strip('()')},)")
        )  # fmt: skip
    except (ValueError, SyntaxError):
        return ()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Wrong(message)


def _bool(text: str) -> bool | str:
    if not known(text):
        return text
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(
        f"Truthy value expected: got {text} but expected one of yes/no, true/false, t/f, y/n, "
        "1/0 (case insensitive)."
    )


def _converter(one: Field) -> Any:
    """From a word to the field's type; a value that is not known passes as it is."""
    bare = re.sub(r"^(?:Optional|List|list)\[(.*)\]$", r"\1", one.type)
    bare = re.sub(r"^(?:Optional|List|list)\[(.*)\]$", r"\1", bare).replace(" | None", "")
    simple: Any = {"int": int, "float": float}.get(bare, str)
    if one.choices:
        kinds = {str(choice): choice for choice in one.choices}
        simple = lambda text: kinds.get(text, text)  # noqa: E731

    def convert(text: str) -> Any:
        return simple(text) if known(text) else text

    convert.__name__ = getattr(simple, "__name__", "str") if not one.choices else "str"
    return convert


def parser(fields: Mapping[str, Field]) -> argparse.ArgumentParser:
    """An argparse parser of the fields. No defaults: what was given is told from what was not."""
    made = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    for one in fields.values():
        flags = [f"--{one.name}"]
        if "_" in one.name:
            flags.append(f"--{one.name.replace('_', '-')}")
        flags += [alias for alias in one.aliases if alias not in flags]
        kwargs: dict[str, Any] = {"dest": one.name}
        if one.boolean:
            kwargs |= {"type": _bool, "nargs": "?", "const": True}
        else:
            kwargs["type"] = _converter(one)
            if one.many or one.nargs:
                kwargs["nargs"] = one.nargs or "+"
        made.add_argument(*flags, **kwargs)
        if one.boolean and one.default is True:
            off = [f"--no_{one.name}"] + ([f"--no-{one.name.replace('_', '-')}"] if "_" in one.name
                                          else [])  # fmt: skip
            made.add_argument(*off, action="store_false", dest=one.name)
    return made


def parse(fields: Mapping[str, Field], argv: Sequence[str]) -> tuple[Values, list[str]]:
    """Values and the words that are left over. Raises `Wrong` with argparse's own message."""
    try:
        given, rest = parser(fields).parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise Wrong(str(error)) from None
    values = Values(fields, dict(vars(given)))
    for name, value in values.given.items():
        check_choice(fields[name], value)
    return values, rest


def check_choice(one: Field, value: Any) -> None:
    """Raise `Wrong` as argparse does for a value outside of the choices."""
    if not one.choices or (None in one.choices and value is None):
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and not known(item):
            continue
        if item not in one.choices:
            shown = ", ".join(map(repr, one.choices))
            raise Wrong(f"argument --{one.name}: invalid choice: {item!r} (choose from {shown})")


def leftover(fields: Mapping[str, Field], rest: Sequence[str]) -> str:
    """What is said about words that no field takes, the nearest flag with it."""
    flags = [word for word in rest if word.startswith("--")]
    told = ""
    if flags:
        name = flags[0].lstrip("-").partition("=")[0].replace("-", "_")
        told = nearest(name, fields)
        told = told if told.startswith(" (did you") else ""
    return told
