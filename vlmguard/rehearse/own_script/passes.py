"""The passes over a user's own script: a look at what it asks for, the reference, guard off and on.

The look runs the script in one process up to ``Trainer.train``, or to its own loop's first step. In
the other passes it trains on the same rows. Each batch of each rank is compared with the
reference's: without that, a script that deals its rows in its own way would be judged by other rows
than it trains on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlmguard.check import hf
from vlmguard.ranks import Result
from vlmguard.ranks import run as ranks
from vlmguard.rehearse import training_rows, verdict
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.passes import Rehearsal, Tell
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.training_rows import Sample, Window
from vlmguard.rehearse.verdict import CANNOT, HANG, RIGHT, WRONG, Judgement

LOOK = "your script"
AFTER = "what comes after train(): it was not run"
AFTER_STEPS = "what comes after its first steps: it was not run"
AVERAGED = "ranks that average their gradients without a wrapper"
BY_HAND = f"the same as its own loss on {AVERAGED}"
CARRIED = "each step adds its gradients to those of the step before: nothing calls zero_grad"
IS_PLAIN = ", which is the plain cross-entropy"
SAME_ROWS = "each rank gets the same rows: its loader does not deal them to the ranks"
UNSHOWN = ("saving", "evaluation")
_LAYER = re.compile(r"\b(?:layers?|blocks?|h)(?:\\*\.|\[)[(\[]?\d")
FEW, ALL = 4, 1000
ACCUMULATION, OWN_ACCUMULATION = 2, 8
"""Of a step, at most; an own loss may count on how many there are."""
LATER = 4
"""Steps more where a callback of the script's own may change something in one of them."""
NONE = "no wrapper"
STRATEGIES = ("single", "ddp", "zero1", "zero2", "zero3", "fsdp2", NONE)


class Cannot(Exception):
    """Why there is no verdict."""


@dataclass(frozen=True)
class Looked:
    """What the script asks for. ``facts``: as ``own_script.Script`` tells them."""

    facts: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def shrunk(self) -> float:
        return float(max(1.0, self.facts["full"] / max(self.facts["small"], 1)))


def rehearse(hooks: Any, request: Request, tell: Tell) -> dict[str, Any]:
    """The answer as plain data, as `run.rehearse` gives it."""
    try:
        looked = look(hooks, request, tell)
        return _passes(hooks, request, looked, tell)
    except Cannot as why:
        return {"verdict": CANNOT, "exit": 2, "why": str(why), "off": Judgement(CANNOT).as_data(),
                "on": None}  # fmt: skip


def look(hooks: Any, request: Request, tell: Tell) -> Looked:
    """Run the script in one process up to its training. Raises `Cannot`."""
    place = Path(request.scratch)
    hooks.imports(request.imports)
    spec = {
        "script": request.entry, "words": list(request.argv), "paths": list(request.paths),
        "launched": request.launched, "local_rank": request.local_rank, "strategy": "single",
        "models": str(place / "models"), "layers": _layers(request), "steps": 1,
        "accumulation": 0, "places": [], "home": str(place.parent), "shrunk": 1.0, "bucket": 0,
        "loop": request.loop, "loader": None, "world": request.world,
    }  # fmt: skip
    file = _written(place / "look.json", spec)
    (place / "look").mkdir()
    alone = not request.loop or request.world == 1
    scene = Scene(LOOK, request.entry, (str(file),), request.folder, place / "look", request.env,
                  single=alone)  # fmt: skip
    tell("began", {"pass": LOOK})
    result = ranks(lambda _: hooks.act(scene), 1, "none" if alone else "referee", request.limit)
    tell("judged", {"pass": LOOK, "kind": "looked at" if result.verdict == "ok" else CANNOT,
                    "seconds": round(result.seconds, 1)})  # fmt: skip
    if result.verdict != "ok":
        raise Cannot(_why(result, request))
    told = result.outcomes[0].value
    facts = {**told["facts"], "limits": [*told["facts"]["limits"], *told["limits"]]}
    if not facts["rows"]:
        raise Cannot(f"{request.name}: its data set has no row")
    return Looked(facts, spec)


