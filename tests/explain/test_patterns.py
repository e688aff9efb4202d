"""No pattern that a hostile line can make slow: no repetition without an end holds another one."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from re import _constants as codes
from re import _parser as parser

import vlmguard_explain
from vlmguard_explain.lazy import Lazy
from vlmguard_explain.match.catalogue import HERE, table

REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)


def compiled():
    """Every compiled pattern of the package, in modules and in their lists and tables."""
    for found in pkgutil.walk_packages(vlmguard_explain.__path__, "vlmguard_explain."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            for one in value if isinstance(value, list | tuple) else [value]:
                if isinstance(one, re.Pattern | Lazy):
                    yield f"{found.name}.{name}", one


def written(value):
    """Every expression in a look-up table: a text, or the name of one, with an escape in it."""
    if isinstance(value, dict):
        yield from written([*value, *value.values()])
    elif isinstance(value, list):
        yield from (one for part in value for one in written(part))
    elif isinstance(value, str) and re.search(r"\\[wdsSb.(\[]|\(\?", value):
        yield value.partition("~")[2] if re.match(r"!?\w+~", value) else value


def in_tables():
    """The expressions of `tables/`, as modules have theirs; a shell's `grep -P` is none of ours."""
    for path in sorted((HERE / "tables").glob("*.toml")):
        for one in written(table(path.stem)):
            with contextlib.suppress(re.error):
                yield f"{path.stem}: {one}", re.compile(one)


def nested(tree, inside: bool = False) -> bool:
    for code, argument in tree:
        if code in REPEATS:
            lowest, highest, body = argument
            if inside and lowest != highest:
                return True
            if nested(body, inside or highest == codes.MAXREPEAT):
                return True
        elif code is codes.BRANCH:
            if any(nested(branch, inside) for branch in argument[1]):
                return True
        elif code is codes.SUBPATTERN and nested(argument[3], inside):
            return True
    return False


def test_nothing_repeats_what_repeats():
    patterns = {**dict(compiled()), **dict(in_tables())}
    assert len(patterns) > 250
    slow = [name for name, one in patterns.items() if nested(parser.parse(one.pattern, one.flags))]
    assert slow == []


def test_it_would_be_seen():
    assert nested(parser.parse(r"(?:a+b?)*c"))
    assert not nested(parser.parse(r"(?:a{3}b)*c\w+"))
