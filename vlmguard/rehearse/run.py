"""One request in the warm process: the tiny model, the rows, the passes, the verdict."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlmguard.check.reading.named_files import Unreadable
from vlmguard.ranks import run as ranks
from vlmguard.rehearse import (
    alone,
    ending,
    framework,
    row_filter,
    stand_in_rows,
    training_rows,
    verdict,
)
from vlmguard.rehearse.argv import left_out
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.own_script import passes as own_passes
from vlmguard.rehearse.passes import Rehearsal, Tell
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.verdict import CANNOT, CRASH, HANG, RIGHT, Judgement

NOT_SHOWN = ("memory", "NCCL and topology", "stream races", "fused kernels", "fp16 and bf16 ranges",
             "rare rows later in the data", "evaluation", "saving")  # fmt: skip
"""What no CPU run of a few steps can show."""
NO_BOOKS = "what the ledger reads"
_LAYER = re.compile(r"\b(?:layers?|blocks?|h)(?:\\*\.|\[)[(\[]?\d")
ALL_LAYERS = 1000
"""A command that names a layer (``layers.27``, ``layers\\.(2[0-9])``) needs it to be there."""
ACCUMULATION = 2
"""Micro-batches of a step, at most: more add nothing but time."""


def rehearse(request: Request, tell: Tell) -> dict[str, Any]:
    """The whole answer as plain data. Never raises for what a user wrote."""
    begun = time.monotonic()
    hooks = framework.of(request.adapter)
    try:
        if hasattr(hooks, "OWN_SCRIPT"):
            answer = own_passes.rehearse(hooks, request, tell)
        else:
            answer = _rehearse(request, tell)
    except Unreadable as error:
        answer = _answer(Judgement(CANNOT, why=str(error)))
    except OSError as error:
        answer = _answer(Judgement(CANNOT, why=f"{error.filename or ''}: {error.strerror}"))
    return {**answer, "seconds": round(time.monotonic() - begun, 1)}


def _answer(off: Judgement, on: Judgement | None = None, **more: Any) -> dict[str, Any]:
    whole = verdict.overall(off, on) if on else off
    return {
        "verdict": whole.kind,
        "exit": whole.code,
        "why": whole.why,
        "off": off.as_data(),
        "on": on.as_data() if on else None,
        **more,
    }


def _rehearse(
    request: Request, tell: Tell, again: tuple[training_rows.Sample, list[str]] | None = None
) -> dict[str, Any]:
    """again: rows without those that the framework drops, and what has to be said of them."""
    place = Path(request.scratch)
    hooks = framework.of(request.adapter)
    sample, notes = again or _sample(request, place)
    if not again and (why := _too_few(request, sample)):
        return _answer(Judgement(CANNOT, why=why), notes=notes)
    tell("rows", {"kinds": {kind: len(found) for kind, found in sample.by_kind.items()}})
    tell("began", {"pass": "tiny model"})
    if hasattr(hooks, "ready"):
        hooks.ready(Path(request.model))
    made = _tiny(hooks, request, place)
    if isinstance(made, str):
        return _answer(Judgement(CANNOT, why=made), notes=notes)
    tell("judged", {"pass": "tiny model", "kind": made["class"], "seconds": made["seconds"]})
    windows = training_rows.orders(sample, request.ranks, request.thorough, request.generates)
    accumulation = min(request.accumulation, ACCUMULATION)
    cells = training_rows.arranged(sample, windows, request.ranks, request.batch, accumulation,
                          request.blocks, request.world)  # fmt: skip
    if request.generates:  # a group of completions needs more rows than steps
        cells = cells * 8
    together = training_rows.write(place / "rows.jsonl", training_rows.dealt(cells))
    single = training_rows.write(place / "rows-single.jsonl", training_rows.alone(cells))
    whole, training = request, replace(request, evaluates=False)
    request = replace(request, accumulation=accumulation)
    if request.evaluates:
        evaluated = str(stand_in_rows.evaluated(request, sample, place))
        request = replace(request, evaluated=(evaluated,))
    commands = hooks.commands(request, made, together, single, windows[-1].last)
    # after `commands`: what both replace in the tiny model's files is reported where it comes first
    own = alone.own(hooks, training, made, cells[: windows[0].steps * accumulation])
    written = len(training_rows.dealt(cells)) if hasattr(hooks, "DROPS") else 0

    def backwards() -> Commands:
        return _backwards(hooks, request, made, cells, windows[-1].last)

    passes = Rehearsal(request, commands, windows, sample, hooks.act, tell, written=written,
                       backwards=backwards)  # fmt: skip
    off = passes.guard(on=False)
    on = passes.guard(on=True) if "on" in request.passes and not passes.dropped else None
    off = verdict.balanced(off, passes.unbalanced)  # it needs the results of both
    if passes.dropped and again is None:
        used = {id(row): row for cell in cells for batch in cell for row in batch}
        found = row_filter.kept(hooks, request, made, list(used.values()), sample)
        notes += [f"{len(used) - len(found.rows)} of {len(used)} rows: {hooks.NAME} drops them"]
        if found.rows:
            (place / "again").mkdir()
            anew = replace(whole, scratch=str(place / "again"))
            return _rehearse(anew, tell, (found, notes))
    end = None
    if "end" in request.passes and off.kind != CANNOT:
        end = ending.of(hooks, passes, replace(request, evaluated=whole.evaluated), made, sample)
    off, on = _to_the_end(passes, end, off, on)
    ended = end is not None and off.kind == RIGHT
    off, on, scale = _at_size(passes, own, off, on)
    answer = _answer(
        off, on, alone=scale, mended=_mended(off, on, passes.fixes), fixes=passes.fixes,
        notes=[*notes, *commands.notes, *passes.notes],
        not_shown=[*_not_shown(request, ended), *([] if passes.booked else [NO_BOOKS])],
        orders=[window.order for window in windows], model=made["class"],
        weights=made["weights"], full=made["full"], share=round(sample.share, 4),
        kinds={kind: len(found) for kind, found in sample.by_kind.items()},
        times=passes.seconds, rss=passes.rss, ranks=request.ranks, world=request.world,
        strategy=request.strategy,
    )  # fmt: skip
    ran = [commands.argv, *([end.commands.argv] if end and ended else [])]
    if own is not None and own.commands is not None and scale and scale["kind"] == RIGHT:
        ran.append(own.commands.argv)
    harmless, reasons = getattr(hooks, "HARMLESS", ()), getattr(hooks, "REASONS", {})
    missing = left_out(request.argv, ran, harmless, commands.notes, reasons)
    unmet = [end.length.unmet] if end and ended and end.length.unmet else []
    return verdict.lowered(answer, [*missing, *unmet])


def _backwards(
    hooks: Any, request: Request, made: Any, cells: list[list[list[training_rows.Row]]], steps: int
) -> Commands:
    """The command on the same steps, with each step's sums in another order."""
    place = Path(request.scratch) / "backwards"
    place.mkdir()
    request = replace(request, scratch=str(place), evaluates=False)
    other = training_rows.backwards(cells, request.accumulation)
    together = training_rows.write(place / "rows.jsonl", training_rows.dealt(other))
    single = training_rows.write(place / "rows-single.jsonl", training_rows.alone(other))
    told: Commands = hooks.commands(request, made, together, single, steps)
    return told


