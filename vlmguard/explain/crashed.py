"""Where a crash in compiled code was, of the stack that Python's faulthandler printed."""

from __future__ import annotations

import re

from vlmguard.explain import frames, packages

_STACK = re.compile(r"Fatal Python error: [^\n]{1,200}\n")
_CURRENT = re.compile(
    r"(?m)^.{0,40}Current thread 0x[0-9a-f]{1,16} .{0,60}\(most recent call first\)"
)
_FRAME = re.compile(r"File \"([^\"\n]{1,200})\", line (\d{1,7}) in ([\w<>.]{1,80})")
_KERNEL = re.compile(r"segfault at [0-9a-f]{1,16} ip .{1,120} in ([\w.+-]{2,60})\[")
DEEP = 6000  # characters of a stack


def passing(text: str, said: dict[str, str]) -> None:
    """Adds the crash's line, the package that it is in, and the user's own line that called it."""
    fatal = _STACK.search(text)
    current = _CURRENT.search(text, fatal.end()) if fatal is not None else None
    if current is not None:
        stack = text[current.end() : current.end() + DEEP].partition("\n\n")[0]
        stacked = _FRAME.findall(stack)
        own = [f for f in stacked if not frames.foreign(f[0])]
        if stacked:
            said.setdefault("crash", f"{stacked[0][0]}:{stacked[0][1]}")
            name = packages.INSIDE.search(stacked[0][0])
            said.setdefault("crashpackage", packages.of(name[1]) if name is not None else "")
        if own and "<" not in own[0][0]:
            said.setdefault("crashplace", f"{own[0][0]}:{own[0][1]}")
    if found := _KERNEL.search(text):
        said.setdefault("crashlib", found[1])  # the kernel's word
    # DeepSpeed's kernels were asked for, and no word came behind that.
    if "as PyTorch extensions root" in text and "Time to load" not in text:
        said.setdefault("extensions", "loading")
