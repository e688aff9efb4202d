"""How a command ends, rehearsed once with what it saves, evaluates and chooses: its last batches,
which may not be whole, the first step of a second epoch, and a resumed run in the ranks asked for.

Asked when the command was right so far. Numbers are not compared, only the ranks with each other,
and the ledger has to balance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vlmguard.rehearse import compare, fixture, stand_in_rows, training_rows
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.passes import Rehearsal
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.verdict import CANNOT, RIGHT, WRONG, Judgement, share

NAME, RESUMED = "its ending", "resumed"
WHOLE = 4
"""Steps of an epoch before the one that may not be whole."""
MOST = 2000
"""Rows of a command with rewards that are read: as many as fit in the time meet theirs."""
TOKENS = 8
_OWN = (
    "accelerator_config compute_accuracy dataloader_drop_last dispatch_batches "
    "early_stop_interval early_stopping_steps eval_on_start save_only_model save_strategy "
    "save_total_limit split_batches"
).split()
_EVALUATION = (
    "eval_strategy evaluation_strategy greater_is_better load_best_model_at_end "
    "metric_for_best_model predict_with_generate"
).split()
_FEWER = ("split_dataset_ratio", "val_size", "max_samples", "mix_strategy", "interleave_probs")
"""Flags after which a file's rows are not those that it trains on."""
_SHARD = re.compile(r"zero_pp_rank_(\d+)_mp_rank_\d+_optim_states\.pt$")


@dataclass(frozen=True)
class Length:
    """Attributes:
    rows, last: how many rows, and the last step that is kept and saved.
    epochs: what ends it; 0 where its number of steps does.
    supposed: what was supposed of its rows, in words; "" where they are known.
    unmet: how many rows met their rewards, in words; "" where all of them do.
    """

    rows: int
    last: int
    epochs: int = 0
    supposed: str = ""
    unmet: str = ""


@dataclass(frozen=True)
class Ending:
    """The command with its own ending, and how long that takes."""

    commands: Commands
    length: Length


def of(
    hooks: Any, passes: Rehearsal, request: Request, made: Any, sample: training_rows.Sample
) -> Ending | None:
    """The command with its own ending; None where the plug-in does not know how.

    passes: those before, which say how long a step takes.
    """
    if not getattr(hooks, "ENDING", False):
        return None
    place = Path(request.scratch) / "ending"
    place.mkdir()
    evaluates = request.evaluates or request.generates_at_evaluation
    request = replace(request, scratch=str(place), evaluates=evaluates)
    if evaluates:
        evaluated = str(stand_in_rows.evaluated(request, sample, place))
        request = replace(request, evaluated=(evaluated,))
    length = _rewarded(passes, sample) if rewards(request) else _length(request, sample)
    chosen = [sample.rows[at % len(sample.rows)] for at in range(length.rows)]
    files = [
        training_rows.write(place / name, chosen) for name in ("rows.jsonl", "rows-single.jsonl")
    ]
    told = hooks.commands(request, made, *files, length.last)
    return Ending(replace(told, argv=tuple(_restored(told.argv, request, length))), length)


def _length(request: Request, sample: training_rows.Sample) -> Length:
    """How many rows and steps show its end."""
    whole = request.ranks * request.batch * request.accumulation
    given = Argv(list(request.argv))
    known = sample.count and not any(given.values(name) for name in _FEWER)
    over = sample.count % (request.world * request.batch) if known else 1
    over = over if request.world == request.ranks else min(over, 1)
    supposed = "" if known else "that its rows do not divide by its ranks"
    steps = given.get("max_steps") or ""
    if not steps.isdigit() or steps == "0":
        epochs = 1 if given.get("num_train_epochs") in ("1", "1.0") else 2
        return Length(whole * WHOLE + over, WHOLE * epochs, epochs, supposed)
    step = request.world * request.batch * (request.own_accumulation or request.accumulation)
    if sample.count and int(steps) * step > sample.count:
        return Length(whole * WHOLE + over, WHOLE + 2, 0, supposed)
    return Length(whole * (WHOLE + 1), WHOLE)


def rewards(request: Request) -> bool:
    """Whether each of its rows meets rewards."""
    return request.row == "prompt"


