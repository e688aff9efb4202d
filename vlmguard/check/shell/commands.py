"""Simple commands: functions, builtins, readers, shells, wrappers; all others are only met."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vlmguard.check import redact
from vlmguard.check.shell import programs, tree
from vlmguard.check.shell.builtins import BUILTINS, Leave, Status
from vlmguard.check.shell.expand import Expander
from vlmguard.check.shell.state import Array, Call, State, Stdin, Trace, known, marks
from vlmguard.check.shell.variables import assign
from vlmguard.check.wrappers.slurm import slurm_variables
from vlmguard.check.wrappers.unwrap import Inner, unwrap

if TYPE_CHECKING:
    from vlmguard.check.shell.machine import Machine

_LOCAL = ("local", "declare", "typeset")
_PYTHON = re.compile(r"python[\d.]*$")
_SHELLS = {"bash", "sh", "dash", "zsh", "ksh"}
# The shell's builtins that start another command, with their options that take a value.
_OWN = {"exec": "a", "command": "", "builtin": "", "time": "fo"}
_PLACES = {"PATH", "HOME", "PWD", "UID"}


class Commands:
    """The half of the machine that meets commands by their words."""

    trace: Trace
    expander: Expander
    stdin: Stdin
    script: str
    line: int
    piped: bool
    around: tuple[str, ...]
    many: str
    implied: int

    @property
    def machine(self) -> Machine:
        """Itself, as builtins know it."""
        return self  # type: ignore[return-value]

    if TYPE_CHECKING:

        def say(self, text: str) -> None: ...
        def remark(self, text: str) -> None: ...
        def refuse(self, text: str, line: int = 0) -> None: ...
        def run(self, command: tree.Command, state: State) -> Status: ...
        def inside(self, text: str, state: State, name: str) -> Status: ...
        def redirected(
            self,
            command: tree.Command,
            redirections: Sequence[tree.Redirection],
            state: State,
        ) -> Status: ...

    # simple commands
    def do_simple(self, command: tree.Simple, state: State) -> Status:
        if command.redirections:
            inner = tree.Simple(command.line, command.assignments, command.words)
            return self.redirected(inner, command.redirections, state)
        words: list[str] = []
        for word in command.words:
            if isinstance(word, tree.Assignment):
                self.declared(word, words, state)
                words.append(word.name)
            else:
                words.extend(self.expander.fields(word, state))
        if not words:
            state.status = 0
            for one in command.assignments:
                assign(self.machine, one, state)
            return state.status
        if not command.assignments:
            return self.call(words, state)
        return self.with_env(command.assignments, words, state)

    def declared(self, one: tree.Assignment, words: Sequence[str], state: State) -> None:
        """``local name=value`` and kin: the value is read before the name is made anew."""
        before = state.get(one.name)
        before = Array(dict(before.items), before.named) if isinstance(before, Array) else before
        if "-A" in words:
            state.set(one.name, Array(named=True))
        assign(self.machine, one, state)
        if words[0] in _LOCAL and "-g" not in words:
            state.localise(one.name, before)

    def with_env(
        self, assignments: Sequence[tree.Assignment], words: list[str], state: State
    ) -> Status:
        """``NAME=value command``: the variables are exported for this command alone."""
        before = {one.name: state.get(one.name) for one in assignments}
        exported = set(state.exported)
        for one in assignments:
            assign(self.machine, one, state)
            state.exported.add(one.name)
        try:
            return self.call(words, state)
        finally:
            state.exported = exported | (state.exported - exported - set(before))
            for name, value in before.items():
                if value is None:
                    state.variables.pop(name, None)
                else:
                    state.variables[name] = value

    def call(self, words: list[str], state: State) -> Status:
        """A command by its words: function, builtin, a program that reads, or one that is met."""
        name = words[0]
        if not known(name):
            self.refuse(f"a command that is not known: {self.trace.shown(' '.join(words))[:80]}")
            return None
        if name in state.functions:
            return self.function(words, state)
        if name in BUILTINS:
            return BUILTINS[name](self.machine, words[1:], state, "")
        base = os.path.basename(name)
        if not name:
            self.refuse("a command without a name (a variable that is not set here?): "
                        + self.trace.shown(" ".join(words))[:80])  # fmt: skip
            return 127
        if base in _OWN:
            return self.wrapped(base, words, state)
        inner = unwrap(words, self.stdin.text)
        if inner is not None:
            return self.behind(words, inner, state)
        if base in _SHELLS or name.endswith(".sh"):
            return self.shell(base, words, state)
        stdin = self.stdin.text
        if base == "tee":
            text = self.stdin.rest()
            for path in (word for word in words[1:] if word[:1] != "-" and known(word)):
                state.write(path, text, bool({"-a", "--append"} & set(words)))
                self.trace.written.add(state.path(path))
            self.say(text)
            return 0
        unclear = "".join(dict.fromkeys("".join(marks(word) for word in words[1:]) + marks(stdin)))
        if base in programs.PROGRAMS and unclear and base not in ("cat", "basename", "dirname"):
            self.say(unclear + "\n")
            return None
        found = programs.answer(base, words[1:], stdin, state)
        if found is not None:
            self.say(found[1])
            return found[0]
        return self.met(words, state)

    def met(self, words: list[str], state: State) -> Status:
        """A program that is not started."""
        if os.path.basename(words[0]) == "mkdir":
            state.folders.update(state.path(w) for w in words[1:] if w[:1] != "-" and known(w))
        lost = words[0].startswith("-")
        if lost:
            self.refuse(
                f"bash runs {self.trace.shown(words[0])} as a command: what stands before it is "
                "empty here, or the command above ended (a comment, or a blank behind \\), so its "
                "flags are lost"
            )
        call = Call(tuple(words), state.env, state.folder, self.line, self.script,
                    state.certain, self.piped, self.around, self.implied, self.many,
                    self.stdin.text if _PYTHON.match(os.path.basename(words[0])) else "",
                    )  # fmt: skip
        if call not in self.trace.calls:
            self.trace.calls.append(call)
        shown = " ".join(redact.words(self.trace.shown(word) for word in words[:30]))
        self.say(self.trace.unknown(f"the output of {shown[:60]}"))
        return None

    def function(self, words: list[str], state: State) -> Status:
        if len(state.scopes) > 40:
            self.refuse(f"the function {words[0]} calls itself too deeply")
            raise Leave("exit")
        before = state.arguments
        state.arguments = tuple(words[1:])
        state.scopes.append({})
        try:
            return self.run(state.functions[words[0]], state)
        except Leave as leave:
            if leave.kind != "return":
                raise
            return state.status
        finally:
            state.arguments = before
            state.leave_function()

    def wrapped(self, base: str, words: list[str], state: State) -> Status:
        """``exec``, ``command``, ``time``: what they start is met in their place."""
        rest = words[1:]
        valued = _OWN[base]
        if base == "command" and rest[:1] in (["-v"], ["-V"]):
            return BUILTINS["type"](self.machine, rest[1:], state, "")
        while rest and rest[0].startswith("-"):
            word = rest.pop(0)
            if word == "--":
                break
            if len(word) == 2 and word[1] in valued and rest:
                rest.pop(0)
        if not rest:
            return 0
        inner = state.copy()
        if base in ("command", "builtin") and rest[0] in inner.functions:
            del inner.functions[rest[0]]
        shares = base != "exec"
        if base == "exec":
            self.call(rest, inner)
            raise Leave("exit")
        target = state if shares and rest[0] not in state.functions else inner
        return self.call(rest, target)

    def behind(self, words: list[str], inner: Inner, state: State) -> Status:
        """What a wrapper starts, in the environment that it gives to it."""
        there = state.copy()
        there.functions = {}
        if inner.clean:
            there.exported &= _PLACES
            there.variables = {k: v for k, v in there.variables.items() if k in _PLACES}
        there.variables.update(inner.env)
        there.exported.update(inner.env)
        if inner.away:
            self.remark(f"what {os.path.basename(words[0])} starts runs {inner.away}: its files "
                        "and releases are looked at here")  # fmt: skip
        typed = words[: len(words) - len(inner.words) + inner.implied]
        before = self.around, self.many, self.implied
        self.around = () if inner.text else (*self.around, *typed)
        self.many, self.implied = inner.many or self.many, inner.implied
        try:
            if inner.text:
                return self.shell("bash", ["bash", "-c", inner.text], there)
            command = list(inner.words)
            if os.path.basename(words[0]) == "sbatch":
                slurm = slurm_variables("#SBATCH " + " ".join(typed))
                there.variables.update(slurm)
                there.exported.update(slurm)
                command = ["bash", *command]
            return self.call(command, there)
        finally:
            self.around, self.many, self.implied = before

    def shell(self, base: str, words: list[str], state: State) -> Status:
        """``bash script``, ``bash -c text``, ``./script.sh``: read like this one."""
        rest = list(words) if base not in _SHELLS else words[1:]
        text: str | None = None
        file, name = "", base
        while rest and base in _SHELLS and re.match(r"[-+]\w|--\w", rest[0]):
            flag = rest.pop(0)
            if flag.startswith("--"):
                del rest[: flag in ("--rcfile", "--init-file")]
                continue
            if "c" in flag and rest:
                text = rest.pop(0)
                name = rest.pop(0) if rest else base
                break
            if flag.endswith("o") and rest:
                rest.pop(0)
        if text is None and not rest:
            text = self.stdin.rest()
        elif text is None:
            file = name = rest.pop(0)
            text = state.read(name) if known(name) else None
            if text is None:
                return self.met(words, state)
        if not known(text):
            self.refuse(f"{base} runs what is not known: {self.trace.shown(text)[:80]}")
            return None
        inner = state.copy()
        inner.functions = {}
        slurm = {k: v for k, v in slurm_variables(text).items() if k not in inner.variables}
        inner.variables.update(slurm)
        inner.exported.update(slurm)
        inner.arguments, inner.name = tuple(rest), name
        inner.variables["BASH_SOURCE"] = name
        kept = {*inner.exported, "BASH_SOURCE", "PWD", "UID"}
        inner.variables = {k: v for k, v in inner.variables.items() if k in kept}
        try:
            return self.inside(text, inner, file)
        except Leave:
            return inner.status
