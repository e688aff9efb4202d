"""Commands that a terminal's log shows behind a shell's prompt: the same one again is a new run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vlmguard.explain.lines import Line

# "(env) root@node1:~/job$ python train.py", "[me@node1 job]$ …", "➜  job git:(main) ✗ …", "$ …".
_PROMPT = re.compile(
    r"^(?:\([\w .+-]{1,40}\) ?){0,2}(?:"
    r"\[?([\w.-]{1,40}@[\w.-]{1,80})(?::| )[^$#\n]{0,200}[$#]"
    r"|➜ {1,4}[^✗\n]{1,120}✗|\$) (\S.{0,2000})$"
)
_SCRIPT = re.compile(r"(?:^|[\s/=])([\w.-]{1,100}\.(?:py|sh|ya?ml))(?=\s|$)")
_LOOKS = re.compile(  # at what is there, or installs: no run
    r"^(?:sudo )?(?:cat|ls|vi|vim|nano|less|head|tail|grep|cp|mv|rm|mkdir|cd|git|pip|conda|echo"
    r"|chmod|find|wc|diff|export|source|kubectl|scontrol|squeue|sacct|nvidia-smi)\b"
)


@dataclass(frozen=True)
class Command:
    """Who typed it where ("" where the prompt does not tell), and the scripts that it names."""

    host: str
    scripts: frozenset[str]


def command(line: Line) -> Command | None:
    """The command behind a prompt that starts a script, where this line is one."""
    if "$" not in line.raw and "#" not in line.raw and "➜" not in line.raw:
        return None
    match = _PROMPT.match(line.raw)
    if match is None or _LOOKS.match(match[2]):
        return None
    scripts = frozenset(_SCRIPT.findall(match[2]))
    return Command(match[1] or "", scripts) if scripts else None
