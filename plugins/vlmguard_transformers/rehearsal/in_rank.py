"""What a rehearsal does around any Hugging Face Trainer, in a rank's own process.

A CPU is made to answer as a GPU node would where that decides how a model is wrapped; the weights
are kept before training and after chosen steps. No file of a framework is touched.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import resource
import sys
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.ranks import phase, step_phases
from vlmguard.rehearse.fixture import REFERENCE, Scene
from vlmguard.runtime.faults import contain
from vlmguard_torch.layout import towers as by_name
from vlmguard_transformers.rehearsal import plain_loss
from vlmguard_transformers.rehearsal.cpu_flags import HERE

Towers = Callable[[Any], Mapping[str, tuple[str, ...]]]


def enter(scene: Scene, fsdp: bool) -> None:
    """The environment of a rank, and the answers of a node."""
    _environment(scene)
    os.chdir(scene.folder)
    answers(fsdp)


def fsdp(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the command or its launcher asks for it."""
    return any(word.startswith("--fsdp") for word in words) or "ACCELERATE_USE_FSDP" in env


def answers(fsdp: bool) -> None:
    """What decides how a model is wrapped, answered as a GPU node would."""
    _backend(fsdp)
    _attention()
    _bf16()


def _environment(scene: Scene) -> None:
    os.environ.update(scene.env)
    os.environ["VLMGUARD_REPORT"] = str(scene.report)
    if not scene.guard:
        os.environ["VLMGUARD"] = "off"
    if scene.single:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE",
                     "NPROC_PER_NODE", "NNODES"):  # fmt: skip
            os.environ.pop(name, None)


def _backend(fsdp: bool) -> None:
    """accelerate would find no accelerator and no known backend, and train undistributed without
    a word; told of CPUs, it would take FSDP for plain DDP."""
    import accelerate.state as state
    import torch.distributed as dist

    kind = state.DistributedType.MULTI_GPU if fsdp else state.DistributedType.MULTI_CPU
    own = state.PartialState._prepare_backend

    @functools.wraps(own)
    def prepared(self: Any, *args: Any, **named: Any) -> Any:
        if not dist.is_initialized():
            return own(self, *args, **named)
        asked = named.get("backend") or (args[2] if len(args) > 2 else None)
        return asked or "gloo", kind

    state.PartialState._prepare_backend = prepared


def _attention() -> None:
    """No flash attention and no kernel from the hub runs on a CPU."""
    from transformers.modeling_utils import PreTrainedModel

    own = getattr(PreTrainedModel, "_check_and_adjust_attn_implementation", None)
    if own is not None:
        PreTrainedModel._check_and_adjust_attn_implementation = _without_flash(own)


def _without_flash(own: Any) -> Any:
    @functools.wraps(own)
    def adjusted(self: Any, asked: Any, *args: Any, **named: Any) -> Any:
        if isinstance(asked, str) and ("flash" in asked or "/" in asked):
            asked = "sdpa"
        return own(self, asked, *args, **named)

    return adjusted


def _bf16() -> None:
    """Whether the machine can: that of the command can."""
    for module in ("transformers.training_args", "transformers.utils",
                   "transformers.utils.import_utils"):  # fmt: skip
        for name in ("is_torch_bf16_gpu_available", "is_torch_bf16_available"):
            if hasattr(sys.modules.get(module), name):
                setattr(sys.modules[module], name, lambda *_, **__: True)
    import torch

    if not hasattr(torch.cpu, "max_memory_reserved"):
        torch.cpu.max_memory_reserved = lambda *_, **__: 0  # type: ignore[attr-defined]


class Counted(Exception):
    """Where a `Scene` counts: the number of rows that are left to train on."""


class Unparsed(Exception):
    """The framework's parser refused words that it takes elsewhere."""


def run(scene: Scene, program: str, towers: Towers, main: Callable[[], Any]) -> dict[str, Any]:
    """One rank of one pass: ``main`` is what ``program`` runs, with the scene's words.

    Rows come in the order of the file. Nothing is saved but in its ending.
    Raises what ``main`` does.
    """
    words = tuple(word.replace(HERE, str(scene.place)) for word in scene.argv)
    enter(scene, fsdp(words, scene.env))
    _in_order()
    if not scene.ends:
        _not_saving()
    told = watch(scene, towers)
    with arguments(program, words):
        try:
            main()
        except SystemExit as left:
            if left.code and not told["steps"]:
                raise Unparsed(str(left.code)) from None
    return finished(told)


