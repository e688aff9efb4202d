"""A user's own train.py around transformers.Trainer, as the scripts of many models are.

    torchrun --nproc_per_node 2 train.py --model DIR --data mixed <TrainingArguments>
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time

import torch
from rows import Collate, Rows
from transformers import (
    AutoModelForImageTextToText,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclasses.dataclass
class Mine:
    """The script's own arguments.

    Attributes:
        lora: a regular expression of module names that get an adapter; none: full training.
        frozen: a regular expression of names of parameters that do not train.
        blind: a module that runs without gradients, by mistake.
        experts: "alone": the first layer has two experts, modules of their own, and a row's length
            chooses; "leaves": DeepSpeed is told to gather them together.
        per_image: the tower takes the images of a batch apart, as MiniCPM-V's does.
        careless: a loss that takes no notice of num_items_in_batch, as Qwen2-Audio's.
        averaged: the model says that it takes no such number.
        on_the_model: checkpointing is switched on here, before a trainer exists.
        two_forwards: a loss that calls the model twice.
        evaluate: a data set to evaluate on after each step.
        late: seconds by which the last rank begins its training after the others.
    """

    model: str = ""
    data: str = "image"
    lora: str = ""
    frozen: str = ""
    blind: str = ""
    experts: str = ""
    per_image: bool = False
    careless: bool = False
    averaged: bool = False
    on_the_model: bool = False
    two_forwards: bool = False
    evaluate: str = ""
    late: float = 0.0


class TwoForwards(Trainer):
    """A consistency term: the same rows once more, at half the weight."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return model(**inputs).loss + 0.5 * model(**inputs).loss


def one_by_one(kind):
    """Towers of a Qwen2-VL class run once per image."""
    together = kind.forward

    def forward(self, hidden_states, grid_thw, **kwargs):
        sizes = [int(grid.prod()) for grid in grid_thw]
        found = [
            together(self, patches, grid_thw=grid[None], **kwargs)
            for patches, grid in zip(hidden_states.split(sizes), grid_thw, strict=True)
        ]
        names = ("last_hidden_state", "pooler_output")
        return type(found[0])(**{n: torch.cat([each[n] for each in found]) for n in names})

    kind.forward = forward


class Chosen(torch.nn.Module):
    """Experts, of which a row runs one."""

    long = 33
    """Tokens; a row of two images has more, one of a single image fewer."""

    def __init__(self, *experts):
        super().__init__()
        self.experts = torch.nn.ModuleList(experts)

    def forward(self, hidden):
        return self.experts[int(hidden.shape[1] > self.long)](hidden)


def mix(model, leaves):
    """Make experts of the first two layers' blocks; the second layer goes without."""
    first, second = model.model.language_model.layers[:2]
    first.mlp, second.mlp = Chosen(first.mlp, second.mlp), torch.nn.Identity()
    if leaves:
        from deepspeed.utils import set_z3_leaf_modules

        set_z3_leaf_modules(model, [Chosen])


def deaf(kind):
    """A model class whose loss is a mean, whatever number of tokens is passed."""
    whole = kind.forward

    @functools.wraps(whole)
    def forward(self, *args, num_items_in_batch=None, **kwargs):
        return whole(self, *args, **kwargs)

    kind.forward = forward


def adapted(model, pattern, checkpointing):
    """The model with LoRA on its linear layers whose names match."""
    from peft import LoraConfig, get_peft_model

    linear = [n for n, each in model.named_modules() if isinstance(each, torch.nn.Linear)]
    names = [n for n in linear if "lm_head" not in n and re.fullmatch(pattern, n)]
    model = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=names))
    if checkpointing:
        model.enable_input_require_grads()
    return model


def main():
    mine, args = HfArgumentParser((Mine, TrainingArguments)).parse_args_into_dataclasses()
    args.remove_unused_columns = False
    set_seed(args.seed)
    model = AutoModelForImageTextToText.from_pretrained(
        mine.model, attn_implementation="eager", torch_dtype=torch.float32
    )
    config, tokenizer = model.config, AutoTokenizer.from_pretrained(mine.model)
    if mine.lora:
        model = adapted(model, mine.lora, args.gradient_checkpointing or mine.on_the_model)
    if mine.experts:
        mix(model, mine.experts == "leaves")
    if mine.per_image:
        one_by_one(type(model.model.visual))
    if mine.careless:
        deaf(type(model))
    if mine.averaged:
        model.accepts_loss_kwargs = False
    if mine.blind:
        tower = model.get_submodule(mine.blind)
        tower.forward = torch.no_grad()(tower.forward)
    for name, parameter in model.named_parameters():
        if mine.frozen and re.search(mine.frozen, name):
            parameter.requires_grad_(False)
    if mine.on_the_model:
        model.gradient_checkpointing_enable({"use_reentrant": True})
    trainer = (TwoForwards if mine.two_forwards else Trainer)(
        model=model,
        args=args,
        train_dataset=Rows(mine.data),
        eval_dataset=Rows(mine.evaluate, 4) if mine.evaluate else None,
        data_collator=Collate(tokenizer, config),
    )
    if mine.late and args.process_index == args.world_size - 1:
        time.sleep(mine.late)
    trainer.train()


if __name__ == "__main__":
    main()
