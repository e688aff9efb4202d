"""The Trainer adapter: which profile acts, a run's life, and that no fault of ours is the run's."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import re
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
import torch
from torch import nn

import vlmguard_swift
import vlmguard_transformers
from vlmguard import guard, run_report
from vlmguard.core import runstate
from vlmguard.core.errors import SettingsError, Stop
from vlmguard.core.facts import Checkpointing, Run, Tower
from vlmguard.core.findings import (
    Finding,
    FindUnused,
    FreezeTower,
    NoCheckpointing,
    PadWithBlank,
    SetVariant,
    sentence,
)
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard_flagembedding.profile import PROFILE as FLAG
from vlmguard_swift import encoded
from vlmguard_swift.profile import PROFILE as SWIFT
from vlmguard_torch.observe.observed import KindFacts, Observed
from vlmguard_transformers import apply, arguments, lifecycle, profiles, translate  # fmt: skip
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.data import phases  # fmt: skip
from vlmguard_transformers.model import observation  # fmt: skip
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.profile import Profile
from vlmguard_transformers.shared_rows import Meets
from vlmguard_transformers.watch import dry_run, first_steps

FAKE = Path(__file__).resolve().parents[1] / "kit" / "fake_framework"


class Hostile:
    """Anything asked of it raises."""

    def __getattribute__(self, name):
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        raise RuntimeError("boom")


@pytest.fixture
def calls():
    class Calls(list):
        def __call__(self, *args, **kwargs):
            self.append((args, kwargs))
            return "framework"

    return Calls()


@pytest.fixture
def opened():
    """An open run of a trainer that is nothing but an object."""
    trainer = types.SimpleNamespace(accelerator=types.SimpleNamespace(sync_gradients=True))
    towers = (Tower("vision", ("visual",), 2, 2),)
    state = RunState(Settings(), run=Run("x", strategy="zero3", world=2, towers=towers))
    runstate.bind(trainer, state)
    runstate.opened(state)
    yield trainer, state
    guard.close(state)


def loaded(seam):
    module, _, name = seam.wrapper.partition(":")
    return getattr(importlib.import_module(module), name)


SEAMS = (*vlmguard_transformers.SEAMS, *vlmguard_swift.SEAMS)
WRAPPERS = [pytest.param(loaded(seam), id=seam.name) for seam in SEAMS]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_hostile_objects(wrapper, calls, opened):
    assert wrapper(calls, Hostile(), (["--x"],), {}) == "framework"
    assert wrapper(calls, Hostile(), (), {}) == "framework"
    assert len(calls) == 2


FUNCTIONS = [
    (profiles, "of"),
    (translate, "run"),
    (apply, "apply"),
    (arguments, "take"),
    (arguments, "resolve"),
    (dry_run, "rehearse"),
    (encoded, "Look"),
    (run_report, "confirmed"),
    (guard, "on_error"),
    (first_steps, "padded"),
    (phases, "mark"),
    (phases, "of"),
    (first_steps, "after"),
    (first_steps, "at_engine"),
    (first_steps, "before"),
    (first_steps, "failed"),
    (first_steps, "start"),
]


@pytest.mark.parametrize(
    ("ran", "where", "kind", "back"),
    [
        (2, "torch.distributed.distributed_c10d", "RuntimeError", True),
        (2, "deepspeed.runtime.engine", "RuntimeError", True),
        (2, "deepspeed.runtime.engine", "MemoryError", False),
        (2, "transformers.trainer", "RuntimeError", False),
        (0, "torch.distributed.distributed_c10d", "RuntimeError", False),
    ],
)
def test_a_failure_between_ranks_takes_back_what_a_blank_input_held(
    ran, where, kind, back, opened, monkeypatch
):
    _, state = opened
    state.set["VG106"] = Finding("VG106", "error", "why")
    run_report.confirmed(state, "a forward ran on it")
    monkeypatch.setattr(first_steps, "padded", lambda _: ran)
    failing = {"__name__": where}
    exec(f"def fail():\n    raise {kind}('they do not match')", failing)
    with pytest.raises((RuntimeError, MemoryError)) as raised:
        failing["fail"]()
    first_steps.failed(state, raised.value)
    notes = getattr(raised.value, "__notes__", [])
    assert len(notes) == back
    assert all("VG106 taken back" in note and "2 forwards" in note for note in notes)
    assert state.fixed == ([] if back else ["VG106"])


@pytest.mark.parametrize(("owner", "name"), FUNCTIONS, ids=lambda x: getattr(x, "__name__", x))
def test_each_function_may_fail(owner, name, calls, monkeypatch, opened):
    def boom(*args, **kwargs):
        raise RuntimeError("boom")

    trainer, state = opened
    state.set["VG106"] = Finding("VG106", "error", "why")
    monkeypatch.setattr(owner, name, boom)
    for seam in SEAMS:
        runstate.bind(trainer, state)  # a train of its own would have let go of it
        assert loaded(seam)(calls, trainer, (["--x"],), {}) == "framework"
    assert len(calls) == len(SEAMS)


def test_a_profile_that_is_not_found_on_this_rank_is_told_to_the_others(calls, monkeypatch):
    """They mend the run: this rank would train another variant, and they would not know."""
    told, before = [], RunState(Settings()).number

    def boom(trainer):
        raise RuntimeError("boom")

    def posted(state, data):
        told.append((state.number, data))

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(guard.agree, "_post", posted)
    monkeypatch.setattr(profiles, "of", boom)
    assert lifecycle.train(calls, types.SimpleNamespace(), (), {}) == "framework"
    assert told == [(before + 1, [])]


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_profile_names_leads_to_the_run(monkeypatch, fails):
    """ms-swift's template, by which its rows are judged; a profile's fault costs only that."""
    template, model = types.SimpleNamespace(), Model()
    trainer = types.SimpleNamespace(model=model, accelerator=None, template=template)
    if fails:
        monkeypatch.setattr(type(SWIFT), "owners", lambda *_: 1 / 0)
    monkeypatch.setattr(profiles, "of", lambda _: SWIFT)
    state = RunState(Settings(), run=Run("ms-swift"))
    runstate.opened(state)
    monkeypatch.setattr(translate, "judge", lambda read: state)
    assert lifecycle.begin(trainer, "eval") is state
    assert runstate.of(model) is state
    assert runstate.of(template) is (None if fails else state)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_frameworks_own_exception_goes_on_unchanged(wrapper):
    error = ValueError("theirs")

    def wrapped(*args, **kwargs):
        raise error

    with pytest.raises(ValueError, match="theirs") as caught:
        wrapper(wrapped, object(), (["--x"],), {})
    assert caught.value is error


def test_a_stop_is_not_contained(calls, monkeypatch):
    def stop(trainer, phase):
        raise SettingsError("no")

    monkeypatch.setattr(lifecycle, "begin", stop)
    with pytest.raises(SettingsError):
        lifecycle.train(calls, object(), (), {})
    assert not calls


def test_only_the_outermost_of_two_trains_judges(calls, monkeypatch):
    """A framework's own train calls the one that it inherits."""
    begun = []
    monkeypatch.setattr(lifecycle, "begin", lambda trainer, phase: begun.append(phase))
    trainer = types.SimpleNamespace()

    def outer(*args, **kwargs):
        return lifecycle.train(calls, trainer, args, kwargs)

    assert lifecycle.train(outer, trainer, (), {}) == "framework"
    assert begun == ["train"]
    lifecycle.evaluate(calls, trainer, (), {})
    assert begun == ["train", "eval"], "an evaluation of its own is a run of its own"


