"""Which failure of the catalogue an exception is: by its message, its place, then its topic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain import kinds, places, sentences, slips, topics
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known, flat

NO_ROW = "Failed to retrieve the dataset"  # ms-swift's, after it logged what each row failed with
_OWN_FAULT = ("NameError", "UnboundLocalError", "SyntaxError", "KeyboardInterrupt", "SystemExit")
_CALLED = re.compile(r"(?:^|[\s.=(])([A-Za-z_]\w{2,60})\(")  # by the last line of a cut traceback
# Who asked for what is not there comes before these.
_ASKED = ("__getattr__", "__getattribute__", "get_parameter", "get_submodule", "get_buffer")
# What a check raises, and no slip of the code.
_CHECKS = ("ValueError", "AssertionError", "NotImplementedError")
_IMPORTED = ", in an import by another module"
# The frame before one that is a module being imported.
_IMPORTS = ("<module>", "_call_with_frames_removed", "import_module", "_get_module", "__getattr__")
_RELEASES, _INDEX, _ROWS, _SHARDED = "VG570", "VG545", "VG554", "VG523"
# Who calls reward functions: a column that one of these lacks is theirs.
_REWARDED = ("_calculate_rewards", "_score_completions", "compute_rewards_per_func")
# Torch's own words on sizes that do not fit: no package's check of its arguments.
_SHAPES = re.compile(
    r"size of (?:the )?tensor|mat1 and mat2 shapes|^shape '\[|Sizes of tensors must match|"
    r"Expected size for first two dimensions"
)
_LAST_ERROR = re.compile(r"\bNCCL error\b.{1,400}? Last error: (\S.{7,300})")
CUT = 24  # characters of a cut message that tell it


def classify(event: Event, catalogue: Sequence[Known], depth: int = 0) -> Known | None:
    """The catalogue's failure that an exception is; through what it was raised from, too."""
    message = flat(f"{event.type}: {event.message or _unnamed(event)}")[:6000]
    where = " ".join(f"{path}:{number} in {name}" for path, number, name in event.frames)
    trace = flat(f"{' '.join(event.trace)} {where}")
    found = _last_error(message, catalogue) or best(message, trace, catalogue)
    if found is not None and found.code == _ROWS and _rewarded(event):
        found = _without(_ROWS, message, trace, catalogue)
    if found is not None and found.code == _SHARDED and _own_queue(event, trace):
        found = _without(_SHARDED, message, trace, catalogue)
    if found is not None and found.code == _RELEASES and _own_call(event):
        found = None
    if found is not None and found.code == _INDEX and slips.plain_index(event):
        found = _without(_INDEX, message, trace, catalogue)
    weak = found is None or _vague(found) or event.message.startswith(NO_ROW)
    weak = weak or event.reason is not event
    if event.cause is not None and depth < 4 and (weak or _starved(event.cause)):
        found = classify(event.cause, catalogue, depth + 1) or found
    if found is None and event.final:
        found = _by_beginning(message.rstrip(" .…"), catalogue) or _by_source(event, catalogue)
    if found is not None:
        return found
    surely = not (event.ignored or event.buried)
    code = kinds.by_type(message) if surely else None
    if code is None and surely:
        code = slips.told(event)
    if code is None:
        code = _by_place(event, message, trace, catalogue)
    if code is None and surely and not _scripts(event):
        code = sentences.told(message)
    if (
        code is None
        and not _raised_there(event)
        and (found := _within(event, message, trace, catalogue)) is not None
    ):
        code = found.code
    if code is None and surely and not _own_words(event):
        path = event.raised_in
        words = 1 if kinds.installed(path) else 2
        code = kinds.by_path(event.type, path)
        code = code or kinds.by_words(event.type, message, words)
        if code is None and (found := _by_words(event, message, catalogue, words)) is not None:
            code = found.code
    return next((known for known in catalogue if known.code == code), None)


def _last_error(message: str, catalogue: Sequence[Known]) -> Known | None:
    """What NCCL's own sentence tells, behind a result that torch names: it is NCCL's last warning,
    which a log with NCCL_DEBUG=WARN has as a line."""
    match = _LAST_ERROR.search(message)
    if match is None:
        return None
    line = f"NCCL WARN {match[1]}"
    signs = ((sign, known) for known in catalogue if (sign := known.match_line(line)) is not None)
    lines = [(len(sign.text), known) for sign, known in signs]
    told = best(match[1], "", catalogue)
    return told or (max(lines, key=lambda f: f[0])[1] if lines else None)


def _starved(cause: Event | None) -> bool:
    """Whether memory ran out first: what fails while that is handled says nothing of its own."""
    while cause is not None and cause.name not in ("MemoryError", "OutOfMemoryError"):
        cause = cause.cause
    return cause is not None


def _vague(known: Known) -> bool:
    """Whether what an exception was raised from says more than it does."""
    return known.order != "cause" or known.narrow < 0


def _unnamed(event: Event) -> str:
    """Of a traceback without an exception's name what may hold the message.

    That is what stands under it, where other ranks wrote over the name, or the last lines of
    source, where it is cut: they may hold what was raised.
    """
    return " ".join(event.under[:6]) or _source(event)


def _source(event: Event) -> str:
    """Of a traceback that is cut, its last lines of source: they may hold what was raised."""
    return "" if event.last is not None else " ".join(event.trace[-4:])


def best(message: str, trace: str, catalogue: Sequence[Known]) -> Known | None:
    """Of all that match, the narrowest; of equals the one whose sign is longest."""
    found = []
    for known in catalogue:
        sign = known.match(message, trace)
        if sign is not None:
            size = sum(map(len, (sign.text, *sign.also, *sign.beside)))
            found.append((known.narrow, size, known))
    return max(found, key=lambda f: f[:2])[2] if found else None


