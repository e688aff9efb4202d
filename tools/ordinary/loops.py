"""Training loops of a user's own around `Accelerator.prepare`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import accelerate
import deepspeed
import torch
import torch._dynamo
import transformers

from tools.matrix import families
from tools.ordinary import account, features, fixture, models, rows, turns
from tools.ordinary.draws import Draw

RATE = 2e-3


@dataclass
class Loop:
    """What a script holds in its `main`: models and optimizers as prepared, the data, the log."""

    draw: Draw
    folder: str
    accelerator: Any
    models: list[Any]
    optimizers: list[Any]
    data: Any
    collate: Any
    losses: list[float] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    held: dict[int, Any] = field(default_factory=dict)
    micro: int = 0
    clock: turns.Clock | None = field(default_factory=turns.clock)

    @property
    def step(self) -> int:
        """Of the optimizers, from 0."""
        return self.micro // self.draw.accumulation


def work(draw: Draw, folder: str) -> dict[str, Any]:
    """Train as drawn; what the run came to."""
    transformers.set_seed(1)
    found, weak, loop = {}, {}, None
    for turn in range(2 if draw.has("two trainings") else 1):
        if loop is not None:
            _end(loop, last=False)
        loop = _made(draw, folder)
        _trained(loop)
        found[f"training {turn}"] = _account(loop)
        plain = [loop.accelerator.unwrap_model(each) for each in loop.models]
        weak |= {f"{turn} {k}": v for k, v in account.weakly(*plain).items()}
        del plain
    _end(loop, last=True)
    if draw.end != "nothing":  # else the run is not over, and hooks may stay
        plain = {str(n): loop.accelerator.unwrap_model(m) for n, m in enumerate(loop.models)}
        found[f"training {turn}"] |= account.standing(plain, loop.optimizers)
        del plain
    names = dict.fromkeys(name for told in found.values() for name in told)
    merged = {name: {turn: told.get(name) for turn, told in found.items()} for name in names}
    times = loop.clock.end() if loop.clock else {}
    loop = None
    merged |= {"weights": _flat(merged["weights"]), **times}
    return merged | account.left(weak)


def _flat(told: dict[str, dict[str, str]]) -> dict[str, str]:
    return {f"{turn} {name}": value for turn, each in told.items() for name, value in each.items()}


def _account(loop: Loop) -> dict[str, Any]:
    plain = {str(n): loop.accelerator.unwrap_model(m) for n, m in enumerate(loop.models)}
    more = {"tokens": loop.tokens, "losses": [loss.hex() for loss in loop.losses]}
    if loop.draw.has("compile"):
        counters = torch._dynamo.utils.counters
        more |= {"frames": dict(counters["frames"]), "breaks": dict(counters["graph_break"])}
    told = account.of_run(plain, loop.optimizers, [], more)
    return {name: value for name, value in told.items() if name not in account.STANDING}


def _accelerator(draw: Draw, model: Any) -> Any:
    told: dict[str, Any] = {}
    if not draw.own:
        told["gradient_accumulation_steps"] = draw.accumulation
    if draw.strategy.startswith("zero"):
        accelerate.PartialState(cpu=True)
        deepspeed.init_distributed("gloo")  # as under `accelerate launch --use_deepspeed`
        config = fixture.zero(draw.strategy) | {
            "train_micro_batch_size_per_gpu": draw.batch,
            "gradient_accumulation_steps": draw.accumulation,
            "train_batch_size": draw.world * draw.accumulation * draw.batch,
        }
        return accelerate.Accelerator(
            deepspeed_plugin=accelerate.DeepSpeedPlugin(hf_ds_config=config)
        )
    if draw.strategy == "fsdp2":
        options = fixture.fsdp2(model)
        told["fsdp_plugin"] = accelerate.FullyShardedDataParallelPlugin(
            fsdp_version=2, reshard_after_forward=True, auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=options["transformer_layer_cls_to_wrap"],
            cpu_ram_efficient_loading=False, state_dict_type="SHARDED_STATE_DICT",
        )  # fmt: skip
    if draw.strategy == "ddp":
        unused = fixture.unused(draw) or draw.program != "loop"
        handler = accelerate.DistributedDataParallelKwargs(find_unused_parameters=unused)
        told["kwargs_handlers"] = [handler]
    return accelerate.Accelerator(cpu=True, **told)


def _made(draw: Draw, folder: str) -> Loop:
    made = [models.make(draw)]
    collate = rows.Collate(families.of(draw.model), made[0])
    if draw.program == "loop of two models":
        made.append(models.make(draw))
    optimizers = _optimizers(draw, made)
    if draw.has("compile"):
        made = [torch.compile(each, backend="eager") for each in made]
    accelerator = _accelerator(draw, made[0])
    kinds = rows.plan(draw, draw.steps * draw.accumulation)
    data = torch.utils.data.DataLoader(rows.Rows(kinds), batch_size=draw.batch, collate_fn=collate)
    ready = accelerator.prepare(*made, *optimizers, data)
    number = len(made)
    return Loop(draw, folder, accelerator, list(ready[:number]), list(ready[number:-1]),
                ready[-1], collate)  # fmt: skip


def _optimizers(draw: Draw, made: list[Any]) -> list[Any]:
    if draw.program == "loop of two optimizers":
        named = [(n, p) for n, p in made[0].named_parameters() if p.requires_grad]
        parts = [[p for n, p in named if models.is_tower(n) == sees] for sees in (True, False)]
        return [torch.optim.AdamW(part, lr=RATE) for part in parts if part]
    if draw.has("LBFGS"):
        return [torch.optim.LBFGS(_training(made[0]), lr=0.05, max_iter=3)]
    return [torch.optim.AdamW(_training(each), lr=RATE) for each in made]


def _training(model: Any) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def _trained(loop: Loop) -> None:
    """The rows once. With "save and resume" half of them, then again from what was saved."""
    draw, chance = loop.draw, random.Random(5)
    for batch in loop.data:
        _staged(loop)
        if draw.has("LBFGS"):
            _closed(loop, batch)
        elif draw.own:
            _by_itself(loop, batch, chance)
        else:
            with loop.accelerator.accumulate(*loop.models):
                _backward(loop, batch, 1)
                if loop.accelerator.sync_gradients:
                    _before_step(loop, chance)
                _step(loop)
        loop.micro += 1
        if loop.micro % draw.accumulation == 0:
            _between(loop)


def _staged(loop: Loop) -> None:
    draw, model = loop.draw, loop.models[0]
    if draw.tuning == "staged":
        models.freeze(model, sees=False, train=loop.step >= draw.steps // 3)
    if draw.tuning == "alternating":
        models.freeze(model, sees=True, train=loop.step % 2 == 0)
        models.freeze(model, sees=False, train=loop.step % 2 == 1)


def _by_itself(loop: Loop, batch: Any, chance: random.Random) -> None:
    """A script's own accumulation: `loss / n`, and a step at every n-th batch."""
    _backward(loop, batch, loop.draw.accumulation)
    if (loop.micro + 1) % loop.draw.accumulation == 0:
        _before_step(loop, chance)
        _step(loop)
    elif loop.draw.has("gradients given back"):
        _take(loop)


