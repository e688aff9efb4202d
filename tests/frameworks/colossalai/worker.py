"""A user's training script around ColossalAI's booster; it knows nothing of the guard.

Run under torchrun with one JSON argument: `{"cases": [case, …], "out": FOLDER, "models": FOLDER}`.
Several cases share one start of the interpreter (see `rank_divergence`). What a case raises is
written down and, when it is the only case, raised again: the launcher sees what a user would see.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import cpu
import models
import oracle_run
import rank_divergence
import spoil
import torch
import torch.distributed as dist
import weights

DEFAULTS: dict[str, Any] = {
    "name": "case",
    "model": "qwen2_vl",
    "plugin": "gemini",
    "oracle": False,  # plain torch, one process for all ranks, in place of the plug-in
    "precision": "bf16",
    "chunks": "alone",  # alone | mixed | one | elements
    "max_norm": 1.0,
    "accumulate": 1,
    "enable_accumulation": False,
    "master_weights": True,
    "steps": ["image", "text"],  # a name for all ranks, or one name a rank
    "freeze": False,  # every tower that sees
    "frozen": [],  # the first parts of names that the user froze
    "lora": None,  # before | asked
    "checkpointing": None,  # the keywords of transformers' gradient_checkpointing_enable
    "lr": 1e-3,
    "decay": 0.0,
    "seed": 0,
    "guard": None,  # keyword arguments of guard_booster, to be explicit
    "env": {},
    "unusual": None,  # split | positional | mapping | pairs: how a batch is handed over
    "blind": False,  # the vision tower runs under no_grad
    "raise_in": None,  # a function of the guard that raises instead of working
    "homeless": False,  # made in memory: no folder to find its processor in
    "lazy": False,  # built under LazyInitContext
    "evaluates": None,  # kind of batch, behind the last step
    "loader": None,  # kind of batch that a dataloader given to boost would make
    "spy": False,  # write down what the model and its surroundings are, before boost and at wrap
}


def plugin_of(case: dict[str, Any], model: torch.nn.Module) -> Any:
    from colossalai.booster import plugin as plugins

    world = dist.get_world_size()
    if case["plugin"] == "torch_ddp":
        return plugins.TorchDDPPlugin(find_unused_parameters=case.get("find_unused", False))
    if case["plugin"] == "low_level_zero":
        return plugins.LowLevelZeroPlugin(
            stage=case.get("stage", 2),
            precision=case["precision"],
            initial_scale=1.0,
            overlap_communication=False,
            max_norm=case["max_norm"],
        )
    seeing = [p for n, p in model.named_parameters() if set(n.split(".")) & set(models.TOWERS)]
    vision = sum(p.numel() for p in seeing)
    whole = sum(p.numel() for p in model.parameters())
    size = {"alone": vision, "mixed": vision * 3 // 4, "one": whole}.get(case["chunks"])
    size = size or int(case["chunks"])  # a larger tensor gets a chunk of its own size
    size += -size % world
    return plugins.GeminiPlugin(
        precision=case["precision"],
        chunk_config_dict={world: {"chunk_size": size, "keep_gathered": False}},
        enable_async_reduce=False,
        enable_gradient_accumulation=case["enable_accumulation"],
        master_weights=case["master_weights"],
        max_norm=case["max_norm"],
        initial_scale=1.0,
    )


def guarded(booster: Any, processor: Any, batches: models.Batches, words: dict[str, Any]) -> Any:
    """The explicit way in, with what JSON cannot hold put in place of its name."""
    from vlmguard_colossalai import guard_booster

    def refuses(**_: Any) -> Any:
        raise ValueError("this processor refuses")

    named = {"own": processor, "none": None, "refuses": refuses}
    words["processor"] = named[words.get("processor", "own")]
    if "dry_step" in words:
        words["dry_step"] = batches.make(words["dry_step"], seed=7)
    return guard_booster(booster, **words)


def forward(model: Any, batch: Any, unusual: str | None) -> torch.Tensor:
    """The loss, of a batch handed over in one of the ways that users have."""
    if unusual == "split":  # tensors on different devices
        batch = {**batch, "unused": torch.zeros(1, device="meta")}
        model.module.forward = spoil.without(model.module.forward, "unused")
    if unusual == "positional":
        ids, mask = batch.pop("input_ids"), batch.pop("attention_mask")
        out = model(ids, mask, **batch)
    elif unusual == "mapping":
        out = model(batch)
    elif unusual == "pairs":
        out = model(list(batch.items()))
    else:
        out = model(**batch)
    return out["loss"] if isinstance(out, dict) else out.loss


def train(case: dict[str, Any], folder: Path, out: dict[str, Any]) -> None:
    from colossalai.booster import Booster
    from colossalai.nn.optimizer import HybridAdam

    torch.manual_seed(case["seed"])
    with spoil.lazily(case["lazy"]):
        model, processor, image = models.load(folder / case["model"], case["model"], case["seed"])
    if case["homeless"]:
        model.config._name_or_path = ""
    model.train()
    if case["checkpointing"] is not None:
        model.gradient_checkpointing_enable(case["checkpointing"] or None)
    spoil.model(model, case)
    frozen = models.TOWERS if case["freeze"] else case["frozen"]
    for name, parameter in model.named_parameters() if frozen else ():
        parameter.requires_grad_(name.split(".")[0] not in frozen)
    batches = models.Batches(processor, image)

    def loss_of(model: Any, what: str, step: int, rank: int) -> torch.Tensor:
        seed = 1000 * case["seed"] + 10 * step + rank
        losses = [
            forward(model, batches.make(each, seed=seed), case["unusual"])
            for each in what.split("&")  # several forwards before one backward
        ]
        return sum(losses[1:], start=losses[0])

    if case["oracle"]:
        out["trainable"] = [n for n, p in model.named_parameters() if p.requires_grad]
        place = dist.get_rank(), dist.get_world_size()
        return oracle_run.train(model, case, out, place, loss_of)
    booster = Booster(plugin=plugin_of(case, model))
    if case["guard"] is not None:
        booster = guarded(booster, processor, batches, dict(case["guard"]))
    if case["lora"]:
        from peft import LoraConfig, get_peft_model

        wish = LoraConfig(target_modules=["qkv", "fc1", "q_proj", "v_proj"], r=4)
        model = (
            get_peft_model(model, wish)
            if case["lora"] == "before"
            else booster.enable_lora(model, lora_config=wish)
        )
    optimizer = HybridAdam(model.parameters(), lr=case["lr"], weight_decay=case["decay"])
    out["trainable"] = [n for n, p in model.named_parameters() if p.requires_grad]
    if case["spy"]:
        out["spied"] = rank_divergence.spy(booster, model, optimizer)
    loader = spoil.loader(batches, case["loader"]) if case["loader"] else None
    model, optimizer, *_ = booster.boost(model, optimizer, dataloader=loader)
    out["wrapped"] = type(model).__name__
    read = weights.gemini if case["plugin"] == "gemini" else weights.other
    out["before"] = read(model)  # Gemini has rounded them to half precision
    rank = dist.get_rank()
    out["losses"] = []
    print(f"{case['name']}: boosted on rank {rank}", flush=True)
    for step, what in enumerate(case["steps"]):
        mine = what if isinstance(what, str) else what[rank % len(what)]
        out["stage"] = f"step {step} forward"
        loss = loss_of(model, mine, step, rank)
        out["stage"] = f"step {step} backward"
        booster.backward(loss / case["accumulate"], optimizer)
        out["losses"].append(float(loss))
        if (step + 1) % case["accumulate"] == 0:
            out["stage"] = f"step {step} optimizer"
            optimizer.step()
            optimizer.zero_grad()
    if case["evaluates"]:
        model.eval()
        with torch.no_grad():
            out["losses"].append(float(loss_of(model, case["evaluates"], 0, rank)))
        model.train()
    out["stage"] = "saving"
    out["after"] = read(model)
    out["stage"] = "done"


def main() -> None:
    job = json.loads(sys.argv[1])
    cpu.install()
    import colossalai

    colossalai.launch_from_torch(seed=0, verbose=False)
    rank = dist.get_rank()
    alone = len(job["cases"]) == 1
    for wish in job["cases"]:
        case = {**DEFAULTS, **wish}
        out: dict[str, Any] = {"case": case["name"], "stage": "building"}
        started = time.monotonic()
        try:
            with rank_divergence.case(case, Path(job["out"]), out):
                train(case, Path(job["models"]), out)
        except BaseException as error:
            out["error"] = f"{type(error).__name__}: {' '.join(map(str, error.args))}"
            out["notes"] = "\n".join(getattr(error, "__notes__", []))
            out["trace"] = traceback.format_exc()
            if alone:
                raise
        finally:
            out["seconds"] = time.monotonic() - started
            torch.save(out, Path(job["out"]) / f"{case['name']}.rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
