"""The language model's head: where it is, and what the gradient in front of it would be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from vlmguard_torch.layout import towers

BLOCK, LEAST = 4 << 20, 8
"""Logits that are made at once: 16 MB in float32; and positions at least."""
NO_HEAD = "the model has no language-model head"


@dataclass(frozen=True)
class Head:
    """Attributes:
    module: hidden states → logits, adapters included.
    decoder: its output is what the head is given; None if unknown.
    embedding: its input are the token ids; None if unknown.
    scale: what the model multiplies the head's logits by.
    softcap: then ``cap * tanh(logits / cap)``, 0 without.
    parts: whether it was in parts when it was found.
    """

    module: Any
    decoder: Any
    embedding: Any
    scale: float = 1.0
    softcap: float = 0.0
    parts: bool = False

    @property
    def weight(self) -> torch.Tensor | None:
        """Its matrix, whatever adapters lie around it; None if it is not there in whole."""
        found = getattr(self.module, "weight", None)
        whole = isinstance(found, torch.Tensor) and type(found).__name__ != "DTensor"
        return (
            found if whole and found.dim() == 2 and found.numel() and not _hollow(found) else None
        )

    @property
    def gathered(self) -> bool:
        """Whether ZeRO-3 takes it apart: it is whole in its own forward, and when gathered."""
        return any(hasattr(p, "ds_id") for p in self.module.parameters())

    @property
    def leaves(self) -> bool:
        """Whether FSDP takes it apart after each forward and backward of what holds it."""
        return self.parts and not self.gathered

    def together(self) -> Any:
        """As a context, ZeRO-3's head in one piece. A collective."""
        from deepspeed import zero

        return zero.GatheredParameters(list(self.module.parameters()))

    @property
    def random(self) -> bool:
        """Whether it draws random numbers."""
        return any(getattr(m, "p", 0) and _is_dropout(m) for m in self.module.modules())


def _hollow(weight: torch.Tensor) -> bool:
    """Whether it has a shape and no memory, as FSDP1 leaves a weight between its uses."""
    plain = type(weight) in (torch.Tensor, torch.nn.Parameter)
    return plain and not weight.is_meta and not weight.untyped_storage().size()


def _is_dropout(module: Any) -> bool:
    return isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.training


def find(model: Any) -> Head | str:
    """The head of a model; a text says why there is none."""
    base = _owner(towers.without_adapters(model))
    module = _of(base, "get_output_embeddings") or _by_shape(base)
    if module is None:
        return NO_HEAD
    scale, softcap = _behind(base)
    made = Head(module, _decoder(base), _of(base, "get_input_embeddings"), scale, softcap)
    return replace(made, parts=made.weight is None)


def _owner(model: Any) -> Any:
    """The outermost module that knows its head (a value head or a loop's own class is around)."""
    known = (each for each in model.modules() if _of(each, "get_output_embeddings") is not None)
    return next(known, model)


def _of(owner: Any, method: str) -> Any:
    try:
        return getattr(owner, method)()
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _decoder(base: Any) -> Any:
    found = _of(base, "get_decoder")
    return found if isinstance(found, torch.nn.Module) and found is not base else None


def _by_shape(base: Any) -> Any:
    """The one linear layer as wide as the embedding has words."""
    tables = [each for each in base.modules() if isinstance(each, torch.nn.Embedding)]
    words = max((each.num_embeddings for each in tables), default=0)
    linear = (each for each in base.modules() if isinstance(each, torch.nn.Linear))
    found = [each for each in linear if each.out_features == words]
    return found[0] if len(found) == 1 and words > 1 else None


def _behind(base: Any) -> tuple[float, float]:
    """What models do to the logits behind their head, by their config: a factor and a cap."""
    config = getattr(base, "config", None)
    text = getattr(config, "get_text_config", lambda: config)()
    scale = 1.0
    for name in ("logit_scale", "output_multiplier", "lm_head_multiplier"):
        scale *= _number(text, name, 1.0)
    by = _number(text, "logits_scaling", 1.0)
    times = getattr(text, "model_type", "") == "hyperclovax"
    cap = _number(text, "final_logit_softcapping", 0.0)
    return scale * (by if times else 1 / by), cap


def _number(config: Any, name: str, default: float) -> float:
    found = getattr(config, name, None)
    return float(found) if isinstance(found, (int, float)) and found else default


@dataclass(frozen=True)
class Autocast:
    """The autocast that a forward ran under."""

    device: str
    enabled: bool
    dtype: Any

    @classmethod
    def now(cls, device: str) -> Autocast:
        return cls(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))

    def again(self) -> Any:
        """As a context."""
        return torch.autocast(self.device, self.dtype, self.enabled, cache_enabled=False)


def logits(head: Head, hidden: torch.Tensor, autocast: Autocast) -> torch.Tensor:
    """The model's logits at these hidden states; nobody's hooks on the head run."""
    weight = head.weight
    if weight is not None and weight.is_floating_point() and not autocast.enabled:
        hidden = hidden.to(weight.dtype)
    with autocast.again(), _quiet(head.module):
        found: torch.Tensor = head.module.forward(hidden)
        found = found if head.scale == 1.0 else found * head.scale
        return head.softcap * torch.tanh(found / head.softcap) if head.softcap else found


@contextlib.contextmanager
def _quiet(module: Any) -> Iterator[None]:
    """Hooks on what lies inside (an adapter's layers) are set aside meanwhile."""
    kept = []
    for each in module.modules():
        for name in ("_forward_hooks", "_forward_pre_hooks"):
            kept.append((each.__dict__, name, each.__dict__[name]))
            each.__dict__[name] = type(each.__dict__[name])()
    try:
        yield
    finally:
        for where, name, value in kept:
            where[name] = value


def pulled_back(
    head: Head, hidden: torch.Tensor, targets: Sequence[torch.Tensor], autocast: Autocast
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What cross-entropy's gradient at each hidden state would be, for each choice of targets:
    softmax minus one-hot through the head's own backward. And the probability of each. A choice
    of fewer targets is for the first hidden states."""
    weight = head.weight
    words = 1 if weight is None else len(weight)
    size = max(BLOCK // words, LEAST)
    blocks = [
        _block(head, hidden[at : at + size], [y[at : at + size] for y in targets], autocast)
        for at in range(0, len(hidden), size)
    ]
    likely, back = zip(*blocks, strict=True)
    return [torch.cat(each) for each in zip(*likely, strict=True)], [
        torch.cat(each) for each in zip(*back, strict=True)
    ]


def _block(
    head: Head, hidden: torch.Tensor, targets: Sequence[torch.Tensor], autocast: Autocast
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for number in sorted({len(y) for y in targets}, reverse=True):
        with torch.enable_grad():
            leaf = hidden[:number].detach().requires_grad_()
            made = logits(head, leaf, autocast)
        chances = made.detach().float().softmax(-1)
        for which, y in enumerate(targets):
            if len(y) == number:
                # A head may know fewer words than the embedding (mllama's does). Placeholders may
                # be negative. On a GPU an index out of range would end the process. Where one is
                # out of range, nothing is known: 1.0.
                known = y.clamp(0, chances.shape[-1] - 1)
                error = chances.scatter_add(
                    -1, known[:, None], torch.full_like(chances[:, :1], -1.0)
                )
                (back,) = torch.autograd.grad(made, leaf, error.to(made.dtype), retain_graph=True)
                likely = chances.gather(-1, known[:, None])[:, 0].masked_fill(y != known, 1.0)
                found[which] = likely, back.float()
    chance, ways = zip(*(found[which] for which in range(len(targets))), strict=True)
    return [*chance], [*ways]
