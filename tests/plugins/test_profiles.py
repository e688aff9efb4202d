"""What TRL, LLaMA-Factory and accelerate loops say of themselves, on stand-ins of their objects."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from tests.plugins.test_features import Speaking
from vlmguard import guard, run_report
from vlmguard.core import runstate, settings
from vlmguard.core.errors import SettingsError, Stop
from vlmguard.core.facts import Checkpointing, Run, Tower
from vlmguard.core.findings import FindUnused, SetVariant
from vlmguard.core.runstate import RunState
from vlmguard_accelerate import loop
from vlmguard_llamafactory.profile import PROFILE as LLAMAFACTORY
from vlmguard_swift.profile import PROFILE as SWIFT
from vlmguard_torch.module_calls import ForwardHook, Witness
from vlmguard_transformers import accelerators, arguments
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.data import peek
from vlmguard_transformers.model import observation
from vlmguard_transformers.shared_rows import Meets
from vlmguard_transformers.watch import first_steps, ledger
from vlmguard_trl import user_arguments
from vlmguard_trl.profile import PROFILE as TRL


class Model(torch.nn.Module):
    """A vision tower and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.visual = torch.nn.Linear(2, 2)
        self.lm_head = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.lm_head(self.visual(x))


class Arguments:
    def __init__(self, **kwargs) -> None:
        self.gradient_checkpointing = True
        self.gradient_checkpointing_kwargs = kwargs


def test_a_wish_survives_what_trl_writes_over_it():
    told = Arguments(use_reentrant=False)
    user_arguments.initialised(lambda: None, told, (), {})
    told.gradient_checkpointing_kwargs["use_reentrant"] = True
    assert user_arguments.of(told) is False
    assert user_arguments.of(Arguments(use_reentrant=True)) is True
    assert user_arguments.of(Arguments()) is None
    key = id(told)
    del told
    assert key not in user_arguments._asked


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        (["input_ids", "labels"], {"text"}),
        (["input_ids", "pixel_values"], None),
        (["chosen", "chosen_input_ids"], {"text"}),
        (["prompt_ids", "chosen_ids", "rejected_ids"], {"text"}),
        (["prompt", "doc_ids"], None),
        (["prompt"], None),
    ],
)
def test_trl_tokenizes_beforehand_only_what_has_no_media(columns, kinds):
    dataset = SimpleNamespace(column_names=columns)
    assert TRL.rows(None, dataset) == kinds


def test_grpo_keeps_reward_models_among_its_functions():
    model, reward, reference = Model(), Model(), Model()
    trainer = SimpleNamespace(model=model, ref_model=reference, reward_funcs=[len, reward])
    assert TRL.models(trainer) == [model, reference, reward]


@pytest.mark.parametrize(
    ("profile", "advice", "said"),
    [
        (TRL, FindUnused(True), "--ddp_find_unused_parameters true"),
        (TRL, SetVariant(False), "--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"),
        (LLAMAFACTORY, SetVariant(False), "use_reentrant_gc: false"),
        (LLAMAFACTORY, FindUnused(True), "ddp_find_unused_parameters: true"),
        (loop.PROFILE, FindUnused(True),
         "DistributedDataParallelKwargs(find_unused_parameters=True)"),
    ],
)  # fmt: skip
def test_advice_in_the_frameworks_own_words(profile, advice, said):
    assert profile.spell(advice) == said


def test_llamafactorys_words_for_towers_are_ours(monkeypatch):
    monkeypatch.setenv("VLMGUARD_FREEZE", "vision_tower multi_modal_projector language_model x.*")
    assert LLAMAFACTORY.policy() == ("vision", "aligner", "llm", "x.*")


class _Pads:
    def __call__(self, features):
        if self.template.mm_plugin.image_token is not None:
            fake_images = features
            return fake_images
        return features


@pytest.mark.parametrize(("token", "answer"), [("<image>", "yes"), (None, "no")])
def test_llamafactorys_own_blank_image_is_recognised(token, answer):
    collator = _Pads()
    collator.template = SimpleNamespace(mm_plugin=SimpleNamespace(image_token=token))
    wrapped = SimpleNamespace(data_collator=SimpleNamespace(collate=collator))
    assert LLAMAFACTORY.pads_itself(wrapped, "zero3") == answer
    collator = lambda features: features  # noqa: E731
    assert LLAMAFACTORY.pads_itself(SimpleNamespace(data_collator=collator), "zero3") == "no"


def _parse(told):
    """What the parser is given, with our keys taken out."""
    return arguments.parse_dict(lambda given, **_: given, None, (told,), {})


