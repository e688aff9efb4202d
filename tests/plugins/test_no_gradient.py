"""What a blank input leaves under FSDP2: gradients of zeros are taken back where that is sure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from tests.plugins.test_blank import Hearing, build, hear, picture, text
from vlmguard_torch import module_calls
from vlmguard_torch.blank import blank_input, no_gradient
from vlmguard_torch.layout import cross_attention


@pytest.mark.parametrize(
    ("gradients", "moved", "kept"),
    [
        ([0.0, 0.0], [], False),
        ([0.0, 1e-30], [], True),
        ([0.0, float("nan")], [], True),
        ([0.0, 0.0], [True, False], False),
        ([0.0, 0.0], [False, False], True),  # closed: another rank's part may be none of zeros
        ([], [True], False),  # this rank holds nothing of them
        ([], [False], True),
    ],
)
def test_zeros_are_taken_back_but_behind_closed_gates(gradients, moved, kept):
    shards = [torch.zeros(2, requires_grad=True) for _ in gradients]
    for shard, value in zip(shards, gradients, strict=True):
        shard.grad = torch.full_like(shard, value)
    empty = torch.zeros(0, requires_grad=True)
    empty.grad = torch.zeros(0)
    take_back([[*shards, empty]], moved)
    assert [each.grad is not None for each in (*shards, empty)] == [kept] * (len(shards) + 1)


def take_back(groups, moved=()):
    moved = [torch.tensor(each) for each in moved]
    held = [[SimpleNamespace(sharded_param=shard) for shard in shards] for shards in groups]
    no_gradient.take_back([no_gradient.BlankInput(str(n), h, moved) for n, h in enumerate(held)])


def test_each_module_is_judged_alone():
    """Of two kinds of media another rank may have had one."""
    groups = [[torch.zeros(2, requires_grad=True)] for _ in range(2)]
    empty = torch.zeros(0, requires_grad=True)
    for value, (shard,) in enumerate(groups):
        shard.grad = torch.full_like(shard, value)
    empty.grad = torch.zeros(0)
    take_back([*groups, [empty]])
    assert [shard.grad is not None for (shard,) in groups] == [False, True]
    assert empty.grad is not None, "as with the rest: other ranks may hold what is not zero"
    groups[1][0].grad.zero_()
    take_back([*groups, [empty]])
    assert not [each for each in (groups[1][0], empty) if each.grad is not None]


class Two(torch.nn.Module):
    """A tower and a language model of two blocks. Text runs the tower on zeros, if it is to."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tower = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        self.llm = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        self.gradients, self.dtype, self.inputs = None, torch.float32, 0.0

    def forward(self, kind):
        x = torch.ones(1, 4, dtype=self.dtype) + self.inputs
        if kind != "text":
            if self.gradients is not None:
                self.gradients.used("image")
            x = x + self.tower(x)
        elif self.gradients is not None:
            seen = self.tower(torch.zeros_like(x))
            self.gradients.blank("image", self.tower.parameters(), [seen])
            x = x + seen * 0
        return self.llm(x).sum() * (0.0 if kind == "no target" else 1.0)


@pytest.fixture(scope="module")
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def made(blanks, reduce_dtype=None, root=("tower",)):
    """``root``: parts that FSDP2's root gathers itself, not a group of their own."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = Two()
    told = {}
    if reduce_dtype is not None:
        model.dtype = torch.bfloat16
        told["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype)
    for name, part in model.named_children():
        if name not in root:
            fully_shard(part, **told)
    fully_shard(model, **told)
    if blanks:
        model.gradients = no_gradient.Gradients(model)
    return model, torch.optim.AdamW(model.parameters(), 0.01)


def left(model):
    """Gradients and weights, as lists."""
    return [
        (p.grad.full_tensor().tolist() if p.grad is not None else None, p.full_tensor().tolist())
        for p in model.parameters()
    ]


def accumulated(model, optimizer, kinds, tell="set_requires_gradient_sync", run=None):
    """``tell``: what is told the model before each micro-batch, whether it is the last one."""
    for n, kind in enumerate(kinds, 1):
        getattr(model, tell)(n == len(kinds))
        (model(kind) if run is None else run(model, kind, n)).backward()
    seen = left(model)
    optimizer.step()
    optimizer.zero_grad()
    return seen


def reduced_later(model, optimizer, kinds):
    """As a pipeline does it: only the last backward waits for what is reduced."""
    return accumulated(model, optimizer, kinds, "set_is_last_backward")


def cleared_behind_the_forward(model, optimizer, kinds):
    for kind in kinds:
        loss = model(kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return left(model)


def twice(model, optimizer, kinds):
    for kind in kinds:
        loss = model(kind)
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return left(model)


def in_other_order(model, optimizer, kinds):
    """All forwards, then the backwards from the last one on."""
    for loss in [model(kind) for kind in kinds][::-1]:
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return left(model)


WINDOWS = [
    ["image"], ["text"], ["text", "text"], ["image", "text"], ["text", "image"],
    ["no target", "text"], ["text", "no target"], ["text", "no target", "text"],
    ["text", "text", "image"], ["text"], ["no target"], ["text", "text"],
]  # fmt: skip
WAYS = [accumulated, cleared_behind_the_forward, twice, reduced_later, in_other_order]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reduce_dtype", [None, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("root", [("tower",), ("tower", "llm"), ()])
def test_as_without_a_blank(group, way, reduce_dtype, root):
    """One process, so that all ranks are alike: the tower's gradients and all weights."""
    plain, guarded = (made(blanks, reduce_dtype, root) for blanks in (False, True))
    judged = 0
    for number, kinds in enumerate(WINDOWS):
        try:
            expected = way(*plain, kinds)
        except AssertionError:  # FSDP2 reduces no gradients of several dtypes
            assert reduce_dtype is torch.float32
            plain, guarded = (made(blanks, reduce_dtype, root) for blanks in (False, True))
            continue
        assert way(*guarded, kinds) == expected, (number, kinds)
        judged += 1
    assert judged >= len(WINDOWS) // 2


