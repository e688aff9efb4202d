"""Our own rules: one a file, and one a failure of the catalogue of `vlmguard_explain`.

Most files are imported late: for their page, or for a run that they may concern. Until then a
`Page` in `LATE` stands for the rule. What that says of it is what the file says; a test compares
them. A file that is not in `LATE` is imported with this package. A file of the ledger's is a page
alone: the stations speak for it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any

from vlmguard.core.facts import PARTITIONED, ZERO, Batch, Gradients, Run
from vlmguard.core.hookspecs import Answer, hookimpl
from vlmguard.rules import known

_STEPS = ("train", "eval", "generate")


class Page:
    # ``vg610_odd_rows.py`` is VG610 ``odd-rows``, unless a name is given. ``more`` holds the rule's
    # other constants and its hooks.

    def __init__(self, module: str, default: str = "warn", name: str = "", **more: Any) -> None:
        code, _, words = module.rpartition(".")[2].partition("_")
        self.CODE, self.NAME = code.upper(), name or words.replace("_", "-")
        self.DEFAULT, self.module, self._more = default, module, tuple(more)
        vars(self).update(more)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The rule's page."""
        return importlib.import_module(self.module).__doc__

    def __dir__(self) -> Iterable[str]:
        """What a plug-in host looks at."""
        return ("CODE", "DEFAULT", "NAME", *self._more)


def of_runs(
    module: str,
    default: str,
    name: str = "",
    concerns: Callable[[Run], bool] = lambda run: True,
    **more: Any,
) -> Page:
    """A rule that judges runs.

    Args:
        concerns: whether it may have something to say about a run. If not, it is not asked.
        more: its constants, such as ``PHASES``.
    """

    @hookimpl
    def pre_wrap(run: Run) -> Answer:
        return importlib.import_module(module).pre_wrap(run) if concerns(run) else None

    return Page(module, default, name, pre_wrap=pre_wrap, **more)


def of_batches(module: str, default: str, name: str = "", **more: Any) -> Page:
    """A rule that judges batches."""

    @hookimpl
    def pre_step(run: Run, batch: Batch | None) -> Answer:
        found: Answer = importlib.import_module(module).pre_step(run, batch)
        return found

    return Page(module, default, name, pre_step=pre_step, **more)


def of_gradients(
    module: str, default: str, name: str, concerns: Callable[[Gradients], Any], **more: Any
) -> Page:
    """A rule that judges gradients; ``concerns`` as above."""

    @hookimpl
    def pre_step(run: Run, gradients: Gradients | None) -> Answer:
        if gradients is not None and not concerns(gradients):
            return None
        found: Answer = importlib.import_module(module).pre_step(run, gradients)
        return found

    return Page(module, default, name, pre_step=pre_step, **more)


def checkpointed(run: Run) -> bool:
    """Whether any block is checkpointed."""
    return run.checkpointing.on


def reentrant(run: Run) -> bool:
    """Whether the reentrant variant will run."""
    return run.checkpointing.on and bool(run.checkpointing.use_reentrant)


def told(run: Run) -> Any:
    """What the tables choose for it, and what they say of that."""
    from vlmguard.compat import choice

    return choice.choose(run)


def zero3(run: Run) -> bool:
    """Whether DeepSpeed partitions the weights."""
    return run.strategy == "zero3"


def _at(file: str) -> str:
    return f"{__name__}.{file}"


def _gemini(file: str) -> str:
    """A file of the adapter's, which is looked up by its name when it is wanted."""
    return f"vlmguard_colossalai.rules.{file}"


