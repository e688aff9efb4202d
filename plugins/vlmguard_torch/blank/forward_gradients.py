"""What the blank inputs of one forward reach, and media of its own do not.

There a gradient of zeros may be taken back (`no_gradient`).
"""

from __future__ import annotations

import torch

from vlmguard_torch.blank.no_gradient import BlankInput, Gradients
from vlmguard_torch.blank.run_tower import Runner
from vlmguard_torch.layout.model_layout import ModelLayout

_CROSSING = "layers of cross-attention"


class ForwardGradients:
    """Of one model, forward by forward.

    Attributes:
        several: whether kinds of input have towers of their own.
    """

    def __init__(self, found: ModelLayout, runner: Runner, several: bool) -> None:
        self._layout, self._runner, self.several = found, runner, several
        self._behind_towers = runner.behind_towers()
        self._gradients = Gradients(found.owner)
        self._own: set[str] = set()  # what this forward's own media have run, with gradients
        self._ran: set[str] = set()  # what lies behind a tower, and a blank has run now
        self._paths: dict[str, set[str]] = {}  # kind → what its blank ran last
        self._blanks: list[BlankInput] = []  # of this forward
        self._watched = False  # gradients of this forward's blanks are
        self._moved: list[torch.Tensor] = []  # then, whether layers that read them change anything
        self._crossing: BlankInput | None = None  # of this forward's layers
        self._first_crossing = False  # no layer that reads a blank has run yet

    def begin(self) -> None:
        """A forward begins."""
        self._own.clear()
        self._blanks = []

    def begin_crossing(self) -> None:
        """Its language model is called, which reads images through layers of its own."""
        self._first_crossing = True
        self._watched, self._crossing, self._moved = False, None, []

    def begin_blank(self) -> None:
        """A blank is about to run."""
        self._ran.clear()

    def ran(self, path: str) -> None:
        """What lies behind a tower has run on a blank."""
        self._ran.add(path)

    def needed(self, embeds: torch.Tensor) -> None:
        """This forward's blanks are added to these embeddings."""
        for one in self._blanks:
            one.needed = not embeds.requires_grad

    def used(self, path: str) -> None:
        """By media of this forward's own. Of one tower it is known what lies behind it."""
        used = {path} if self.several else {path, *self._behind_towers}
        self._own |= used
        for kind, paths in self._paths.items():
            if not used.isdisjoint(paths):
                self._gradients.used(kind)
        self._gradients.used(_CROSSING)

    def watch(self, kind: str, found: list[torch.Tensor]) -> None:
        """Together, but for what this forward's own media have run: a new Gemma3's projector is
        zero, so that of an image, too, its tower gets zeros, and the projector others."""
        ran = self._ran if self.several else self._behind_towers
        paths = {*self._layout.towers.get(kind, ()), *ran}
        self._paths[kind] = paths
        every = self._runner.parameters(paths - self._own)
        one = self._gradients.blank(kind, every, found, self._moved)
        self._blanks += [one] if one is not None else []
        self._watched |= one is not None

    def watch_crossing(self, hidden: torch.Tensor, own: torch.Tensor, output: torch.Tensor) -> None:
        """A layer has read a blank image. Where backward reaches one, it reaches all, the last one
        first."""
        if self._first_crossing:
            self._first_crossing = False
            layers = map(self._layout.owner.get_submodule, self._layout.crossing)
            parameters = [each for one in layers for each in one.parameters()]
            self._crossing = self._gradients.blank(_CROSSING, parameters, [output], self._moved)
            self._watched |= self._crossing is not None
        elif self._crossing is not None:
            self._gradients.follow(self._crossing, output)
        if self._watched:
            self._moved.append((own.detach() != hidden.detach()).any())