def _rewarded(passes: Rehearsal, sample: training_rows.Sample) -> Length:
    """Steps in which all of these rows meet their rewards, or as many as fit in half of the time
    that a pass has, and one step more. The odd rows come first in a sample."""
    argv = Argv(list(passes.commands.argv))

    def number(name: str, usual: int) -> int:
        given = argv.get(name) or ""
        return int(given) if given.isdigit() and int(given) else usual

    together = passes.request.ranks * number("per_device_train_batch_size", 1)
    together *= number("gradient_accumulation_steps", 1)
    prompts, times = max(1, together // number("num_generations", 8)), number("num_iterations", 1)
    pace = max((one.get("pace", 0.0) for one in passes.outcomes), default=0.0)
    fit = int(passes.request.limit / 2 / pace) if pace else WHOLE
    groups = min(-(-len(sample.rows) // prompts), max(1, max(fit, WHOLE) // times))
    met = min(groups * prompts, len(sample.rows))
    unmet = ""
    if passes.request.data and met != sample.count:
        every = sample.count or f"more than {len(sample.rows)}"
        unmet = f"rewards: {met} of {every} rows met theirs here"
    return Length(groups * prompts, max(groups * times, WHOLE) + 1, unmet=unmet)


def _restored(words: Sequence[str], request: Request, length: Length) -> list[str]:
    """With the user's own words on what it saves, evaluates and chooses."""
    argv = Argv(list(words), frozenset(request.known))
    given = Argv(list(request.argv))
    names = [*_OWN, *(_EVALUATION if request.evaluates else ())]
    for name in names:
        argv.drop(name)
        if (values := given.values(name)) is not None:
            argv.words += [f"--{name}", *values]
    for name in ("save_steps", "eval_steps"):
        argv.set(name, WHOLE if length.epochs else length.last)
    argv.set("max_steps", -1 if length.epochs else length.last)
    if length.epochs:
        argv.set("num_train_epochs", length.epochs)
    if _ranks_of(request) is not None:  # the rehearsal saves what it resumes from
        argv.set("save_strategy", "steps")
        argv.drop("save_only_model")
    if request.generates_at_evaluation:
        argv.set("max_new_tokens", TOKENS)
    return argv.words


def look(passes: Rehearsal, ending: Ending, guard: bool) -> Judgement:
    """Right, or what went wrong at its end."""
    request = passes.request
    before = _ranks_of(request)
    ranks = request.ranks
    if before and before != request.world:
        ranks = 2 if before < request.world else 3
    name = f"{NAME}, guard {'on' if guard else 'off'}"
    scene, failed = passes.to_the_end(name, ending.commands, ending.length.last, ranks, guard)
    found = failed or _parted(scene, ending.length.last, ranks) or _unbalanced(passes, scene)
    if found is None and before is not None:
        found = _resumed(passes, ending, scene, (before, ranks), guard)
    passes.tell("judged", {"pass": name, "kind": found.kind if found else RIGHT,
                           "seconds": passes.seconds[name]})  # fmt: skip
    if found is None:
        return Judgement(RIGHT)
    why = (
        f"{found.why}; supposed: {ending.length.supposed}" if ending.length.supposed else found.why
    )
    order = RESUMED if found.order == RESUMED else NAME
    return replace(found, order=order, why=why.removeprefix("; "))


def _unbalanced(passes: Rehearsal, scene: Scene) -> Judgement | None:
    """What the ledger warned of at this end. Its rows are a few of the command's, repeated."""
    passes.booked = passes.booked and fixture.booked(scene)
    told = fixture.unbalanced(scene, own_rows=False)
    return Judgement(WRONG, why=told) if told else None


def _ranks_of(request: Request) -> int | None:
    """In how many ranks DeepSpeed wrote the checkpoint that is resumed, 0 where its files do not
    say; None where nothing is resumed."""
    given = Argv(list(request.argv)).get("resume_from_checkpoint")
    if given is None or given.lower() in ("false", "no", "none"):
        return None
    files = Path(request.folder, given).expanduser().rglob("*_optim_states.pt")
    found = [int(match[1]) for file in files if (match := _SHARD.search(file.name))]
    return max(found, default=-1) + 1


def _resumed(
    passes: Rehearsal, ending: Ending, scene: Scene, ranks: tuple[int, int], guard: bool
) -> Judgement | None:
    """What was saved here, resumed; in other ranks where the command asks for other ones."""
    saved = sorted(Path(passes.request.scratch).rglob(f"checkpoint-{ending.length.last}"))
    if not saved:
        return Judgement(CANNOT, why="nothing was saved here that could be resumed")
    before, wrote = ranks
    resumes = wrote
    if before and before != passes.request.world:
        resumes = 5 - wrote
    argv = Argv(list(ending.commands.argv), frozenset(passes.request.known))
    argv.set("resume_from_checkpoint", saved[0])
    argv.set("max_steps", ending.length.last + 1)
    commands = replace(ending.commands, argv=tuple(argv.words))
    name = f"{RESUMED}, guard {'on' if guard else 'off'}"
    again, failed = passes.to_the_end(name, commands, ending.length.last + 1, resumes, guard)
    failed = failed or _unbalanced(passes, again)
    if failed is None:
        return None
    how = f"resumed, {resumes} ranks from a checkpoint of {wrote}"
    return replace(failed, order=RESUMED, why=f"{how}; {failed.why}".removesuffix("; "))


def _parted(scene: Scene, last: int, ranks: int) -> Judgement | None:
    """Ranks whose weights differ at the end, or other weights that train than at the beginning."""
    try:
        begun = compare.weights(scene, 0, ranks, 0)
        ends = [compare.weights(scene, last, ranks, rank) for rank in range(ranks)]
    except OSError:
        return None
    if odd := sorted(set(begun) ^ set(ends[0])):
        return Judgement(CANNOT, why=f"{odd[0]} trains at some of the steps only")
    sizes = {name: float(np.linalg.norm(ends[0][name] - value)) for name, value in begun.items()}
    off, name = compare.drift(ends, sizes)
    if off <= compare.TOLERANCE:
        return None
    why = f"the ranks' weights drift apart, by {share(off)}"
    return Judgement(WRONG, NAME, last, why, tensors=((name, off),), off=off, count=1,
                     judged=len(sizes))  # fmt: skip