def _backward(loop: Loop, batch: Any, parts: int) -> None:
    """One backward a model; a second model learns from the first one's words, and first."""
    model = loop.models[0]
    if loop.draw.has("skipped batch") and random.Random(loop.micro).random() < 0.25:
        loop.accelerator.backward(torch.zeros((), requires_grad=True))
        return
    if len(loop.models) > 1:
        critic = loop.models[1](**batch).loss
        loop.accelerator.backward(critic / parts)
        loop.losses.append(float(critic.detach()))
    loss = model(**batch).loss
    if loop.draw.has("text replay"):
        loss = loss + model(**loop.collate([(3000 + loop.step, "text")])).loss
    loop.accelerator.backward(loss / parts)
    loop.losses.append(float(loss.detach()))
    if loop.draw.has("SAM"):
        moved = features._climb(model)
        model.zero_grad()
        loop.accelerator.backward(model(**batch).loss / parts)
        features._back(moved)


def _closed(loop: Loop, batch: Any) -> None:
    """LBFGS calls the loss as often as it wants to."""

    def closure() -> Any:
        loop.optimizers[0].zero_grad()
        loss = loop.models[0](**batch).loss
        if loop.draw.has("text replay"):
            loss = loss + loop.models[0](**loop.collate([(3000 + loop.step, "text")])).loss
        loop.accelerator.backward(loss)
        loop.losses.append(float(loss.detach()))
        return loss

    loop.optimizers[0].step(closure)


def _take(loop: Loop) -> None:
    for parameter in loop.models[0].parameters():
        if parameter.grad is not None:
            before = loop.held.get(id(parameter))
            found = parameter.grad if before is None else before + parameter.grad
            loop.held[id(parameter)], parameter.grad = found, None


def _before_step(loop: Loop, chance: random.Random) -> None:
    """Gradients are given back, clipped, or dropped."""
    if loop.draw.has("gradients given back"):
        _take(loop)
        for parameter in loop.models[0].parameters():
            parameter.grad = loop.held.pop(id(parameter), None)
    if loop.draw.has("dropped gradients") and chance.random() < 0.3:
        for model in loop.models:
            for parameter in model.parameters():
                parameter.grad = None


def _step(loop: Loop) -> None:
    """The last optimizer first; of two of one model the first one rests every other time."""
    rests = loop.draw.program == "loop of two optimizers" and loop.step % 2 == 1
    for optimizer in reversed(loop.optimizers[rests:]):
        optimizer.step()
    for optimizer in loop.optimizers:
        optimizer.zero_grad()


def _between(loop: Loop) -> None:
    """After a step: evaluation, generation, a checkpoint that is read again."""
    draw = loop.draw
    if loop.clock:
        loop.clock.tick()
    if draw.has("evaluation") and loop.step % 5 == 0:
        model = loop.models[0].eval()
        for number, kind in enumerate(fixture.held_out(draw)[:: draw.world]):
            with torch.no_grad():
                loss = model(**loop.collate([(1000 + number, kind)])).loss
            loop.losses.append(float(loss))
        model.train()
    if draw.has("generation") and loop.step % 5 == 0:
        inner = loop.accelerator.unwrap_model(loop.models[0])
        loop.tokens.append(features.generated(draw, inner))
    if draw.has("save and resume") and loop.step == draw.steps // 2:
        loop.accelerator.save_state(f"{loop.folder}/state")
        loop.accelerator.wait_for_everyone()
        loop.accelerator.load_state(f"{loop.folder}/state")


def _end(loop: Loop, last: bool) -> None:
    """As scripts end: properly, by freeing memory, or without a word."""
    if loop.draw.end != "nothing":
        loop.accelerator.free_memory()  # DeepSpeed asks for its rank, so the group must exist
    if loop.draw.end == "end_training" and last:
        loop.accelerator.end_training()
