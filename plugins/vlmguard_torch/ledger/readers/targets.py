"""What the loss teaches, read off the gradient in front of the head: which token at each position
is the target, and its weight. It needs no logits, so it reads chunked and fused losses too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from vlmguard.ledger.stations.targets import FIELDS
from vlmguard.runtime.faults import contain
from vlmguard_torch.ledger.gradients.loss_scale import scaler
from vlmguard_torch.ledger.reader import Reader, Subject
from vlmguard_torch.ledger.readers import head as heads
from vlmguard_torch.ledger.readers import special
from vlmguard_torch.ledger.readers.head import Autocast, Head
from vlmguard_torch.module_calls import Behind, ForwardHook

WHAT = "the ledger's targets"
POSITIONS, FEW = 64, 8
"""Sampled positions of a forward; of forwards after the first `MANY` of a window."""
MANY = 16
SHOWN = 2
"""Forwards whose sampled places and weights are on the page one by one."""
SURE = 0.999
"""Above this probability the gradient says nothing of the target: softmax minus one-hot is 0."""
SHIFTS = (1, 0, 2)
"""Which token of the row is tried as the target: the next, the same, the one after the next."""
TRIED = (POSITIONS, 16, 16)
"""At how many of the sampled positions."""


@dataclass(frozen=True)
class _Sample:
    """Some positions of a forward: where they are, the hidden states, their gradients; how many
    positions carry weight, and whether all gradients are finite."""

    places: torch.Tensor
    hidden: torch.Tensor
    gradient: torch.Tensor
    count: torch.Tensor


@dataclass(eq=False)
class _Forward:
    """One forward's hidden states in front of the head: until the backward in whole, until they
    are judged a sample, then numbers."""

    round: int
    by_head: bool
    kind: torch.dtype
    ids: torch.Tensor
    autocast: Autocast
    hidden: torch.Tensor | None
    sample: _Sample | None = None
    places: torch.Tensor | None = None
    read: tuple[torch.Tensor, torch.Tensor] | None = None


class Targets(Reader):
    """Reads which tokens the loss teaches and with what weight.

    A forward's samples are judged at the next forward or at the step, outside the backward. A head
    that FSDP2 takes apart is used in the backward, while it is whole; one of ZeRO-3 is gathered at
    the engine's step.
    """

    name = "targets"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._handles: list[Any] = []
        self._head: Head | None = None
        self._clear()

    def _clear(self) -> None:
        self._forwards: list[_Forward] = []
        self._given: Any = None
        self._looked: Any = None
        self._reason, self._round = "", 0
        self._began = self._taken = self._back = False
        self._scale: Any = 1.0

    def open(self) -> None:
        """Hooks on the embedding, the decoder and the head."""
        self._clear()
        found = heads.find(self.subject.model)
        if isinstance(found, str) or found.random:
            self._reason = found if isinstance(found, str) else "the head has dropout"
            return
        if contain(WHAT, special.writes, self.subject.model) is False:
            self._reason = "the labels of this model are not its rows' next tokens"
            return
        self._head = found
        if found.embedding is not None:
            self._handles.append(ForwardHook(WHAT, self._embedded).on(found.embedding))
        if found.decoder is not None:
            self._handles.append(Behind(WHAT, self._decoded).on(found.decoder))
        self._handles.append(ForwardHook(WHAT, self._heading).on(found.module))

    def batch(self, inputs: Mapping[str, Any]) -> None:
        """The ids of the forward; what was sampled before is judged now."""
        self._settle()
        self._given, self._looked = inputs.get("input_ids"), None
        if self._back:
            self._round, self._back = self._round + 1, False
            self._restarted()
        self._began, self._taken = True, False

    def _restarted(self) -> None:
        """A GradScaler left the step out: the gradients were cleared, the window begins anew."""
        held = [p for p in self.subject.parameters if p.requires_grad]
        plain = self.subject.engine is None and _plain(held)
        if plain and all(p.grad is None for p in held):
            self._forwards, self._round = [], 0

    def _embedded(self, module: Any, args: Any, kwargs: Any) -> None:
        self._looked = args[0] if args else None

    def _decoded(self, module: Any, output: Any) -> None:
        hidden = getattr(output, "last_hidden_state", None)
        if hidden is None and isinstance(output, (tuple, list)) and output:
            hidden = output[0]
        self._take(output if isinstance(output, torch.Tensor) else hidden, False)

    def _heading(self, module: Any, args: Any, kwargs: Any) -> None:
        """What the head itself is given tells more than the decoder's output, and sooner."""
        last = self._forwards[-1] if self._forwards else None
        taken = bool(args) and self._take(args[0], True)
        if taken and last and last.hidden is not None and not last.by_head:
            last.hidden = None
            self._forwards.remove(last)

    def _take(self, hidden: Any, by_head: bool) -> bool:
        ids = self._ids(hidden) if torch.is_grad_enabled() else None
        if ids is None or not hidden.requires_grad:
            return False
        cast = Autocast.now(hidden.device.type)
        # Detached: a reference cycle would keep the graph alive if no backward came.
        each = _Forward(self._round, by_head, hidden.dtype, ids, cast, hidden.detach())
        self._forwards.append(each)
        hidden.register_hook(lambda gradient: contain(WHAT, self._gradient, each, gradient))
        self._taken = True
        return True

    def _ids(self, hidden: Any) -> torch.Tensor | None:
        """The token ids at these places: as the model is given them, or as they are embedded."""
        if not isinstance(hidden, torch.Tensor) or hidden.dim() != 3:
            return None
        if hasattr(hidden, "device_mesh"):  # reading a DTensor may be a collective
            return None
        known = (ids for ids in (self._given, self._looked) if isinstance(ids, torch.Tensor))
        return next((ids for ids in known if ids.shape == hidden.shape[:-1]), None)

    def _gradient(self, each: _Forward, gradient: torch.Tensor) -> None:
        if each.hidden is None or gradient is None:  # no gradient reaches it
            return
        self._back = True
        with torch.no_grad():
            most = FEW if len(self._forwards) > MANY else POSITIONS
            each.sample = _sample(each.hidden, gradient, most)
            each.hidden = None
            if self._head is not None and self._head.leaves:
                self._judge(each, each.sample)

    def _settle(self) -> None:
        if self._began and not self._taken:
            self._reason = self._reason or "hidden states and token ids do not match"
        if self._head is None or not self._head.gathered:
            for each in self._forwards:
                if each.sample is not None:
                    self._judge(each, each.sample)

    def _judge(self, each: _Forward, sample: _Sample) -> None:
        if self._head is None or self._head.weight is None:
            self._reason = "the head is partitioned"
        else:
            each.read = _read(self._head, each, sample)
        each.places, each.sample = sample.places, None

    def before(self) -> None:
        """The last forwards are judged; the loss scale is noted. Under ZeRO-3 the head is gathered,
        the one collective: once all ranks have said that they are here, whatever befell them."""
        head = self._head
        if head is not None and head.gathered and self.subject.engine is not None:
            if not (self.together and self.agree()):
                self._reason = self._reason or "the head is partitioned, and not all ranks are here"
                return
            with head.together():
                contain(WHAT, self._settle_gathered)
        else:
            self._settle()
        self._scale = _loss_scale(self.subject)

    def _settle_gathered(self) -> None:
        for each in self._forwards:
            if each.sample is not None:
                self._judge(each, each.sample)

    def page(self) -> Mapping[str, Any] | str:
        """Of each forward the numbers of `FIELDS`; of the first ones the places too."""
        read = [(each, each.read) for each in self._forwards if each.read is not None]
        if self._reason or not read:
            return self._reason or "no gradient in front of the head was seen"
        return {
            "forwards": torch.stack([numbers for _, (numbers, _) in read]),
            "rounds": [each.round for each, _ in read],
            "places": [each.places for each, _ in read[:SHOWN]],
            "lengths": [each.ids.shape[-1] for each, _ in read[:SHOWN]],
            "weights": [weights for _, (_, weights) in read[:SHOWN]],
            "scale": self._scale,
            "accumulation": _accumulation(self.subject),
            "precision": _precision(read[0][0]),
            "means": bool(self.subject.extra.get("means")),
        }

    def close(self) -> None:
        """Hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._clear()


def _plain(parameters: list[Any]) -> bool:
    return bool(parameters) and not any(
        hasattr(p, "ds_id") or type(p).__name__ == "DTensor" for p in parameters
    )


def _sample(hidden: torch.Tensor, gradient: torch.Tensor, most: int) -> _Sample:
    """Some positions that carry weight, chosen by their places, without waiting for a device."""
    width = gradient.shape[-1]
    flat = gradient.reshape(-1, width)
    size = torch.linalg.vector_norm(flat, ord=math.inf, dim=-1)
    order = 1 + (torch.arange(len(size), device=size.device) * 40503 % 65536) / 65536
    places = ((size > 0) * order).topk(min(most, len(size))).indices
    count = torch.stack([(size > 0).sum(), torch.isfinite(size).all()]).float()
    return _Sample(places, hidden.detach().reshape(-1, width)[places], flat[places], count)


def _read(head: Head, each: _Forward, sample: _Sample) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of `FIELDS`, and the weight of each sampled token."""
    flat, long = each.ids.reshape(-1), each.ids.shape[-1]
    tried = [(shift, sample.places[:most]) for shift, most in zip(SHIFTS, TRIED, strict=True)]
    there = [(places % long) + shift < long for shift, places in tried]
    ys = [flat[(places + shift).clamp(max=len(flat) - 1)] for shift, places in tried]
    likely, ways = heads.pulled_back(head, sample.hidden, ys, each.autocast)
    with torch.no_grad():
        found = [_fit(sample.gradient[: len(d)].float(), d, ok, p)
                 for d, ok, p in zip(ways, there, likely, strict=True)]  # fmt: skip
        weights = found[0][0]
        # nanmedian() waits for a GPU. With deterministic algorithms, torch refuses a median over a
        # dimension.
        rests = [rest.nanquantile(0.5, interpolation="lower") for _, rest in found]
        used = (~weights.isnan()).sum()
        numbers = [*sample.count, used, *_spread(weights), *rests]
        assert len(numbers) == len(FIELDS)
        return torch.stack([number.float() for number in numbers]), weights


