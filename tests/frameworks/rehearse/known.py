"""Commands whose outcome in real gloo ranks a test of this repository establishes, guard off.

For these only the rehearsal has to run: `Job.test` is the test that runs the real ranks.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.frameworks.flagembedding import cases as flagembedding
from tests.frameworks.flagembedding import launch
from tests.frameworks.swift.cases import CASES, HEALTHY, NO_CHECKPOINTS, ONCE, REDUCED
from tests.frameworks.swift.classes import RUNS, SIZES, UNFINISHED, Run
from tests.frameworks.trainers import cases as trainers
from tests.kit import runs, swift
from tests.kit import trainers as kit

RIGHT, WRONG, CRASH, HANG = "right", "silently wrong", "crash", "hang"
_WORDS = {"right": RIGHT, "wrong": WRONG, "hang": HANG, ONCE: CRASH, REDUCED: CRASH,
          UNFINISHED: CRASH, SIZES: HANG, flagembedding.BARE_ASSERTION: CRASH}  # fmt: skip
"""What tests expect → rehearse's word; other words name where ranks part, which is a hang without
torch's own comparison of collectives. So are sizes that gloo finds to differ."""
Line = tuple[str, Mapping[str, str]]


@dataclass(frozen=True)
class Job:
    """Attributes:
    line: gives what the user types, and the files beside it.
    known: what real ranks do; "" where they have to be asked.
    test: which test establishes that.
    run: of ms-swift, for real ranks.
    real: how real ranks are run, where ``run`` does not say.
    forced: the same on rows on which ranks differ at every step.
    passes: of the rehearsal, and of real ranks.
    """

    name: str
    env: str
    line: Callable[[], Line]
    known: str = ""
    test: str = ""
    run: Run | None = None
    real: Any = None
    forced: Any = None
    passes: tuple[str, ...] = ("off",)


def of_run(run: Run, name: str, known: str = "", test: str = "") -> Job:
    """A command of ms-swift."""
    return Job(name, "swift", functools.partial(_of_swift, run), known, test, run)


def jobs() -> Iterator[Job]:
    """All of them, a framework after the other."""
    yield from _swift()
    for name, case in trainers.CASES.items():
        command = case.command
        if not command.over and name.startswith(("trl-", "lf-")) and _own(command):
            yield _trainer(name, _WORDS.get(case.broken, HANG), "test_broken_without_the_guard")
    for name, command in trainers.HEALTHY.items():
        if name.startswith(("trl-", "lf-")) and _own(command):
            yield _trainer(name, RIGHT, "test_healthy_runs_stay_bitwise_equal")
    for each in (*flagembedding.CASES, *flagembedding.HEALTHY):
        if each.over is None and getattr(each, "ranks", 2) == 2:
            broken = getattr(each, "broken", "right")
            known = _WORDS[broken]
            test = "healthy_runs_stay_bitwise_equal" if broken == "right" else (
                "broken_without_the_guard")  # fmt: skip
            place = "tests/frameworks/flagembedding/test_flagembedding_cases.py"
            yield Job(each.name, "flagembedding", functools.partial(line, "flagembedding",
                      each.name), known, f"{place}::test_{test}[{each.name}]")  # fmt: skip


def _own(command: kit.Command) -> bool:
    """TRL's or LLaMA-Factory's own command, no script of a user's."""
    return not any(word.endswith(".py") for word in command.words)


def _trainer(name: str, known: str, test: str) -> Job:
    env = "trl" if name.startswith("trl-") else "llamafactory"
    place = f"tests/frameworks/trainers/test_trainers_cases.py::{test}[{name}]"
    return Job(name, env, functools.partial(line, env, name), known, place)


def _swift() -> Iterator[Job]:
    place = "tests/frameworks/swift"
    for case in CASES:
        if case.env == "swift" and not case.over:
            reference = case.right() if case.broken == "wrong" else []
            run = Run(case.name, case.verb, case.model, case.data, case.flags, case.broken, "right",
                      reference)  # fmt: skip
            test = f"{place}/test_cases.py::test_broken_without_the_guard[{case.name}]"
            yield of_run(run, case.name, _WORDS[case.broken], test)
    for each in HEALTHY:
        run = Run(each.name, each.verb, each.model, each.data, each.flags, "right", "right",
                  [*each.flags, *NO_CHECKPOINTS])  # fmt: skip
        test = f"{place}/test_cases.py::test_healthy_runs_stay_bitwise_equal[{each.name}]"
        yield of_run(run, f"healthy-{each.name}", RIGHT, test)
    for run in RUNS:
        test = f"{place}/test_classes.py::test_without_the_guard[{run.name}]"
        yield of_run(run, f"class-{run.name}", _WORDS.get(run.off, HANG), test)


def _of_swift(run: Run) -> Line:
    flags = [flag.replace("{data}", str(swift.dataset())) for flag in run.flags]
    words = swift.command(run.verb, run.model, run.data, flags)
    return f"NPROC_PER_NODE={run.world} MAX_PIXELS=16384 swift {shlex.join(words)}", {}


def line(env: str, name: str, ranks: int = 0) -> Line:
    """A command of TRL, LLaMA-Factory or FlagEmbedding; ranks: in place of its own number."""
    if env == "flagembedding":
        case = of_flagembedding(name)
        flags = (*case.flags, *getattr(case, "spread", ()), *getattr(case, "checkpoints", ()))
        launcher = ["torchrun", "--nproc_per_node", str(ranks or 2)]
        words = [*launcher, *launch.arguments(case.module, flags)]
        return shlex.join(words), {}
    case = trainers.CASES.get(name)
    command = case.command if case else trainers.HEALTHY[name]
    return of_command(env, name, command, ranks or (case.ranks if case else 2))


def of_command(env: str, name: str, command: kit.Command, ranks: int) -> Line:
    """As a user types it, files of its own named after it."""
    model = str(runs.model_folder(env, command.model))
    places = {"data": str(kit.tables()), "model": model, "ranks": str(ranks), "port": "29500"}
    fill = functools.partial(kit._filled, places=places)
    files = {f"{name}-{file}": fill(text) for file, text in command.files.items()}
    words = [f"{name}-{word}" if word in command.files else fill(word) for word in command.words]
    before = [f"{key}={fill(value)}" for key, value in command.extra.items()]
    return " ".join([*before, shlex.join(words)]), files


def of_flagembedding(name: str) -> flagembedding.Case | flagembedding.Healthy:
    every = [*flagembedding.CASES, *flagembedding.HEALTHY]
    return next(case for case in every if case.name == name)
