"""Failing runs, what is said of each, and what a user then does.

A plain Trainer's profile writes advice as arguments, which are put into the command as they stand;
what it has no argument for is done as `DONE` says.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.frameworks.trainers.cases import (
    ALL,
    CHECKPOINTS,
    FSDP2,
    HANGS,
    LANGUAGE,
    NONE,
    ONCE,
    REENTRANT,
    UNFINISHED,
    UNUSED,
    WRONG,
)  # fmt: skip
from tests.kit.trainers import Command, plain, script, zero

NON_REENTRANT = (
    'set use_reentrant=False (gradient_checkpointing_kwargs={"use_reentrant": False})'
)
UNCHECKED = "turn gradient checkpointing of the vision tower off (gradient_checkpointing=False)"
LOOK = "set find_unused_parameters=True (ddp_find_unused_parameters=True)"
NO_GRAPH = "set static_graph=False (ddp_static_graph=False)"
PAD = "give every row an image (vlmguard rows DATA --blank OUT)"
SAME_IMAGES = "give all batches of all ranks the same number of images"
SAME_KIND = "give media to all ranks or to none"
ZERO2 = "use zero2"
FREEZE_BOTH = "if they are not meant to train, freeze vision and aligner"
UNMEANT = "if it is not meant to train, freeze vision"
WINDOW = "no accumulation"
AVERAGE = (
    "have the trainer average the model's loss over ranks and micro-batches "
    "(model.accepts_loss_kwargs = False, before the Trainer is made)"
)
CLIPPING = 'write "gradient_clipping": "auto" (takes --max_grad_norm) or 0.0 (clips nothing)'
LEAVES = "deepspeed.utils.set_z3_leaf_modules(model, [the class that holds the experts])"
BOTH = r"visual\."
CLIPS = "DeepSpeed clips gradients at 1.0"
"""Exit 0, and why its updates are not those of the reference."""
BLOCKS = ["--lora", r".*(blocks|layers)\..*"]
"""All of the model that trains lies in checkpointed blocks: DDP has done with a backward before a
tower's first call repeats it. Where an aligner trains too, it fails all the same."""
SAME = {"VLMGUARD_TEST_SAME_ADAPTERS": "1"}


@dataclass(frozen=True)
class Done:
    """A run in which a piece of advice was followed.

    Attributes:
        command: the failing one, changed as the advice says.
        reference: the right run of that.
        freeze: what the guard is told to freeze; it changes nothing else.
    """

    command: Command
    reference: Command
    freeze: str = ""


@dataclass(frozen=True)
class Failing:
    """A command that fails, and by code what is advised.

    Attributes:
        broken: the message of the crash, HANGS, WRONG or CLIPS.
        reference: the right run.
        told: code → all that its finding advises; how each is followed.
    """

    command: Command
    broken: str
    reference: Command
    told: Mapping[str, Mapping[str, Done]] = field(default_factory=dict)


