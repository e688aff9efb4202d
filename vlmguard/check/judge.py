"""A job → facts → the ordinary rules → what is found, and the command with it mended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vlmguard import guard, registry
from vlmguard.check import drafted_run, framework, hf, loss_flags, options, redact, unknown
from vlmguard.check.deep import client
from vlmguard.check.drafted_run import Draft
from vlmguard.check.framework import CannotTell, Edit, Framework
from vlmguard.check.launcher import Job
from vlmguard.check.reading import model_config, paths, places, python_files, row_kinds, scripts
from vlmguard.check.reading.fields import Values, Wrong
from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import Trace, known
from vlmguard.compat import verdicts
from vlmguard.core import plan as planning
from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding

_MODELS = ("model", "model_name_or_path", "model_id")
JUDGED, WRONG, CANNOT, NOTHING = "judged", "wrong", "cannot tell", "does not train"


@dataclass(frozen=True)
class Verdict:
    """What `check` says of one job.

    Attributes:
        state: "judged", "wrong" (the framework would refuse the command), "cannot tell", or
            "does not train".
        reason: why, where it is not "judged".
        findings: each with "fixed", "stopped", "warned" or "".
        advice: what the user can do about each, in the framework's flags.
        edits: the flags that would mend it.
        guarded: what the guard does in the run that no flag can.
        command: the whole command with the edits, as words.
        doubts: what cannot be known before the run.
        renamed: flags that are spelt otherwise in the releases asked for.
        settled: what the framework's own code makes of the command (`deep`).
        switched: what the command or its settings switch off, and what happens then.
        unread: what a verdict needs and could not be looked at: without an error, "cannot tell".
    """

    job: Job
    state: str
    reason: str = ""
    framework: str = ""
    run: Run | None = None
    findings: tuple[tuple[Finding, str], ...] = ()
    advice: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    before: Mapping[str, str] = dataclasses.field(default_factory=dict)
    guarded: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    switched: tuple[str, ...] = ()

    def code(self, strict: bool) -> int:
        """The exit status of this job alone."""
        if self.state in (CANNOT,):
            return 2
        if self.state == WRONG:
            return 1
        bad = {"error", "warning"} if strict else {"error"}
        wrong = any(finding.level in bad for finding, _ in self.findings)
        return 1 if wrong else 2 if self.unread else 0


def job(
    job: Job, files: Files, trace: Trace, releases: Mapping[str, str], deeply: bool = False
) -> Verdict:
    """Judge one job. Never raises for what a user wrote. deeply: ask the framework's classes."""
    files = replace(files, folder=job.call.folder)
    python_files.look_beside(places.of(job, files))
    found = framework.of_job(job, files)
    if found is None:
        reason = unknown.reason(job, files)
        state = CANNOT if unknown.may_train(job, files) else NOTHING
        return Verdict(job, state, trace.shown(reason))
    owner, entry = found
    nothing = owner.trains(entry)
    if nothing:
        return Verdict(job, NOTHING, nothing, owner.name)
    if {"-h", "--help"} & set(job.argv):
        return Verdict(job, NOTHING, "with --help it prints its options, and ends", owner.name)
    try:
        return _judged(job, files, owner, entry, trace, releases, deeply)
    except Wrong as wrong:
        return Verdict(job, WRONG, trace.shown(str(wrong)), owner.name)
    except (Unreadable, CannotTell) as reason:
        return Verdict(job, CANNOT, trace.shown(str(reason)), owner.name)
    except SettingsError as error:
        return Verdict(job, WRONG, str(error), owner.name)
    except RecursionError:
        return Verdict(job, CANNOT, "a value that is nested too deeply", owner.name)
    except Exception as fault:  # of this reader: it must not end the check of the other jobs
        told = f"a fault of vlmguard's own ({type(fault).__name__}: {fault}): please report it"
        return Verdict(job, CANNOT, trace.shown(told), owner.name)


