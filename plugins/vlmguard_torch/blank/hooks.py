"""The hooks of the blank input on one model.

Where it runs: in front of every other hook of what the model calls when its towers have run, which
is its language model. There the towers themselves tell which of them ran. It is behind the
embeddings, where the model itself runs its towers. And it is before DeepSpeed's and FSDP's own
hooks, so that all ranks gather in the same order. Two kinds of model have another place: those that
run their towers before they embed tokens (in front of the embeddings), and those that have their
layers themselves (behind the embeddings). There the arguments tell which towers are going to run.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import torch

from vlmguard.core.errors import Stop
from vlmguard.runtime.faults import contain
from vlmguard_torch import module_calls, zero_contribution
from vlmguard_torch.blank import generation
from vlmguard_torch.blank.forward_gradients import ForwardGradients
from vlmguard_torch.blank.run_tower import Runner
from vlmguard_torch.layout import cross_attention
from vlmguard_torch.layout.model_layout import ModelLayout
from vlmguard_torch.module_calls import Did, Hook, sure

When = Literal["always", "training", "evaluation"]
"""In which forwards a blank runs. "evaluation": in all but those that train."""
_WHAT = "gradients of a blank input"


class Blank:
    """The hooks on one model.

    Attributes:
        padded: forwards in which a tower ran on a blank input.
        fault: what went wrong, after which nothing is run any more; "" while all is well.
    """

    def __init__(
        self,
        found: ModelLayout,
        made: Mapping[str, Mapping[str, Any]],
        when: When,
        say: Callable[[str], None],
        failed: Callable[[str], None] = lambda _: None,
        traced: bool = True,
        behind: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.layout, self.when, self.say, self.failed = found, when, say, failed
        self._made = functools.partial(Hook, broke=self._broke, traced=traced)
        self.padded = 0
        self.fault = ""
        self.generating = generation.Generating()
        self._runner = Runner(found, made, behind or {})
        self._several = len({frozenset(found.towers.get(kind, ())) for kind in made}) > 1
        """Whether kinds of input have towers of their own, which then run in the model's order."""
        self._behind_towers = self._runner.behind_towers()
        self._calls: dict[str, int] = {}  # tower → calls by the model since its last forward
        self._busy = False  # a blank runs: its calls of towers do not count
        self._settled = True  # nothing is left to do until the next forward begins
        self._padded = False  # this forward has run a blank
        self._crosses = False  # and the language model reads it
        self._gradients = ForwardGradients(found, self._runner, self._several)
        self._given = False  # this forward was given embeddings
        self._told: dict[str, Any] = {}  # arguments of this forward
        self._waiting: list[torch.Tensor] = []  # features that wait for the embeddings
        self._handles: list[Any] = []
        self._placed: dict[str, tuple[Any, list[Any]]] = {}  # path → module, handles on it
        self._first: dict[str, tuple[Any, Any]] = {}  # tower or layer → module, hook in front of it
        self._undo: Callable[[], None] = lambda: None

    # On and off

    def put_on(self) -> Did:
        """Called once by `install`."""
        owner = self.layout.owner
        self._handles += [
            owner.register_forward_pre_hook(self._made(self._begin), with_kwargs=True),
            owner.register_forward_hook(self._made(self._end), always_call=True),
        ]
        for path in self.layout.watched:
            tower = owner.get_submodule(path)
            seen = self._made(functools.partial(self._seen, path))
            self._first[path] = tower, tower.register_forward_pre_hook(seen)
            if callable(getattr(tower, "encode", None)):
                self._enter(path, tower)
        if self._several:
            for path in self._behind_towers:
                aligned = self._made(functools.partial(self._aligned, path))
                self._handles.append(owner.get_submodule(path).register_forward_pre_hook(aligned))
        throw = cross_attention.ThrowAway(self._is_crossing, self._thrown)
        for path in self.layout.crossing:
            layer = owner.get_submodule(path)
            before, after = self._made(throw.before), self._made(throw.after)
            self._first[path] = layer, layer.register_forward_pre_hook(before, with_kwargs=True)
            self._handles.append(layer.register_forward_hook(after, with_kwargs=True))
        self._undo = generation.wrap(self.layout.above, self)
        return Did()

    def _enter(self, path: str, tower: Any) -> None:
        """Emu3 calls its VQ model by ``encode``, which no hook sees: its first module is seen."""

        def entered(module: Any, args: Any) -> Did:
            return Did() if self._calls.get(path) else self._seen(path, tower, args)

        for child in itertools.islice(tower.children(), 1):
            self._handles.append(child.register_forward_pre_hook(self._made(entered)))

    def close(self) -> None:
        """Take every hook off."""
        self._undo()
        placed = [handle for _, handles in self._placed.values() for handle in handles]
        for handle in [*self._handles, *placed, *(hook for _, hook in self._first.values())]:
            handle.remove()
        self._handles.clear()
        self._placed.clear()
        self._first.clear()
        self.fault = self.fault or "closed"

    # The model's own forward

    def _begin(self, owner: Any, args: Any, kwargs: Any) -> Did:
        if self.fault or sure(module_calls.in_backward()):
            return Did()
        self._settled = self._padded = False
        self._gradients.begin()
        self._given = kwargs.get("inputs_embeds") is not None
        self._told = {name: value for name, value in kwargs.items() if value is not None}
        self._waiting.clear()
        return self._go_first()

    def _end(self, owner: Any, args: Any, output: Any) -> Did:
        if sure(module_calls.in_backward()):
            return Did()
        self._settled, self._crosses = True, False
        self._calls.clear()
        self._told = {}
        self._waiting.clear()
        self.generating.forward_ended()
        return Did()

    def _seen(self, path: str, tower: Any, args: Any) -> Did:
        """A tower is called. Not a recomputation: it belongs to a forward that is over."""
        if self._busy or sure(module_calls.in_backward()):
            return Did()
        if torch.is_grad_enabled():
            contain(_WHAT, self._gradients.used, path)
        if not sure(self._is_settled()) and self._several:
            self._run_before(path)
        self._calls[path] = self._calls.get(path, 0) + 1
        return Did()

    def _aligned(self, path: str, aligner: Any, args: Any) -> Did:
        """What lies behind a tower is called."""
        if torch.is_grad_enabled() and not sure(module_calls.in_backward()):
            if self._busy:
                self._gradients.ran(path)
            else:
                contain(_WHAT, self._gradients.used, path)
        return Did()

    def _run_before(self, path: str) -> None:
        """The towers whose turn is before this one's, of kinds that this forward does not have."""
        kinds = list(self._runner.made)
        turn = next((n for n, k in enumerate(kinds) if path in self.layout.towers.get(k, ())), 0)
        device = module_calls.device(self._told)
        if device is not None:
            self._waiting += self._features(device, None, kinds[:turn])

    # The place

    def _go_first(self) -> Did:
        """Anew in each forward: DeepSpeed and FSDP put their hooks on when they wrap the model, and
        FSDP may put a module of its own in between."""
        for path in self.layout.decoders:
            self._hook(path, self._before, None)
        for module, hook in self._first.values():
            module._forward_pre_hooks.move_to_end(hook.id, last=False)
        if self.layout.early or not self.layout.decoders:
            front = self._in_front if self.layout.early else None
            self._hook(self.layout.embedding, front, self._behind)
        if not self._placed:
            raise TypeError("no hook is in its place")
        return Did()

    def _hook(self, path: str, front: Any, behind: Any) -> None:
        module = self.layout.owner.get_submodule(path)
        known, handles = self._placed.get(path, (None, []))
        if known is not module:
            for handle in handles:
                handle.remove()
            handles = []
            if front:
                hook = self._made(front)
                handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
            if behind:
                handles.append(module.register_forward_hook(self._made(behind)))
            self._placed[path] = module, handles
        if front:
            module._forward_pre_hooks.move_to_end(handles[0].id, last=False)

    def _before(self, decoder: Any, args: Any, kwargs: Any) -> Did:
        """The language model is called: all towers that this forward runs have run."""
        if sure(self._is_settled()):
            return Did()
        return (self._cross if self.layout.crossing else self._add)(args, kwargs)

    def _add(self, args: Any, kwargs: Any) -> Did:
        """The same call with nothing added to its embeddings, if there is anything to do."""
        where, embeds = module_calls.embeddings(args, kwargs)
        if embeds is None:
            return Did()
        self._settled = True
        found = self._features(embeds.device, kwargs.get("past_key_values"))
        out = self._with(embeds, self._waiting + found).value
        if out is embeds:
            return Did()
        return _call(module_calls.with_embeddings(args, kwargs, where, out))

    def _cross(self, args: Any, kwargs: Any) -> Did:
        """The same, of a language model that reads images through layers of its own."""
        self._settled = True
        self._gradients.begin_crossing()
        tokens = cross_attention.tokens(kwargs)
        if tokens is None or sure(cross_attention.given(kwargs)):
            return Did()
        found = self._features(tokens.device, kwargs.get("past_key_values"))
        self._crosses = bool(found)
        return (
            _call((args, cross_attention.give(kwargs, found[0], len(tokens)))) if found else Did()
        )

    def _with(self, embeds: torch.Tensor, features: list[torch.Tensor]) -> Did:
        self._gradients.needed(embeds)
        added = zero_contribution.add(embeds, features)
        if getattr(added, "shape", None) != embeds.shape:
            raise TypeError(f"{type(added).__name__}, not the embeddings")
        return Did(added)

    def _is_crossing(self) -> bool:
        """Whether the language model reads a blank image now."""
        return self._crosses and not sure(module_calls.in_backward())

    def _in_front(self, embedding: Any, args: Any, kwargs: Any) -> Did:
        """The tokens are about to be embedded, by a model that runs its towers before."""
        if not sure(self._is_settled()) and not self._given:
            self._waiting += self._features(args[0].device, None)
        return Did()

    def _behind(self, embedding: Any, args: Any, output: Any) -> Did:
        """The tokens are embedded."""
        if sure(self._is_settled()) or self._given:
            return Did()
        self._settled = True
        found = [] if self.layout.early else self._features(output.device, None)
        return self._with(output, self._waiting + found)

    def _is_settled(self) -> bool:
        return bool(self.fault) or self._settled or self._busy or sure(module_calls.in_backward())

    # What is missing, and running it

    def _features(
        self, device: torch.device, cache: Any, kinds: Iterable[str] | None = None
    ) -> list[torch.Tensor]:
        """What the towers that did not run in this forward return for a blank input."""
        features: list[torch.Tensor] = []
        missing = self._missing(kinds) if sure(self._needed(cache)) else []
        for kind in missing:
            features += self._run(kind, device)
        for kind in self.generating.to_finish():
            features += self._finish(kind, device)
        self.padded += bool(missing) and not self._padded
        self._padded = self._padded or bool(missing)
        return features

    def _needed(self, cache: Any) -> bool:
        training = self.layout.owner.training and torch.is_grad_enabled()
        if self.when == "training":
            return training and sure(self._trains())
        if self.when == "evaluation" and training:
            return False
        return self.generating.may_blank(cache)

    def _trains(self) -> bool:
        owner = self.layout.owner
        if any(p.requires_grad for p in owner.parameters(recurse=False)):  # as LLaVA-NeXT's newline
            return True
        modules = (owner.get_submodule(path) for path in self.layout.seeing)
        return any(p.requires_grad for module in modules for p in module.parameters())

    def _missing(self, kinds: Iterable[str] | None = None) -> list[str]:
        """Those of ``kinds`` (all) for which a tower is still to run, in this forward."""
        left = dict(self._calls)
        missing = []
        for kind, arguments in self._runner.made.items():
            if kind in self.generating.encoded or (kinds is not None and kind not in kinds):
                continue
            if not self.layout.decoders and {*self._told} & {*arguments}:
                continue  # the model is going to run this tower
            paths = self.layout.towers.get(kind, ())
            if not max((left.get(path, 0) for path in paths), default=0):
                missing.append(kind)
            elif not self._given:  # embeddings from outside hold each kind, in one call or more
                left.update({path: left.get(path, 0) - 1 for path in paths})
        return missing

    def _run(self, kind: str, device: torch.device) -> list[torch.Tensor]:
        self._busy = True
        self._gradients.begin_blank()
        try:
            found = self._runner.run(kind, device, self._told, self.generating.encoding)
        finally:
            self._busy = False
        if not found:
            raise TypeError(f"{kind}: the tower ran, and nothing of it was found")
        for path in self.layout.towers.get(kind, ()):
            self._calls[path] = self._calls.get(path, 0) + 1
        if self.generating.encoding and kind in self._runner.behind:
            self.generating.unfinished[kind] = found
        contain(_WHAT, self._gradients.watch, kind, found)
        return found

    def _finish(self, kind: str, device: torch.device) -> list[torch.Tensor]:
        """As the model does with features that ``generate`` had encoded, in each forward."""
        self._busy = True
        try:
            return self._runner.finish(kind, device, self.generating.unfinished[kind])
        finally:
            self._busy = False

    def _thrown(self, *given: torch.Tensor) -> None:
        if not sure(module_calls.in_backward()):
            contain(_WHAT, self._gradients.watch_crossing, *given)

    def encode(self, device: torch.device | None) -> None:
        """``generate`` has run its encoders, before any forward; its inputs are on ``device``.

        FSDP2 and, of parameters that a model holds itself (LLaVA-NeXT's newline), ZeRO-3 do not
        gather here: a rank with an image fails by itself, one without goes on without a word.
        """
        told = self.say, self.failed
        if self.when != "training" and not self.fault and device is not None:
            self.say = self.failed = lambda _: None
            self._padded = False
            with self._contained():
                self._encoded(device)
            self.fault, (self.say, self.failed) = "", told
        self._calls.clear()
        self.generating.encoded = frozenset(generation.ENCODED)

    def _encoded(self, device: torch.device) -> None:
        self.generating.encoding = True
        try:
            self._features(device, None, generation.ENCODED)
        finally:
            self.generating.encoding = False

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        try:
            yield
        except Stop:
            raise
        except Exception as error:
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """A fault of ours ends in a forward without a blank, as if we were not here; or in a `Stop`
        by ``failed``, where other ranks run theirs."""
        if self.fault:
            return
        self.fault = f"{type(error).__name__}: {error}"
        name = type(self.layout.owner).__name__
        self.say(f"vlmguard: {name} runs on no blank input from here on: {self.fault}")
        self.failed(self.fault)


def _call(made: Any) -> Did:
    if [type(part) for part in made] != [tuple, dict]:
        raise TypeError(f"{type(made).__name__}, not a call")
    return Did(made)
