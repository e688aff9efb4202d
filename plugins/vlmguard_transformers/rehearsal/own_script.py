"""A user's own script in a rank: it runs as ``__main__`` up to ``Trainer.train``, or to the steps
of its own loop (`own_loop`), and trains there for a few steps on chosen rows. What comes after is
not run."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vlmguard.ranks import phase
from vlmguard.rehearse.fixture import REFERENCE, NotHere, Scene
from vlmguard_torch.layout import towers
from vlmguard_transformers.rehearsal import (
    chosen_rows,
    closed_off,
    in_rank,
    loaders,
    machine,
    own_loop,
    own_parts,
    plain_loss,
    settled_arguments,
    tiny_models,
)

LOOK = "your script"
"""The name of the pass in which nothing trains: it finds out what the script asks for."""
_LOSS = ("compute_loss", "training_step")
_ELSEWHERE = re.compile(r"/site-packages/|/vlmguard(_\w+)?/")
_DTYPES = re.compile(r"\b(BFloat16|Half|c10::)|same dtype|scalar type|dtype mismatch", re.I)


class Reached(BaseException):
    """Where the look ends. No ``except Exception`` of the script's keeps it."""


class Trained(BaseException):
    """Where a pass ends: behind the last step."""


class Script:
    """One run of it.

    Attributes:
        spec: what is asked for: ``script``, ``words``, ``paths``, ``steps``, ``accumulation``,
            ``places``, ``models``, ``layers``, ``strategy``, ``shrunk``, ``bucket``, ``home``,
            ``launched``, ``loop``.
        loop: follows its own loop, where it has no Trainer.
        told: what the rank answers.
        refused: what the script was not let do.
    """

    def __init__(self, scene: Scene, spec: Mapping[str, Any]) -> None:
        self.scene, self.spec = scene, spec
        self.looks = scene.name == LOOK
        self.refused: list[str] = []
        self.limits: list[str] = []
        self.told: dict[str, Any] = {}
        self.loop: own_loop.Loop | None = None
        self.tiny = tiny_models.Tiny(Path(spec["models"]), self.looks, int(spec["layers"]))
        self.settled = settled_arguments.Settled(
            spec, scene.place, self.looks or scene.single, self.looks or self.is_reference
        )

    @property
    def is_reference(self) -> bool:
        return self.scene.name == REFERENCE

    def run(self) -> dict[str, Any]:
        """Raises what the script's training does, and `NotHere` for all else that goes wrong."""
        self._enter()
        try:
            self._main()
        except (Reached, Trained):
            pass
        except NotHere:
            raise
        except SystemExit as left:
            raise NotHere(self._said(f"it ended before its training ({left.code})")) from None
        except BaseException as error:
            if why := self._of_this_place(error):
                raise NotHere(self._said(why)) from error
            raise
        if not self.told.get("reached"):
            what = "a step of an optimizer" if self.loop else "a call of Trainer.train"
            raise NotHere(self._said(f"it ends without {what} that is known here"))
        return self._finished()

    def _enter(self) -> None:
        in_rank.enter(self.scene, self.spec["strategy"] == "fsdp2")
        machine.answers(self.scene.single, self.spec["launched"], self.spec["paths"],
                        self.limits.append, in_float32=self.spec["loop"])  # fmt: skip
        in_rank._not_saving()
        loaders.in_order()
        tiny_models.give(self.tiny)
        self.settled.watch()
        if self.is_reference or self.looks:
            machine.no_checkpointing()
        self.told = in_rank.watch(self.scene, towers.by_name)
        self.told |= {"batches": [], "reached": False}
        if self.spec["loop"]:
            self.loop = own_loop.Loop(self.scene, self.spec, self.told, self.limits.append,
                                      self._steps_over, self.looks, self.is_reference)  # fmt: skip
            self.loop.watch()
        else:
            self._ends_behind_train()
        _seeded()
        place = Path(self.spec["home"])
        closed_off.close_off(place, self.scene.place / "written", self.refused.append)

    def _main(self) -> None:
        target = str(self.spec["script"])
        for path in reversed(self.spec["paths"]):
            sys.path.insert(0, path)
        words = list(self.spec["words"])
        if self.spec.get("local_rank"):  # DeepSpeed's launcher adds it
            words.insert(0, f"--local_rank={os.environ.get('LOCAL_RANK', '0')}")
        with in_rank.arguments(target, tuple(words)):
            if target.startswith("-m "):
                sys.argv[0] = target[3:]
                runpy.run_module(target[3:], run_name="__main__", alter_sys=True)
            else:
                machine.own_names(os.path.dirname(os.path.realpath(target)))
                runpy.run_path(target, run_name="__main__")

    def _steps_over(self) -> None:
        """Behind the last step of a loop, or before the first one of the look."""
        if not self.looks or self.loop is None:
            raise Trained
        model = self.loop.model
        found = self.loop.facts()
        limits = [*self.limits, *found["limits"]]
        self.told["reached"] = True
        self.told["facts"] = {**self._of_model(model), **found, "limits": limits,
                              "own_loss": [], "own_tokens": False, "trainer": "", "gathers": [],
                              "callbacks": [], "missing": ""}  # fmt: skip
        raise Reached

    def _of_model(self, model: Any) -> dict[str, Any]:
        base = getattr(model, "get_base_model", lambda: model)()
        return {
            "model": type(base).__name__,
            "weights": sum(in_rank._whole(each) for each in model.parameters()),
            "full": sum(made["full"] for made in self.tiny.met.values()),
            "small": sum(made["weights"] for made in self.tiny.met.values()),
            "models": list(self.tiny.met),
            "towers": [kind for kind, names in
                       in_rank._trainable(model, towers.by_name(model)).items() if names],
        }  # fmt: skip

    def _ends_behind_train(self) -> None:
        import transformers

        train, loop = transformers.Trainer.train, transformers.Trainer._inner_training_loop

        @functools.wraps(train)
        def trained(trainer: Any, *args: Any, **named: Any) -> Any:
            if self.told["reached"]:
                return train(trainer, *args, **named)
            if args or named.get("resume_from_checkpoint"):
                self.limits.append("resume_from_checkpoint: begins at step 0")
            named.pop("resume_from_checkpoint", None)
            self.settled.again(trainer.args)
            train(trainer, **named)
            raise Trained

        @functools.wraps(loop)
        def begun(trainer: Any, *args: Any, **named: Any) -> Any:
            self._begin(trainer)
            self.told["training"] = True
            return loop(trainer, *args, **named)

        transformers.Trainer.train = trained
        transformers.Trainer._inner_training_loop = begun

    def _begin(self, trainer: Any) -> None:
        """Before anything wraps the model."""
        self.told["reached"] = True
        args, model = trainer.args, trainer.model
        if why := settled_arguments.obstacle(args):
            raise NotHere(why)
        if hasattr(trainer, "num_generations"):
            raise NotHere(f"{type(trainer).__name__}: a trainer that generates is not rehearsed")
        own_parts.not_too_large(model)
        machine.whole_numbers(model, self.limits.append)
        in_rank.no_dropout(model)
        self._own_order(trainer)
        trainer._get_train_sampler = functools.partial(_in_order, trainer)
        if self.looks:
            self._look(trainer)
            raise Reached
        args.learning_rate = own_parts.rate(model)
        trainer.train_dataset = chosen_rows.chosen(trainer.train_dataset, self.spec["places"])
        _plain_optimizer(trainer, self.limits.append)
        if self.is_reference and not self.scene.single:
            plain_loss.across(self.told, trainer)
        self._hear_batches(trainer)

    def _own_order(self, trainer: Any) -> None:
        """What is lost of an order of rows that the script makes itself."""
        if _own(trainer, "_get_train_sampler"):
            self.limits.append("_get_train_sampler: its own order of rows was not rehearsed")
        if _own(trainer, "get_train_dataloader"):
            self.limits.append("get_train_dataloader: its own loader, without its shuffling")

    def _look(self, trainer: Any) -> None:
        """What the script asks for, as plain data."""
        args, given = trainer.args, self.settled.given
        loader = trainer.get_train_dataloader()
        shuffled = given.get("train_sampling_strategy") != "sequential"
        rows, total = chosen_rows.kinds(loader.dataset, loader.collate_fn, shuffled)
        streamed = chosen_rows.streamed(loader.dataset)
        usual = {each.name: each.default for each in args.__dataclass_fields__.values()}
        limits = settled_arguments.limits(given, usual.get)
        limits.append(settled_arguments.own_numbers(given))
        limits += ["a streamed data set: its first rows"] if streamed else []
        fsdp = given.get("fsdp") or ""
        self.told["facts"] = {
            "rows": rows, "count": total, "batch": args.per_device_train_batch_size,
            "accumulation": given.get("gradient_accumulation_steps",
                                      args.gradient_accumulation_steps),
            "deepspeed": settled_arguments.stage(given.get("deepspeed")),
            "fsdp": bool(fsdp), "fsdp_config": _plain(given.get("fsdp_config")),
            "own_loss": own_loss(trainer), "own_tokens": _own_tokens(args),
            "gathers": own_parts.gathers(trainer.model),
            "callbacks": own_parts.callbacks(trainer),
            "missing": own_parts.missing_metric(trainer, given, limits.append),
            "trainer": type(trainer).__name__, "limits": limits, **self._of_model(trainer.model),
        }  # fmt: skip

    def _hear_batches(self, trainer: Any) -> None:
        step = trainer.training_step

        @functools.wraps(step)
        def heard(model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
            told = chosen_rows.digest(inputs)
            self.told["batches"].append(told)
            given = machine.in_float32(inputs)
            phase("forward")  # a step of the script's own does not say so
            return chosen_rows.same(int(told[:8], 16), lambda: step(model, given, *args, **named))

        trainer.training_step = heard

    def _finished(self) -> dict[str, Any]:
        told = in_rank.finished(self.told)
        if told.get("plain") == 0.0:  # no step was measured: it has a ``training_step`` of its own
            told["plain"] = None
        refused = [f"your script was not let {what}" for what in dict.fromkeys(self.refused)]
        limits = [*self.limits, *self.tiny.limits, *refused]
        told["limits"] = list(dict.fromkeys(limits))
        told["notes"] = [*told["notes"], *self.tiny.notes]
        return told

    def _of_this_place(self, error: BaseException) -> str:
        """Why an error says nothing of the run elsewhere; "" for one of the training itself."""
        text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        if isinstance(error, closed_off.Refused):
            return str(error)
        if self._caused(error, closed_off.Refused):
            return text
        if not self.told.get("training"):
            return f"before its training: {text}{_line(error, self.spec['paths'])}"
        if isinstance(error, (FileNotFoundError, ImportError)):
            return text
        if _DTYPES.search(text):
            return f"its own code asks for a dtype, and a rehearsal is in float32: {text}"
        return ""

    def _caused(self, error: BaseException, kind: type[BaseException]) -> bool:
        seen: set[int] = set()
        cause: BaseException | None = error
        while cause is not None and id(cause) not in seen:
            if isinstance(cause, kind):
                return True
            seen.add(id(cause))
            cause = cause.__cause__ or cause.__context__
        return False

    def _said(self, why: str) -> str:
        first = self.refused[0] if self.refused else ""
        refused = f" (it was not let {first})" if first and first not in why else ""
        return f"{os.path.basename(self.spec['script'])}: {why}{refused}"


def own_loss(trainer: Any) -> list[str]:
    """Functions of the script's own that decide what its loss is."""
    found = [f"{kind.__name__}.{name}" for kind in type(trainer).__mro__ for name in _LOSS
             if name in vars(kind) and not own_parts.of_framework(kind)]  # fmt: skip
    given = getattr(trainer, "compute_loss_func", None)
    return [*found, *(["compute_loss_func"] if given is not None else [])]


def _own(trainer: Any, name: str) -> bool:
    """Whether the script itself says how."""
    kind = next(each for each in type(trainer).__mro__ if name in vars(each))
    return not own_parts.of_framework(kind)


def _own_tokens(args: Any) -> bool:
    return not getattr(args, "average_tokens_across_devices", True)


def _plain(value: Any) -> Any:
    return value if isinstance(value, dict) else str(value) if value else {}


def _in_order(trainer: Any, *_: Any, **__: Any) -> Any:
    from torch.utils.data import SequentialSampler

    rows = trainer.train_dataset
    return None if chosen_rows.streamed(rows) else SequentialSampler(rows)


def _plain_optimizer(trainer: Any, limit: Callable[[str], None]) -> None:
    """SGD over what the script's own optimizer holds."""
    given, create = trainer.optimizer, trainer.create_optimizer
    if (
        given is None
        and not _own(trainer, "create_optimizer")
        and not getattr(trainer, "optimizer_cls_and_kwargs", None)
    ):
        return
    limit("its own optimizer: plain SGD over the parameters that it holds, one learning rate")

    def created(*args: Any, **named: Any) -> Any:
        import torch

        held = None
        with contextlib.suppress(Exception):
            trainer.optimizer = None
            held = given if given is not None else create(*args, **named)
        if held is None:
            limit("its own optimizer could not be made here: SGD over all that trains")
            model = args[0] if args and args[0] is not None else trainer.model
            kept = [each for each in model.parameters() if each.requires_grad]
        else:
            kept = [each for group in held.param_groups for each in group["params"]]
            own_parts.forgotten(trainer.model, kept, limit)
        trainer.optimizer = torch.optim.SGD(kept, lr=trainer.args.learning_rate)
        return trainer.optimizer

    def scheduled(num_training_steps: int, optimizer: Any = None) -> Any:
        import transformers

        held = optimizer if optimizer is not None else trainer.optimizer
        trainer.lr_scheduler = transformers.get_constant_schedule(held)
        trainer._created_lr_scheduler = True
        return trainer.lr_scheduler

    trainer.optimizer = trainer.lr_scheduler = None
    trainer.create_optimizer = created
    trainer.create_scheduler = scheduled


def _seeded() -> None:
    """What the script makes itself begins alike in every pass."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _line(error: BaseException, paths: Any) -> str:
    """ " at train.py:30": the innermost line of the script's own."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if any(file.startswith(f"{path}/") for path in paths) and not _ELSEWHERE.search(file):
            found = f" at {os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