def test_the_keys_of_a_yaml_file_become_settings():
    told = {"lr": 1, "vlmguard": {"VG101": "warn"}, "vlmguard_freeze": ["vision", "llm"]}
    assert _parse(told) == {"lr": 1}
    assert settings.get().rules == {"VG101": "warn"}
    assert settings.get().freeze == ("vision", "llm")
    assert "vlmguard" in told  # the caller's dictionary is his own


def test_yamls_bare_off_switches_everything_off(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "on")
    assert _parse({"vlmguard": False, "lr": 1}) == {"lr": 1}
    assert arguments.is_off()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("vlmguard_frezze", "vision", "--vlmguard-freeze"),
        ("vlmguard", {"VG101": "fx"}, "use off, warn, fix or error"),
        ("vlmguard", {"VG999": "fix"}, "no rule has the code VG999"),
    ],
)
def test_a_broken_key_is_an_error_that_names_the_nearest(key, value, said):
    with pytest.raises(SettingsError, match=said):
        _parse({key: value})


def _counted(calls, run):
    state = RunState(settings.get(), run=run)
    model = Model()
    first_steps.count(model, state)
    for _ in range(calls):
        model(torch.ones(1, 2))
    with torch.no_grad():
        model(torch.ones(1, 2))  # a rollout
    return state


ZERO3 = Run("x", {"torch": "2.13.0", "deepspeed": "0.19.8"}, "zero3", 2,
            checkpointing=Checkpointing(True, True))  # fmt: skip


def test_two_forwards_are_seen_in_the_first_step_and_stopped():
    first_steps.judge_forwards(_counted(1, ZERO3))
    state = _counted(2, ZERO3)
    with pytest.raises(Stop, match="VG103"):
        first_steps.judge_forwards(state)
    assert state.run.forwards == 2
    first_steps.judge_forwards(state)  # once


def test_two_forwards_that_are_right_stop_nothing():
    from dataclasses import replace

    state = _counted(2, replace(ZERO3, checkpointing=Checkpointing(True, False)))
    first_steps.judge_forwards(state)
    assert state.run.forwards == 2


READ = ModuleType("read")
"""Rows that were read, where nothing is put back."""


class Rows:
    def __init__(self, kinds) -> None:
        self.kinds, self.read = kinds, []
        READ.rows = []

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, row):
        self.read.append(row)
        READ.rows.append(row)
        torch.rand(1)
        return self.kinds[row]


def _collate(rows):
    both = ["pixel_values", "pixel_values_videos"]
    keys = {"text": [], "image": both[:1], "both": both, "llava": ["images"], "own": ["picture"]}
    return {"input_ids": torch.ones(1), **dict.fromkeys(keys[rows[0]], torch.ones(1, 1, 1))}


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        (["image", "text"], {"image", "text"}),
        (["image"] * 4, {"image"}),
        (["both"] * 3, {"image+video"}),
        (["llava", "text"], {"image", "text"}),
        (["own", "text"], None),  # numbers under a name that is nobody's: not text
        (["image"] * 100, None),  # those not looked at may be text
        (["image"] * 50 + ["text"] * 50, {"image", "text"}),
    ],
)
def test_a_few_rows_of_a_users_data_set_are_collated(rows, kinds):
    args = SimpleNamespace(world_size=2)
    trainer = SimpleNamespace(model=Model(), data_collator=_collate, args=args)
    dataset, before = Rows(rows), torch.get_rng_state()
    assert peek.kinds(trainer, dataset) == kinds
    assert 0 < len(READ.rows) <= peek.ROWS
    assert torch.get_rng_state().equal(before)
    assert peek.kinds(trainer, iter(rows)) is None
    trainer.model = torch.nn.Linear(1, 1)
    assert peek.kinds(trainer, dataset) is None
    trainer.model = Speaking()  # no name of a module tells what hears
    assert peek.kinds(trainer, dataset) == kinds
    args.world_size = 1
    assert peek.kinds(trainer, dataset) is None


def test_all_rows_are_looked_at_where_a_few_are_text():
    args = SimpleNamespace(world_size=2)
    trainer = SimpleNamespace(model=Model(), data_collator=_collate, args=args)
    text = ["text"] * 300
    assert peek.kinds(trainer, Rows(text)) == {"text"}
    late = [*text, "image", *text]
    assert peek.kinds(trainer, Rows(late)) == {"text", "image"}
    images = Rows(["image"] * 300)
    assert peek.kinds(trainer, images) is None
    assert 0 < len(READ.rows) <= peek.ROWS