def test_evaluation_between_steps_is_no_training(opened):
    trainer, state = opened
    seen = []
    lifecycle.evaluate(lambda: seen.append(state.phase), trainer, (), {})
    lifecycle.training_step(lambda *a: seen.append(state.phase), trainer, (None, {}), {})
    assert seen == ["eval", "train"]


class Collator:
    """The user's own, with attributes that a script reads."""

    padding = "right"

    def __call__(self, rows):
        return phases.of(None)


@pytest.fixture
def hears(monkeypatch):
    """Every trainer's batches are judged where they are made of rows, as ms-swift's."""
    profile = types.SimpleNamespace(hears_batches=True)
    monkeypatch.setattr(lifecycle.profiles, "of", lambda trainer: profile)


def test_a_loader_of_another_trainer_is_left_alone():
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader([1, 2], collate_fn=Collator())
    before = dict(vars(loader))
    lifecycle.eval_loader(lambda: loader, object(), (), {})
    assert vars(loader) == before


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_of_evaluation_marks_its_batches(workers, hears):
    """And looks as it did: the collator that a script gets from it is its own."""
    data = pytest.importorskip("torch.utils.data")
    own = Collator()
    loader = data.DataLoader([1, 2], collate_fn=own, num_workers=workers)
    holder = types.SimpleNamespace(base_dataloader=loader)  # accelerate's
    lifecycle.eval_loader(lambda: holder, object(), (), {})
    lifecycle.eval_loader(lambda: loader, object(), (), {})
    assert list(loader) == ["eval", "eval"]
    assert loader.collate_fn is own
    spawned = pickle.loads(pickle.dumps(iter(loader)._collate_fn))
    assert spawned([]) == "eval"
    copied = copy.deepcopy(loader)
    assert list(copied) == ["eval", "eval"]
    assert copied.collate_fn.padding == "right"
    assert pickle.loads(pickle.dumps(loader)).collate_fn.padding == "right"
    assert phases.of(None) == "train"


