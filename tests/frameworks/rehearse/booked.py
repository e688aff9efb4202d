"""`python booked.py OUT FACTOR LEDGER`: a Trainer on tiny rows of text in two gloo ranks with the
guard off, as a rehearsal runs it, its loss times FACTOR. Prints what the report holds, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def broken() -> None:
    """How a ledger may end."""
    raise RuntimeError("the ledger is broken")


def trained(out: Path, factor: float, how: str) -> dict[str, Any]:
    """One rank. how: "off", "on" or "broken" is the ledger."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    from vlmguard.rehearse.fixture import OFF, Scene
    from vlmguard_transformers.rehearsal import books, in_rank

    if how == "broken":
        books.keep = lambda *_: broken
    scene = Scene(OFF, "sft", (), str(out), out, steps=(4,), books=how != "off", ends=True)
    in_rank.enter(scene, fsdp=False)
    told = in_rank.watch(scene, lambda model: {})
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=2)  # fmt: skip
    draw = torch.Generator().manual_seed(2)
    rows = [torch.randint(3, 64, (9,), generator=draw) for _ in range(16)]

    class Scaled(Trainer):
        def compute_loss(self, *args: Any, **named: Any) -> Any:
            return factor * super().compute_loss(*args, **named)

    args = TrainingArguments(
        output_dir=str(out / "run"), use_cpu=True, ddp_backend="gloo", max_steps=4, optim="sgd",
        per_device_train_batch_size=1, gradient_accumulation_steps=2, report_to="none",
        save_strategy="no", learning_rate=0.1, max_grad_norm=0.0, disable_tqdm=True,
    )  # fmt: skip
    Scaled(LlamaForCausalLM(config), args,
           train_dataset=[{"input_ids": row, "labels": row} for row in rows]).train()  # fmt: skip
    return in_rank.finished(told)


def main() -> None:
    import transformers.trainer  # noqa: F401  (once, for both ranks)

    from vlmguard.ranks import run

    out, factor, how = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    done = run(lambda _: trained(out, factor, how), ranks=2, limit=200)
    assert done.verdict == "ok", done
    lines = [json.loads(line) for file in sorted(out.glob("report*.jsonl"))
             for line in file.read_text().splitlines()]  # fmt: skip
    print(json.dumps(lines))


if __name__ == "__main__":
    main()