def arguments(sentence: str) -> list[str]:
    """The arguments in brackets behind a piece of advice, as words of a command line."""
    call = ast.parse(f"f({re.search(r'[(](.*)[)]$', sentence)[1]})", mode="eval").body
    words = []
    for each in call.keywords:
        value = ast.literal_eval(each.value)
        words += [f"--{each.arg}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return words


def spelt(command: Command, reference: Command, *sentences: str) -> dict[str, Done]:
    return {each: Done(command.also(*arguments(each)), reference) for each in sentences}


def instead(command: Command, one: str, other: str) -> Command:
    return replace(command, words=[word.replace(one, other) for word in command.words])


def of_rows(command: Command, data: str) -> Command:
    words = list(command.words)
    words[words.index("--data") + 1] = data
    return replace(command, words=words)


def padded(command: Command, reference: Command) -> dict[str, Done]:
    """A blank image in the rows that have none: the reference sees the same rows."""
    data = command.words[list(command.words).index("--data") + 1] + "/blank"
    return {PAD: Done(of_rows(command, data), of_rows(reference, data))}


def grouped(command: Command, reference: Command) -> dict[str, Done]:
    return {SAME_KIND: Done(of_rows(command, "phases"), of_rows(reference, "phases"))}


def zero2(command: Command, reference: Command) -> dict[str, Done]:
    return {ZERO2: Done(instead(command, "zero3.json", "zero2.json"), reference)}


def frozen(command: Command, reference: Command, names: str) -> Done:
    return Done(command, reference.also("--frozen", names))


LORA = plain("image", *CHECKPOINTS, *REENTRANT, *ALL)
LORA_RIGHT = plain("image", *NONE, *ALL)
TWICE = plain("image+video", *CHECKPOINTS, *REENTRANT, *zero(3))
TWICE_RIGHT = plain("image+video", *NONE)
HIDDEN = plain("image+video", *CHECKPOINTS, *REENTRANT, *BLOCKS, *UNUSED[:1], "false")
HIDDEN_RIGHT = plain("image+video", *NONE, *BLOCKS)
NOT_HIDDEN = plain("image+video", *CHECKPOINTS, *REENTRANT, *ALL, *UNUSED[:1], "false")
NOT_HIDDEN_RIGHT = plain("image+video", *NONE, *ALL)
TWO = ["--two_forwards", "true"]
FORWARDS = plain("image", *TWO, *CHECKPOINTS, *REENTRANT, *zero(3))
FORWARDS_RIGHT = plain("image", *TWO, *NONE)
MIXED_RIGHT = plain("mixed", *NONE, *UNUSED)
MIXED = plain("mixed", *CHECKPOINTS)
ZERO3, TWO_ZERO, FSDP = (plain("mixed", *NONE, *each) for each in (zero(3), zero(2), FSDP2))
GATHERED = plain("mixed", *NONE, *LANGUAGE, *zero(3))
GATHERED_RIGHT = plain("mixed", *NONE, *LANGUAGE)
STALE = plain("phases", *NONE, *zero(3))
STALE_RIGHT = plain("phases", *NONE, *UNUSED)
LLAVA = plain("image", *NONE, *UNUSED[:1], "false", model="llava")
LLAVA_RIGHT = plain("image", *NONE, *UNUSED, model="llava")
BLIND = plain("image", *NONE, "--blind", "model.vision_tower", *zero(2), model="llava")
WINDOWS = ["--gradient_accumulation_steps", "2"]
GRAPH = plain("image", *NONE, "--ddp_static_graph", "true", *WINDOWS)
GRAPH_RIGHT = plain("image", *NONE, *WINDOWS)
UNEVEN = plain("uneven", *NONE, "--per_image", "true", *zero(3))
UNEVEN_RIGHT = plain("uneven", *NONE)
MIXTURE = ["--experts", "alone"]
EXPERTS = plain("uneven", *NONE, *MIXTURE, *zero(3))
EXPERTS_RIGHT = plain("uneven", *NONE, *MIXTURE, *UNUSED)
CARELESS = plain("image", *NONE, *UNUSED, *WINDOWS, "--careless", "true", model="llava")
AVERAGED_RIGHT = plain("image", *NONE, *UNUSED, *WINDOWS, "--averaged", "true", model="llava")
BALANCED = script("language", "--experts", "true", *CHECKPOINTS, *REENTRANT)
BALANCED_RIGHT = script("language", "--experts", "true", *NONE)
CLIPPED = plain("image", *NONE, "--deepspeed", "{data}/unclipped.json")
CLIPPED_RIGHT = plain("image", *NONE)

FAILING = {
    "lora": Failing(LORA, ONCE, LORA_RIGHT, {"VG101": spelt(LORA, LORA_RIGHT, NON_REENTRANT)}),
    "twice": Failing(TWICE, WRONG, TWICE_RIGHT,
                     {"VG102": spelt(TWICE, TWICE_RIGHT, NON_REENTRANT, UNCHECKED)}),
    "forwards": Failing(FORWARDS, WRONG, FORWARDS_RIGHT,
                        {"VG103": spelt(FORWARDS, FORWARDS_RIGHT, NON_REENTRANT)}),
    "mixed": Failing(MIXED, HANGS, MIXED_RIGHT, {
        "VG106": spelt(MIXED, MIXED_RIGHT, LOOK) | padded(MIXED, MIXED_RIGHT)}),
    "never": Failing(LLAVA, UNFINISHED, LLAVA_RIGHT, {
        "VG106": spelt(LLAVA, LLAVA_RIGHT, LOOK)}),
    "zero3": Failing(ZERO3, HANGS, MIXED_RIGHT, {"VG106": padded(ZERO3, MIXED_RIGHT)}),
    "zero3-frozen": Failing(GATHERED, HANGS, GATHERED_RIGHT, {
        "VG106": padded(GATHERED, GATHERED_RIGHT) | zero2(GATHERED, GATHERED_RIGHT)}),
    "zero2": Failing(TWO_ZERO, HANGS, MIXED_RIGHT, {
        "VG106": padded(TWO_ZERO, MIXED_RIGHT)
        | {FREEZE_BOTH: frozen(TWO_ZERO, MIXED_RIGHT, BOTH)}}),
    "fsdp2": Failing(FSDP, HANGS, MIXED_RIGHT, {
        "VG106": padded(FSDP, MIXED_RIGHT) | grouped(FSDP, MIXED_RIGHT)}),
    "stale": Failing(STALE, WRONG, STALE_RIGHT, {
        "VG108": padded(STALE, STALE_RIGHT) | zero2(STALE, STALE_RIGHT),
        "VG204": padded(STALE, STALE_RIGHT) | zero2(STALE, STALE_RIGHT)
        | {FREEZE_BOTH: frozen(STALE, STALE_RIGHT, BOTH)}}),
    "hidden": Failing(HIDDEN, WRONG, HIDDEN_RIGHT,
                      {"VG107": spelt(HIDDEN, HIDDEN_RIGHT, NON_REENTRANT)}),
    "not-hidden": Failing(NOT_HIDDEN, ONCE, NOT_HIDDEN_RIGHT, {
        "VG107": spelt(NOT_HIDDEN, NOT_HIDDEN_RIGHT, NON_REENTRANT)}),
    "graph": Failing(GRAPH, "INTERNAL ASSERT FAILED", GRAPH_RIGHT, {
        "VG109": spelt(GRAPH, GRAPH_RIGHT, NO_GRAPH)
        | {WINDOW: Done(GRAPH.also(*WINDOWS[:1], "1"), plain("image", *NONE))}}),
    "blind": Failing(BLIND, WRONG, LLAVA_RIGHT, {
        "VG302": {UNMEANT: Done(BLIND, LLAVA_RIGHT.also("--frozen", "vision_tower"))}}),
    "uneven": Failing(UNEVEN, HANGS, UNEVEN_RIGHT, {
        "VG113": zero2(UNEVEN, UNEVEN_RIGHT)
        | {SAME_IMAGES: Done(of_rows(UNEVEN, "image"), of_rows(UNEVEN_RIGHT, "image"))}}),
    "experts": Failing(EXPERTS, "disagreement on list contents", EXPERTS_RIGHT, {
        "VG114": {LEAVES: Done(EXPERTS.also("--experts", "leaves"), EXPERTS_RIGHT)}}),
    "careless": Failing(CARELESS, WRONG, AVERAGED_RIGHT, {
        "VG115": {AVERAGE: Done(CARELESS.also("--averaged", "true"), AVERAGED_RIGHT)}}),
    "balanced": Failing(BALANCED, WRONG, BALANCED_RIGHT,
                        {"VG116": spelt(BALANCED, BALANCED_RIGHT, NON_REENTRANT)}),
    "clipped": Failing(CLIPPED, CLIPS, CLIPPED_RIGHT, {
        "VG403": {CLIPPING: Done(instead(CLIPPED, "unclipped", "zero2"), CLIPPED_RIGHT)}}),
}  # fmt: skip