def test_a_batch_that_cannot_be_marked_is_collated(monkeypatch, hears):
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader([1, 2], collate_fn=Collator())
    lifecycle.eval_loader(lambda: loader, object(), (), {})
    monkeypatch.setattr(phases.InPhase, "__init__", lambda self, collate, phase: 3)
    assert list(loader) == ["train", "train"]


def test_two_threads_that_collate_at_once_keep_their_phases():
    both, seen = threading.Barrier(2), {}

    def collate(rows):
        both.wait(10)
        seen[rows] = phases.of(None)
        both.wait(10)

    calls = {"eval": phases.InPhase(collate, "eval"), "train": collate}
    every = [threading.Thread(target=call, args=(name,)) for name, call in calls.items()]
    for each in every:
        each.start()
    for each in every:
        each.join()
    assert seen == {"eval": "eval", "train": "train"}


class A:
    pass


class B(A):
    pass


def profile(name, *owns):
    return type(name, (Profile,), {"name": name, "owns": owns})()


def test_the_most_derived_profile_acts():
    here = f"{__name__}:"
    above, below = profile("above", here + "A"), profile("below", here + "B")
    assert profiles.select(B(), [above, below]) is below
    assert profiles.select(A(), [above, below]) is above
    assert profiles.select(object(), [above, below]) is profiles.PLAIN


def test_a_tie_is_an_error():
    with pytest.raises(profiles.TwoProfiles, match=r"one and two both own .* same module:name"):
        profiles.select(A(), [profile("one", "*:A"), profile("two", "*:A")])


def made_of(*classes):
    """An object; of its classes, the most derived first, a module and names that it has."""
    base = ()
    for module, *names in reversed(classes):
        members = {"__module__": module, **dict.fromkeys(names, lambda self: None)}
        base = (type("Made", base, members),)
    return base[0]()


def test_a_loss_of_the_users_own_may_call_the_model_more_than_once():
    theirs = ("transformers.trainer", "compute_loss", "training_step")
    assert not hf.own_loss(made_of(theirs))
    assert not hf.own_loss(made_of(("__main__", "log"), ("trl.trainer", "compute_loss"), theirs))
    assert hf.own_loss(made_of(("__main__", "compute_loss"), theirs))
    assert hf.own_loss(made_of(("my.trainer", "training_step"), theirs))
    assert hf.own_loss(types.SimpleNamespace()), "a loop"
    patched = made_of(theirs)
    patched.compute_loss = print
    assert hf.own_loss(patched)


def test_advice_is_spelt_by_the_profile():
    assert SWIFT.spell(FindUnused()) == "--ddp_find_unused_parameters true"
    assert "'{\"use_reentrant\": false}'" in SWIFT.spell(SetVariant(False))
    assert Profile().spell(FreezeTower()) == ""
    plain = 'gradient_checkpointing_kwargs={"use_reentrant": False}'
    assert Profile().spell(SetVariant(False)) == plain
    told = sentence((PadWithBlank(), FreezeTower("vision,aligner")), FLAG.spell)
    assert told.endswith("; or freeze vision and aligner (--vlmguard-freeze vision,aligner)")
    assert "--vit_gradient_checkpointing false" in SWIFT.spell(NoCheckpointing("vision"))