def _in_order() -> None:
    """Whatever a release calls its flag for it; trainers with a sampler of their own keep it."""
    import transformers
    from torch.utils.data import SequentialSampler

    def sampler(self: Any, rows: Any = None) -> Any:
        return SequentialSampler(self.train_dataset if rows is None else rows)

    transformers.Trainer._get_train_sampler = sampler


def _not_saving() -> None:
    import transformers

    transformers.Trainer.save_model = lambda *_, **__: None
    transformers.Trainer.save_state = lambda *_, **__: None


def load(*modules: str) -> None:
    """Import ``modules`` and what every Trainer needs, once, before ranks are forked.

    The framework comes first, as in its own program: LLaMA-Factory mends transformers' functions
    before it lets TRL ask them.
    A module that this release or machine lacks is left out: the command itself will say so.
    """
    import torch

    torch.set_num_threads(1)
    for name in (*modules, *_LOADED):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(Exception):  # looking up one class by name imports all
        videos = importlib.import_module("transformers.models.auto.video_processing_auto")
        list(videos.VIDEO_PROCESSOR_MAPPING.items())
    with contextlib.suppress(Exception):
        importlib.import_module("PIL.Image").preinit()
    with contextlib.suppress(ImportError):  # else each rank would compile it
        importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None


_LOADED = (
    "transformers.models.auto.modeling_auto", "transformers.models.auto.processing_auto",
    "transformers.models.auto.tokenization_auto", "torch.distributed.fsdp", "peft", "datasets",
    "deepspeed", "transformers.trainer", "deepspeed.runtime.zero.stage3",
    "deepspeed.runtime.zero.stage_1_and_2", "deepspeed.runtime.zero.muon.muon_optimizer",
    "deepspeed.module_inject.auto_ep_layer", "deepspeed.runtime.superoffload.superoffload_stage3",
    "accelerate.utils.deepspeed", "torch._inductor.compile_fx", "PIL.PngImagePlugin", "scipy.io",
    "vlmguard_transformers.lifecycle",
)  # fmt: skip


def watch(scene: Scene, towers: Towers) -> dict[str, Any]:
    """Keep weights and say phases from now on; what is returned fills up while it trains:
    ``pace`` is how many seconds the last step took."""
    import transformers

    step_phases.told_by()
    told: dict[str, Any] = {"steps": 0, "wrapped": "", "trainable": 0, "towers": {}, "notes": []}
    loop = transformers.Trainer._inner_training_loop

    @functools.wraps(loop)
    def watched(self: Any, *args: Any, **named: Any) -> Any:
        """Inside ``train``: what the guard freezes there is frozen before we look."""
        phase("setup")
        rank = int(os.environ.get("RANK", "0"))
        told["rows"] = _length(self.train_dataset)
        if scene.counts:
            raise Counted(str(told["rows"]))
        _same_adapters(self.model, rank)
        begin(told, scene, self.model, towers(self.model), rank)
        self.add_callback(_callback(scene, rank, told, self))
        return loop(self, *args, **named)

    transformers.Trainer._inner_training_loop = watched
    if scene.name == REFERENCE and scene.single:
        plain_loss.beside(told)
    return told


def begin(
    told: dict[str, Any], scene: Scene, model: Any, paths: Mapping[str, tuple[str, ...]], rank: int
) -> None:
    """Keep the first weights, and what trains, by its towers' ``paths``."""
    told["kept"] = _keep(model, scene.weights(0, rank))
    told["towers"] = _trainable(model, paths)
    told["trainable"] = sum(_whole(each) for each in model.parameters() if each.requires_grad)