def _not_shown(request: Request, ended: bool) -> list[str]:
    """What stays open; evaluation and saving are part of the command's own ending."""
    evaluates = request.evaluates or (ended and request.generates_at_evaluation)
    shown = {"evaluation"} if evaluates else set()
    return [one for one in NOT_SHOWN if one not in (shown | ({"saving"} if ended else set()))]


def _to_the_end(
    passes: Rehearsal, end: ending.Ending | None, off: Judgement, on: Judgement | None
) -> tuple[Judgement, Judgement | None]:
    """Both sides, as the command's own ending leaves them."""
    if end is None:
        return off, on
    if off.kind == RIGHT:
        found = ending.look(passes, end, guard=False)
        off = off if found.kind == RIGHT else found
        asked = off.kind not in (RIGHT, CANNOT)
    else:
        asked = off.kind != CANNOT
    if asked and on is not None and on.kind == RIGHT:
        found = ending.look(passes, end, guard=True)
        on = on if found.kind == RIGHT else found
    return off, on


def _at_size(
    passes: Rehearsal, own: alone.Own | None, off: Judgement, on: Judgement | None
) -> tuple[Judgement, Judgement | None, dict[str, Any] | None]:
    """Both sides, as one rank alone at the real size leaves them, and the words for that.

    What fails before the first step comes before what failed at one. The guard's side is asked
    where the other is not right: then it is the one that counts.
    """
    if own is None or "alone" not in passes.request.passes:
        return off, on, None
    told: dict[str, Any] = {"how": own.words, "kind": "not asked", "why": "", "unseen": own.unseen}
    if off.kind == RIGHT:
        found = alone.look(passes, own, guard=False)
        told |= {"kind": found.kind, "why": found.why}
        off = found if found.kind in (CRASH, HANG) else off
    elif _trained(passes, off) and (early := alone.before(passes, own)):
        then = f"; behind it: {off.kind} at step {off.step}" if off.step else ""
        why = f"{early.why}{then}"
        off = replace(early, why=why)
        told |= {"kind": early.kind, "why": why}
    if off.kind not in (RIGHT, CANNOT) and on is not None and on.kind == RIGHT:
        found = alone.look(passes, own, guard=True)
        told |= {"kind": found.kind, "why": found.why}
        on = on if found.kind in (RIGHT, CANNOT) else found
    return off, on, told