def _without(code: str, message: str, trace: str, catalogue: Sequence[Known]) -> Known | None:
    return best(message, trace, [known for known in catalogue if known.code != code])


def _by_beginning(message: str, catalogue: Sequence[Known]) -> Known | None:
    """Of a log that was cut within a message: the sign whose beginning is the message's end."""
    found: list[tuple[int, Known]] = []
    end = message[-CUT:]
    for known in catalogue:
        for sign in known.signs:
            if sign.where == "message" and not sign.also and end in sign.text:
                sizes = range(len(sign.text) - 1, CUT - 1, -1)
                size = next((n for n in sizes if message.endswith(sign.text[:n])), 0)
                found.append((size, known))
    longest = max(found, key=lambda f: f[0], default=(0, None))
    return longest[1] if longest[0] else None


def _by_source(event: Event, catalogue: Sequence[Known]) -> Known | None:
    """Of a log that was cut within a message: the sign in the line of source that raised it."""
    raising = [line.strip() for line in event.trace if line.strip().startswith("raise ")]
    return best(f"{event.type}: {flat(raising[-1])}", "", catalogue) if raising else None


def _by_place(event: Event, message: str, trace: str, catalogue: Sequence[Known]) -> str | None:
    """What the frame that raised it betrays; the longest text is the most exact place."""
    if not event.type or not event.frames or _own_fault(event):
        return None
    own = [f for f in event.frames if f[2] not in _ASKED] or event.frames
    imported = _imported(own)
    for path, name in places.innermost(own):
        raised = _place(f"{path} in {name}") + imported
        signs = ((known.match_raised(message, trace, raised), known) for known in catalogue)
        found = [(len(sign.text), known.code) for sign, known in signs if sign is not None]
        kind = "IndexError" if _SHAPES.search(event.message) else event.type
        found += [(len(text), code) for text, code in places.told(raised, kind)]
        if found:
            return max(found)[1]
        imported = ""
    return None


def _place(frame: str) -> str:
    """A frame without its environment's folder, which may bear a package's name."""
    frame = frame.replace("\\", "/")
    at = max(frame.rfind("/site-packages/"), frame.rfind("/dist-packages/"))
    return frame[max(at, 0) :]


def _imported(frames: Sequence[tuple[str, int, str]]) -> str:
    """Whether the innermost frame is an installed module that another one imports."""
    path, _, name = frames[-1] if frames else ("", 0, "")
    chain = len(frames) > 1 and frames[-2][2] in _IMPORTS
    return _IMPORTED if chain and name == "<module>" and "-packages" in path else ""


def _own_fault(event: Event) -> bool:
    """A slip of the code itself: the place says where it is, not what the run did wrong."""
    nothing = event.name == "AttributeError" and event.message.startswith("'NoneType' object")
    return event.name in _OWN_FAULT or nothing


def _within(event: Event, message: str, trace: str, catalogue: Sequence[Known]) -> Known | None:
    """What was being done when it failed: the innermost frame that tells; of a cut one, too."""
    if _own_fault(event):
        return None
    called = _CALLED.findall(_source(event).rpartition(", in ")[2])
    frames = [(path, name) for path, _, name in event.frames] + [("", name) for name in called[-3:]]
    for number, (path, name) in enumerate(reversed(frames)):
        frame = _place(f"{path} in {name}()") + ("" if number else _imported(event.frames))
        signs = ((known.match_within(message, trace, frame), known) for known in catalogue)
        found = [(len(sign.text), known) for sign, known in signs if sign is not None]
        if found:
            return max(found, key=lambda f: f[0])[1]
    return None


def _rewarded(event: Event) -> bool:
    return event.name in ("KeyError", "IndexError") and any(f[2] in _REWARDED for f in event.frames)


def _own_queue(event: Event, trace: str) -> bool:
    """A queue of the user's own that is empty, and none of DeepSpeed's."""
    own = bool(event.frames) and not kinds.installed(event.raised_in)
    return own and event.name == "IndexError" and "deepspeed" not in trace.lower()


def _own_call(event: Event) -> bool:
    """A call within a user's own code: what it hands over wrongly is no other release's doing."""
    handed = event.name == "TypeError" and "positional argument" in event.message
    return handed and bool(event.frames) and not any(kinds.installed(f[0]) for f in event.frames)


def _scripts(event: Event) -> bool:
    """A check in a user's own file: it may speak of anything."""
    path = event.raised_in
    outside = bool(path) and not (kinds.installed(path) or kinds.standard(path))
    return outside and event.name in topics.CHECKS


def _raised_there(event: Event) -> bool:
    """A user's own check that raised by itself: what was being done then says nothing of it."""
    source = event.trace[-1].strip() if event.trace else ""
    return _scripts(event) and source.startswith(("raise ", "assert "))


def _own_words(event: Event) -> bool:
    """Nor do torch's inner checks tell their topic."""
    inner = event.name in _CHECKS and "-packages/torch/" in event.raised_in
    return _scripts(event) or inner


def _by_words(event: Event, message: str, catalogue: Sequence[Known], words: int) -> Known | None:
    """What an unknown check speaks of: of a topic ``words`` that stand beside one another."""
    if event.name not in _CHECKS:
        return None
    found = []
    for known in catalogue:
        signs = known.match_else(message)
        texts = [s.text for s in signs]
        enough = words if any(t not in topics.WEAK for t in texts) else 2
        if kinds.apart(message, texts) >= enough:
            found.append((len(signs[0].text), known))
    return max(found, key=lambda f: f[0])[1] if found else None
