"""What a generic exception means, by the line of source that raised it, its numbers and its caller.

Python's and torch's own words ("division by zero", "list index out of range", "The size of tensor a
…") say what happened and not why. The line that a traceback prints below its last frame does: a
mean over no batches, a picture that was not read, a row without the field that is asked for. Asked
where no message of the catalogue is in the exception, before the raising frame's place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vlmguard.explain import frames, idioms, kinds, sizes
from vlmguard.explain.event import Event


@dataclass(frozen=True)
class Slip:
    """An exception as the rules here see it.

    Attributes:
        kind, said: the type without its module, and the message.
        source: the line that raised it, "" where none was printed.
        path, function: the raising frame.
        fed: a data loader or a mapping of rows called it.
        functions: of all frames.
    """

    kind: str
    said: str
    source: str
    path: str
    function: str
    fed: bool
    frames: tuple[tuple[str, str], ...]


def told(event: Event) -> str | None:
    """The class that the source, the numbers or the caller of a generic exception tell."""
    if not event.type:
        return None
    slip = _slip(event)
    return next((code for code, asks in _RULES if asks(slip)), None)


def source(event: Event) -> str:
    """The line that raised it: below the last frame, or the one that a notebook or rich marks."""
    at = max((n for n, line in enumerate(event.trace) if frames.is_frame(line)), default=-1)
    below = [line.strip() for line in event.trace[at + 1 :]]
    marked = [line for line in below if idioms.MARKED.match(line)]
    if marked:
        return idioms.MARKED.sub("", marked[-1]).strip(" │")
    if at < 0:
        return " ".join(below[-3:])
    return " ".join(line for line in below if line.strip("^~ │"))[:600]


def plain_index(event: Event) -> bool:
    """A place of a tensor that the code itself names: no token and no label."""
    if event.name != "IndexError" or "out of bounds for dimension" not in event.message:
        return False
    line = source(event)
    small = idioms.SMALL.search(event.message.strip())
    other = "[" in line and not idioms.OF_TABLES.search(line)
    return bool(small or other or idioms.NAMED_PLACE.search(line))


def _slip(event: Event) -> Slip:
    frames = tuple((path.replace("\\", "/"), name) for path, _, name in event.frames)
    # Python's own raise for whoever called them.
    called = [f for f in frames if kinds.installed(f[0]) or not kinds.standard(f[0])] or frames
    path, function = called[-1] if called else ("", "")
    fed = [n for n, (one, _) in enumerate(frames) if one.endswith(idioms.FEEDERS) or _feeds(one)]
    own = path and not kinds.installed(path) and not kinds.standard(path)
    return Slip(
        event.name,
        event.message.strip(),
        source(event),
        path,
        function,
        bool(fed) and fed[-1] < len(frames) - 1 and bool(own),
        frames,
    )


def _feeds(path: str) -> bool:
    return any(text in path for text in idioms.FEEDERS)


def _no_rows(slip: Slip) -> bool:
    """A mean over nothing, or a counter of a loop that never ran."""
    if slip.kind == "ZeroDivisionError":
        return bool(idioms.DIVIDED.search(slip.source) or idioms.MEAN.search(slip.source))
    counted = slip.kind == "UnboundLocalError" and idioms.COUNTER.search(slip.said)
    return bool(counted and idioms.TRAINS.search(slip.function or slip.source))


def _no_files(slip: Slip) -> bool:
    """The first of what was found is asked for, and nothing was found."""
    if slip.kind != "IndexError" or slip.function == "forward" or "/model" in slip.path:
        return False
    none = slip.said.startswith("list index") or slip.said.endswith("with size 0")
    return none and bool(idioms.FIRST.search(slip.source) or idioms.LISTED.search(slip.source))


def _no_weights(slip: Slip) -> bool:
    return _no_files(slip) and idioms.OF_WEIGHTS.search(slip.source) is not None


def _no_accumulation(slip: Slip) -> bool:
    return slip.kind == "ZeroDivisionError" and bool(idioms.ACCUMULATED.search(slip.source))


def _no_picture(slip: Slip) -> bool:
    """What OpenCV gives for a file that it cannot read is None."""
    none = slip.kind in ("AttributeError", "TypeError") and idioms.OF_NONE.search(slip.said)
    model = slip.function in ("forward", "_call_impl") or "/model" in slip.path
    return bool(none and not model and idioms.PICTURE.search(slip.source))


def _no_such_image(slip: Slip) -> bool:
    """More placeholders than images: the next image is asked for, and there is none."""
    spliced = slip.function.startswith("prepare_inputs_labels_for_multimodal")
    out = slip.kind == "IndexError" and ("out of range" in slip.said or "bounds" in slip.said)
    shared = any(idioms.SCATTERS.search(path) for path, _ in slip.frames)  # a batch, to its cards
    counted = not (slip.fed or shared) and idioms.NTH_IMAGE.search(slip.source)
    return out and "Dimension" not in slip.said and bool(spliced or counted)


def _unlike_rows(slip: Slip) -> bool:
    """Rows of a batch are put together by their parts, and one of them has none."""
    parts = slip.kind == "TypeError" and "must support iteration" in slip.said
    return parts and idioms.COLLATES.search(slip.path) is not None


def _row_lacks(slip: Slip) -> bool:
    """Code that reads rows met one that is not as it expects."""
    missing = idioms.MISSING.get(slip.kind)
    if missing is None or not missing.search(slip.said):
        return False
    if slip.fed:
        table = slip.kind == "KeyError" and idioms.TABLE.search(slip.source)
        return "self." not in slip.source or bool(table or idioms.FIELD.search(slip.source))
    reads = idioms.READS.match(slip.function) or idioms.READERS.search(slip.path) or not slip.frames
    if slip.kind == "ValueError":
        split = slip.frames and reads and idioms.SPLIT.search(slip.source)
        return bool(split or idioms.LINE.search(slip.source))
    if slip.kind in ("KeyError", "IndexError") and idioms.READERS.search(slip.path):
        return True  # a class that is in no table, a file that no list has
    if slip.kind not in ("KeyError", "TypeError", "AssertionError"):
        return False
    if slip.kind == "AssertionError":
        return idioms.READS.match(slip.function) is not None and "len(" in slip.source
    asked = idioms.ROW.search(slip.source) or (
        slip.kind == "KeyError" and idioms.FIELD.search(slip.source)
    )
    return bool(asked and reads) or bool(idioms.EACH.search(slip.source))


def _not_given(slip: Slip) -> bool:
    """An argument that the code needs is None."""
    if slip.kind != "TypeError" or "NoneType" not in slip.said or slip.fed:
        return False
    if "os.PathLike" in slip.said:  # of a model's own missing file others tell
        return not any("/transformers/" in path for path, _ in slip.frames[-2:])
    whole = "not NoneType" in slip.said
    return bool((idioms.OPTION if whole else idioms.OPTION_PART).search(slip.source))


def _other_release(slip: Slip) -> bool:
    """Another number or kind of values comes back than this code was written for."""
    if slip.kind == "ValueError" and "values to unpack" in slip.said:
        return bool(idioms.FLASH.search(slip.source) or idioms.ATTENDED.search(slip.source))
    if slip.kind == "AttributeError":
        return bool(idioms.ANSWER.match(slip.said))
    text = slip.kind == "TypeError" and slip.said.startswith("string indices must be integers")
    return text and bool(idioms.PART.search(slip.source))


def _labels(slip: Slip) -> bool:
    """A loss function refuses what it is to compare."""
    if slip.kind not in ("RuntimeError", "ValueError", "IndexError"):
        return False
    inside = any(
        idioms.LOSSES.search(path) and idioms.COMPARES.match(name)
        for path, name in slip.frames[-4:]
    )
    inside = inside or idioms.LOSS.search(slip.source) is not None
    shapes = ("size of tensor a", "sizes", "shape", "Dimension out of range", "batch")
    return inside and any(word in slip.said for word in shapes)


def _no_state(slip: Slip) -> bool:
    """A file of weights alone is asked for the state of a training."""
    return _other_checkpoint(slip) and idioms.STATE.search(slip.said) is not None


def _other_checkpoint(slip: Slip) -> bool:
    """A file of weights has another form than the one that is asked for."""
    return slip.kind == "KeyError" and idioms.CHECKPOINT.search(slip.source) is not None


def _asserted(code: str, words: re.Pattern[str]) -> Callable[[Slip], bool]:
    """An assertion without a message: its own line is one."""

    def asks(slip: Slip) -> bool:
        bare = slip.kind == "AssertionError" and not slip.said
        return bare and slip.source.startswith("assert ") and words.search(slip.source) is not None

    return asks


_FINITE = re.compile(
    r"^assert (?:not )?\(?(?:torch|math|np|numpy)\.is(?:nan|finite|inf)\([^)]{0,30}loss"
)


def _not_finite(slip: Slip) -> bool:
    """An own check of the loss, with words of its own."""
    return slip.kind == "AssertionError" and _FINITE.search(slip.source) is not None


def _by_numbers(code: str) -> Callable[[Slip], bool]:
    return lambda slip: sizes.told(f"{slip.kind}: {slip.said}", slip.source) == code


_RULES: tuple[tuple[str, Callable[[Slip], bool]], ...] = (
    ("VG554", _no_rows),
    ("VG553", _no_accumulation),
    ("VG550", _no_weights),
    ("VG554", _no_files),
    ("VG555", _no_picture),
    ("VG510", _no_such_image),
    ("VG550", _no_state),
    ("VG522", _other_checkpoint),
    ("VG515", _not_finite),
    *((code, _asserted(code, words)) for code, words in idioms.ASSERTED),
    ("VG582", _unlike_rows),
    ("VG554", _row_lacks),
    ("VG553", _not_given),
    ("VG570", _other_release),
    *((code, _by_numbers(code)) for code in sizes.CODES),
    ("VG597", _labels),
)
