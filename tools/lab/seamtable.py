"""``tools.lab seams``: which release of a framework has which seam → ``compat/seams.toml``.

Every released archive is read, none is imported. Beside the seams stand names that an adapter needs
without wrapping them. A seam that a release lacks is looked for in all its modules by class and
method, so the table says where it went.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tools.lab import releases, toml
from vlmguard.compat import verdicts
from vlmguard.runtime import definitions

Say = Callable[[str], None]
NOT_WRAPPED = " (not wrapped)"


@dataclass(frozen=True)
class Framework:
    """What to read: a distribution, its top-level package, its adapter, its first and last release.

    Attributes:
        minors: read the first release of each minor only, and the last of all.
        needs: name → targets that the adapter uses without wrapping them.
        former: name → where the same thing was in releases that the adapter does not guard.
    """

    name: str
    top: str
    adapter: str
    first: str
    last: str
    minors: bool = False
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    former: tuple[tuple[str, tuple[str, ...]], ...] = ()


_FE = "FlagEmbedding.abc.finetune"
FRAMEWORKS = (
    Framework("ms-swift", "swift", "vlmguard_swift", "3.0", "4.6.0", needs=(
        ("checkpoint decision", (
            "swift.trainers.mixin:SwiftMixin._fix_gradient_checkpointing",
            "swift.trainers.arguments:TrainArgumentsMixin._fix_gradient_checkpointing",
            "swift.trainers.arguments:SwiftArgumentsMixin._fix_gradient_checkpointing")),
        ("tower names", ("swift.model.model_arch:MultiModelKeys",
                         "swift.llm.model.model_arch:MultiModelKeys")),
    )),
    Framework("FlagEmbedding", "FlagEmbedding", "vlmguard_flagembedding", "1.2", "1.4.2", needs=(
        ("reranker trainer", (f"{_FE}.reranker.AbsTrainer:AbsRerankerTrainer",)),
        ("embedder trainer", (f"{_FE}.embedder.AbsTrainer:AbsEmbedderTrainer",)),
    ), former=(
        ("reranker trainer", ("FlagEmbedding.reranker.trainer:CETrainer",
                              "FlagEmbedding.llm_reranker.finetune_for_instruction.trainer:BiTrainer",
                              "FlagEmbedding.llm_reranker.finetune_for_layerwise.trainer:BiTrainer")),
        ("embedder trainer", ("FlagEmbedding.baai_general_embedding.finetune.trainer:BiTrainer",
                              "FlagEmbedding.BGE_M3.trainer:BiTrainer")),
    )),
    Framework("colossalai", "colossalai", "vlmguard_colossalai", "0.3.0", "0.5.0"),
    Framework("trl", "trl", "vlmguard_trl", "0.15", "1.16.0", needs=(
        ("SFT's image collator, optional", (
            "trl.trainer.sft_trainer:DataCollatorForVisionLanguageModeling.torch_call",)),
        ("DPO's image collator, optional", (
            "trl.trainer.dpo_trainer:DataCollatorForVisionPreference.torch_call",
            "trl.trainer.dpo_trainer:PreferenceCollator.torch_call",
            "trl.trainer.dpo_trainer:DataCollatorForPreference.torch_call")),
    )),
    Framework("llamafactory", "llamafactory", "vlmguard_llamafactory", "0.9.0", "0.9.5", needs=(
        ("checkpointing on the model", (
            "llamafactory.model.model_utils.checkpointing:prepare_model_for_training",)),
        ("collator with a blank image", (
            "llamafactory.data.collator:MultiModalDataCollatorForSeq2Seq.__call__",)),
    )),
    Framework("accelerate", "accelerate", "vlmguard_accelerate", "0.30", "1.15.0", True),
    Framework("transformers", "transformers", "vlmguard_transformers", "4.44", "5.23.0", True),
)  # fmt: skip


def measure(framework: Framework, say: Say = print) -> dict[str, Any]:
    """One framework's rows: for each sought name, from which to which release it is where.

    Raises:
        releases.Unavailable: pip names no releases.
    """
    names = releases.versions(framework.name, framework.first, framework.last)
    if framework.minors:
        names = first_of_minors(names)
    found: dict[str, dict[str, str]] = {}
    unread: dict[str, str] = {}
    for name in names:
        say(f"{framework.name} {name}")
        try:
            source = releases.Source(releases.archive(framework.name, name))
        except (releases.Unavailable, OSError) as error:
            unread[name] = str(error)
            continue
        found[name] = {
            label: place(source, framework, label, targets)
            for label, targets in sought(framework).items()
        }
    return {
        "name": framework.name,
        "adapter": framework.adapter,
        "releases": list(found),
        "unread": [f"{name}: {why}" for name, why in unread.items()],
        "seam": [
            {"name": label, **span}
            for label in sought(framework)
            for span in spans({name: places[label] for name, places in found.items()})
        ],
    }


def first_of_minors(names: Iterable[str]) -> tuple[str, ...]:
    """The first release of every minor, and the last one of all; ``names`` are in order."""
    names = list(names)
    firsts: dict[tuple[str, ...], str] = {}
    for name in names:
        firsts.setdefault(tuple(name.split(".")[:2]), name)
    return tuple(dict.fromkeys([*firsts.values(), *names[-1:]]))


def sought(framework: Framework) -> dict[str, tuple[str, ...]]:
    """Label → targets in the framework's own package. Optional seams say so."""
    listed = importlib.import_module(framework.adapter).SEAMS
    wanted = {
        seam.name + (" (optional)" if seam.optional else ""): own
        for seam in listed
        if (own := tuple(t for t in seam.targets if t.startswith(framework.top + ".")))
    }
    return {**wanted, **{f"{name}{NOT_WRAPPED}": targets for name, targets in framework.needs}}


