"""DDP waits for gradients that never come."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_VISION = re.compile(r"visual|vision|image|merger|projector|aligner", re.I)
LONGEST = 200  # characters of names
_NUMBERS = re.compile(r"did not receive grad for rank \d{1,6}: (\d{1,6}(?: \d{1,6})*)")
_NAMES = re.compile(r"did not receive grad for rank \d+: ([A-Za-z_][\w.]*(?:, [\w.]+)*)")


def _names(facts: Facts) -> str:
    match = _NAMES.search(facts.message)
    return match[1][:LONGEST] if match else ""


def _why(facts: Facts) -> str:
    names = _names(facts)
    if names and not _VISION.search(names):
        return f"trainable parameters got no gradient, and they are not the vision tower's: {names}"
    if names:
        return f"a step did not use parts that train ({names}): this rank's batch had no image"
    if "image" in facts.kinds:
        return (
            "some trainable parameters got no gradient although this "
            "rank's last batch had an image: "
            "a part of the model that the loss does not use (an unused head or layer, a detached "
            "output), not a missing image"
        )
    if facts.kinds:
        return (
            "the vision tower trains, and this rank's batch had no image: "
            "its parameters got no gradient"
        )
    if "everywhere" in facts.seen:
        llava = "llava" in facts.model.lower() or "llava" in facts.trace.lower()
        last = (
            " (LLaVA's tower has them: with vision_feature_layer=-2 its last layer and its "
            "post_layernorm)"
        )
        return (
            "some trainable parameters got no gradient, on every rank alike: more likely parts "
            f"that the loss never uses{last if llava else ''} than one rank's batch without an "
            "image"
        )
    return (
        "some trainable parameters got no gradient. With a vision "
        "tower that trains, the usual cause "
        "is a batch without an image; else a part of the model that the loss does not use"
    )


def _unnamed(facts: Facts) -> Do:
    """What names the parameters: by their numbers, where the message has them."""
    match = _NUMBERS.search(facts.message)
    if match is None:
        return Do(
            "TORCH_DISTRIBUTED_DEBUG=DETAIL in front of the same command: the message then names "
            "the parameters that got no gradient",
            "slower",
        )
    numbers = match[1].split()[:9]
    return Do(
        f"print([n for n, p in model.named_parameters() if p.requires_grad][{numbers[0]}:"
        f"{int(numbers[-1]) + 1}]): right before DDP wraps the model (a Trainer: before train()): "
        "names of parameters that got no gradient; freeze them (requires_grad_(False)), or use "
        "them in the loss",
        "none",
    )


def _freeze(told: str) -> Do:
    """The parts that the message names, without gradients."""
    names = told.split(", ")
    names = names[:-1] if len(told) == LONGEST and len(names) > 1 else names  # it may be cut
    parts = dict.fromkeys(name.rpartition(".")[0] or name for name in names)
    inside = ", ".join(f'"{part}"' for part in list(parts)[:4])
    return Do(
        "[p.requires_grad_(False) for n, p in model.named_parameters() if n.startswith(("
        f"{inside},))], in front of the optimizer or Trainer: these got no gradient",
        "they no longer learn; right where the loss never uses them",
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    find = Do("find_unused", "a search of the graph in each step")
    if facts.use_reentrant is not False and facts.checkpointing is not False:
        both = "one step: with reentrant checkpointing find_unused_parameters leads to VG501"
        needed = Do("non_reentrant", "none; find_unused_parameters needs it")
        find = needed if facts.find_unused else Do("find_unused_safe", both)
    names = _unnamed(facts)
    told = _names(facts)
    if told and not _VISION.search(told):
        return (_freeze(told), find, Do("use what it names in the loss, where it is to learn"))
    if "image" in facts.kinds and not told:
        return (
            names,
            Do("freeze the part that is not used, or use it in the loss"),
            find,
        )
    rest = () if told else (names,)
    if not facts.vision or "everywhere" in facts.seen:
        return (
            find,
            *rest,
            Do("freeze_tower", "where the tower is what was not used: it no longer learns"),
            Do("dummy_image", "where a batch without an image was: one small forward of the tower"),
        )
    return (
        Do("freeze_tower", "the tower no longer learns; right if it was not meant to"),
        Do("dummy_image", "one small forward of the tower"),
        find,
        *rest,
    )


FAILURE = Known(
    code="VG503",
    name="explain-unfinished-reduction",
    title="DDP still waits for gradients of the step before",
    zh="DDP 上一步仍有参数没有得到梯度（常见原因：批次里没有图像而视觉塔参与训练）",
    why=_why,
    do=_do,
    wrong=(
        "find_unused_parameters hides wiring bugs: a head that the "
        "loss should use and does not stays "
        "untrained. Where every batch has an image, images are not the cause."
    ),
    signs=(
        Sign("torch.is_grad_enabled() and self", where="trace"),
        Sign(
            "Expected to have finished reduction in the prior iteration",
            releases="torch 1.x to 2.15",
        ),
        Sign("that were not used in producing loss"),
    ),
    examples=(
        Example(
            "RuntimeError: Expected to have finished reduction in the "
            "prior iteration before starting a "
            "new one. This error indicates that your module has parameters that were not used in "
            "producing loss.",
            "made by causing it, torch 2.13.0, two gloo ranks",
        ),
    ),
    evidence="huggingface/trl#6617, hiyouga/LlamaFactory#6376; catalogue row 6.",
    prevented=("VG106",),
)
