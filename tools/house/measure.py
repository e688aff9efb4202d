"""A plain Trainer on a tiny LLaVA in two forked gloo ranks, measured in rank 0.

Imports transformers once; ``python -m tools.house`` starts it where there is one.

What is measured of us is not imported before the fork.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parents[2] / "tests" / "kit"
sys.path[:0] = [str(KIT / "programs"), str(KIT / "models")]
OURS = tuple(f"{KIT.parents[1] / name}{os.sep}" for name in ("vlmguard", "plugins"))
STEPS = 2


def trained(what: str, model: str, out: Path, rank: int) -> None:
    """One rank's training."""
    import torch
    from rows import Collate, Rows
    from transformers import AutoModelForImageTextToText, AutoTokenizer, Trainer, TrainingArguments

    torch.manual_seed(1)
    built = AutoModelForImageTextToText.from_pretrained(model, attn_implementation="eager")
    args = TrainingArguments(
        output_dir=str(out.with_suffix("")), use_cpu=True, ddp_backend="gloo", max_steps=STEPS,
        per_device_train_batch_size=1, report_to="none", save_strategy="no", optim="sgd",
        remove_unused_columns=False, dataloader_pin_memory=False, disable_tqdm=True,
    )  # fmt: skip
    collate = Collate(AutoTokenizer.from_pretrained(model), built.config)
    begun = time.process_time()
    trainer = Trainer(model=built, args=args, train_dataset=Rows("mixed"), data_collator=collate)
    told = _edges(trainer) if what == "edges" else _start(trainer, begun)
    if rank == 0:
        out.write_text(json.dumps(told, indent=1))


def _edges(trainer: Any) -> dict[str, Any]:
    from tools.house.walk import Walk
    from vlmguard_transformers import lifecycle

    walk, begin = Walk(trainer.model), lifecycle.begin

    def watched(*given: Any) -> Any:
        sys.setprofile(walk)
        try:
            return begin(*given)
        finally:
            sys.setprofile(None)

    lifecycle.begin = watched
    trainer.train()
    return walk.told()


def _start(trainer: Any, begun: float) -> dict[str, Any]:
    """From before the Trainer was made until the framework's own ``train`` is called, and until
    the first forward."""
    from vlmguard.runtime import stub

    told: dict[str, Any] = {"modules once the Trainer is made": len(_ours())}
    call = stub.Hook.call

    def timed(hook: Any, wrapped: Any, *given: Any) -> Any:
        def handed_on(*args: Any, **kwargs: Any) -> Any:
            told.setdefault("ms of processor until the framework's train", _since(begun))
            told.setdefault("listed", _ours())
            return wrapped(*args, **kwargs)

        return call(hook, handed_on if hook.seam.name == "train" else wrapped, *given)

    def forward(*_: Any) -> None:
        told.setdefault("ms of processor until the first forward", _since(begun))

    stub.Hook.call = timed
    trainer.model.register_forward_pre_hook(forward)
    trainer.train()
    return {"modules when train is called": len(told["listed"]), **told}


def _since(begun: float) -> float:
    return round(1000 * (time.process_time() - begun), 1)


def _ours() -> list[str]:
    """Our modules that are loaded, but for what the measuring needs: forked ranks, stand-ins."""
    every = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    ours = [name for name, file in every.items() if file.startswith(OURS)]
    return sorted(name for name in ours if not name.startswith("vlmguard.ranks"))


def main() -> None:
    """``python -m tools.house.measure MODEL``: JSON, one line a measurement."""
    import transformers.trainer  # noqa: F401  (once, for all ranks)

    import vlmguard.auto  # noqa: F401
    from vlmguard.ranks import run

    with tempfile.TemporaryDirectory() as home:
        for what in ("edges", "start"):
            os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(dir=home)
            for known in ("new", "known"):
                out = Path(home, f"{what}-{known}.json")
                done = run(lambda rank, w=what, o=out: trained(w, sys.argv[1], o, rank), limit=300)
                told = json.loads(out.read_text()) if out.exists() else {"failed": str(done)}
                print(json.dumps({"what": what, "model": known, **told}), flush=True)


if __name__ == "__main__":
    main()
