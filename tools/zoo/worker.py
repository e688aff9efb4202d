"""One class after the other, each in a forked process: its tiny model, what rows run in it, what
the blank input was found to do, and whether that holds on the model itself. Prints a line of JSON
each, the releases first.

    python -m tools.zoo.worker CLASS…     (in an environment with transformers; none: every class)
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from typing import Any

import torch
import transformers

from tools.zoo import classes, configs, generating
from vlmguard_torch.blank import blank_input, neutral
from vlmguard_torch.layout import towers
from vlmguard_torch.observe import example_rows, measure, observer, row_trace
from vlmguard_torch.observe.observed import Observed, reason
from vlmguard_torch.observe.shrink import shrink

LIMIT = 150
"""Seconds for a class."""


def told_of(name: str) -> dict[str, Any]:
    """The record of a class."""
    kind = getattr(transformers, name, None)
    if kind is None:
        return {"class": name, "answer": "no such class"}
    try:
        torch.manual_seed(0)
        model = _made(kind)
    except Exception as error:
        return {"class": name, "answer": "not made", "why": reason(error)}
    if not towers.seeing(model) and not neutral._single(model, None):
        return {"class": name, "answer": "no tower"}
    _, model = observer.subject(model)
    begun = time.thread_time()
    plain = observer.observe(model, cache=False)
    middle = time.thread_time()
    facts = observer.observe(model, blank=neutral._on, cache=False, reentrant=True)
    return {
        "class": name,
        "answer": "tried" if facts else "not observed",
        "why": facts.reason,
        "rows": {one.kind: one.reason for one in facts.kinds},
        "blanks": [vars(each) for each in facts.blanks],
        "impossible": blank_input.possible(model),
        "dropped": facts.dropped,
        "held": {each.kind: _held(model, facts, each.kind) for each in facts.blanks if each.proven},
        "generates": _generates(model, facts),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "observed_s": round(middle - begun, 2) if plain else None,
        "trial_s": round(time.thread_time() - middle - (middle - begun), 2) if plain else None,
    }


def _made(kind: Any) -> Any:
    """The tiny model. As in `measure.cut_or_whole`, one that does not stand a cut has all layers;
    the first reason is the one told."""
    config = configs.config(kind)
    try:
        return measure.tiny(kind, shrink(config).config, row_trace.NO_LIMIT)
    except Exception as error:
        try:
            return measure.tiny(kind, shrink(config, measure.ALL_LAYERS).config, row_trace.NO_LIMIT)
        except Exception:
            raise error from None


def _held(model: Any, facts: Observed, kind: str) -> str:
    """Whether the blank, put into the model itself, reaches what a real row reaches and changes no
    bit of a text row: "" or what went wrong."""
    kinds = tuple(kind.split("+"))
    rows = example_rows.Rows(model, row_trace.TooLong)
    text = rows.run("text", lambda row: _trace(model, row))
    real = [rows.run(each, lambda row: _trace(model, row)) for each in kinds]
    handle = blank_input.install(model, kinds=kinds, **neutral.recipe(model, facts))
    done = _trace(model, rows.taken["text"])
    fault, padded = handle.fault, handle.padded
    handle.close()
    if fault or not padded:
        return fault or "no blank ran"
    wanted = set().union(*(each.reached for each in real)) - text.reached
    missed = sorted(name for name in wanted - done.reached if "experts." not in name)
    if missed:
        return f"{len(missed)} tensors missed, such as {missed[0]}"
    if done.loss != text.loss:
        return "the loss is another"
    apart = [n for n, one in text.gradients.items() if not torch.equal(one, done.gradients[n])]
    loud = [n for n in wanted & done.reached if done.gradients[n].any()]
    return f"another gradient: {(apart + loud)[0]}" if apart + loud else ""


def _generates(model: Any, facts: Observed) -> dict[str, str]:
    """Kind of a proven blank → what goes wrong in ``generate``; {} if the class has none."""
    proven = [each.kind for each in facts.blanks if each.proven]
    if not proven or not getattr(model, "can_generate", bool)():
        return {}
    rows = example_rows.Rows(model, row_trace.TooLong)
    for kind in ("text", *dict.fromkeys(kind for each in proven for kind in each.split("+"))):
        rows.run(kind, lambda row: _trace(model, row))
    return {
        each: generating.told_of(model, facts, tuple(each.split("+")), rows) for each in proven
    }


def _trace(model: Any, row: Any) -> row_trace.Trace:
    return row_trace.trace(model, row, row_trace.NO_LIMIT, gradients=True)


def _forked(name: str) -> dict[str, Any]:
    """The record, from a process of its own: a class may crash it, or take for ever."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        signal.alarm(LIMIT)
        try:
            told = told_of(name)
        except BaseException as error:
            told = {"class": name, "answer": "broken", "why": reason(error)}
        with os.fdopen(write, "w") as file:
            json.dump(told, file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if not text:
        return {"class": name, "answer": "broken", "why": f"ended with {status}"}
    told: dict[str, Any] = json.loads(text)
    return told


def main(names: list[str]) -> None:
    """The parent computes nothing: torch's threads do not survive a fork."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    measure.WAIT = float("inf")  # the machine may be busy; the limit counts the thread's time
    print(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__}))
    for name in names or classes.every():
        print(json.dumps(_forked(name)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
