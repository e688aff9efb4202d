"""What to type where a failure is not known: by its type, its numbers and its own line of code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vlmguard.explain import clean, given, named
from vlmguard.explain.events import Event
from vlmguard.explain.failure import flat

_WIDTHS = re.compile(
    r"mat1 and mat2 shapes cannot be multiplied \((\d{1,9})x(\d{1,9}) and (\d{1,9})x(\d{1,9})\)"
)
_EMPTY = re.compile(r"index -?\d{1,9} is out of bounds for (?:dimension|axis) \d with size 0\b")
_BEYOND = re.compile(
    r"index (\d{1,9}) is out of bounds for (?:dimension|axis) \d with size (\d{1,9})"
)
_NONE = re.compile(r"'NoneType' object (?:has no attribute '(\w{1,60})'|is not (\w{1,20}))")
_KEY = re.compile(r"^[\w.]{0,40}KeyError: ['\"]([\w.-]{1,80})['\"]$")
_UNPACK = re.compile(r"values to unpack \(expected (\d{1,4})")
_LACKS = re.compile(r"'(\w{1,60})' object has no attribute '(\w{1,60})'")
_ARGUMENT = re.compile(r"(\w{1,80})\(\) got an unexpected keyword argument '(\w{1,60})'")
_STEM = "forward_unimplemented"


def steps(event: Event) -> Iterator[str]:
    """Literal commands and edits, the one for this exception first."""
    said = clean.shown(flat(f"{event.type}: {event.message}")).strip()
    trace = flat(" ".join(event.trace))
    own = given.place(trace)
    where = named.quoted(own) if own else ""
    if hint := _hint(said, trace):
        yield f"{where}: {hint}" if where else hint
    if (script := _script(event)) and where:
        yield (
            f"python -m pdb -c continue {script} … (one process, the same arguments): it stops at "
            "the line that failed, where p NAME prints a value"
        )
    if not event.frames and event.type:
        yield (
            "2>&1 | tee train.log behind the same command, then vlmguard explain train.log: this "
            "log lacks the traceback, which names the line"
        )


def _hint(said: str, trace: str) -> str:
    """What this message asks to be looked at."""
    if asked := given.advised(said):
        return f"{asked}: the message itself asks for it"
    if _STEM in said:
        return (
            "the class has no method forward that torch can call: def forward(self, …), indented "
            "under the class, spelt like that"
        )
    if match := _WIDTHS.search(said):
        got, wants = match[2], match[3]
        return (
            f"the layer takes vectors of {wants} numbers and got {got}: its in_features={got}, or "
            f"the part before it that gives {wants} (a tower, a projector or a checkpoint of "
            "another size)"
        )
    if _EMPTY.search(said):
        return "print(x.shape) of what is indexed: it is empty; an if x.numel() in front of it"
    if match := _BEYOND.search(said):
        return f"print the index: {match[1]} does not exist where there are {match[2]}, from 0 on"
    if "list index out of range" in said:
        return "print(len(x)) of what is indexed, and the index: it must be smaller, from 0 on"
    if _NONE.search(said):
        return "print what stands in front of the dot or bracket: it is None; what was to give it?"
    if (match := _KEY.search(said)) and (operand := given.operand(trace, match[1])):
        return f"print(list({operand})): {match[1]} is not among them"
    if match := _UNPACK.search(said):
        return (
            f"a, *rest = … in place of {match[1]} names, and print(len(rest)): what is called "
            "gives another number of values"
        )
    if match := _ARGUMENT.search(said):
        return (
            f"take {match[2]} out of the call, or add {match[2]}=None to def {match[1]}(…): the "
            "one that is called does not know it"
        )
    if match := _LACKS.search(said):
        return (
            f"print(type(x)) of what is in front of .{match[2]}: it is a {match[1]}; where another "
            "type was meant"
        )
    return ""


def _script(event: Event) -> str:
    """The user's script that was started: the outermost frame of its own."""
    first = next((path for path, _, name in event.frames if name == "<module>"), "")
    own = first.endswith(".py") and "-packages/" not in first and "/lib/python" not in first
    return named.quoted(first) if own else ""
