"""Which parameters forward touched under Gemini: known before backward, when stopping is safe.

Several forwards may come before one backward; what they touched is let go of at the first training
forward after it.

``p.grad is None`` is true of every parameter after a good Gemini backward, so it tells nothing.
"""

from __future__ import annotations

from typing import Any

from vlmguard.runtime.faults import contain


class Touched:
    """Sees each operation on a parameter. One set update an operation; nothing is kept alive.

    model: `gemini_chunks.engine`'s.
    sound: False once an operation may have gone unseen: "untouched" then means nothing.
    paused: a forward runs that no backward follows: an evaluation.
    ended: a backward has run since the last training forward began.
    """

    sound = True
    paused = False
    ended = False

    def __init__(self, model: Any) -> None:
        self.seen: set[int] = set()
        hooks = getattr(model, "hooks", None)
        if isinstance(hooks, list):  # from 0.4.3 on
            hooks.append(_hook(self))
        else:
            _beside(model.param_op_hook, self)

    def note(self, params: list[Any]) -> None:
        if not self.paused:
            self.seen.update(map(id, params))

    def begins(self, accumulates: bool) -> None:
        """A training forward begins."""
        if self.ended and not accumulates:
            self.seen.clear()
        self.ended = self.paused = False

    def clear(self) -> None:
        """A step was taken, or is about to be."""
        self.seen.clear()
        self.ended = False


def _hook(touched: Touched) -> Any:
    from colossalai.tensor.param_op_hook import ColoParamOpHook

    class Recorder(ColoParamOpHook):
        def pre_forward(self, params: list[Any]) -> None:
            if contain("noting an operation", touched.note, params, default=True):
                touched.sound = False

        def post_forward(self, params: list[Any]) -> None: ...

        def pre_backward(self, params: list[Any]) -> None:
            touched.ended = True

        def post_backward(self, params: list[Any]) -> None: ...

    return Recorder()


def _beside(hook: Any, touched: Touched) -> None:
    """Releases that take one hook only: on that one object, before its own."""
    forward, backward = hook.pre_forward, hook.pre_backward

    def pre_forward(params: list[Any]) -> None:
        if contain("noting an operation", touched.note, params, default=True):
            touched.sound = False
        forward(params)

    def pre_backward(params: list[Any]) -> None:
        touched.ended = True
        backward(params)

    hook.pre_forward, hook.pre_backward = pre_forward, pre_backward
