"""A forward in which a tower did not run runs it on a blank input, and adds nothing to what the
language model sees: no bit of the loss changes, and every rank runs the same modules.

Where it runs: in front of everything else that happens when the model calls its language model.
There it is known, from the towers themselves, which of them ran; behind the embeddings and before
the language model is where the model itself runs them; and it is before DeepSpeed's and FSDP's own
hooks there, so that all ranks gather in the same order.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch

from vlmguard_torch import generation, inputs, nothing, places
from vlmguard_torch.errors import CannotBlank

__all__ = ["Blank", "CannotBlank", "install", "possible"]

When = Literal["always", "training"]
Build = Callable[[Any, str], Mapping[str, torch.Tensor]]
"""(module with ``get_{kind}_features``, kind) → that method's arguments. Raises `CannotBlank`."""

_log = logging.getLogger("vlmguard")


def install(
    model: Any,
    towers: Mapping[str, tuple[str, ...]] | None = None,
    when: When = "always",
    build: Build | None = None,
    kinds: tuple[str, ...] | None = None,
    say: Callable[[str], None] = _log.warning,
) -> Blank:
    """Put the hooks on ``model``, before or after PEFT, DDP, DeepSpeed or FSDP wrap it.

    towers: kind ("vision", "audio", "aligner") → plain module paths. None: by name.
    when: "always" for a model whose frozen parameters are partitioned too (ZeRO-3, FSDP): every
        forward, trained or frozen, with gradient or not. "training" (ZeRO-1, ZeRO-2): forwards with
        gradient in training mode, of towers that train.
    build: None: `inputs.from_config`.
    kinds: the kinds of input that some rank may have ("image", "video", "audio"); on every rank the
        same. None: the first of them that the model has.
    say: told once what went wrong, and that ``generate`` runs without ``synced_gpus``.

    Nothing is put on where `CannotBlank` is raised.
    """
    found = places.find(model, towers)
    wanted = kinds or found.kinds[:1]
    make = build or inputs.from_config
    made = {kind: dict(make(found.owner, kind)) for kind in wanted}
    blank = Blank(found, made, when, say)
    blank.put_on()
    return blank


def possible(
    model: Any,
    towers: Mapping[str, tuple[str, ...]] | None = None,
    build: Build | None = None,
    kinds: tuple[str, ...] | None = None,
) -> str:
    """Why `install` would raise; "" where it would not."""
    try:
        found = places.find(model, towers)
        for kind in kinds or found.kinds[:1]:
            (build or inputs.from_config)(found.owner, kind)
    except CannotBlank as error:
        return str(error)
    return ""


