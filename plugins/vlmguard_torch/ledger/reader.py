"""What a reader of one station is: a small part that reads torch objects and gives numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vlmguard.ledger.account import Account


@dataclass(frozen=True)
class Subject:
    """What is watched.

    Attributes:
        model: the user's module, without DDP or an engine around it.
        optimizer: torch's optimizer, or DeepSpeed's.
        parameters: those of ``account.tensors``, in their order.
        engine: DeepSpeed's engine, None without.
        group: the data-parallel process group, None for the default one.
        tokenizer: tokenizer or processor, None if unknown.
    """

    model: Any
    optimizer: Any
    parameters: tuple[Any, ...]
    account: Account
    engine: Any = None
    group: Any = None
    tokenizer: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Reader:
    """Reads one station of each window that is watched. The order of calls in a window: `open`,
    (`batch`, the forward, the backward) once a micro-batch, `before`, the step, `after`, `page`,
    `close`. Whoever calls contains what they raise.

    Attributes:
        together: whether all ranks are to watch this window.
        agree: asks all ranks whether they have come here. Only if both are so may a reader call a
            collective.
    """

    name = ""
    together = True
    agree: Callable[[], bool]

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.agree = lambda: subject.account.world == 1

    def open(self) -> None:
        """A window begins that is watched: hooks go on."""

    def batch(self, inputs: Mapping[str, Any]) -> None:
        """A forward that trains is about to run on these keyword arguments of the model."""

    def before(self) -> None:
        """Gradients are ready, the optimizer is about to move."""

    def after(self) -> None:
        """The optimizer has moved."""

    def page(self) -> Mapping[str, Any] | str:
        """What was read: JSON, in which tensors may stand for lists of numbers (they are copied to
        the host later, without waiting). A text is the reason why nothing could be read."""
        return {}

    def close(self) -> None:
        """The window is over: hooks go off, nothing is kept."""