def _why(result: Result, request: Request) -> str:
    cause = result.cause
    if result.late:
        return f"{request.name}: it had not begun to train after {request.limit:.0f} s"
    if cause is None:
        return f"{request.name}: it waits for something before it trains"
    if cause.error == "NotHere":
        return " ".join((cause.message or "").split())[:600]
    if cause.state == "died":
        last = " ".join((cause.message or "").split())[:200]
        return f"{request.name}: its process ended before its training: {last}"
    return f"{request.name}: {cause.error}: {' '.join((cause.message or '').split())[:400]}"


def _layers(request: Request) -> int:
    """All of them where its words or the script name one of them."""
    source = Path(request.entry)
    text = source.read_text("utf-8", "replace") if source.is_file() else ""
    return ALL if _LAYER.search(" ".join(request.argv) + text) else FEW


def _written(file: Path, spec: Mapping[str, Any]) -> Path:
    file.write_text(json.dumps(spec), "utf-8")
    return file


def strategy(request: Request, facts: Mapping[str, Any]) -> str:
    """By the script's own arguments and its launcher's. Raises `Cannot`."""
    kind = str(request.accelerate.get("distributed_type", "")).upper()
    inner = request.accelerate.get("deepspeed_config") or {}
    if facts["deepspeed"]:
        return str(hf.stage(facts["deepspeed"]))
    if kind == "DEEPSPEED":
        number = inner.get("zero_stage", 2)
        config = inner.get("config") or {"zero_optimization": {"stage": int(number)}}
        return str(hf.stage(config))
    if facts["fsdp"] or kind == "FSDP":
        config = facts["fsdp_config"] or request.accelerate.get("fsdp_config") or {}
        told = config if isinstance(config, dict) else {}
        version = told.get("fsdp_version", told.get("version", 1))
        return "fsdp2" if str(version) == "2" else "fsdp"
    if request.loop and not facts["wrapped"]:
        return NONE if request.world > 1 else "single"
    return "ddp" if request.world > 1 else "single"


def _settled(request: Request, looked: Looked) -> Request:
    """With what the look has found."""
    facts = looked.facts
    kind = strategy(request, facts)
    if kind not in STRATEGIES:
        raise Cannot(f"{request.name}: {kind} is not rehearsed yet")
    if kind != "single" and request.world < 2:
        raise Cannot(f"{request.name}: {kind} in one process: give the number of ranks, as in "
                     "--world 8")  # fmt: skip
    accumulation = int(facts["accumulation"])
    most = OWN_ACCUMULATION if facts["own_loss"] else ACCUMULATION
    return replace(
        request, strategy=kind, batch=int(facts["batch"]), blocks=True,
        accumulation=accumulation if request.loop else min(accumulation, most),
        own_accumulation=accumulation,
        paired=request.world > 1 and bool(request.loop or facts["own_loss"] or facts["own_tokens"]
                                          or facts["gathers"]
                                          or facts["trainer"].startswith("KTO")),
        data=(request.entry,), towers=tuple(one for one in facts["towers"] if one != "other"),
    )  # fmt: skip


def sample(facts: Mapping[str, Any]) -> Sample:
    """Rows as their places in the script's own data set, those of rare kinds first."""
    rows = [_row(one) for one in facts["rows"]]
    few = training_rows.rare(rows)
    known = {row["place"] for row in few}
    found = training_rows.of([*few, *(row for row in rows if row["place"] not in known)])
    return replace(found, count=int(facts["count"]))


def _row(told: Mapping[str, Any]) -> dict[str, Any]:
    """A row that `row_kinds.kind` takes for one of this kind."""
    media = {medium: ["there"] for medium in str(told["kind"]).split("+") if medium != "text"}
    return {"place": told["place"], **media}


def _passes(hooks: Any, request: Request, looked: Looked, tell: Tell) -> dict[str, Any]:
    request = _settled(request, looked)
    facts, rows = looked.facts, sample(looked.facts)
    tell("rows", {"kinds": {kind: len(found) for kind, found in rows.by_kind.items()}})
    for model in facts["models"]:
        hooks.ready(Path(model))
    windows = training_rows.orders(rows, request.ranks, request.thorough, generates=False)
    if facts["callbacks"]:
        windows[-1] = replace(windows[-1], steps=windows[-1].steps + LATER)
    commands = _commands(hooks, request, looked, windows, rows)
    passes = Rehearsal(request, commands, windows, rows, hooks.act, tell)
    off, on = _both(passes, request)
    if request.loop:
        _, told, _ = passes.reference()
        carried = any((outcome.value or {}).get("carried") for outcome in told.outcomes)
        off, on = _of_loop(off, carried), _of_loop(on, carried) if on else None
    else:
        off, on = _named(off, request, facts), _named(on, request, facts) if on else None
    after = AFTER_STEPS if request.loop else AFTER
    limits = [*facts["limits"], *_said(passes), *_of_loss(passes, facts, off), after]
    return _answer(passes, request, looked, (off, on), limits)


