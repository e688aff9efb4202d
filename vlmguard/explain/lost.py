"""A start script that lacks a backslash: the flags behind that line never reached the program.

The shell takes the next line for a command of its own and says so when the program has ended.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

_REFUSED = re.compile(
    r"(?m)^([^\s:：]{1,200})[:：] ?(?:line |行 ?|第 ?)?(\d{1,5})(?: ?行)?[:：] ?"
    r"(--[a-zA-Z][\w-]{1,60})(?:=[^\s:]{0,100})?[:：] ?(?:(?:command )?not found|未找到命令)"
)
# Failures that are no matter of the program's flags: a machine, a network, an installation.
_ELSEWHERE = frozenset(
    "VG531 VG533 VG534 VG536 VG537 VG538 VG539 VG540 VG548 VG552 VG557 VG569 VG571 VG579 VG590 "
    "VG596".split()
)


def passing(text: str, said: dict[str, str]) -> None:
    """Adds which line of which script it was, and the first flag behind it."""
    if found := _REFUSED.search(text):
        said.setdefault("lost", f"{found[2]} {found[3]} {found[1]}")


def step(code: str, facts: Any) -> str:
    """What mends the script, "" where none was heard or the failure is no matter of flags."""
    number, _, rest = facts.said.get("lost", "").partition(" ")
    flag, _, script = rest.partition(" ")
    if not script or code in _ELSEWHERE or int(number) < 2:
        return ""
    name = "SCRIPT.sh" if script.endswith("slurm_script") else shlex.quote(script)
    return (
        rf"sed -i '{int(number) - 1}s/[[:space:]\\]*$/ \\/' {name}: line {int(number) - 1} lacks "
        rf"the backslash at its end ({flag}: command not found), so {flag} and all behind it were "
        "not given; then the same command"
    )