def test_another_framework_costs_one_small_module(monkeypatch):
    """It is found once its adapter is armed, and by no other name."""
    code = (
        "import fake_framework, sys, types\n"
        "from vlmguard_transformers import profiles\n"
        "found = profiles.of(fake_framework.FakeTrainer())\n"
        "print(found.name, found.forwards(None), found.rows(None, ['text']))\n"
        "print([m for m in sys.modules if m.startswith(('vlmguard_swift', 'vlmguard_flag'))])\n"
    )
    start = "from vlmguard import _bootstrap as b; b.watch('fake_framework', 'vlmguard_fake')\n"
    path = os.pathsep.join([str(FAKE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", start + code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout == "fake 2 frozenset({'text'})\n[]\n", done.stderr
    source = (FAKE / "vlmguard_fake.py").read_text()
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 60
    ours = {name for name in re.findall(r"^from (\S+) import", source, re.M) if "vlm" in name}
    assert {name.partition(".")[0] for name in ours} == {"vlmguard", "vlmguard_transformers"}
    assert not [name for name in ours if "._" in name], "nothing private"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual, self.model = nn.Linear(2, 2), nn.Linear(2, 2)

    def loss(self, image):
        out = self.model(torch.ones(1, 2))
        return (out + self.visual(torch.ones(1, 2)) if image else out).sum()


class Engine:
    """As DeepSpeed's: it steps inside backward."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def is_gradient_accumulation_boundary(self):
        return True


def watched(model, strategy="ddp"):
    towers = (Tower("vision", ("visual",), 2, 2), Tower("llm", ("model",), 2, 2))
    state = RunState(Settings(ledger="off"), run=Run("x", strategy=strategy, towers=towers))
    trainer = types.SimpleNamespace(
        model=model,
        accelerator=types.SimpleNamespace(sync_gradients=True, state=None),
        optimizer=torch.optim.SGD(model.parameters(), 0.1),
    )
    runstate.bind(trainer, state)
    runstate.opened(state)
    first_steps.start(Reading(trainer, profiles.PLAIN), state)
    return trainer, state


def step(trainer, model, image, engine=False):
    def training_step(model, inputs):
        model.loss(image).backward()

    lifecycle.training_step(training_step, trainer, (model, {}), {})
    if engine:
        lifecycle.engine_step(lambda: None, Engine(trainer.optimizer), (), {})
    else:
        trainer.optimizer.step()
    trainer.optimizer.zero_grad()


def test_a_tower_left_out_after_it_trained_stops_zero3_alone():
    for strategy in ("zero2", "zero3"):
        model = Model()
        trainer, state = watched(model, strategy)
        step(trainer, model, True, engine=True)
        if strategy == "zero3":
            with pytest.raises(Stop, match="VG204"):
                step(trainer, model, False, engine=True)
        else:
            step(trainer, model, False, engine=True)
        guard.close(state)
        assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
        assert not any(m._forward_hooks for m in model.modules())


def test_a_tower_that_gets_nothing_stops_the_optimizer_before_its_second_step():
    model = Model()
    model.visual = torch.nn.Sequential(model.visual)
    model.visual.forward = torch.no_grad()(model.visual.forward)
    trainer, state = watched(model)
    step(trainer, model, True)
    before = model.model.weight.detach().clone()
    with pytest.raises(Stop, match=r"VG302: .* it ran and got no gradient in 2 steps"):
        step(trainer, model, True)
    assert torch.equal(before, model.model.weight)
    guard.close(state)


@pytest.mark.parametrize("policy", ["warn", "off"])
def test_what_vg302_has_told_is_known_to_the_run(policy, capsys):
    """The ledger's station reach does not tell it again."""
    model = Model()
    model.visual = torch.nn.Sequential(model.visual)
    model.visual.forward = torch.no_grad()(model.visual.forward)
    trainer, state = watched(model)
    state.settings = Settings({"VG302": policy}, ledger="off")
    for _ in range(3):
        step(trainer, model, True)
    guard.close(state)
    assert ("VG302" in capsys.readouterr().err) == (policy == "warn")
    assert state.no_gradient == ({"vision"} if policy == "warn" else set())


def test_another_optimizer_that_steps_is_not_judged_for_it():
    """A student's, a critic's: what it holds got its gradients."""
    model, student = Model(), nn.Linear(2, 1)
    model.visual.forward = torch.no_grad()(model.visual.forward)
    trainer, state = watched(model)
    trainer.optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(4):
        step(trainer, model, True)
    assert not state.counts
    guard.close(state)


def test_what_is_unfrozen_while_training_is_watched():
    """LISA trains other layers every few steps."""
    model = Model()
    trainer, state = watched(model)
    for n in range(6):
        model.visual.requires_grad_(n % 2 > 0)
        model.model.requires_grad_(n % 2 == 0)
        step(trainer, model, True)
    assert not state.counts
    guard.close(state)


def test_fsdps_parameters_are_not_hooked():
    model = Model()
    trainer, state = watched(model, "fsdp2")
    step(trainer, model, True)
    assert not any(m._forward_hooks for m in model.modules())
    guard.close(state)


def test_two_runs_in_one_process_have_their_own_counts(capsys):
    run = Run("x", {"torch": "2.13.0"}, "ddp", 2, checkpointing=Checkpointing(True, True))

    def once():
        state = {"reentrant": True}

        def translate():
            return Run(**{**vars(run), "checkpointing": Checkpointing(True, state["reentrant"])})

        def change(plan):
            state["reentrant"] = plan.variant.use_reentrant
            return {"variant": ["use_reentrant: True → False"]}

        found = guard.pre_wrap(translate, change)
        run_report.first_step(found)
        guard.close(found)

    once()
    first = capsys.readouterr().err
    once()
    second = capsys.readouterr().err
    assert first.count("VG101 fixed") == second.count("VG101 fixed") == 1
    assert "1 fixed (VG101)" in first
    assert first == second
    assert not runstate.opens()
    assert "VLMGUARD_RUN" not in os.environ


def test_a_quiet_profile_greets_no_run_in_which_nothing_is_found(capsys):
    run = Run("transformers", {"torch": "2.13.0"}, "single")
    state = guard.pre_wrap(lambda: run, lambda plan: {}, speaks=False)
    run_report.first_step(state)
    assert capsys.readouterr().err == ""


def test_a_collator_is_judged_with_what_its_batch_is_for(opened, monkeypatch):
    seen = []
    monkeypatch.setattr(guard, "pre_step", lambda run, batch: seen.append(batch))
    from vlmguard_swift import batches

    batches.collate(lambda rows: rows, object(), ([],), {})
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(
        [1], collate_fn=lambda rows: batches.collate(lambda rows: rows, object(), (rows,), {})
    )
    phases.mark(loader, "eval")
    list(loader)
    assert [batch.phase for batch in seen] == ["train", "eval"]


@pytest.mark.parametrize(
    ("train", "evaluated", "strategy", "answer"),
    [
        ({"image"}, {"text"}, "zero3", ("no", "no", "no")),
        ({"image"}, {"text", "image"}, "zero3", ("yes", "no", "yes")),
        ({"image"}, {"text", "image"}, "zero2", ("no", "no", "no")),
        ({"image", "text"}, {"text", "image"}, "zero3", ("yes", "yes", "yes")),
        ({"image", "text"}, set(), "zero2", ("yes", "yes", "no")),
        ({"image", "video"}, set(), "zero3", ("no", "no", "no")),
        ({"image+audio", "image"}, set(), "zero3", ("yes", "yes", "no")),
        ({"text"}, set(), "zero3", ("no", "no", "no")),
        ({"text"}, set(), "ddp", ("yes", "yes", "no")),
        (None, set(), "zero3", ("possible", "possible", "no")),
    ],
)
def test_ranks_part_over_rows_of_one_phase(train, evaluated, strategy, answer):
    towers = (Tower("vision", ("visual",), 2, 2),)
    meets = Meets(None if train is None else frozenset(train), frozenset(evaluated))
    read = Reading(None, profiles.PLAIN)
    vars(read)["strategy"] = strategy
    found = translate._may_be_unused(read, towers, meets)
    assert found == answer


@pytest.mark.parametrize(
    ("rows", "strategy", "idle", "answer"),
    [
        ({"image", "text"}, "zero3", set(), "no"),
        ({"image", "text", "audio"}, "zero3", {"audio"}, "yes"),
        ({"image", "text"}, "zero3", {"audio"}, "no"),
        ({"image", "text"}, "ddp", {"audio"}, "yes"),
        ({"audio"}, "zero3", {"audio"}, "no"),
    ],
)
def test_a_dummy_of_the_frameworks_own_may_leave_a_tower_idle(rows, strategy, idle, answer, opened):
    class Padding(Profile):
        def pads_itself(self, trainer, strategy):
            return "yes"

        def left_idle(self, trainer):
            return frozenset(idle)

    towers = (Tower("vision", ("visual",), 2, 2), Tower("audio", ("audio_tower",), 2, 2))
    read = Reading(opened[0], Padding())
    vars(read)["strategy"] = strategy
    found = translate._may_be_unused(read, towers, Meets(frozenset(rows)))
    assert found == (answer, answer, "no")


@pytest.mark.parametrize(("times", "outcomes"), [(1, []), (3, ["fixed"])])
def test_a_tower_that_does_repeat_proves_what_was_only_possible(times, outcomes, capsys):
    model = Model()
    trainer, state = watched(model, "fsdp2")
    state.neutral["VG102"] = Finding("VG102", "note", "The vision tower may run more than once")
    first_steps.start(Reading(trainer, profiles.PLAIN), state)

    def training_step(model, inputs):
        for _ in range(times):
            model.visual(torch.ones(1, 2))

    for _ in range(4):
        lifecycle.training_step(training_step, trainer, (model, {}), {})
    said = [line for line in capsys.readouterr().err.splitlines() if "VG102" in line]
    assert [line.split()[2] for line in said] == outcomes
    assert not model.visual._forward_pre_hooks


@pytest.mark.parametrize(
    ("kinds", "answer"),
    [
        ("text image images", "no"),  # LLaVA takes no video: an image alone is all there is
        ("text image video image+video", "possible"),
        ("text", "no"),
    ],
)
def test_whether_a_tower_repeats_is_asked_of_the_kinds_that_the_class_takes(
    kinds, answer, monkeypatch
):
    seen = tuple(
        KindFacts(kind, repeats=(("visual", 2),) if "+" in kind else ()) for kind in kinds.split()
    )
    monkeypatch.setattr(observation, "copy_of", lambda trainer: Observed("observed", kinds=seen))
    monkeypatch.setattr(observation, "_blocks", lambda trainer, path: True)
    profile = types.SimpleNamespace(repeats=lambda trainer: None)
    towers = (Tower("vision", total=1, trainable=1, checkpointed=True, paths=("visual",)),)
    unknown = Meets(None, None, complete=False)
    assert observation._repeats(Reading(object(), profile), towers, unknown, {}) == answer


@pytest.mark.parametrize(
    ("never", "ran", "package", "cut"),
    [
        (("visual.a", "visual.b"), ("visual",), "mine", ("vision",)),  # runs under no_grad
        (("visual.a", "visual.b"), ("visual",), "transformers", ()),  # a codebook, by design
        (("visual.a", "visual.b"), ("visual",), "transformers!", ("vision",)),
        (("visual.a",), ("visual",), "mine", ()),  # a layer behind the one that is read
        (("visual.a", "visual.b"), (), "mine", ()),  # the rows at hand do not run it
    ],
)
def test_a_whole_tower_that_runs_is_not_unused_but_cut_off(never, ran, package, cut, monkeypatch):
    facts = Observed("observed", kinds=(KindFacts("image", towers=ran),), never_used=never)
    monkeypatch.setattr(observation, "copy_of", lambda trainer: facts)
    forward = types.FunctionType(
        torch.nn.Module.forward.__code__, {"__name__": f"{package.strip('!')}.model"}
    )
    if package.endswith("!"):  # on the class, as ``Tower.forward = torch.no_grad()(…)``
        forward = torch.no_grad()(forward)
    kind = {"__module__": f"{package.strip('!')}.model", "forward": forward}
    model = type("Model", (torch.nn.Module,), kind)()
    profile = types.SimpleNamespace(
        towers=lambda trainer: {"vision": ("visual",)}, model=lambda trainer: model
    )
    towers = (Tower("vision", total=2, trainable=2, paths=("visual",)),)
    assert observation._cut_off(Reading(object(), profile), towers, never) == cut