@pytest.mark.parametrize(
    ("rows", "size", "calls", "apart"),
    [
        ({"image", "image+video"}, 1, 2, True),
        ({"image", "image+video"}, 1, 1, False),  # one call for both
        ({"image+video"}, 1, 2, False),
        ({"image", "video"}, 1, 2, False),
        ({"image", "video"}, 2, 2, True),
        ({"image", "text"}, 2, 2, False),
        (None, 2, 2, False),
    ],
)
def test_ranks_part_over_an_image_and_a_video(monkeypatch, rows, size, calls, apart):
    facts = {kind: SimpleNamespace(repeats=()) for kind in ("image", "video")}
    facts["image+video"] = SimpleNamespace(repeats=(("visual", calls),) if calls > 1 else ())
    monkeypatch.setattr(observation, "copy_of", lambda _: SimpleNamespace(of=facts.get))
    args = SimpleNamespace(world_size=2, per_device_train_batch_size=size)
    towers = (Tower("vision", total=1, paths=("visual",)),)
    meets = Meets(frozenset(rows) if rows else None)
    found = observation._media_apart(SimpleNamespace(args=args), towers, meets, {})
    assert found is apart


class Counts:
    """A collator that goes on from what it holds."""

    total = 0

    def __init__(self, **more):
        self.calls, self.seen, self.sum = 0, [], torch.zeros(())
        self.array, self.chance, self.noise = np.zeros(2), random.Random(1), torch.Generator()
        self.__dict__.update(more)

    def __call__(self, rows):
        self.calls += 1
        Counts.total += 1
        self.seen.append(rows[0])
        self.sum += 1
        self.array += self.chance.random()
        torch.rand(1, generator=self.noise)
        return _collate(rows)

    def held(self):
        states = self.chance.getstate(), self.noise.get_state().tolist()
        return self.calls, Counts.total, self.seen[:], float(self.sum), list(self.array), states


@pytest.mark.parametrize("bound", [False, True])
def test_a_users_own_collator_is_as_before(bound):
    collate = Counts()
    call = collate.__call__ if bound else collate
    trainer = SimpleNamespace(
        model=Model(), data_collator=call, args=SimpleNamespace(world_size=2)
    )
    rows = Rows(["image", "text"] * 3_000)  # more than are looked at
    before = collate.held()
    assert peek.kinds(trainer, rows) == {"image", "text"}
    assert collate.held() == before
    assert READ.rows
    assert not rows.read


def test_a_collator_that_reads_from_an_iterator_is_not_called():
    collate = Counts(prompts=iter(range(5)))
    args = SimpleNamespace(world_size=2)
    trainer = SimpleNamespace(model=Model(), data_collator=collate, args=args)
    assert peek.kinds(trainer, Rows(["image", "text"])) is None
    assert not READ.rows
    assert next(collate.prompts) == 0


def test_a_collator_that_takes_no_single_row_tells_nothing(capsys):
    def collate(rows):
        raise ValueError("at least two")

    args = SimpleNamespace(world_size=2)
    trainer = SimpleNamespace(model=Model(), data_collator=collate, args=args)
    assert peek.kinds(trainer, Rows(["image", "text"])) is None
    assert not capsys.readouterr().err


class Accelerator:
    """As much of accelerate's as a loop's life touches."""

    def __init__(self) -> None:
        self.num_processes, self.process_index, self.gradient_accumulation_steps = 2, 0, 1
        self.device, self.ddp_handler = (
            torch.device("cpu"),
            SimpleNamespace(find_unused_parameters=False, static_graph=False),
        )
        self.distributed_type, self.state = "MULTI_CPU", SimpleNamespace()


def test_a_trainers_accelerator_is_left_to_it(monkeypatch):
    begun = []
    monkeypatch.setattr(loop, "_begin", lambda *given: begun.append(given))
    mine, its = Accelerator(), Accelerator()
    accelerators.created(lambda: None, SimpleNamespace(accelerator=its), (), {})
    for accelerator in (its, mine):
        assert loop.prepare(lambda *given: given, accelerator, ("model",), {}) == ("model",)
    assert [given[0] for given in begun] == [mine]


def test_the_run_of_a_settled_loop_stays_until_it_ends(monkeypatch):
    """Of a compiled model nothing else is watched that would hold it."""
    monkeypatch.setattr(hf, "compiles", lambda trainer: True)
    model, accelerator = Model(), Accelerator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop.prepare(lambda *given: given, accelerator, (model, optimizer), {})
    runstate.opens()[0].kept[loop._HEARING].remove()  # as `loop.stepped` does
    gc.collect()
    assert runstate.opens(), "nobody would take its hooks off"
    loop.end(lambda: None, accelerator, (), {})
    assert not runstate.opens()
    assert not model._forward_hooks
    assert not optimizer._optimizer_step_pre_hooks


