"""Every piece of advice, followed: the run that fails without it goes right, by weight updates.

A plain Trainer on a tiny Qwen2-VL or LLaVA. In the failing run every rule only speaks
(`VLMGUARD_RULES=VG=warn`): nothing is changed, and what is said is what a user reads.
"""

from __future__ import annotations

import functools
import hashlib
import json

import pytest

from tests.frameworks.advice.cases import CLIPS, FAILING, HANGS, SAME, WRONG
from tests.kit import forked, runs
from tests.kit.oracle import Vacuous, compare

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(2400)]
TELLING = ("mixed", "zero2", "stale", "never")
SPEAKS = {"VLMGUARD_RULES": "VG=warn", **SAME}
FREEZES = {"VLMGUARD_RULES": "VG=warn,VG301=fix", **SAME}


def key(command, freeze=""):
    """A run's name; one run serves all that ask for it."""
    told = json.dumps([list(command.words), command.model, freeze])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


@functools.cache
def ended(telling):
    """All runs of the telling cases, or of the others: two processes that import once."""
    jobs = {}
    for name, case in FAILING.items():
        if (name in TELLING) is not telling:
            continue
        jobs[name] = forked.Job(name, case.command, SPEAKS, guard=True)
        for command, freeze in wanted(case):
            extra = {**FREEZES, "VLMGUARD_FREEZE": freeze} if freeze else SAME
            job = forked.Job(key(command, freeze), command, extra, guard=bool(freeze))
            jobs[job.name] = job
    folder = runs.session() / f"advice-{'telling' if telling else 'rest'}"
    return forked.run(list(jobs.values()), folder)


def wanted(case):
    yield case.reference, ""
    for advised in case.told.values():
        for sentence, done in advised.items():
            yield done.command, frozen(sentence)
            yield done.reference, ""


def frozen(sentence):
    """What the guard is asked to freeze, in the words of the advice."""
    words = sentence.removeprefix("if they are not meant to train, ")
    return ",".join(words[7:].split(" and ")) if words.startswith("freeze ") else ""


def moved(run):
    """The norm of all updates of rank 0."""
    rank = run.ranks[0]
    updates = [rank.final[name].double() - rank.initial[name].double() for name in rank.initial]
    return float(sum(update.pow(2).sum() for update in updates)) ** 0.5


def of(name, command, freeze=""):
    return ended(name in TELLING)[key(command, freeze)]


def names(cases):
    rest = [pytest.mark.campaign]
    return [pytest.param(*case, marks=[] if case[0] in TELLING else rest) for case in cases]


PIECES = [
    (name, code, sentence)
    for name, case in FAILING.items()
    for code, advised in case.told.items()
    for sentence in advised
]


@pytest.mark.parametrize("name", names((name,) for name in FAILING))
def test_it_fails_and_this_is_what_is_said(name):
    case, run = FAILING[name], ended(name in TELLING)[name]
    reference = of(name, case.reference)
    if case.broken == WRONG:
        assert run.verdict == "ok", run.message + run.output[-3000:]
        assert not compare(run.ranks, reference.ranks)
    elif case.broken == CLIPS:
        assert run.verdict == "ok", run.message + run.output[-3000:]
        with pytest.raises(Vacuous, match=CLIPS):
            compare(run.ranks, reference.ranks)
        assert moved(run) < 0.9 * moved(reference), "the clipping is felt"
    else:
        assert run.verdict != "ok"
        assert case.broken == HANGS or case.broken in run.output + run.message, run.output[-3000:]
    assert not [found for found in run.findings if found["outcome"] in ("fixed", "set")]
    for code, advised in case.told.items():
        said = [found["advice"] for found in run.findings if found["code"] == code]
        assert said, f"{code} said nothing"
        assert set(said[0].split("; or ")) == set(advised)


@pytest.mark.parametrize(("name", "code", "sentence"), names(PIECES))
def test_followed_it_goes_right(name, code, sentence):
    done = FAILING[name].told[code][sentence]
    run, reference = of(name, done.command, frozen(sentence)), of(name, done.reference)
    assert reference.verdict == "ok", reference.output[-3000:]
    assert run.verdict == "ok", run.message + run.output[-3000:]
    verdict = compare(run.ranks, reference.ranks)
    assert verdict, str(verdict)