def test_what_the_blanks_would_have_changed(group):
    """The comparison sees a blank whose gradients nobody takes back."""
    plain, guarded = made(False), made(True)
    guarded[0].gradients._end = lambda: None
    told = [accumulated(*guarded, kinds) == accumulated(*plain, kinds) for kinds in WINDOWS[:2]]
    assert told == [True, False]


KINDS = {
    "text": [], "image": ["image"], "sound": ["sound"], "both": ["image", "sound"],
    "no target": ["image"],
}  # fmt: skip
MIXED = [
    ["both"], ["image"], ["text"], ["sound"], ["text", "image"], ["image", "text"],
    ["text", "sound"], ["no target", "text"], ["no target"], ["text", "no target", "sound"],
    ["both", "text", "image"],
]  # fmt: skip


def see_and_hear(model, kind, seed):
    torch.manual_seed(seed)
    given = picture() if "image" in KINDS[kind] else text()
    given |= {"sound": torch.ones(2, 3)} if "sound" in KINDS[kind] else {}
    return model(**given) * (kind != "no target")


def test_the_hooks_on_a_model_that_sees_and_hears(group):
    """Of each tower and projector alone it is known what had an input."""
    from torch.distributed.fsdp import fully_shard

    sides = []
    for blanks in (False, True):
        model = build(Hearing)
        if blanks:
            blank_input.install(model, kinds=("image", "audio"), build=hear)
        fully_shard(model.model.vision_tower)
        fully_shard(model)
        sides.append((model, torch.optim.AdamW(model.parameters(), 0.01)))
    for number, kinds in enumerate(MIXED * 2):
        plain, guarded = (accumulated(*side, kinds, run=see_and_hear) for side in sides)
        names = [name for name, _ in sides[0][0].named_parameters()]
        differ = [n for n, a, b in zip(names, plain, guarded, strict=True) if a != b]
        assert not differ, (number, kinds)


@pytest.mark.parametrize(("needed", "other", "kept"), [
    (True, False, True), (True, True, False), (False, False, False)
])  # fmt: skip
def test_where_a_backward_would_have_failed_the_zeros_stay(needed, other, kept):
    """Ranks without any gradient would not clip together with a rank that has some."""
    tower, more = (torch.zeros(2, requires_grad=True) for _ in range(2))
    tower.grad, more.grad = torch.zeros(2), torch.ones(2) if other else None
    one = no_gradient.BlankInput("tower", [SimpleNamespace(sharded_param=tower)], [], needed)
    no_gradient.take_back([one], [tower, more])
    assert (tower.grad is not None) is kept


def test_where_the_tower_alone_trains(group):
    """The embeddings have a gradient all the same (`enable_input_require_grads`)."""
    plain, guarded = made(False), made(True)
    for model, _ in (plain, guarded):
        model.llm.requires_grad_(False)
        model.inputs = torch.zeros(1, 4, requires_grad=True)
    for kinds in (["image"], ["text"], ["image", "text"]):
        assert accumulated(*guarded, kinds) == accumulated(*plain, kinds)


def test_a_recomputation_knows_the_blank_by_its_memory():
    """Reentrant checkpointing detaches what a layer gets, and no attribute goes along."""
    now, thrown = [True], []
    throw = cross_attention.ThrowAway(lambda: now[0], lambda *given: thrown.append(given))
    layer, hidden, own = torch.nn.Identity(), torch.ones(2), torch.zeros(2)

    def output(states):
        throw.before(layer, (), {"cross_attention_states": states})
        return throw.after(layer, (hidden,), {}, own).value

    blank, image = torch.ones(3), torch.ones(3)
    assert torch.equal(output(blank), hidden)
    now[0] = False
    assert torch.equal(output(blank.detach()), hidden)
    assert output(image) is None
    assert len(thrown) == 2
    del blank
    now[0] = True
    output(image)
    assert len(throw._blanks) == 1, "what is gone is forgotten"


def test_the_end_of_a_recomputation_goes_on_to_torch():
    stop = type("_StopRecomputationError", (Exception,), {})
    broke = []

    def method(*given):
        raise given[0]

    hook = module_calls.Hook(method, broke.append)
    with pytest.raises(stop):
        hook(stop())
    assert hook(ValueError()) is None
    assert len(broke) == 1