def _fit(
    g: torch.Tensor, d: torch.Tensor, there: torch.Tensor, likely: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of gradients ``g`` the multiples of ``d``, and what is left over, relative; NaN where
    nothing can be said."""
    use = there & (likely < SURE) & (g.abs().amax(-1) > 0)
    weight = (g * d).sum(-1) / (d * d).sum(-1)
    rest = (g - weight[:, None] * d).norm(dim=-1) / g.norm(dim=-1)
    return weight.masked_fill(~use, math.nan), rest.masked_fill(~use, math.nan)


def _spread(weights: torch.Tensor) -> list[torch.Tensor]:
    """Tenth part, median, ninetieth, mean, and the share of negative ones."""
    at = torch.linspace(0.1, 0.9, 3, device=weights.device)  # torch.tensor([…]) would wait
    negative = (weights < 0).sum() / (~weights.isnan()).sum()
    return [*weights.nanquantile(at), weights.nanmean(), negative]


def _precision(each: _Forward) -> str:
    """The dtype that the head computes in."""
    kind = each.autocast.dtype if each.autocast.enabled else each.kind
    short = kind == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if short else str(kind).removeprefix("torch.")


def _accumulation(subject: Subject) -> int:
    """Micro-batches a step, as the framework was told; 0 where nobody was: then two backwards of a
    step may be two losses."""
    declared = subject.extra.get("accumulation")
    if declared is None and subject.engine is not None:
        declared = subject.engine.gradient_accumulation_steps()
    return int(declared or 0)


def _loss_scale(subject: Subject) -> Any:
    """What the loss was multiplied by for fp16: DeepSpeed's, or that of the GradScaler which is
    about to step this optimizer."""
    if subject.engine is not None:
        return float(getattr(subject.engine.optimizer, "loss_scale", 1.0) or 1.0)
    scale = getattr(scaler(), "_scale", None)
    return 1.0 if scale is None else scale.detach().clone()