def finished(told: dict[str, Any]) -> dict[str, Any]:
    """With what the process used."""
    told["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return told


def _callback(scene: Scene, rank: int, told: dict[str, Any], trainer: Any) -> Any:
    import transformers

    class Watch(transformers.TrainerCallback):
        end: Callable[[], None] | None = None
        before = 0.0

        def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            if scene.books:
                self.end = contain("the ledger of a pass", _keep_books, trainer, scene.ends)

        def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            end, self.end = self.end, None
            if end is not None:
                contain("the ledger of a pass", end)

        def on_step_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            scene.begun(rank).write_text(str(state.global_step + 1))
            told["wrapped"] = told["wrapped"] or _wrapper(trainer)

        def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            told["steps"] = state.global_step
            told["pace"] = time.monotonic() - self.before if self.before else 0.0
            if state.global_step in scene.steps:
                _keep(trainer.model, scene.weights(state.global_step, rank), told["kept"])
            scene.begun(rank).write_text(f"{state.global_step} over")
            self.before = time.monotonic()

    return Watch()


def _keep_books(trainer: Any, every: bool) -> Callable[[], None] | None:
    from vlmguard_transformers.rehearsal import books  # imports torch

    return books.keep(trainer, every)


def _length(rows: Any) -> int:
    """-1 where nobody knows."""
    try:
        return len(rows)
    except (TypeError, NotImplementedError, AttributeError):
        return -1


def _wrapper(trainer: Any) -> str:
    outer = trainer.model_wrapped
    kind = type(outer).__name__
    if hasattr(outer, "zero_optimization_stage"):
        return f"{kind}/zero{outer.zero_optimization_stage()}"
    if kind.startswith("FSDP") or hasattr(outer, "set_requires_gradient_sync"):
        return "FSDP2"
    return "none" if outer is trainer.model else kind


def _trainable(model: Any, paths: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Tower → names of its trainable parameters, as `_keep` calls them; none where it is there
    and nothing of it trains."""
    found: dict[str, list[str]] = {}
    for name, parameter in model.named_parameters():
        kind = by_name.kind_of(by_name.plain(name), paths) if paths else "llm"
        found.setdefault(kind, []).extend([_name(name)] if parameter.requires_grad else [])
    return found


def _whole(parameter: Any) -> int:
    return int(getattr(parameter, "ds_numel", None) or parameter.numel())


def _name(name: str) -> str:
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")


def _keep(model: Any, file: Path, also: Collection[str] = ()) -> list[str]:
    """Each trainable parameter, or this rank's part of it: nothing is gathered for it, so that
    no collective is added. Their names.

    also: what trained when it began; callbacks freeze some of it (LISA).
    """
    import numpy as np

    arrays, shapes = {}, {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad or _name(name) in also:
            part, shape = _part(parameter)
            arrays[_name(name)] = part.detach().float().cpu().numpy().copy()
            if shape is not None:
                shapes[_name(name)] = shape
    np.savez(file, **arrays)
    file.with_suffix(".json").write_text(json.dumps(shapes))
    return list(arrays)


def _part(parameter: Any) -> tuple[Any, list[int] | None]:
    """(tensor, None), or (a rank's part, the whole's shape): parts follow each other by rank."""
    if hasattr(parameter, "ds_id") and getattr(parameter, "ds_tensor", None) is not None:
        return parameter.ds_tensor.reshape(-1), list(parameter.ds_shape)
    if hasattr(parameter, "to_local"):
        placement = parameter.placements[0]
        if getattr(placement, "dim", None) == 0:
            return parameter.to_local().reshape(-1), list(parameter.shape)
        return parameter.full_tensor(), None
    return parameter.data, None


def no_dropout(model: Any) -> None:
    """Nothing is dropped at random: two runs of the same rows are to be equal."""
    for module in model.modules():
        for name in ("p", "drop_prob", "dropout", "attention_dropout"):
            value = vars(module).get(name)
            if isinstance(value, float) and ("drop" in name or "Dropout" in type(module).__name__):
                setattr(module, name, 0.0)


def _same_adapters(model: Any, rank: int) -> None:
    """LoRA draws its first weights otherwise under ZeRO-3 than elsewhere: here each gets what its
    name says, in every pass."""
    import torch

    for name, parameter in model.named_parameters():
        if ".lora_A." not in name or not parameter.requires_grad:
            continue
        shape = getattr(parameter, "ds_shape", None) or parameter.shape
        seed = torch.Generator().manual_seed(zlib.crc32(_name(name).encode()))
        drawn = torch.randn(shape, generator=seed) * shape[-1] ** -0.5
        with torch.no_grad():
            part = getattr(parameter, "ds_tensor", None)
            if part is not None:
                own = drawn.reshape(-1)[rank * part.numel() : (rank + 1) * part.numel()]
                part.reshape(-1)[: own.numel()].copy_(own)
            if parameter.shape == drawn.shape:
                parameter.data.copy_(drawn)


@contextlib.contextmanager
def arguments(program: str, argv: tuple[str, ...]) -> Any:
    """``sys.argv`` as the framework's own program has it."""
    before, sys.argv = sys.argv, [program, *argv]
    try:
        yield
    finally:
        sys.argv = before
