"""A plain script whose trainings have something besides one training: two of them, an evaluation of
its own, a rank with settings of its own, one on which a fault of ours keeps the run from being
looked at, a stop that the script catches.

    torchrun --nproc_per_node 2 life.py twice|evaluated|apart|lost|caught FOLDER
"""

from __future__ import annotations

import os
import sys
import time

WHAT, FOLDER = sys.argv[1:3]
if WHAT == "apart" and os.environ["RANK"] == "1":
    os.environ["VLMGUARD_RULES"] = "VG101=off"
if WHAT == "lost" and os.environ["RANK"] == "1":
    import vlmguard_fault

    os.environ["VLMGUARD_TEST_FAULT"] = "vlmguard_transformers.profiles:of"
    vlmguard_fault.install()
if WHAT == "caught":
    os.environ["VLMGUARD_RULES"] = "VG101=error"

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments  # noqa: E402

ROWS = [{"input_ids": torch.arange(8) + n, "labels": torch.arange(8) + n} for n in range(8)]


def trainer() -> Trainer:
    """Reentrant checkpointing under DDP with find_unused: it crashes at step 1."""
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=2)  # fmt: skip
    arguments = TrainingArguments(
        FOLDER, max_steps=2, per_device_train_batch_size=1, use_cpu=True, ddp_backend="gloo",
        optim="sgd", learning_rate=0.1, max_grad_norm=0, lr_scheduler_type="constant",
        report_to="none", save_strategy="no", disable_tqdm=True, logging_steps=1,
        gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True},
        ddp_find_unused_parameters=True,
    )  # fmt: skip
    return Trainer(LlamaForCausalLM(config), arguments, train_dataset=ROWS, eval_dataset=ROWS)


def trained() -> None:
    made = trainer()
    made.train()
    moved = sum(float(p.detach().double().abs().sum()) for p in made.model.parameters())
    print(f"rank {os.environ['RANK']} trained to {moved:.12f}", flush=True)


if WHAT == "twice":
    trained()
    trained()
elif WHAT == "evaluated":
    print("evaluated", sorted(trainer().evaluate()), flush=True)
    trained()
elif WHAT in ("apart", "lost"):
    trained()
else:
    try:
        trained()
    except RuntimeError as error:
        print(f"caught {str(error)[:60]}", flush=True)
    time.sleep(8)
    print(f"rank {os.environ['RANK']} lives", flush=True)
if torch.distributed.is_initialized():
    # gloo's threads may hold tensors of Python's when the interpreter goes: it then aborts, once in
    # a long while (pytorch/pytorch#179291)
    torch.distributed.destroy_process_group()