def _commands(
    hooks: Any, request: Request, looked: Looked, windows: Sequence[Window], rows: Sample
) -> Commands:
    """Files with what each pass is asked for, in the place of a command's words."""
    place, steps = Path(request.scratch), windows[-1].last
    cells = training_rows.arranged(rows, windows, request.ranks, request.batch,
                                   request.accumulation, request.blocks, request.world)  # fmt: skip
    chosen = not request.loop or looked.facts["loader"] is not None
    spec = {
        **looked.spec, "steps": steps, "strategy": request.strategy, "shrunk": looked.shrunk,
        "places": [row["place"] for row in training_rows.alone(cells)] if chosen else [],
        "loader": looked.facts.get("loader"),
        "bucket": int(looked.shrunk > 10 and request.strategy == "ddp"),
        "accumulation": request.accumulation,
    }  # fmt: skip
    whole = 1 if request.paired else request.ranks
    other = {**spec, "accumulation": whole * request.accumulation, "strategy": "single"}
    files = [_written(place / "script.json", spec), _written(place / "reference.json", other)]
    words = [(str(file),) for file in files]
    wrapper = hooks.wrapper(request, looked.shrunk)
    return Commands(words[0], words[1], {}, (), wrapper)


def _both(passes: Rehearsal, request: Request) -> tuple[Judgement, Judgement | None]:
    """Guard off and on. A script that fails on one rank without a wrapper says nothing of ranks."""
    _, result, own = passes.reference()
    off = None
    if own > 1 and result.verdict in ("hang", "mismatch"):  # ranks part, whatever wraps the model
        off = _trained(passes.guard(on=False))
    if result.verdict != "ok" and (off is None or off.kind != HANG):
        cause = result.cause
        told = f"{cause.error}: {' '.join((cause.message or '').split())[:400]}" if cause else ""
        where = "one rank without a wrapper" if own == 1 else _reference(request)
        why = f"it ends with {result.verdict} on {where}, too: {told}"
        why = told.partition(": ")[2] if told.startswith("NotHere: ") else why
        return Judgement(CANNOT, why=f"{request.name}: {why}" if request.name not in why else why),\
            None  # fmt: skip
    off = off or _trained(_same_rows(passes, passes.guard(on=False)))
    on = None
    if "on" in request.passes and off.kind != CANNOT:
        on = _trained(_same_rows(passes, passes.guard(on=True)))
    return verdict.balanced(off, passes.unbalanced), on


def _reference(request: Request) -> str:
    return AVERAGED if request.loop else "ranks under plain DDP"


def _trained(found: Judgement) -> Judgement:
    """A hang counts from the first step on: before it the script's own code has the ranks wait."""
    if found.kind != HANG or found.step:
        return found
    told = "; ".join(f"rank {rank}: {call} at {site}" for rank, _, call, site in found.sites)
    return Judgement(CANNOT, why=f"its ranks wait for each other before they train: {told}")


def _same_rows(passes: Rehearsal, found: Judgement) -> Judgement:
    """Numbers are judged only where each rank had the reference's batches."""
    result = passes.last
    if found.kind not in (RIGHT, WRONG) or result is None or result.verdict != "ok":
        return found
    _, reference, own = passes.reference()
    ours = [outcome.value["batches"] for outcome in result.outcomes]
    theirs = [outcome.value["batches"] for outcome in reference.outcomes]
    whole = theirs if own > 1 else _dealt(theirs[0], len(ours))
    if len(ours) > 1 and all(ours) and _alike(ours) and len(set(ours[0])) > 1:
        return Judgement(WRONG, why=SAME_ROWS, off=1.0)
    if all(ours) and ours == whole:
        return found
    return Judgement(CANNOT, why="its ranks do not get the rows that one rank gets in their order: "
                     "it deals or changes its rows in its own way")  # fmt: skip