def _trained(passes: Rehearsal, off: Judgement) -> bool:
    """Whether two ranks came to a step, if not to a verdict."""
    ended = passes.last is not None and passes.last.verdict == "ok"
    return bool(off.step) if off.kind != CANNOT else ended


def _too_few(request: Request, sample: training_rows.Sample) -> str:
    """Why no rank would train at all; "" where all of them do, or not all rows are known."""
    need = request.fewest * request.world
    some = training_rows.MOST // max(len(request.data), 1)
    if request.data and not request.why_no_data and len(sample.rows) < min(need, some):
        return f"{len(sample.rows)} rows for {request.world} ranks: no whole batch, nothing trains"
    return ""


def _mended(off: Judgement, on: Judgement | None, fixes: dict[str, str]) -> list[str]:
    """The rules that mend it, where the guard does."""
    if off.kind == RIGHT or on is None or on.kind != RIGHT:
        return []
    return [code for code, told in fixes.items() if told.startswith(("fixed", "set"))]


def _sample(request: Request, place: Path) -> tuple[training_rows.Sample, list[str]]:
    """The user's rows, else stand-ins; and what has to be said of them."""
    notes: list[str] = []
    if request.data:
        most = ending.MOST if ending.rewards(request) else training_rows.MOST
        sample = training_rows.sample(request.data, request.shuffled, most)
        if request.why_no_data:
            notes.append(f"left out: {request.why_no_data}")
        root = request.media_root or request.env.get("ROOT_IMAGE_DIR") or request.folder

        def there(name: str) -> bool:
            return os.path.exists(os.path.join(root, os.path.expanduser(name)))

        stand_in_rows.saved(sample.rows, place)
        missing = stand_in_rows.here(sample.rows, place, there)
        if missing:
            notes.append(f"{missing} pictures that are not on this disk: stand-ins")
        kept = stand_in_rows.whole(sample.rows, there)
        if not kept:
            raise Unreadable("no row whose videos and sounds are on this disk")
        if len(kept) < len(sample.rows):
            left = len(sample.rows) - len(kept)
            notes.append(f"left out: {left} rows whose videos or sounds are not on this disk")
            sample = replace(training_rows.of(kept), share=sample.share)
    else:
        made = stand_in_rows.stand_ins(place, request.media, request.row)
        shaped = getattr(framework.of(request.adapter), "shaped", None)
        sample = training_rows.of(shaped(request, made) if shaped else made)
        notes.append(f"stand-in rows ({', '.join(sample.kinds)}): {request.why_no_data}")
    return sample, notes


def first_cause(error: BaseException) -> BaseException:
    """What an exception was raised from in the beginning. What else was handled at the time, as
    another import that was tried before, is no cause."""
    seen = {id(error)}
    while (cause := error.__cause__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
    return error


def _imported(make: Callable[..., Any], given: Sequence[Any]) -> Any:
    """What ``make`` gives. An import that fails in it is told with its first cause."""
    try:
        return make(*given)
    except ImportError as error:
        raise first_cause(error) from None


def _tiny(hooks: Any, request: Request, place: Path) -> dict[str, Any] | str:
    """The tiny checkpoint, or why there is none."""
    out = place / "model" / (request.name or "model")
    begun = time.monotonic()
    named = any(_LAYER.search(word) for word in request.argv)
    given = (Path(request.model), out, *([ALL_LAYERS] if named else []))
    result = ranks(lambda _: _imported(hooks.make, given), 1, "none", request.limit)
    if result.verdict != "ok":
        cause = result.cause
        told = f"{cause.error}: {' '.join((cause.message or '').split())[:300]}" if cause else ""
        return f"{request.name}: its class could not be built small: {told}"
    made: dict[str, Any] = result.outcomes[0].value
    if str(made.get("module", "")).startswith("transformers."):  # else each rank imports it again
        with contextlib.suppress(Exception):
            importlib.import_module(made["module"])
    return {**made, "folder": str(out), "seconds": round(time.monotonic() - begun, 1)}