@pytest.mark.parametrize(
    ("setting", "greets", "lines"), [("first", True, 1), ("off", True, 0), ("first", False, 0)]
)
def test_a_compiled_model_has_no_ledger_and_that_is_said_once(
    monkeypatch, capsys, setting, greets, lines
):
    monkeypatch.setattr(hf, "compiles", lambda trainer: True)
    monkeypatch.setattr(run_report, "greets", lambda state: greets)
    state = RunState(settings.Settings(ledger=setting))
    state.run = Run(framework="transformers")
    for _ in range(2):
        ledger.watch(SimpleNamespace(), state, object(), True)
    told = "ledger: cannot tell whether the first steps balance: torch.compile"
    assert capsys.readouterr().err.count(told) == lines


def test_a_hook_that_another_takes_off_in_the_same_forward_is_not_called():
    model, heard = Model(), []
    handles = []
    ForwardHook("first", lambda *_: handles[0].remove()).on(model)
    handles.append(ForwardHook("second", lambda *given: heard.append(given)).on(model))
    model(torch.ones(1, 2))  # torch calls it all the same, without the keyword arguments
    assert not heard


def test_only_a_model_with_towers_that_trains_is_judged():
    frozen = Model().requires_grad_(False)
    upset = torch.nn.Linear(1, 1)
    upset.get_input_embeddings = lambda: 1 / 0
    asked = (Model(), Speaking(), frozen, upset, torch.nn.Linear(1, 1), 3)
    assert [loop.trains_towers(each) for each in asked] == [True, True, *[False] * 4]


@pytest.mark.parametrize(("rank", "said"), [("0", "vlmguard: --vlmguard: VG101"), ("1", "")])
def test_a_setting_that_cannot_be_read_ends_in_one_line_a_node(monkeypatch, capsys, rank, said):
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(SettingsError) as caught:
        _parse({"vlmguard": {"VG101": "fx"}})
    sys.excepthook(SettingsError, caught.value, None)
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert told.count("\n") == (1 if said else 0)


def test_an_onlookers_fault_is_ours_and_goes_with_no_copy_of_the_model(capsys):
    model, seen = Model(), []

    def look(*given):
        seen.append(given)
        raise RuntimeError("made to fail")

    handle = ForwardHook("looking", look).on(model)
    model(torch.ones(1, 2))
    assert "made to fail" in capsys.readouterr().err
    copied, kept = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for other in (copied, kept):
        other(torch.ones(1, 2))
    handle.remove()
    model(torch.ones(1, 2))
    assert len(seen) == 1


class Raises(Model):
    def forward(self, *given):
        raise ValueError("Expected to have finished reduction in the prior iteration")


def test_what_a_loops_forward_raises_is_explained(monkeypatch):
    """As DDP's own words are: they come out of the wrapper, before the model's forward."""
    explained = []
    failed = []
    monkeypatch.setattr(guard, "on_error", lambda run, batch, error: explained.append(error))
    monkeypatch.setattr(first_steps, "failed", lambda state, error: failed.append(error))
    inner = Raises()
    wrapper = torch.nn.Sequential(inner)
    state = RunState(settings.Settings())
    state.kept["loop"] = SimpleNamespace(model=inner)
    loop._listen(state, [object(), wrapper])
    with pytest.raises(ValueError, match="finished reduction") as raised:
        wrapper(torch.ones(1, 2))
    assert explained == failed == [raised.value]
    guard.close(state)
    with pytest.raises(ValueError, match="finished reduction"):
        wrapper(torch.ones(1, 2))
    assert len(explained) == 1


def test_a_witness_hears_nothing_of_what_went_well_and_goes_with_no_copy():
    heard = []
    model = Model()
    Witness("listening", heard.append).on(model)
    for each in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        try:
            raise KeyError("somebody else's")
        except KeyError:
            each(torch.ones(1, 2))
    assert not heard


@pytest.mark.parametrize(
    ("changed", "generates"),
    [
        ({}, True),
        ({"eval_strategy": "no"}, False),
        ({"predict_with_generate": False}, False),
        ({"ds3_gather_for_generation": False}, False),
    ],
)
def test_ms_swift_generates_where_it_evaluates_by_that(changed, generates):
    told = {"predict_with_generate": True, "eval_strategy": SimpleNamespace(value="steps")}
    trainer = SimpleNamespace(args=SimpleNamespace(**{**told, **changed}))
    assert SWIFT.generates(trainer) is generates
    assert SWIFT.samples(trainer) is False
    grpo = SimpleNamespace(args=SimpleNamespace(), num_generations=2)
    assert (SWIFT.generates(grpo), SWIFT.samples(grpo)) == (True, True)