def place(source: releases.Source, framework: Framework, label: str, targets: Iterable[str]) -> str:
    """Where one of ``targets`` is: itself; ``→ target`` if only elsewhere; "" if nowhere."""
    targets = list(targets)
    found = next((target for target in targets if _there(source, target)), "")
    if found:
        return found
    path = targets[0].partition(":")[2]
    named = (f"{m}:{path}" for m in source.modules(framework.top))
    former = dict(framework.former).get(label.removesuffix(NOT_WRAPPED), ())
    return " ".join(f"→ {target}" for target in (*named, *former) if _there(source, target))


def _there(source: releases.Source, target: str) -> bool:
    module, _, path = target.partition(":")
    return _holds(source.module(module) or "", path)


@functools.lru_cache(maxsize=4096)
def _holds(text: str, path: str) -> bool:
    if path.split(".")[0] not in text:
        return False
    try:
        return definitions.defines(text, path)
    except (SyntaxError, ValueError):  # a template or a file for another Python
        return False


def spans(places: dict[str, str]) -> list[dict[str, str]]:
    """Releases in order with their places → runs of releases with one place each."""
    made: list[dict[str, str]] = []
    for release, target in places.items():
        if made and made[-1]["at"] == target:
            made[-1]["to"] = release
        else:
            made.append({"at": target, "from": release, "to": release})
    return made


def write(only: Iterable[str] = (), say: Say = print) -> None:
    """Measure `FRAMEWORKS` and replace ``compat/seams.toml``.

    Args:
        only: names of those to measure; the others' rows stay.
    """
    wanted = set(only)
    kept = {row["name"]: row for row in verdicts.table("seams")["framework"]} if wanted else {}
    rows = [
        kept[each.name] if wanted and each.name not in wanted else measure(each, say)
        for each in FRAMEWORKS
        if not wanted or each.name in wanted or each.name in kept
    ]
    data = {"format": verdicts.FORMAT, "framework": rows}
    toml.write(verdicts.folder() / "seams.toml", "seams", data)
