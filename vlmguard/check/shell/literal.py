"""Commands of a script as they stand: only parsed, nothing evaluated, not even a variable."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from vlmguard.check.shell import tree
from vlmguard.check.shell.parse import CARRIED, WINDOWS, parse
from vlmguard.check.shell.state import Call, Remark, Trace, cleaned
from vlmguard.check.shell.tree import NotUnderstood
from vlmguard.check.wrappers.unwrap import unwrap

_KEPT = ("exec", "time", "command", "builtin")


def calls(source: str, name: str, folder: str) -> Trace:
    """Every command in the script, wherever it stands, each with its literal words."""
    trace = Trace()
    try:
        script = parse(cleaned(source))
    except NotUnderstood as error:
        trace.refused.append(Remark(error.line, name, error.what))
        return trace
    if WINDOWS in source:
        trace.refused.append(Remark(1, name, CARRIED))
    env: dict[str, str] = {}
    for command in _commands(script):
        words = [_word(word, trace) for word in command.words if isinstance(word, tree.Word)]
        own = {one.name: _word(one.value, trace) for one in command.assignments}
        while words and words[0] in _KEPT:
            words.pop(0)
        while words and (inner := unwrap(words)) is not None and inner.words:
            words, own = list(inner.words), {**own, **inner.env}
        for word in command.words:
            if isinstance(word, tree.Assignment):
                env[word.name] = _word(word.value, trace)
        if words and words[0] not in ("export", "declare", "local"):
            trace.calls.append(
                Call(tuple(words), {**env, **own}, os.path.abspath(folder), command.line, name)
            )
    return trace


def _commands(node: object) -> Iterator[tree.Simple]:
    """All simple commands below a node, substitutions included, in order."""
    if isinstance(node, tree.Simple):
        yield node
    if dataclasses.is_dataclass(node):
        for one in dataclasses.fields(node):
            yield from _commands(getattr(node, one.name))
    elif isinstance(node, tuple):
        for part in node:
            yield from _commands(part)


def _word(word: tree.Word, trace: Trace) -> str:
    return "".join(
        part.value if isinstance(part, tree.Text) else trace.unknown("not expanded")
        for part in word.parts
    )