class Blank:
    """The hooks on one model.

    Attributes:
        padded: forwards in which a tower ran on a blank input.
        fault: what went wrong, after which nothing is run any more; "" while all is well.
    """

    def __init__(
        self,
        found: places.Places,
        made: dict[str, dict[str, torch.Tensor]],
        when: When,
        say: Callable[[str], None],
    ) -> None:
        self.places, self.made, self.when, self.say = found, made, when, say
        self.padded = 0
        self.fault = ""
        self.generating = generation.Generating()
        self._calls: dict[str, int] = {}  # tower → calls by the model since its last forward
        self._busy = False  # a blank runs
        self._done = False  # this forward has what it needs
        self._given = False  # this forward was given embeddings
        self._early: list[torch.Tensor] = []
        self._placed: dict[tuple[str, Any, Any], dict[str, torch.Tensor]] = {}
        self._handles: list[Any] = []
        self._decoders: dict[str, tuple[Any, Any]] = {}  # path → module, handle
        self._undo: Callable[[], None] = lambda: None

    def __deepcopy__(self, memo: Any) -> Blank:
        """A copied model gets hooks that do nothing: install anew where it needs them."""
        copy = Blank(self.places, {}, self.when, self.say)
        copy.fault = "a copy"
        return copy

    def __reduce__(self) -> Any:
        return _Inert, ()

    # What puts the hooks on and takes them off

    def put_on(self) -> None:
        """Called once by `install`."""
        owner = self.places.owner
        self._handles += [
            owner.register_forward_pre_hook(self._begin, with_kwargs=True),
            owner.register_forward_hook(self._end, always_call=True),
        ]
        for path in {path for where in self.places.towers.values() for path in where}:
            tower = owner.get_submodule(path)
            self._handles.append(tower.register_forward_pre_hook(_Count(self, path)))
        self._undo = generation.wrap(self.places.above, self)

    def close(self) -> None:
        """Take every hook off."""
        self._undo()
        for handle in [*self._handles, *(handle for _, handle in self._decoders.values())]:
            handle.remove()
        self._handles.clear()
        self._decoders.clear()
        self.fault = self.fault or "closed"

    # What the hooks do

    def seen(self, path: str) -> None:
        """A tower is called."""
        if not self._busy and not _in_backward():
            self._calls[path] = self._calls.get(path, 0) + 1

    def _begin(self, owner: Any, args: Any, kwargs: Any) -> None:
        if self.fault or _in_backward():
            return
        self._done = False
        self._given = kwargs.get("inputs_embeds") is not None
        self._early.clear()
        with self._contained():
            self._go_first()

    def _end(self, owner: Any, args: Any, output: Any) -> None:
        if not _in_backward():
            self._calls.clear()
            self._early.clear()
            self.generating.forward_ended()

    def _go_first(self) -> None:
        """Be the first hook of what is called after the towers. Done anew in each forward: DeepSpeed
        and FSDP put theirs on when they wrap the model, and FSDP puts modules of its own in between."""
        owner = self.places.owner
        paths = (self.places.embedding,) if self._embeds_itself else self.places.decoders
        for path in paths:
            module = owner.get_submodule(path)
            known, handle = self._decoders.get(path, (None, None))
            if known is not module:
                if handle is not None:
                    handle.remove()
                handle = self._hook(module)
                self._decoders[path] = module, handle
            if not self._embeds_itself:
                module._forward_pre_hooks.move_to_end(handle.id, last=False)

    def _hook(self, module: Any) -> Any:
        if self._embeds_itself:
            return module.register_forward_hook(self._behind)
        return module.register_forward_pre_hook(self._before, with_kwargs=True)

    @property
    def _embeds_itself(self) -> bool:
        return not self.places.decoders

    def _before(self, decoder: Any, args: Any, kwargs: Any) -> Any:
        """The language model is called: all towers that this forward runs have run."""
        if self.fault or self._done or _in_backward():
            return None
        where, embeds = _embeddings(args, kwargs)
        if embeds is None:
            return None
        self._done = True
        if not self._needed(kwargs.get("past_key_values")):
            return None
        out = self._with_nothing(embeds)
        if out is embeds:
            return None
        if where is None:
            return args, {**kwargs, "inputs_embeds": out}
        return (*args[:where], out, *args[where + 1 :]), kwargs

    def _behind(self, embedding: Any, args: Any, output: Any) -> Any:
        """The tokens are embedded, by a model that has its layers itself."""
        if self.fault or self._done or _in_backward() or self._busy:
            return None
        self._done = True
        return self._with_nothing(output) if self._needed(None) else None

    def _needed(self, cache: Any) -> bool:
        owner = self.places.owner
        if self.when == "training" and not (owner.training and torch.is_grad_enabled()):
            return False
        if self.when == "training" and not self._trains():
            return False
        return self.generating.may_blank(cache)

    def _trains(self) -> bool:
        sees = {path for where in self.places.towers.values() for path in where}
        modules = [self.places.owner.get_submodule(path) for path in (*sees, *self.places.aligners)]
        return any(p.requires_grad for module in modules for p in module.parameters())

    def _with_nothing(self, embeds: torch.Tensor) -> torch.Tensor:
        features: list[torch.Tensor] = []
        with self._contained():
            missing = self._missing()
            for kind in missing:
                features += self._run(kind, embeds.device)
            self.padded += bool(missing)
        return nothing.add(embeds, features)

    def _missing(self) -> list[str]:
        """The kinds for which a tower is still to run, in this forward."""
        left = dict(self._calls)
        missing = []
        for kind in self.made:
            paths = self.places.towers.get(kind, ())
            calls = max((left.get(path, 0) for path in paths), default=0)
            if not calls:
                missing.append(kind)
            elif not self._given:  # embeddings made outside hold every kind, by one call or more
                left.update({path: left.get(path, 0) - 1 for path in paths})
        return missing

    def _run(self, kind: str, device: torch.device) -> list[torch.Tensor]:
        owner = self.places.owner
        self._busy = True
        try:
            with _undisturbed(device), _still(self._towers(kind)):
                output = getattr(owner, f"get_{kind}_features")(**self._on(kind, device))
        finally:
            self._busy = False
        return nothing.used(output)

    def _towers(self, kind: str) -> list[Any]:
        paths = (*self.places.towers.get(kind, ()), *self.places.aligners)
        return [self.places.owner.get_submodule(path) for path in paths]

    def _on(self, kind: str, device: torch.device) -> dict[str, torch.Tensor]:
        """The blank input where the tower wants it, kept: moving it for each forward would wait."""
        dtype = _dtype(self._towers(kind))
        key = kind, device, dtype
        if key not in self._placed:
            self._placed[key] = {
                name: value.to(device, dtype if value.is_floating_point() else None)
                if isinstance(value, torch.Tensor)
                else value
                for name, value in self.made[kind].items()
            }
        return dict(self._placed[key])

    def encode(self) -> None:
        """``generate`` has run its encoders, before any forward."""
        if self.fault or self.when != "always":
            return
        with self._contained():
            for kind in self._missing():
                self._run(kind, self.places.owner.get_submodule(self.places.embedding).weight.device)
        self._calls.clear()

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        """A fault of ours ends in a forward without a blank, as if we were not here."""
        try:
            yield
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
            self.say(
                f"vlmguard: no blank input for {type(self.places.owner).__name__} from here on:"
                f" {self.fault}"
            )


