"""A trainer's objects → `Run`, and judged. Reads what will happen, not what the flags say."""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.core.facts import PARTITIONED, Certainty, Run, Strategy, Tower
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.run_report import Changes
from vlmguard.runtime import seams
from vlmguard.runtime.faults import contain
from vlmguard_torch.layout import parameters
from vlmguard_transformers import SEAMS, shared_rows
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.model import loss, observation
from vlmguard_transformers.model_reading import Reading

SENSES = frozenset({"vision", "audio"})


def judge(read: Reading) -> RunState | None:
    """`guard.pre_wrap` for a trainer, or what of one there is in a loop."""
    return guard.pre_wrap(
        lambda: run(read),
        lambda plan: _apply(read, plan),
        lambda: check(read),
        owner=read.trainer,
        spell=read.profile.spell,
        speaks=read.profile.speaks,
    )


def check(read: Reading) -> None:
    """Raise `SettingsError` for a freeze policy that this model cannot obey."""
    if read.policy == ():
        return
    from vlmguard_torch.layout import freezing

    freezing.check(read.parameters, read.policy, read.parts)


def _apply(read: Reading, plan: Plan) -> Changes:
    """Imported where there is something to change."""
    from vlmguard_transformers import apply

    return apply.apply(read, plan)


def run(read: Reading) -> Run:
    """The run as it is about to be wrapped."""
    trainer, profile, strategy = read.trainer, read.profile, read.strategy
    ddp = strategy == "ddp"
    towers = _towers(read)
    checkpointing = profile.checkpointing(trainer)
    unfrozen = _unfrozen(read)
    hooked = (*SEAMS, *profile.seams)
    meets = shared_rows.of(read)
    reenters = observation.reenters(trainer, checkpointing, towers)
    unused, in_training, evaluated = _may_be_unused(read, towers, meets)
    if not ddp and unused != "no":
        observation.with_blanks(trainer, meets.media)
    observed = observation.of(read, towers, meets)
    if observed.text_uses_towers is True:
        unused = in_training = "no"
    lacking = not ddp and (unused != "no" or observed.media_apart)
    needed = unused == "yes" or observed.media_apart
    obstacle = _obstacle(trainer, meets, needed) if lacking else ""
    alike = bool(obstacle) and _may_be_alike(read, in_training == "yes", evaluated == "yes")
    times = loss.times(trainer, read.phase, towers)
    state = read.state
    if state is not None:
        state.kept["blank kinds"] = meets.media
        state.kept["blank needed"] = needed
        state.kept["blank in training"] = in_training != "no" or bool(observed.media_apart)
    return Run(
        framework=profile.name,
        releases=read.releases,
        phase=read.phase,
        strategy=strategy,
        world=trainer.args.world_size,
        rank=trainer.args.process_index,
        tuning=profile.tuning(trainer),
        checkpointing=checkpointing,
        towers=towers,
        forwards=profile.forwards(trainer),
        generates=profile.generates(trainer),
        samples=profile.samples(trainer),
        repeats=observed.repeats,
        shared=parameters.shares_blocks(read.parameters),
        frozen=any(tower.trainable < tower.total for tower in towers),
        rows=tuple(sorted(meets.train or ())),
        eval_rows=tuple(sorted(meets.evaluated or ())),
        may_be_unused=unused,
        unused_in_training=in_training,
        may_be_alike=alike,
        never_used=observed.never_used,
        cut_off=observed.cut_off,
        text_skips=observed.text_skips,
        dropped=observation.dropped(read) if reenters and read.phase == "train" else (),
        per_image=observed.per_image,
        media_apart=observed.media_apart,
        experts=_experts(trainer, strategy),
        can_pad=lacking and not obstacle,
        pads=read.pads,
        cannot_pad=obstacle,
        overscaled=times,
        router_loss=loss.of_routers(trainer),
        find_unused=hf.find_unused(trainer, checkpointing.on) if ddp else None,
        static_graph=hf.static_graph(trainer) if ddp else None,
        compiled=hf.compiles(trainer),
        accumulation=trainer.args.gradient_accumulation_steps,
        clipping=hf.clipping(trainer),
        overlap_comm=hf.overlap_comm(trainer),
        empty_group=hf.empty_group(trainer),
        freeze=read.policy,
        unfrozen=len(unfrozen),
        unfrozen_example=unfrozen[0] if unfrozen else "",
        conflicting_flags=profile.conflicting_flags(trainer, read.policy),
        missing_seams=seams.missing(hooked),
        lost_seams=seams.lost(hooked),
        provenance=observed.provenance
        | ({"overscaled": "observed"} if times > 1 else {})
        | ({"forwards": "assumed"} if hf.own_loss(trainer) else {}),
    )