LATE: tuple[Page, ...] = (
    of_runs(_at("vg101_reentrant_ddp"), "fix", concerns=reentrant),
    of_runs(_at("vg102_repeated_zero"), "fix", "repeated-module-zero", reentrant),
    of_runs(_at("vg103_two_forwards"), "fix", concerns=reentrant),
    of_runs(_at("vg104_input_grads"), "fix", "no-input-gradient", reentrant),
    of_runs(_at("vg105_frozen_zero3"), "fix", "non-reentrant-frozen-zero3", checkpointed),
    of_runs(_at("vg106_idle_tower"), "fix", PHASES=("train", "eval"),
            concerns=lambda run: run.strategy != "ddp" or run.find_unused is False),
    of_runs(_at("vg107_hidden_crash"), "fix", "find-unused-hides", reentrant),
    of_runs(_at("vg108_stale_gradient"), "fix", concerns=zero3),
    of_runs(_at("vg109_static_accumulation"), "fix", "static-graph-accumulation",
            lambda run: bool(run.static_graph)),
    of_runs(_at("vg111_forced_variant"), "warn", concerns=checkpointed),
    of_runs(_at("vg112_generation_zero3"), "fix", concerns=zero3),
    of_runs(_at("vg113_per_image_tower"), "error", concerns=lambda run: run.strategy in PARTITIONED,
            PHASES=("train", "eval")),
    of_runs(_at("vg114_expert_choice"), "warn", concerns=zero3, PHASES=("train", "eval")),
    of_runs(_at("vg115_overscaled_loss"), "fix", concerns=lambda run: run.overscaled > 1),
    of_runs(_at("vg116_lost_router_loss"), "fix", concerns=reentrant),
    of_batches(_at("vg201_missing_pixels"), "error", "placeholders-without-pixels", PHASES=_STEPS,
               ROWS=True),
    of_batches(_at("vg202_count_mismatch"), "error", "placeholder-count", PHASES=_STEPS, ROWS=True),
    of_batches(_at("vg203_replaced_sample"), "warn", "sample-replaced", PHASES=_STEPS, ROWS=True),
    of_gradients(_at("vg204_text_only_step"), "error", "text-only-step", lambda seen: seen.stale),
    of_runs(_at("vg301_freeze_wish"), "fix", concerns=lambda run: bool(run.freeze)),
    of_gradients(_at("vg302_no_gradient"), "error", "no-gradient", lambda seen: seen.unreached),
    of_runs(_at("vg401_untested_release"), "warn", concerns=lambda run: bool(told(run).untested)),
    of_runs(_at("vg402_missing_seam"), "warn",
            concerns=lambda run: bool(run.missing_seams or run.lost_seams)),
    of_runs(_at("vg403_missing_clipping"), "warn", concerns=lambda run: run.strategy in ZERO),
    of_runs(_at("vg405_nothing_works"), "error",
            concerns=lambda run: told(run).verdict == "nothing"),
    Page(_at("vg406_ranks_disagree"), "error"),
    of_runs(_at("vg408_gloo_refuses"), "warn", concerns=lambda run: bool(told(run).notes)),
    of_runs(_at("vg409_empty_group"), "warn", concerns=lambda run: run.empty_group != "no"),
    Page(_at("vg901_contradiction"), "error"),
    Page(_at("vg902_our_fault")),
    Page(_at("vg903_no_effect"), "error"),
    Page(_at("vg904_cannot_check")),
)  # fmt: skip


_ONLY = ("colossalai",)
GEMINI: tuple[Page, ...] = (
    of_batches(_gemini("vg205_text_only_gemini"), "fix", FRAMEWORKS=_ONLY),
    of_gradients(_gemini("vg303_untouched"), "error", "untouched-gemini",
                 lambda seen: getattr(seen, "untouched", None), FRAMEWORKS=_ONLY),
    of_runs(_gemini("vg304_never_used"), "fix", "never-used-gemini",
            lambda run: run.strategy == "gemini"),
    of_gradients(_gemini("vg305_second_backward"), "error", "second-backward-gemini",
                 lambda seen: getattr(seen, "overwritten", False), FRAMEWORKS=_ONLY),
)  # fmt: skip
"""Rules about what only ColossalAI does."""


def _files() -> list[Any]:
    """One rule a file, in the order of their names."""
    late = {rule.module: rule for rule in LATE}
    names = [_at(info.name) for info in pkgutil.iter_modules(__path__)]
    found: list[Any] = []
    for name in (name for name in names if name.startswith(_at("vg"))):
        page = Page(name) if name.startswith(_at("vg6")) else None
        found.append(late.get(name) or page or importlib.import_module(name))
    return found


RULES = (*_files(), *GEMINI, *known.RULES)
