"""A trainer's model, read once: what translation, changes, dry run and first steps are told.

It is there while the run begins, and nothing keeps it: a run holds names, no parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vlmguard.core import runstate
from vlmguard.core.facts import Phase, Strategy
from vlmguard.core.runstate import RunState
from vlmguard_torch.layout.parameters import Parameters
from vlmguard_torch.releases import releases
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.profile import Paths, Profile

BLANKS = "blanks"
"""What a run keeps of its blank inputs."""
_BESIDE = ("transformers", "peft", "deepspeed", "trl", "accelerate")


@dataclass
class Reading:
    """What of a trainer stays as it is while its run is judged and mended."""

    trainer: Any
    profile: Profile
    phase: Phase = "train"

    @cached_property
    def state(self) -> RunState | None:
        """The run that is judged, while it is open."""
        return runstate.of(self.trainer)

    @cached_property
    def parameters(self) -> Parameters:
        """Of the model, under the names that the user knows."""
        return Parameters(self.profile.model(self.trainer))

    @cached_property
    def towers(self) -> Paths:
        """Tower → module paths."""
        return self.profile.towers(self.trainer)

    @cached_property
    def parts(self) -> Paths:
        """The words that the freeze policy may use besides names."""
        own = type(self.profile).parts is not Profile.parts
        return self.profile.parts(self.trainer) if own else self.towers

    @cached_property
    def policy(self) -> tuple[str, ...]:
        """What is to be frozen, in our words."""
        return self.profile.policy()

    @cached_property
    def strategy(self) -> Strategy:
        """How the model will be wrapped."""
        return hf.strategy(self.trainer)

    @cached_property
    def never_used(self) -> tuple[str, ...]:
        """Parameters that no forward of the model's family uses, as far as is declared."""
        return self.profile.never_used(self.trainer, self.parameters)

    @property
    def pads(self) -> bool:
        """Whether a blank input is in and no fault has put it out."""
        handles = self.state.kept.get(BLANKS, ()) if self.state is not None else ()
        return bool(handles) and not any(handle.fault for handle in handles)

    @cached_property
    def releases(self) -> dict[str, str]:
        """By distribution, and the framework's own by its name, as the first line says it."""
        profile = self.profile
        found = releases(*dict.fromkeys((*profile.distributions, *_BESIDE)))
        own = found.get(profile.distributions[0])
        return {**found, profile.name: own} if own else found