def _unfrozen(read: Reading) -> tuple[str, ...]:
    """Names of parameters that train against the freeze policy."""
    if read.policy == ():
        return ()
    from vlmguard_torch.layout import freezing

    return freezing.unfrozen(read.parameters, read.policy, read.parts)


def _experts(trainer: Any, strategy: Strategy) -> str:
    """Where experts are gathered one by one; accelerate makes classes of its setting leaves."""
    if strategy != "zero3":
        return ""
    from vlmguard_torch.layout import experts

    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    leaves = getattr(plugin, "transformer_moe_cls_names", None) or ""
    return experts.alone(trainer.model, [name.strip() for name in leaves.split(",")])


def _towers(read: Reading) -> tuple[Tower, ...]:
    return parameters.towers(
        read.parameters,
        read.towers,
        lambda kind: read.profile.checkpointed(read.trainer, kind, read.towers.get(kind, ())),
        lambda kind: read.profile.input_grads(read.trainer, kind),
    )


def _may_be_unused(
    read: Reading, towers: tuple[Tower, ...], meets: shared_rows.Meets
) -> tuple[Certainty, Certainty, Certainty]:
    """Whether a batch can leave a tower unused that this strategy minds: at all, in training, in
    evaluation."""
    strategy = read.strategy
    sees = [tower for tower in towers if tower.sees and tower.total]
    if not sees or strategy == "single":
        return "no", "no", "no"
    own, only = read.profile.pads_itself(read.trainer, strategy), SENSES
    if own == "yes":
        only = _idle(read)
        if not only:
            return "no", "no", "no"
    trained = _differ(meets.train, meets.complete, strategy, only)
    evaluated: Certainty = "no"
    if strategy in PARTITIONED:  # these gather weights in evaluation, too
        evaluated = _differ(meets.evaluated, meets.complete, strategy, only)
    both = (trained, evaluated)
    ever: Certainty = "yes" if "yes" in both else "possible" if "possible" in both else "no"
    if own == "possible" and "yes" in both:
        return "possible", "no" if trained == "no" else "possible", "possible"
    return ever, trained, evaluated


def _obstacle(trainer: Any, meets: shared_rows.Meets, needed: bool) -> str:
    """Why no blank input can be put in. Imported where one is wanted."""
    from vlmguard_transformers.model import padding

    return padding.obstacle(trainer, meets.media, needed)


def _may_be_alike(read: Reading, trained: bool, evaluated: bool) -> bool:
    """Looked at once a run, where no blank input helps and all hangs on it. ``trained``,
    ``evaluated``: whether rows are known to differ there."""
    from vlmguard_transformers import row_order

    known = read.state.kept if read.state is not None else {}
    if "may be alike" not in known:
        trains = read.phase == "train" and (trained or not evaluated)
        asked = [row_order.may_be_alike] if trains else []
        if evaluated and (read.phase != "train" or row_order.evaluates(read.trainer)):
            asked.append(row_order.may_be_alike_in_evaluation)
        found = [contain("reading the order of rows", each, read.trainer) for each in asked]
        known["may be alike"] = False not in found
    return bool(known["may be alike"])


def _idle(read: Reading) -> frozenset[str]:
    """Kinds of towers that the framework's own dummy leaves out; found out once a run."""
    state = read.state
    known = state.kept if state is not None else {}
    if "left idle" not in known:
        found = contain("trying a dummy on a copy", read.profile.left_idle, read.trainer)
        known["left idle"] = found or frozenset()
    return frozenset(known["left idle"])


def _differ(
    rows: frozenset[str] | None,
    complete: bool,
    strategy: Strategy,
    only: frozenset[str] = SENSES,
) -> Certainty:
    """Whether rows of one phase need different towers, of kinds in ``only``.

    Ranks are in one phase together: images in training and text in evaluation part nobody.
    """
    if rows is None or not complete:
        return "possible"
    needs = {shared_rows.senses(row) & only for row in rows}
    if needs == {frozenset()} and strategy == "ddp":
        return "yes"  # no rank ever uses a tower: only DDP waits for it
    return "yes" if len(needs) > 1 else "no"
