"""A script of the user's own: which commands are one, what is asked of it, and how it is judged."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

pytest.importorskip("numpy")

from vlmguard.check import script
from vlmguard.check.judge import Verdict
from vlmguard.check.reading import python_files
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import Trace
from vlmguard.ranks import Outcome, Result
from vlmguard.rehearse.own_script import command as own_script
from vlmguard.rehearse.own_script import passes as own_passes
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.verdict import OTHER_SCALE, PLAIN, SHARED, Judgement

TRAINER = "import transformers\nfrom transformers import Trainer\nTrainer().train()\n"
LOOP = "import transformers, torch\nloss = 1\nloss.backward()\n"


@pytest.fixture
def job(tmp_path):
    def made(text, words="torchrun --nproc_per_node 4 {}"):
        file = tmp_path / "train.py"
        file.write_text(text)
        [found] = script.of_words(words.format(file).split(), {}).jobs
        return found, Files(str(tmp_path))

    return made


def asked(made, tmp_path):
    found, files = made
    return own_script.request(found, files, Trace(), tmp_path, False, {})


def test_a_script_around_a_trainer_is_one(job, tmp_path):
    found = asked(job(TRAINER), tmp_path)
    assert isinstance(found, Request)
    assert (found.world, found.launched, found.local_rank) == (4, True, False)
    assert found.entry == str(tmp_path / "train.py")
    assert "transformers" in found.imports


@pytest.mark.parametrize(("words", "world", "flag"), [
    ("python {}", 1, False),
    ("accelerate launch --num_processes 3 {}", 3, False),
    ("deepspeed --num_gpus 2 {}", 2, True),
    ("deepspeed --num_gpus 2 --no_local_rank {}", 2, False),
])  # fmt: skip
def test_every_launcher_says_how_many_ranks_and_which_flag_it_adds(
    job, tmp_path, words, world, flag
):
    found = asked(job(TRAINER, words), tmp_path)
    assert (found.world, found.local_rank) == (world, flag)


@pytest.mark.parametrize(("text", "told"), [
    ("import torch\n", "no Trainer and no loop is found in it"),
    ("import colossalai\n" + TRAINER, "ColossalAI"),
])  # fmt: skip
def test_what_is_not_rehearsed_has_its_reason(job, tmp_path, text, told):
    assert told in asked(job(text), tmp_path)


@pytest.mark.parametrize(("text", "helper", "loop"), [
    (LOOP, "", True),
    (TRAINER, "", False),
    ("import helper\n" + LOOP, TRAINER, True),
    ("import helper, transformers\nhelper.main()\n", LOOP, True),
    ("import helper, transformers\nhelper.main()\n", TRAINER, False),
])  # fmt: skip
def test_the_nearest_module_that_trains_says_by_what(job, tmp_path, text, helper, loop):
    (tmp_path / "helper.py").write_text(helper)
    python_files.look_beside([str(tmp_path)])
    try:
        assert asked(job(text), tmp_path).loop == loop
    finally:
        python_files.look_beside([])


def test_a_number_of_ranks_that_is_not_known_has_to_be_given(job, tmp_path):
    assert "--world 8" in asked(job(TRAINER, "deepspeed {}"), tmp_path)


def test_what_check_cannot_tell_stays_open():
    found = own_script.checked(Verdict(None, "cannot tell", "it computes its arguments"))
    assert found.unread == ("it computes its arguments",)


def test_the_hubs_cache_is_named_and_not_copied(tmp_path):
    (tmp_path / "hub").mkdir()
    own_script.hub({"HF_HUB_CACHE": str(tmp_path / "hub")}, tmp_path / "place")
    link = tmp_path / "place" / "caches" / "hf_home" / "hub"
    assert link.is_symlink()
    assert os.path.samefile(link, tmp_path / "hub")


FACTS = {"deepspeed": {}, "fsdp": False, "fsdp_config": {}, "own_loss": [], "own_tokens": False,
         "trainer": "Trainer", "batch": 1, "accumulation": 12, "towers": ["llm", "other"],
         "gathers": [], "callbacks": [], "missing": "",
         "full": 70, "small": 7}  # fmt: skip


def request(**changed):
    return Request("vlmguard_transformers", "t.py", (), "/", "", changed.pop("world", 2), "",
                   "t.py", "/", **changed)  # fmt: skip


@pytest.mark.parametrize(("facts", "accelerate", "strategy"), [
    ({}, {}, "ddp"),
    ({"deepspeed": {"zero_optimization": {"stage": 3}}}, {}, "zero3"),
    ({}, {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}, "zero2"),
    ({"fsdp": True, "fsdp_config": {"fsdp_version": 2}}, {}, "fsdp2"),
    ({"fsdp": True, "fsdp_config": {}}, {}, "fsdp"),
])  # fmt: skip
def test_the_strategy_is_the_scripts_or_its_launchers(facts, accelerate, strategy):
    assert own_passes.strategy(request(accelerate=accelerate), {**FACTS, **facts}) == strategy


def test_a_loop_may_do_without_a_wrapper():
    facts = {**FACTS, "wrapped": [], "loader": None}
    assert own_passes.strategy(request(loop=True), facts) == own_passes.NONE
    assert own_passes.strategy(request(loop=True, world=1), facts) == "single"
    assert own_passes.strategy(request(loop=True), {**facts, "wrapped": ["ddp"]}) == "ddp"
    found = own_passes._settled(request(loop=True), own_passes.Looked(facts, {}))
    assert (found.paired, found.accumulation) == (True, 12)


def test_what_a_loop_is_as_right_as():
    shared, plain = (Judgement("right", against=told) for told in (SHARED, PLAIN))
    assert own_passes._of_loop(shared, False).against == own_passes.BY_HAND
    assert own_passes._of_loop(plain, False).against.endswith("which is the plain cross-entropy")
    carried = own_passes._of_loop(plain, True)
    assert (carried.kind, carried.why) == ("silently wrong", own_passes.CARRIED)
    scaled = Judgement("silently wrong", why=f"its gradients are 2.00 times {OTHER_SCALE} of all")
    assert own_passes._of_loop(scaled, False).why.endswith("no error if this factor is meant")


def test_what_the_look_has_found_is_in_the_request():
    looked = own_passes.Looked({**FACTS, "own_loss": ["T.compute_loss"]}, {})
    found = own_passes._settled(request(), looked)
    assert (found.strategy, found.accumulation, found.own_accumulation) == ("ddp", 8, 12)
    assert found.paired, "a loss of its own may depend on the number of ranks"
    plain = own_passes._settled(request(), own_passes.Looked(FACTS, {}))
    assert (plain.accumulation, plain.paired) == (2, False)
    gathers = own_passes.Looked({**FACTS, "gathers": ["Embedder"]}, {})
    assert own_passes._settled(request(), gathers).paired, "its model asks the other ranks"
    assert found.towers == ("llm",)
    assert looked.shrunk == 10
    with pytest.raises(own_passes.Cannot, match="in one process"):
        own_passes._settled(request(world=1), replace(looked, facts={
            **FACTS, "deepspeed": {"zero_optimization": {"stage": 2}}}))  # fmt: skip


def test_rare_kinds_of_rows_come_first():
    rows = [{"place": n, "kind": "image" if n == 40 else "text"} for n in range(200)]
    found = own_passes.sample({"rows": rows, "count": 1000})
    assert found.rows[0]["place"] == 40
    assert (found.kinds, found.count) == (["image", "text"], 1000)


class Heard:
    """Stands for the passes."""

    def __init__(self, ours, theirs, own=1):
        self.request = request()
        self.last = ended(ours)
        self.theirs, self.own = ended(theirs), own

    def reference(self):
        return None, self.theirs, self.own


def ended(batches):
    outcomes = [Outcome(n, "returned", {"batches": one}) for n, one in enumerate(batches)]
    return Result("ok", outcomes, [])


@pytest.mark.parametrize(("ours", "theirs", "own", "kind"), [
    ([["a", "c"], ["b", "d"]], [["a", "b", "c", "d"]], 1, "right"),
    ([["a", "c"], ["b", "x"]], [["a", "b", "c", "d"]], 1, "cannot tell"),
    ([["a", "a"], ["a", "a"]], [["a", "b", "c", "d"]], 1, "cannot tell"),
    ([[], []], [[]], 1, "cannot tell"),
    ([["a"], ["b"]], [["a"], ["b"]], 2, "right"),
    ([["a"], ["b"]], [["b"], ["a"]], 2, "cannot tell"),
])  # fmt: skip
def test_numbers_are_judged_only_where_ranks_had_the_references_batches(ours, theirs, own, kind):
    for before in ("right", "silently wrong"):
        found = own_passes._same_rows(Heard(ours, theirs, own), Judgement(before))
        assert found.kind == (before if kind == "right" else kind)
    failed = Judgement("crash")
    assert own_passes._same_rows(Heard(ours, theirs, own), failed) is failed


@pytest.mark.parametrize(("theirs", "own"), [
    ([["a", "b", "c", "d"]], 1),
    ([["a", "c"], ["a", "c"]], 2),
])  # fmt: skip
def test_ranks_that_get_the_same_rows_are_wrong(theirs, own):
    found = own_passes._same_rows(Heard([["a", "c"], ["a", "c"]], theirs, own), Judgement("right"))
    assert (found.kind, found.why) == ("silently wrong", own_passes.SAME_ROWS)


class Parts:
    """Stands for passes of a script whose ranks part under plain DDP, too."""

    def __init__(self, off, own=2):
        self.request, self.unbalanced, self.own, self.off = request(), "", own, off
        self.last = None

    def reference(self):
        return None, Result("mismatch", [], []), self.own

    def guard(self, on):
        return self.off


@pytest.mark.parametrize(("off", "own", "kind"), [
    (Judgement("hang", step=1), 2, "hang"),
    (Judgement("hang", step=0), 2, "cannot tell"),
    (Judgement("right"), 2, "cannot tell"),
    (Judgement("hang", step=1), 1, "cannot tell"),
])  # fmt: skip
def test_ranks_that_part_whatever_wraps_the_model_hang(off, own, kind):
    found, on = own_passes._both(Parts(off, own), request(passes=("off",)))
    assert (found.kind, on) == (kind, None)


def test_a_loss_of_its_own_is_named():
    why = f"its gradients are 2.00 times {own_passes.verdict.OTHER_SCALE} of its tokens, on one"
    found = own_passes._named(Judgement("silently wrong", why=why), request(),
                              {"own_loss": ["T.compute_loss"]})  # fmt: skip
    assert found.why.startswith("T.compute_loss: its gradients are 2.00 times")
    assert "no error if this factor is meant" in found.why


def test_ranks_that_wait_before_they_train_say_nothing_of_the_training():
    sites = ((0, "setup", "barrier", "train.py:9 in main"),)
    found = own_passes._trained(Judgement("hang", sites=sites))
    assert (found.kind, "train.py:9" in found.why) == ("cannot tell", True)
    first = Judgement("hang", step=1, sites=sites)
    assert own_passes._trained(first) is first
