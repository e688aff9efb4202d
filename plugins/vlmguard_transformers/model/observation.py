"""What is known of the model beyond its names: observed on a shrunken copy, declared by a registry,
or assumed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vlmguard.core import runstate
from vlmguard.core.facts import MEDIA, PARTITIONED, Certainty, Checkpointing, Provenance, Tower
from vlmguard.runtime.faults import contain
from vlmguard_torch.layout.towers import kind_of, modules, plain, without_adapters
from vlmguard_torch.observe.observed import under
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.shared_rows import Meets, senses

_KEY, _BLANKS, _REENTERS = "observed", "observed with blanks", "reenters"
VISUAL = frozenset({"image", "video"})


@dataclass(frozen=True)
class Known:
    """Facts of `Run`, and how each is known.

    Attributes:
        text_uses_towers: whether a row of text alone runs the towers all the same, as in a model
            with a dummy of its own; None if that is not known.
    """

    text_uses_towers: bool | None = None
    repeats: Certainty = "no"
    never_used: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    text_skips: tuple[str, ...] = ()
    per_image: tuple[str, ...] = ()
    media_apart: bool = False
    provenance: dict[str, Provenance] = field(default_factory=dict)


def of(read: Reading, towers: tuple[Tower, ...], meets: Meets) -> Known:
    """What is known; the copy is made only where an answer hangs on it."""
    provenance: dict[str, Provenance] = {}
    trainer, strategy = read.trainer, read.strategy
    if not any(tower.sees for tower in towers):
        if strategy != "ddp":
            return Known()
        return Known(never_used=_declared(read, provenance), provenance=provenance)
    uses = _text_uses_towers(trainer, meets, provenance)
    repeats = _repeats(read, towers, meets, provenance)
    if strategy == "single":
        return Known(uses, repeats, provenance=provenance)
    if strategy in PARTITIONED:
        per_image = _per_image(trainer, towers, provenance)
        apart = _media_apart(trainer, towers, meets, provenance)
        return Known(uses, repeats, per_image=per_image, media_apart=apart, provenance=provenance)
    if strategy != "ddp":  # ZeRO-1/2 reduces only gradients that a rank has
        _, skips = _unused(read, meets, provenance)
        return Known(uses, repeats, text_skips=skips, provenance=provenance)
    never, skips = _unused(read, meets, provenance)
    cut = _cut_off(read, towers, never)
    never = tuple(name for name in never if kind_of(name, read.towers) not in cut)
    return Known(uses, repeats, never, cut, skips, provenance=provenance)


def copy_of(trainer: Any) -> Any:
    """The observation of the model, made once a run; None if it could not be made."""
    kept = _kept(trainer)
    if _KEY not in kept:
        reenters = kept.get(_REENTERS, False)
        found = contain("observing a copy of the model", _observe, trainer.model, reenters)
        kept[_KEY] = found or None
    return kept[_KEY]


def with_blanks(trainer: Any, kinds: tuple[str, ...] | None) -> Any:
    """The same, with these kinds of blank input tried on the copy (None: the first that the class
    has). Asked before `copy_of`, it is the only observation."""
    kept = _kept(trainer)
    if _BLANKS not in kept:
        told = trainer.model, kinds, kept.get(_REENTERS, False)
        found = contain("trying a blank input on a copy", _try_blanks, *told)
        kept[_KEY], kept[_BLANKS] = found or None, found
    return kept[_BLANKS]


def _kept(trainer: Any) -> dict[str, Any]:
    state = runstate.of(trainer)
    return state.kept if state is not None else {}


def reenters(trainer: Any, checkpointing: Checkpointing, towers: tuple[Tower, ...]) -> bool:
    """Whether a tower that trains runs under reentrant checkpointing. Then the observation, if none
    was made yet, looks for what that leaves without a gradient."""
    trained = any(tower.sees and tower.trainable and tower.checkpointed for tower in towers)
    found = bool(checkpointing.on and checkpointing.use_reentrant and trained)
    _kept(trainer)[_REENTERS] = found
    return found


def dropped(read: Reading) -> tuple[str, ...]:
    """Trainable parameters that a row with media reaches, and reaches no more under reentrant
    checkpointing, as the copy was seen to."""
    observed = copy_of(read.trainer)
    if not observed or not observed.dropped:
        return ()
    named = read.parameters.named_parameters()
    names = (plain(name) for name, parameter in named if parameter.requires_grad)
    return tuple(name for name in names if under(name, observed.dropped))


def _observe(model: Any, reenters: bool) -> Any:
    from vlmguard_torch.observe.observer import observe

    return observe(model, reentrant=reenters)


def _try_blanks(model: Any, kinds: tuple[str, ...] | None, reenters: bool) -> Any:
    from vlmguard_torch.blank import neutral

    return neutral.observed(model, kinds, reenters)


def _text_uses_towers(trainer: Any, meets: Meets, provenance: dict[str, Provenance]) -> bool | None:
    """Asked only where rows of both kinds are possible."""
    found = meets.all if meets.complete else None
    if found and len({senses(row) for row in found}) == 1:
        return None
    observed = copy_of(trainer)
    media = [observed.of(kind) for kind in MEDIA] if observed else []
    seen = [facts.towers for facts in media if facts is not None]
    if not seen or observed.of("text") is None:
        provenance["may_be_unused"] = "assumed"
        return None
    provenance["may_be_unused"] = "observed"
    return not any(seen)


def _repeats(
    read: Reading,
    towers: tuple[Tower, ...],
    meets: Meets,
    provenance: dict[str, Provenance],
) -> Certainty:
    """Whether a checkpointed tower that trains runs more than once in one forward."""
    trained = [t for t in towers if t.sees and t.trainable and t.checkpointed]
    if not trained:
        return "no"
    trainer = read.trainer
    told = read.profile.repeats(trainer)
    if told is not None:
        provenance["repeats"] = "declared"
        return told
    observed = copy_of(trainer)
    paths = [path for tower in trained for path in tower.paths]
    if observed is None or _any_below(observed.patched, paths):
        provenance["repeats"] = "assumed"
        return "possible"
    provenance["repeats"] = "observed"
    if any(_blocks(trainer, path) for path in _below(observed.per_item, paths)):
        return "yes"
    kinds = meets.train if meets.complete else None
    facts = [observed.of(kind) for kind in kinds or _most(observed)]
    twice = {path for each in facts if each is not None for path, _ in each.repeats}
    if any(_blocks(trainer, path) for path in _below(twice, paths)):
        return "yes" if kinds else "possible"
    return "possible" if None in facts else "no"


def _most(observed: Any) -> tuple[str, ...]:
    """The kinds of rows that call the most, of those that the class accepts."""
    accepted = [facts.kind for facts in observed.kinds]
    both = "image+video" in accepted
    return ("image+video",) if both else tuple(kind for kind in accepted if kind != "text")


def _per_image(
    trainer: Any, towers: tuple[Tower, ...], provenance: dict[str, Provenance]
) -> tuple[str, ...]:
    """What two images call more often than one, in towers whose weights are gathered."""
    if trainer.args.world_size < 2:
        return ()
    observed = copy_of(trainer)
    paths = [path for tower in towers if tower.sees for path in tower.paths]
    found = tuple(_below(observed.per_item, paths)) if observed else ()
    if found:
        provenance["per_image"] = "observed"
    return found


def _media_apart(
    trainer: Any, towers: tuple[Tower, ...], meets: Meets, provenance: dict[str, Provenance]
) -> bool:
    """Whether ranks will call a tower differently often over images and videos; only where the rows
    are known to say so, and the copy was seen to."""
    rows = meets.all if meets.complete else None
    parts = [VISUAL.intersection(row.split("+")) for row in rows or ()]
    many = getattr(trainer.args, "per_device_train_batch_size", 1) > 1
    met = frozenset().union(*parts) >= VISUAL if many else VISUAL in parts
    if trainer.args.world_size < 2 or not met or not any(len(each) == 1 for each in parts):
        return False
    observed = copy_of(trainer)
    found = [observed.of(kind) for kind in ("image", "video", "image+video")] if observed else []
    if None in found or not found:
        return False
    paths = [path for tower in towers if tower.sees for path in tower.paths]
    image, video, both = (dict(facts.repeats) for facts in found)
    provenance["media_apart"] = "observed"
    return any(
        both[path] > max(image.get(path, 1), video.get(path, 1)) for path in _below(both, paths)
    )


def _blocks(trainer: Any, path: str) -> bool:
    """Whether a module holds blocks that can be checkpointed: others may run as often as they
    like."""
    try:
        module = without_adapters(trainer.model).get_submodule(path)
    except AttributeError:
        return True  # it is a parameter, or a module of the copy only
    return any(hasattr(each, "gradient_checkpointing") for each in module.modules())


def _below(names: Iterable[str], paths: list[str]) -> list[str]:
    """Of ``names``, those that are one of ``paths``, lie below one, or hold one."""
    return [
        one
        for one in names
        if any(
            one == other or one.startswith(other + ".") or other.startswith(one + ".")
            for other in paths
        )
    ]


def _any_below(names: Iterable[str], paths: list[str]) -> bool:
    return bool(_below(names, paths))


def _unused(
    read: Reading, meets: Meets, provenance: dict[str, Provenance]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Trainable parameters that no row uses, and those of the language model that text skips."""
    named = read.parameters.named_parameters()
    names = [plain(name) for name, parameter in named if parameter.requires_grad]
    declared = _declared(read, provenance)
    observed = copy_of(read.trainer)
    if not observed:
        return declared, ()
    provenance["never_used"] = provenance["text_skips"] = "observed"
    kinds = sorted((meets.train if meets.complete else None) or ())
    media = [kind for kind in kinds if kind != "text"]
    never = [n for n in names if _never(observed, n, kinds if media else [])]
    sees = {kind: paths for kind, paths in read.towers.items() if kind != "llm"}
    own = [n for n in names if kind_of(n, sees) == "other"]
    skips = [n for n in own if n not in never and _any_below([n], list(observed.skipped))]
    return tuple(never), tuple(skips)


