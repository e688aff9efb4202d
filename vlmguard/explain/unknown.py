"""What to type where a failure is not known: by its type, its numbers and its own line of code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vlmguard.explain import asserted, clean, edits, frames, given, named, slight, slips, upstream
from vlmguard.explain.event import Event
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
_UNBOUND = re.compile(
    r"local variable '(\w{1,60})' referenced before assignment"
    r"|cannot access local variable '(\w{1,60})' where it is not associated"
)
_DIVISOR = re.compile(
    r"[\w)\]] {0,2}(?://?|%) {0,2}"
    r"((?:[A-Za-z_][\w.]{0,60})(?:\([^()]{0,80}\)|\[[^\[\]]{1,60}\])?)"
)
# Of two names; the bounds of a stage, a range or a schedule.
_DIFFERENCE = re.compile(r"(?://?|%) {0,2}\(([A-Za-z_][\w.]{0,40}) ?- ?([A-Za-z_][\w.]{0,40})\)")
# A state that only goes on, asked of the next one.
_ONWARD = re.compile(
    r"\bassert ([a-z]\w{0,40}) (>=|<=) (self\.(?:_|last_|prev_|previous_|current_|best_)?\1)\b"
)
_LOOP = re.compile(r"inner_training_loop$")
_COUNTED = ("per_device_train_batch_size", "gradient_accumulation_steps", "world_size")
_LOOKED_UP = re.compile(r"([A-Za-z_][\w.]{0,60})\[[A-Za-z_][\w.]{0,40}\]")


def steps(event: Event) -> Iterator[str]:
    """Literal commands and edits, the one for this exception first."""
    said = clean.shown(flat(f"{event.type}: {event.message}")).strip()
    trace = flat(" ".join(event.trace))
    own = given.place(trace)
    where = named.quoted(own) if own else ""
    if staged := _staged(said, trace, event):
        yield staged
    if newer := upstream.update(event):
        yield newer
    raised_here = (
        bool(where) and bool(event.frames) and own.rpartition(":")[0] == event.frames[-1][0]
    )
    if passed := slight.mended(said, trace, where, event):
        yield passed
    elif raised_here and (edit := edits.edit(said, given.own_line(trace), where)):
        yield edit
    elif raised_here and (check := asserted.rows(said, trace)):
        yield check
    elif hint := _hint(said, trace):
        yield f"{where}: {hint}" if where else hint
    elif looked := _looked(said, trace, where, event):
        yield looked
    place = _frame(own) or event.where
    if place is not None and (file := named.quoted(place[0])):
        line = place[1]
        look = f"sed -n {max(line - 8, 1)},{line + 3}p {file}"
        yield f"{look}: the line that raised it{_asked(said, trace)}"
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


def _staged(said: str, trace: str, event: Event) -> str:
    """A stage of a pipeline to which the one before handed nothing on."""
    if _NONE.search(said) is None or "hidden_states" not in slips.source(event):
        return ""
    if "execute_pipeline" not in trace:
        return ""
    script = _script(event)
    where = f" in {script}" if script else ""
    return (
        f"HybridParallelPlugin(…, pp_size=1, …){where}, with a larger tp_size, or zero_stage=1, in "
        "its place: this stage of the pipeline got no hidden_states from the one before"
    )


def _frame(place: str) -> tuple[str, int] | None:
    file, _, line = place.rpartition(":")
    return (file, int(line)) if line.isdecimal() else None


def _looked(said: str, trace: str, where: str, event: Event) -> str:
    """A look at the line itself, by what kind of failure it is."""
    file = named.quoted(event.frames[-1][0]) if event.frames else ""
    if (match := _UNBOUND.search(said)) and file:
        name = match[1] or match[2]
        if "accelerate/data_loader.py" in file:
            return f"print(len(train_dataset)), in front of {where}: the loader has given no batch"
        return (
            f"grep -nw {name} {file}: it gets its value in one branch only, which this row or step "
            f"did not take; {name} = None (or an empty list) in front of that if"
        )
    code = given.own_line(trace)
    if "AssertionError" in said and (match := _ONWARD.search(code)):
        kept = "max" if match[2] == ">=" else "min"
        return (
            f"{match[1]} = {kept}({match[3]}, {match[1]}), on a line in front of {where}: what "
            "only goes on was computed from something that went back; then resume from the newest "
            "checkpoint"
        )
    if "ZeroDivisionError" in said and (match := _DIVISOR.search(code)):
        return f"{where}: {_guarded(match[1], code)}"
    if "ZeroDivisionError" in said and (match := _DIFFERENCE.search(code)):
        same = "the two are the same here; then resume from the newest checkpoint"
        if code.lstrip().startswith("return "):
            ends = f"if {match[1]} == {match[2]}: return 1.0"
            return f"{where}: {ends}, on a line in front of it: {same}"
        return f"{where}: ({match[1]} - {match[2]} or 1) in place of the divisor: {same}"
    looped = bool(event.frames) and _LOOP.search(event.frames[-1][2]) is not None
    if "ZeroDivisionError" in said and looped:
        owner = re.search(r"([\w.]{1,60})\.train\(", code)
        trainer = owner[1] if owner is not None else "trainer"
        unsloth = event.frames[-1][2].startswith("_fast_")
        compiled = "; UNSLOTH_COMPILE_DISABLE=1 shows the line itself" if unsloth else ""
        words = ", ".join(f"{trainer}.args.{name}" for name in _COUNTED)
        return (
            f"print(len({trainer}.train_dataset), {words}), in front of {where or 'train()'}: one "
            f"of them is 0, or the rows are fewer than one step takes{compiled}"
        )
    wanted = code.rpartition(" = ")[2]
    if "KeyError" in said and wanted.count("[") == 1 and (match := _LOOKED_UP.search(wanted)):
        return f"{where}: print(list({match[1]})[:20]): the key of the message is not among them"
    return ""


# What counts: a whole number, of which 1 is the least that makes sense.
_COUNT = re.compile(
    r"(?i)(?:quota|count|cnt|num|total|size|len|step|sample|row|batch|token|seen|shard)\w{0,12}"
    r"(?:\([^()]{0,80}\))?$"
)


def _guarded(divisor: str, code: str) -> str:
    """The divisor that is never 0; in a loop over parts, those left out whose own is 0."""
    least = "1" if _COUNT.search(divisor) else "1e-6"
    kept = f"max({divisor}, {least}) in its place"
    loop = re.search(r"\bfor (\w{1,30}) in ([\w.]{1,60})[\])]", code)
    if loop is None or not divisor.startswith(f"{loop[1]}."):
        return f"{kept}, or leave out the rows where it is 0"
    some = f"for {loop[1]} in {loop[2]} if {divisor}"
    return f"{kept}: one of {loop[2]} has 0 here; or without that one: {some}"


def _asked(said: str, trace: str) -> str:
    """What an assertion asks for, and what it printed."""
    asked = asserted.condition(trace) if "AssertionError" in said else ""
    values = said.partition("AssertionError:")[2].strip()[:120]
    if not asked:
        return ""
    told = "" if asked == "False" else f": {asked} was not so"
    return told + (f", and it printed {values}" if values else "")


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
        if slight.CALLBACK.search(trace):  # of a callback's dictionary
            return (
                f'{operand}.get("{match[1]}"), and nothing where that is None: some calls lack it'
            )
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
    own = first.endswith(".py") and not frames.foreign(first)
    return named.quoted(first) if own else ""