def _judged(
    job: Job, files: Files, owner: Framework, entry: str, trace: Trace,
    releases: Mapping[str, str], deeply: bool,
) -> Verdict:  # fmt: skip
    if owner.package and not _installed(owner):
        raise CannotTell(f"{owner.name} is not installed here: {owner.install}, or run this in its "
                         "environment")  # fmt: skip
    parsed = owner.values(job, files, entry)
    values, bare, rest = parsed.values, parsed.job, parsed.rest
    clear = _clear(rest)
    if clear:
        shown, near = redact.words(clear[:200]), owner.hint(clear, values.fields)
        if owner.own_code and scripts.takes_words(scripts.module(job.target, files)):
            raise CannotTell("the script reads its command itself, and not all that it does with "
                             f"{list(shown)} can be seen here{near}")  # fmt: skip
        raise Wrong(owner.refused(shown, values.fields) + near)
    used = options.settings_of(parsed.mine, job.call.folder, bare.env)
    settings.check_environment(bare.env)
    settings.check_codes(used, registry.get().rules)
    values.releases = _releases(owner, releases)
    settled, doubt = _deep(owner, entry, values, bare, files) if deeply else ([], "")
    draft = owner.draft(values, bare, files, entry)
    draft.doubts += [doubt] if doubt else []
    draft.releases = values.releases
    draft.freeze = used.freeze
    if rest:
        draft.doubt("words that are not known here: " + trace.shown(" ".join(rest)))
    draft.doubts += _unknown(values, trace)
    draft.unread += [f"the model {name}: no such folder here" for name in _absent(values, files)]
    draft.unread += [f"{name}: there is no such data file" for name in draft.rows.missing]
    draft.unread += paths.absent(values.given, files, (*_MODELS, *draft.rows.missing))
    draft.doubts += places.assumed(bare, files)
    draft.router_loss = draft.router_loss or loss_flags.of_routers(
        values, _config(values, files, bare)
    )
    run = drafted_run.run(draft)
    found = [*registry.get().pre_wrap(run), *draft.findings]
    found += _in_evaluation(values, draft, files, {finding.code for finding in found})
    wanted = planning.make(found, used, guard.default_policy, run, guard.chosen)
    edits = tuple(edit for edit in owner.edits(wanted, values)
                  if edit.flag.lstrip("-") not in draft.in_code)  # fmt: skip
    off = options.is_off(bare.env)
    told = tuple((f, "" if off and how == "fixed" else how) for f, how in _told(wanted))
    return Verdict(
        job, JUDGED, "", owner.name, run, told,
        tuple(_advice(finding, owner, draft.in_code) for finding, _ in told), edits,
        {edit.flag: _given(edit.flag, bare.argv) for edit in edits},
        () if off else tuple(_guarded(wanted, edits)), tuple(applied(job, edits, owner)),
        tuple(draft.doubts), tuple(_renamed(owner, values, releases)), tuple(settled),
        tuple(draft.unread), tuple(_switched(found, used, off)),
    )  # fmt: skip


def _clear(rest: Sequence[str]) -> list[str]:
    """Words that no field takes, for sure: a word that is not known may be a flag of those behind
    it."""
    found: list[str] = []
    sure = True
    for word in rest:
        sure = known(word) and (sure or word.startswith("-"))
        found += [word] if sure else []
    return found


def _releases(owner: Framework, asked: Mapping[str, str]) -> dict[str, str]:
    """By distribution, and the framework's own by its name, as adapters give them."""
    found = {**hf.releases(owner.distribution, *owner.beside), **asked}
    own = found.get(owner.distribution)
    return {**found, owner.name: own} if own else found


def _installed(owner: Framework) -> bool:
    return python_files.package(owner.package) is not None


def _told(wanted: planning.Plan) -> list[tuple[Finding, str]]:
    told = [(finding, "stopped") for finding in wanted.stops]
    told += [(finding, "fixed") for finding in wanted.fixes]
    told += [(f, "warned" if f.level == "warning" else "") for f in wanted.warns]
    return told


def _guarded(wanted: planning.Plan, edits: Sequence[Edit]) -> list[str]:
    """What no flag says and the guard does."""
    found = []
    if wanted.pad or wanted.dummy_image:
        found.append("a forward without an image runs the towers on a blank one, times zero")
    named = " ".join(edit.flag for edit in edits)
    for word in wanted.freeze:
        if "freeze" not in named:
            found.append(f"freezes {word}")
    return found


def _deep(
    owner: Framework, entry: str, values: Values, job: Job, files: Files
) -> tuple[list[str], str]:
    """What the framework settles, and why it could not be asked. Raises `Wrong`."""
    argv = options.take(owner.argv(job, files)[0])[1]
    told = client.settle(owner, entry, argv, values, job, files)
    if told.refused:
        raise Wrong(told.refused)
    return client.taken_over(values, told), told.doubt


