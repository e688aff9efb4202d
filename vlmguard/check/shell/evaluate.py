"""The door: a script's text → what it would start, and what it would write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from vlmguard.check.shell.builtins import Leave
from vlmguard.check.shell.machine import Machine
from vlmguard.check.shell.state import State, Trace, cleaned


def evaluate(
    source: str,
    name: str,
    folder: str,
    env: Mapping[str, str],
    arguments: Sequence[str] = (),
) -> tuple[Trace, dict[str, str]]:
    """Read a script from its beginning to its end.

    Returns:
        what was met, and the files that it would have written (path → text).
    """
    state = State(
        {key: cleaned(value) for key, value in env.items()},
        set(env),
        arguments=tuple(arguments),
        name=name,
        folder=folder,
    )
    state.variables.update(PWD=folder, BASH_SOURCE=name, BASH_VERSION="5.2.15(1)-release",
                           OSTYPE="linux-gnu", SHLVL="1", UID=str(os.getuid()))  # fmt: skip
    machine = Machine(name)
    try:
        with contextlib.suppress(Leave):
            machine.source(cleaned(source), state)
    except RecursionError:
        machine.refuse("nested too deeply")
    return machine.trace, state.files