def _cut_off(read: Reading, towers: tuple[Tower, ...], never: tuple[str, ...]) -> tuple[str, ...]:
    """Kinds of towers that train and run, and of whose parameters all are in ``never``: under
    ``no_grad``, or their output is detached. To look for unused parameters would only hide it.

    In code of the user's own alone: a published class may look its images up in a codebook.
    """
    observed = copy_of(read.trainer)
    if not observed or not never:
        return ()
    ran = {path for facts in observed.kinds for path in facts.towers}
    left = [kind_of(name, read.towers) for name in never]
    return tuple(
        tower.kind
        for tower in towers
        if tower.sees
        and 0 < tower.trainable <= left.count(tower.kind)
        and _below(ran, list(tower.paths))
        and _users(read.profile.model(read.trainer), tower.paths)
    )


def _users(model: Any, paths: Iterable[str]) -> bool:
    """Whether the model's forward or a tower's is no published class's of transformers."""
    named = modules(model)
    every = [without_adapters(model), *(named[path] for path in paths if path in named)]
    return any("forward" in vars(each) or not _published(type(each)) for each in every)


def _published(kind: type) -> bool:
    """Whether it is a class of transformers, with its own forward or a framework's in its place.
    None of them runs a tower under ``no_grad``: that was put around it."""
    around = getattr(kind.forward, "__globals__", {})  # type: ignore[attr-defined]
    home = around.get("__name__", kind.__module__)
    if kind.__module__.partition(".")[0] != "transformers":
        return False
    return home.partition(".")[0] in (*hf.FRAMEWORKS, "liger_kernel")


def _declared(read: Reading, provenance: dict[str, Provenance]) -> tuple[str, ...]:
    found = read.never_used
    if found:
        provenance["never_used"] = "declared"
    return found


def _never(observed: Any, name: str, kinds: list[str]) -> bool:
    """Whether none of the run's kinds of rows uses it; of all kinds where the run's are unknown."""
    if kinds:
        return all(observed.unused(name, (kind,)) is True for kind in kinds)
    return bool(observed.never_used) and _any_below([name], list(observed.never_used))