def _unknown(values: Values, trace: Trace) -> list[str]:
    """Given values in which something is not known."""
    found = []
    for name, value in values.given.items():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if isinstance(text, str) and not known(text):
                found.append(f"--{name} {redact.text(trace.shown(text))}")
    return found


def _advice(finding: Finding, owner: Framework, in_code: Sequence[str]) -> str:
    """What can be done, in flags; of what a script sets itself, that it stands there."""
    text = finding.advise(owner.spell)
    there = [name for name in in_code if f"--{name} " in f"{text} "]
    return f"the script itself sets {there[0]}: change it there" if there else text


def _config(values: Values, files: Files, job: Job) -> Mapping[str, Any]:
    named = values.get("model") or values.get("model_name_or_path") or ""
    return model_config.of(str(named), files, job.env).config


def _in_evaluation(values: Values, draft: Draft, files: Files, told: set[str]) -> list[Finding]:
    """What rules say of batches of evaluation, and have not said of those of training."""
    when = values.get("eval_strategy", values.get("evaluation_strategy"))
    if when in (None, "no", False) or str(when).endswith(".NO"):
        return []
    names = hf.datasets(values, "val_dataset", "eval_dataset")
    met = row_kinds.of(names, files)[0] if names else draft.rows
    run = dataclasses.replace(drafted_run.run(replace(draft, rows=met)), phase="eval")
    return [replace(finding, why=f"in evaluation: {finding.why}")
            for finding in registry.get().pre_wrap(run) if finding.code not in told]  # fmt: skip


def _switched(found: Sequence[Finding], used: settings.Settings, off: bool) -> list[str]:
    """What is switched off for this command, and what its run will then do."""
    told = []
    if off:
        told.append("VLMGUARD=off: vlmguard will not guard the run; what is found here will happen")
    for finding in found:
        if used.policy(finding.code, guard.default_policy(finding.code)) == "off":
            told.append(f"{finding.code} is switched off: vlmguard will not fix this in the run: "
                        f"{finding.why}")  # fmt: skip
    return told


def _absent(values: Values, files: Files) -> list[str]:
    """Local folders of models that are not here."""
    named = [values.get(name) for name in _MODELS]
    return [name for name in dict.fromkeys(named) if isinstance(name, str)
            and model_config.local(name) and not files.there(name)]  # fmt: skip


def _renamed(owner: Framework, values: Values, releases: Mapping[str, str]) -> list[str]:
    """Flags that the releases asked for spell otherwise."""
    spelt = verdicts.table("releases").get("spelt", {}).get(owner.distribution, {})
    asked = releases.get(owner.distribution, "")
    here = hf.releases(owner.distribution).get(owner.distribution, "")
    now, then = (spelt.get(release.partition(".")[0], "") for release in (here, asked))
    changed = now in values.given and then not in ("", now)
    return [f"--{now} is --{then} in {owner.name} {asked}"] if changed else []


def _spellings(flag: str) -> tuple[str, ...]:
    bare = flag.lstrip("-")
    return flag, "--" + bare.replace("_", "-"), bare


def _span(flag: str, argv: Sequence[str]) -> tuple[int, int] | None:
    """Where a flag and its values stand last in ``argv``."""
    for at in range(len(argv) - 1, -1, -1):
        name = argv[at].partition("=")[0]
        if name in _spellings(flag):
            end = at + 1
            while "=" not in argv[at] and end < len(argv) and not argv[end].startswith("--"):
                end += 1
            return at, end
    return None


def _given(flag: str, argv: Sequence[str]) -> str:
    """A flag's value as it was written; "" where it was not."""
    span = _span(flag, argv)
    if span is None:
        return ""
    if "=" in argv[span[0]]:
        return argv[span[0]].partition("=")[2]
    return " ".join(argv[span[0] + 1 : span[1]])


def applied(job: Job, edits: Sequence[Edit], owner: Framework) -> list[str]:
    """The whole command with the edits: a flag that stands there is changed in its place."""
    argv = list(job.argv)
    for edit in edits:
        span = _span(edit.flag, argv)
        new = owner.words(edit, job)
        if span is None:
            argv += new
        else:
            argv[span[0] : span[1]] = new
    return [*job.prefix, *argv]