class _Count:
    """The hook that sees a tower run."""

    def __init__(self, blank: Blank, path: str) -> None:
        self.blank, self.path = blank, path

    def __call__(self, module: Any, args: Any) -> None:
        self.blank.seen(self.path)


class _Inert:
    """What a pickled model has in our place: hooks that do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _no_hook


def _no_hook(*args: Any, **kwargs: Any) -> None:
    return None


def _embeddings(args: Any, kwargs: Any) -> tuple[int | None, torch.Tensor | None]:
    """Where a language model's call holds embeddings: a position, or None for the keyword."""
    told = kwargs.get("inputs_embeds")
    if isinstance(told, torch.Tensor):
        return None, told
    for position, value in enumerate(args):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim == 3:
            return position, value
    return None, None


def _in_backward() -> bool:
    """Whether this is a recomputation: it belongs to a forward that is over."""
    return getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1


def _dtype(modules: list[Any]) -> torch.dtype:
    """What the tower computes in: its first weight's, as it lies there now."""
    for module in modules:
        for parameter in module.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
    return torch.get_default_dtype()


@contextlib.contextmanager
def _undisturbed(device: torch.device) -> Iterator[None]:
    """The random numbers that come after are those that would have come."""
    devices = [] if device.type == "cpu" else [device.index or 0]
    kind = "cuda" if device.type == "cpu" else device.type
    with torch.random.fork_rng(devices=devices, device_type=kind):
        yield


@contextlib.contextmanager
def _still(modules: list[Any]) -> Iterator[None]:
    """Batch norms do not count the blank input in their running statistics."""
    batch_norm = torch.nn.modules.batchnorm._BatchNorm
    norms = [m for top in modules for m in top.modules() if isinstance(m, batch_norm) and m.training]
    for module in norms:
        module.training = False
    try:
        yield
    finally:
        for module in norms:
            module.training = True