def _alike(batches: Sequence[Sequence[str]]) -> bool:
    return all(list(one) == list(batches[0]) for one in batches)


def _dealt(batches: Sequence[str], world: int) -> list[list[str]]:
    """The batches of one rank as so many get them."""
    return [list(batches[rank::world]) for rank in range(world)]


def _said(passes: Rehearsal) -> list[str]:
    """What ranks left out as they ran."""
    found = [limit for outcome in passes.outcomes for limit in outcome.get("limits", ())]
    return list(dict.fromkeys(found))


def _named(found: Judgement, request: Request, facts: Mapping[str, Any]) -> Judgement:
    """Whose scale it is, where a loss of the script's own has another one; and the reference, where
    that is of several ranks."""
    if found.kind == RIGHT and request.paired:
        return replace(found, against=found.against.replace("one rank", _reference(request)))
    if found.kind != WRONG or verdict.OTHER_SCALE not in found.why or not facts["own_loss"]:
        return found
    return replace(found, why=f"{', '.join(facts['own_loss'])}: {_own_scale(found.why)}")


def _own_scale(why: str) -> str:
    told = why.partition(verdict.OTHER_SCALE)[0] + verdict.OTHER_SCALE
    return f"{told} of its tokens; no error if this factor is meant"


def _of_loop(found: Judgement, carried: bool) -> Judgement:
    """The same of a loop, whose scale is its own. carried: whether a step of the reference began
    with the gradients of the one before."""
    if found.kind == RIGHT and carried:
        return replace(found, kind=WRONG, why=CARRIED)
    if found.kind == RIGHT:
        plain = found.against == verdict.PLAIN
        return replace(found, against=f"{BY_HAND}{IS_PLAIN if plain else ''}")
    if found.kind == WRONG and verdict.OTHER_SCALE in found.why:
        return replace(found, why=_own_scale(found.why))
    return found


def _of_loss(passes: Rehearsal, facts: Mapping[str, Any], off: Judgement) -> list[str]:
    """What is open of an own loss."""
    if off.kind == RIGHT and passes.request.loop and not off.against.endswith(IS_PLAIN):
        return [
            "its own loss: no plain cross-entropy, so whether its scale is right was not looked at"
        ]
    if off.kind != RIGHT or not facts["own_loss"] or passes.request.strategy == "single":
        return []
    told = passes.reference()[1].outcomes[0].value.get("plain")
    own = ", ".join(facts["own_loss"])
    if told is None:
        return [f"{own}: no plain cross-entropy, so whether its scale is right was not looked at"]
    return []


def _answer(
    passes: Rehearsal, request: Request, looked: Looked, sides: tuple[Judgement, Judgement | None],
    limits: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    off, on = sides
    facts = looked.facts
    whole = verdict.overall(off, on) if on else off
    if whole.kind == RIGHT and facts["missing"]:
        why = f"what was run here was right, and its first evaluation will fail: {facts['missing']}"
        whole = Judgement(CANNOT, why=why)
    mended = []
    if off.kind not in (RIGHT, CANNOT) and on is not None and on.kind == RIGHT:
        mended = [code for code, told in passes.fixes.items() if told.startswith(("fixed", "set"))]
    hidden = ("memory", "NCCL and topology", "stream races", "fused kernels",
              "fp16 and bf16 ranges", "rare rows later in the data", *UNSHOWN,
              *(["the real number of ranks"] if request.world > request.ranks else []))  # fmt: skip
    answer = {
        "verdict": whole.kind, "exit": whole.code, "why": whole.why, "off": off.as_data(),
        "on": on.as_data() if on else None, "alone": None, "mended": mended, "fixes": passes.fixes,
        "notes": [*passes.notes, "each model by its tiny copy"],
        "not_shown": [*hidden, *([] if passes.booked else ["what the ledger reads"])],
        "orders": [window.order for window in passes.windows], "model": facts["model"],
        "weights": facts["weights"], "full": facts["full"], "trainer": facts["trainer"],
        "share": round(passes.sample.share, 4), "times": passes.seconds, "rss": passes.rss,
        "kinds": {kind: len(found) for kind, found in passes.sample.by_kind.items()},
        "ranks": request.ranks, "world": request.world, "strategy": request.strategy,
    }  # fmt: skip
    return verdict.lowered(answer, list(dict.fromkeys(limits)))
