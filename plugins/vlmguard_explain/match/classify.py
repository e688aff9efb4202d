"""Which failure of the catalogue an exception is: by its message, its traceback, then its place."""

from __future__ import annotations

import functools

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.match.catalogue import Known, by_code, load, table
from vlmguard_explain.tracebacks.event import Event, flat

NO_ROW = "Failed to retrieve the dataset"  # ms-swift says so after it logged why each row failed
_P, _T = patterns("match.classify"), words("match.classify")
LOOKED_PAST = 4  # nested helper functions


def classify(event: Event, depth: int = 0) -> Known | None:
    """The failure that an exception is; through what it was raised from, too."""
    # the traceback may be cut before the exception's name: then its last lines may tell
    cut = " ".join(event.trace[-4:]) if event.last is None else ""
    message = flat(f"{event.type}: {event.message or cut}")[:6000]
    where = " ".join(f"{path}:{number} in {name}" for path, number, name in event.frames)
    trace = flat(f"{' '.join(event.trace)} {where}")
    found = _last_error(message) or _best(message, trace, _not_this(event, trace))
    vague = found is None or found.order != "cause" or found.narrow < 0
    vague = vague or event.message.startswith(NO_ROW) or event.reason is not event
    if event.cause is not None and depth < 4 and vague:
        found = classify(event.cause, depth + 1) or found
    return found or _by_type(event) or _by_place(event, message, trace)


def _last_error(message: str) -> Known | None:
    """What NCCL's own sentence tells, behind a result that torch names: it is NCCL's last warning,
    which a log with NCCL_DEBUG=WARN has as a line."""
    match = _P.last_error.search(message)
    if match is None:
        return None
    line = f"NCCL WARN {match[1]}"
    found = [(len(p.text), known) for known in load() if (p := known.match_line(line)) is not None]
    return _best(match[1]) or (max(found, key=lambda f: f[0])[1] if found else None)


def _not_this(event: Event, trace: str) -> tuple[str, ...]:
    """Failures that the exception cannot be, though its words are theirs."""
    own = bool(event.frames) and "-packages/" not in event.frames[-1][0]
    called = event.name == "TypeError" and "positional argument" in event.message
    if own and called and not any("-packages/" in f[0] for f in event.frames):
        return (_T.releases,)  # a wrong call in the user's code: no release is to blame
    if event.name != "IndexError":
        return ()
    place = _P.place.search(event.message.strip())
    line = event.trace[-1] if event.trace else ""
    indexed = place and (place[0][-1] in "01" or ("[" in line and not _P.of_tables.search(line)))
    sharded = own and "deepspeed" not in trace.lower()
    return (*((_T.sharded,) if sharded else ()), *((_T.index,) if indexed else ()))


@functools.lru_cache(maxsize=512)  # ranks repeat each other
def _best(message: str, trace: str = "", without: tuple[str, ...] = ()) -> Known | None:
    """Of all that match, the narrowest; of equals the one whose pattern is longest."""
    found = [(k, p) for k in load() if (p := k.match(message, trace)) and k.code not in without]
    return max(found, key=lambda f: (f[0].narrow, f[1].size))[0] if found else None


def _by_type(event: Event) -> Known | None:
    """What the exception's type alone tells; the longest beginning counts."""
    if event.ignored or not event.type:
        return None
    said = f"{event.type}: {event.message}"
    pairs = [(one.text, known.code) for known in load() for one in known.by_place["type"]]
    pairs += [(text, "") for text in table("places")["type"]]
    found = [(len(text), code) for text, code in pairs if said.startswith(text)]
    return by_code().get(max(found)[1]) if found else None


def _by_place(event: Event, message: str, trace: str) -> Known | None:
    """What the frame that raised it tells; the longest text is the most exact place. A slip of the
    code itself has a place, which does not say what the run did wrong."""
    nothing = event.name == "AttributeError" and event.message.startswith("'NoneType' object")
    if not event.type or not event.frames or event.name in _T.own_fault or nothing:
        return None
    slip = event.name in _T.slips or _P.sizes.search(event.message) is not None
    for path, name in _innermost(event.frames):
        frame = _inside(f"{path} in {name}")
        matches = ((k, k.match_raised(frame, message, trace)) for k in load())
        found = [(len(p.text), k.code) for k, p in matches if p is not None]
        found = [(n, "" if slip and code in _T.of_checks else code) for n, code in found]
        found += [(len(text), "") for text in table("places")["raised"] if text in frame]
        if found:
            return by_code().get(max(found)[1])
    return None


def _innermost(frames: list[tuple[str, int, str]]) -> list[tuple[str, str]]:
    """(path, function) of the raising frame and, while these are helpers, of their callers; who
    asked for what is not there comes before the look-up itself."""
    kept: list[tuple[str, str]] = []
    for path, _, name in reversed([f for f in frames if f[2] not in _T.asked] or frames):
        kept.append((path, name))
        if len(kept) > LOOKED_PAST or not _P.helper.match(name):
            break
    return kept


def _inside(frame: str) -> str:
    """A frame without its environment's folder, which may bear a package's name."""
    frame = frame.replace("\\", "/")
    at = max(frame.rfind("/site-packages/"), frame.rfind("/dist-packages/"))
    return frame[max(at, 0) :]
