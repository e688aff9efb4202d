"""The ColossalAI adapter (0.3.0 – 0.5.0): Gemini, low-level ZeRO and TorchDDP, by the booster.

What is patched and why:

* ``Booster.boost``: the model and its optimizer exist, nothing is wrapped yet. The run is judged
  and mended here (freezing, DDP options, the blank image inside the model). A dry step is made if
  asked for. Two forward hooks go on the boosted model: they check each batch, and complete it if
  the model has no place for a blank;
* ``Booster.backward``: which trainable parameters forward touched is judged before it. Under Gemini
  an untouched one keeps its weights where the optimizer expects gradients;
* the optimizers' ``step``: gradients are judged before a step is taken; what fails is explained;
* ``Booster.enable_lora``: what to do where the plug-in has no LoRA.

There is no argument parser: settings come from the environment, a file, or `guard_booster`.

Read on: the wrappers are here, facts in `translate`, a boosted model's hooks in `watch`, changes in
`apply`; the dry step is shared. `completer` chooses who runs the tower without an image: `inside`
the model, else in the data (`dummy`, `blanks`, `trial`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from vlmguard import guard
from vlmguard.runtime.faults import contain
from vlmguard.runtime.seams import Seam

__all__ = ["SEAMS", "guard_booster"]


def guard_booster(
    booster: Any,
    processor: Any = None,
    freeze: str | Iterable[str] = (),
    dry_step: Any = None,
    rules: Mapping[str, str] | None = None,
) -> Any:
    """Guard ``booster`` and give it back. Without this call it is guarded all the same, by what
    can be told from the model alone. A second call adds to the first.

    Args:
        processor: builds the dummy image; called as transformers' processors are.
        freeze: tower words ("vision", "aligner", "llm"), module paths or globs; replaces the
            settings' list, "none" clears it.
        dry_step: one batch, tried forward and backward on the plain model before it is wrapped.
        rules: code or prefix → policy, over those of the settings, for the whole process.

    Raises:
        SettingsError: no booster, one that has boosted, a processor that makes no image, a rule or
            policy that cannot be read.
    """
    contain("guarding the booster", _tell, booster, processor, freeze, dry_step, rules)
    return booster


def _tell(*wish: Any) -> None:
    from vlmguard_colossalai import explicit

    explicit.tell(*wish)


def boost(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Judge and mend the run, boost, and put the hooks on what comes back."""
    prepared = contain("judging the run", _before, instance, args, kwargs)
    try:
        boosted = wrapped(*args, **kwargs)
    except Exception as error:
        state = prepared.state if prepared is not None else None
        contain("explaining the failure", _explain, error, state)
        raise
    contain("remembering the booster", _remember, instance)
    if prepared is not None:
        contain("watching the boosted model", prepared.begin, boosted)
    return boosted


def _remember(booster: Any) -> None:
    from vlmguard_colossalai import explicit

    explicit.boosted(booster)


def _before(booster: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from vlmguard_colossalai import apply, translate, watch
    from vlmguard_torch.layout import freezing

    model = args[0] if args else kwargs.get("model")
    if not translate.is_plain(model):
        return None  # it is boosted already, or is not a plain model
    scene = translate.Scene(booster, model)
    translate.say_limits(scene)
    state = guard.pre_wrap(
        lambda: translate.run(scene, SEAMS),
        lambda plan: apply.apply(scene, plan),
        lambda: freezing.check(scene.model, scene.wish, scene.paths),
        owner=model,
    )
    if state is None:
        return None
    weakref.finalize(model, guard.close, state).atexit = False
    prepared = watch.Prepared(scene, state)
    loader = args[3] if len(args) > 3 else kwargs.get("dataloader")
    contain("the dry step", prepared.rehearse, loader)
    return prepared


def _explain(error: Exception, state: Any = None, optimizer: Any = None) -> None:
    from vlmguard_colossalai import watch

    if state is None and optimizer is not None:
        state = watch.state_of(optimizer)
    watch.explain(error, state)


def backward(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """No backward over parameters that forward left out; explain what it raises: Gemini's own
    message names parameters, not the cause."""
    optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
    contain("judging forward", _before_backward, optimizer)
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", _explain, error, None, optimizer)
        raise


def _before_backward(optimizer: Any) -> None:
    from vlmguard_colossalai import watch

    watch.before_backward(optimizer)


def step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """No step on gradients that never arrived."""
    contain("judging gradients", _before_step, instance)
    try:
        done = wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", _explain, error, None, instance)
        raise
    contain("saying what held", _after_step, instance)
    return done


def _before_step(optimizer: Any) -> None:
    from vlmguard_colossalai import watch

    watch.before_step(optimizer)


def _after_step(optimizer: Any) -> None:
    from vlmguard_colossalai import watch

    watch.after_step(optimizer)


def enable_lora(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A plug-in without LoRA raises; the way round it stands under the traceback."""
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", _explain, error)
        raise


_GEMINI = "colossalai.zero.gemini.gemini_optimizer"
SEAMS = (
    Seam("boost", ("colossalai.booster.booster:Booster.boost",), boost,
         "judges and mends the run before it is wrapped, watches the boosted model"),
    Seam("backward", ("colossalai.booster.booster:Booster.backward",), backward,
         "judges what forward left out, explains what backward raises"),
    Seam("gemini step", (f"{_GEMINI}:GeminiOptimizer.step", f"{_GEMINI}:ZeroOptimizer.step"), step,
         "judges gradients before Gemini's step, explains what it raises"),
    Seam("zero step", ("colossalai.zero.low_level.low_level_optim:LowLevelZeroOptimizer.step",),
         step, "judges gradients before low-level ZeRO's step"),
    Seam("other step", ("colossalai.interface.optimizer:OptimizerWrapper.step",), step,
         "judges gradients before a step under TorchDDP"),
    Seam("amp step", ("colossalai.booster.mixed_precision.fp16_torch:TorchAMPOptimizer.step",),
         step, "judges gradients before a step under torch's fp16"),
    Seam("lora", ("colossalai.booster.booster:Booster.enable_lora",), enable_lora,
         "says what to do where a plug-in has no LoRA", optional=True),
)  # fmt: skip
