"""Walks through a script: every command is met as words, none is started."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence

from vlmguard.check.shell import arith, conditions, patterns, programs, tree
from vlmguard.check.shell.builtins import BUILTINS, Leave, Status, status
from vlmguard.check.shell.expand import Expander
from vlmguard.check.shell.parse import parse
from vlmguard.check.shell.state import Call, Remark, State, Trace, cleaned, known, marks
from vlmguard.check.shell.tree import NotUnderstood
from vlmguard.check.shell.variables import assign

STEPS, SECONDS, ROUNDS = 50_000, 10.0, 1_000
"""Commands, seconds and rounds of one loop after which reading ends."""
_LOCAL = ("local", "declare", "typeset")
_SHELLS = {"bash", "sh", "dash", "zsh", "ksh"}
# Programs that start another one: word → how many operands stand before the command.
_WRAPPERS = {"nohup": 0, "exec": 0, "command": 0, "builtin": 0, "sudo": 0, "nice": 0, "setsid": 0,
             "ionice": 0, "stdbuf": 0, "time": 0, "timeout": 1, "numactl": 0, "taskset": 1,
             "unbuffer": 0, "env": 0, "catchsegv": 0, "chrt": 1, "proxychains": 0,
             "proxychains4": 0}  # fmt: skip
_VALUED = {"sudo": "ugpC", "nice": "n", "ionice": "cnp", "stdbuf": "ioe", "timeout": "ks",
           "numactl": "NmCpi", "env": "uC", "exec": "a", "taskset": "", "time": "fo"}  # fmt: skip


class Stdin:
    """A command's standard input, read piece by piece."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def take(self, between: str) -> str | None:
        """Up to ``between``; None at the end."""
        if not self.text:
            return None
        line, _, self.text = self.text.partition(between)
        return line

    def rest(self) -> str:
        text, self.text = self.text, ""
        return text


def evaluate(
    source: str,
    name: str,
    folder: str,
    env: Mapping[str, str],
    arguments: Sequence[str] = (),
) -> tuple[Trace, dict[str, str]]:
    """Read a script from its beginning to its end.

    Returns:
        what was met, and the files that it would have written (path → text).
    """
    state = State(
        {key: cleaned(value) for key, value in env.items()},
        set(env),
        arguments=tuple(arguments),
        name=name,
        folder=folder,
    )
    state.variables.update(PWD=folder, BASH_SOURCE=name, BASH_VERSION="5.2.15(1)-release",
                           OSTYPE="linux-gnu", SHLVL="1", UID=str(os.getuid()))  # fmt: skip
    machine = Machine(name)
    try:
        machine.source(cleaned(source), state)
    except Leave:
        pass
    except RecursionError:
        machine.refuse("nested too deeply")
    return machine.trace, state.files


class Machine:
    """One reading. ``trace`` collects what was met."""

    def __init__(self, name: str) -> None:
        self.trace = Trace()
        self.expander = Expander(self.trace, self.captured)
        self.script = name
        self.line = 0
        self.out: list[str] = []
        self.stdin = Stdin()
        self.piped = False
        self.started = time.monotonic()

    # what is said about the script
    def say(self, text: str) -> None:
        self.out.append(text)

    def remark(self, text: str) -> None:
        remark = Remark(self.line, self.script, text)
        if remark not in self.trace.remarks:
            self.trace.remarks.append(remark)

    def refuse(self, text: str, line: int = 0) -> None:
        refused = Remark(line or self.line, self.script, text)
        if refused not in self.trace.refused:
            self.trace.refused.append(refused)

    # texts
    def source(self, text: str, state: State) -> Status:
        """Evaluate text in this shell."""
        if state.depth > 30:
            self.refuse("scripts that call each other too deeply")
            return None
        state.depth += 1
        try:
            return self.run(parse(text), state)
        except NotUnderstood as error:
            self.refuse(error.what, error.line)
            return None
        finally:
            state.depth -= 1

    def inside(self, text: str, state: State, name: str) -> Status:
        """The same for another file, whose name stands in remarks."""
        before, self.script = self.script, name
        try:
            return self.source(text, state)
        finally:
            self.script = before

    def captured(self, part: tree.Substitution, state: State) -> str:
        """The output of ``$(…)``."""
        before, self.out = self.out, []
        piped, self.piped = self.piped, True
        inner = state.copy()
        try:
            state.status = self.run(part.body, inner)
        except Leave:
            state.status = inner.status
        finally:
            text = "".join(self.out)
            self.out, self.piped = before, piped
        return text

    # commands
    def run(self, command: tree.Command, state: State) -> Status:
        """Evaluate one command; its status, None if it is not known."""
        self.trace.steps += 1
        if self.trace.steps > STEPS or time.monotonic() - self.started > SECONDS:
            self.refuse(f"not at its end after {STEPS} commands or {SECONDS:.0f} s")
            raise Leave("exit")
        if command.line and not isinstance(command, tree.Sequence):
            self.line = command.line
        redirected = command.redirections if not isinstance(command, tree.Simple) else ()
        if redirected:
            return self.redirected(command, redirected, state)
        return self.plain(command, state)

    def redirected(
        self, command: tree.Command, redirections: Sequence[tree.Redirection], state: State
    ) -> Status:
        """Input comes from text, output goes nowhere, or to a file that is only remembered."""
        before_in, before_out, piped = self.stdin, self.out, self.piped
        target: list[tuple[str, bool]] = []
        for one in redirections:
            if one.body is not None:
                self.stdin = Stdin(self.expander.text(one.body, state))
                continue
            name = self.expander.text(one.target, state)
            if one.op == "<<<":
                self.stdin = Stdin(name + "\n")
            elif one.op == "<":
                text = state.read(name) if known(name) else None
                self.stdin = Stdin(self.trace.unknown(f"< {name}") if text is None else text)
            elif one.op in (">", ">>", ">|", "&>", "&>>") and one.number in ("", "1"):
                target.append((name, one.op.endswith(">>")))
                self.out, self.piped = [], True
            elif one.op == ">&" and one.number in ("", "1") and not name.isdigit():
                target.append((name, False))
                self.out = []
            elif one.op == ">&" and one.number in ("", "1") and name == "2":
                self.out = []
        try:
            return self.plain(command, state)
        finally:
            text = "".join(self.out)
            for name, append in target:
                if known(name) and name != "/dev/null":
                    state.write(name, text, append)
                    self.trace.written.add(state.path(name))
            self.stdin, self.out, self.piped = before_in, before_out, piped

    def plain(self, command: tree.Command, state: State) -> Status:
        answer = getattr(self, "do_" + type(command).__name__.lower())(command, state)
        state.status = answer
        return answer  # type: ignore[no-any-return]

    def do_sequence(self, command: tree.Sequence, state: State) -> Status:
        answer: Status = 0
        for item, _background in command.items:
            try:
                answer = self.run(item, state)
            except NotUnderstood as error:
                self.refuse(error.what, error.line)
                answer = None
            except arith.Unknown:
                answer = None
            state.status = answer
        return answer

    def do_pipeline(self, command: tree.Pipeline, state: State) -> Status:
        answer: Status = 0
        before_in, before_out, piped = self.stdin, self.out, self.piped
        last = len(command.stages) - 1
        try:
            for number, stage in enumerate(command.stages):
                self.out = before_out if number == last else []
                self.piped = piped if number == last else True
                answer = self.run(stage, state.copy() if last else state)
                if number < last:
                    self.stdin = Stdin("".join(self.out))
        except Leave:
            if not last:
                raise
        finally:
            self.stdin, self.out, self.piped = before_in, before_out, piped
        if command.negated:
            return None if answer is None else int(answer == 0)
        return answer

    def maybe(self, command: tree.Command, state: State) -> None:
        """Evaluate what may or may not run: it is met, and changes nothing."""
        try:
            self.run(command, state.copy(certain=False))
        except Leave:
            pass

    def do_andor(self, command: tree.AndOr, state: State) -> Status:
        answer = self.run(command.first, state)
        for op, following in command.rest:
            if answer is None:
                # an unknown left side: the right one is met and has no effect
                self.maybe(following, state)
            elif (answer == 0) == (op == "&&"):
                answer = self.run(following, state)
        return answer

    def do_group(self, command: tree.Group, state: State) -> Status:
        if not command.subshell:
            return self.run(command.body, state)
        inner = state.copy()
        try:
            return self.run(command.body, inner)
        except Leave as leave:
            if leave.kind in ("break", "continue"):
                raise
            return inner.status

    def do_if(self, command: tree.If, state: State) -> Status:
        for condition, body in command.branches:
            answer = self.run(condition, state)
            if answer == 0:
                return self.run(body, state)
            if answer is None:
                self.remark("a condition that is not known here: both branches are read")
                self.maybe(body, state)
        return self.run(command.otherwise, state) if command.otherwise else 0

    def round(self, body: tree.Command, state: State) -> bool:
        """One round of a loop; false to leave it."""
        try:
            self.run(body, state)
        except Leave as leave:
            if leave.kind not in ("break", "continue"):
                raise
            if leave.count > 1:
                raise Leave(leave.kind, leave.count - 1) from None
            return leave.kind == "continue"
        return True

    def do_while(self, command: tree.While, state: State) -> Status:
        for _ in range(ROUNDS):
            answer = self.run(command.condition, state)
            if answer is None:
                self.maybe(command.body, state)
                return None
            if (answer == 0) == command.until or not self.round(command.body, state):
                return 0
        self.refuse(f"a loop of more than {ROUNDS} rounds was left")
        return None

    def do_for(self, command: tree.For, state: State) -> Status:
        if command.words is None:
            values = list(state.arguments)
        else:
            values = [text for word in command.words for text in self.expander.fields(word, state)]
        for value in values[:ROUNDS]:
            state.set(command.name, value)
            if not self.round(command.body, state):
                break
        if len(values) > ROUNDS:
            self.refuse(f"a loop of more than {ROUNDS} rounds was left")
        return state.status

    def do_countingfor(self, command: tree.CountingFor, state: State) -> Status:
        start, condition, step = command.parts
        self.expander.number(start, state)
        for _ in range(ROUNDS):
            if condition.parts and self.expander.number(condition, state) == 0:
                return 0
            if not self.round(command.body, state):
                return 0
            self.expander.number(step, state)
        self.refuse(f"a loop of more than {ROUNDS} rounds was left")
        return None

    def do_case(self, command: tree.Case, state: State) -> Status:
        value = self.expander.text(command.word, state)
        through = False
        for choices, body, end in command.clauses:
            if not known(value):
                self.maybe(body, state)
                continue
            globs = [self.expander.pattern(choice, state) for choice in choices]
            if through or any(patterns.glob(glob).fullmatch(value) for glob in globs):
                answer = self.run(body, state)
                if end == ";;":
                    return answer
                through = end == ";&"
        if not known(value):
            self.remark("case of a value that is not known here: all branches are read")
            return None
        return 0

    def do_function(self, command: tree.Function, state: State) -> Status:
        state.functions[command.name] = command.body
        return 0

    def do_condition(self, command: tree.Condition, state: State) -> Status:
        return status(conditions.Double(command.tokens, self.expander, state).all())

    def do_let(self, command: tree.Let, state: State) -> Status:
        try:
            return int(self.expander.number(command.expression, state) == 0)
        except arith.Unknown:
            return None

    # simple commands
    def do_simple(self, command: tree.Simple, state: State) -> Status:
        if command.redirections:
            inner = tree.Simple(command.line, command.assignments, command.words)
            return self.redirected(inner, command.redirections, state)
        words: list[str] = []
        for word in command.words:
            if isinstance(word, tree.Assignment):
                if words[0] in _LOCAL and "-g" not in words:
                    state.localise(word.name)
                if "-A" in words:
                    BUILTINS["declare"](self, ["-A", word.name], state, "")
                assign(self, word, state)
                words.append(word.name)
            else:
                words.extend(self.expander.fields(word, state))
        if not words:
            state.status = 0
            for one in command.assignments:
                assign(self, one, state)
            return state.status
        if not command.assignments:
            return self.call(words, state)
        return self.with_env(command.assignments, words, state)

    def with_env(
        self, assignments: Sequence[tree.Assignment], words: list[str], state: State
    ) -> Status:
        """``NAME=value command``: the variables are exported for this command alone."""
        before = {one.name: state.get(one.name) for one in assignments}
        exported = set(state.exported)
        for one in assignments:
            assign(self, one, state)
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
            return BUILTINS[name](self, words[1:], state, "")
        base = os.path.basename(name)
        if base in ("export", "local") or not name:
            return 0
        if base in _WRAPPERS:
            return self.wrapped(base, words, state)
        if base in _SHELLS or name.endswith(".sh"):
            return self.shell(base, words, state)
        stdin = self.stdin.text
        if base == "tee":
            self.say(self.stdin.rest())
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
        call = Call(tuple(words), state.env, state.folder, self.line, self.script,
                    state.certain, self.piped)  # fmt: skip
        if call not in self.trace.calls:
            self.trace.calls.append(call)
        shown = self.trace.shown(" ".join(words))
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
        """``nohup``, ``env``, ``exec``, …: what they start is met in their place."""
        rest = words[1:]
        own: dict[str, str] = {}
        valued = _VALUED.get(base, "")
        if base == "command" and rest[:1] in (["-v"], ["-V"]):
            return BUILTINS["type"](self, rest[1:], state, "")
        while rest and (rest[0].startswith("-") or (base in ("env", "sudo") and "=" in rest[0])):
            word = rest.pop(0)
            if word == "--":
                break
            if not word.startswith("-"):
                name, _, value = word.partition("=")
                own[name] = value
            elif len(word) == 2 and word[1] in valued and rest:
                rest.pop(0)
            elif base == "env" and word in ("-i", "-", "--ignore-environment"):
                return self.met(words, state)
        rest = rest[_WRAPPERS[base] :]
        if not rest:
            return 0
        inner = state.copy()
        inner.variables.update(own)
        inner.exported.update(own)
        if base in ("command", "builtin") and rest[0] in inner.functions:
            del inner.functions[rest[0]]
        shares = base in ("command", "builtin", "time") and not own
        if base == "exec":
            self.call(rest, inner)
            raise Leave("exit")
        target = state if shares and rest[0] not in state.functions else inner
        return self.call(rest, target)

    def shell(self, base: str, words: list[str], state: State) -> Status:
        """``bash script``, ``bash -c text``, ``./script.sh``: read like this one."""
        rest = list(words) if base not in _SHELLS else words[1:]
        text: str | None = None
        name = base
        while rest and base in _SHELLS and re.match(r"[-+]\w", rest[0]):
            flag = rest.pop(0)
            if "c" in flag and rest:
                text = rest.pop(0)
                name = rest.pop(0) if rest else base
                break
            if flag.endswith("o") and rest:
                rest.pop(0)
        if text is None and not rest:
            text = self.stdin.rest()
        elif text is None:
            name = rest.pop(0)
            text = state.read(name) if known(name) else None
            if text is None:
                return self.met(words, state)
        if not known(text):
            self.refuse(f"{base} runs what is not known: {self.trace.shown(text)[:80]}")
            return None
        inner = state.copy()
        inner.functions = {}
        inner.arguments, inner.name = tuple(rest), name
        inner.variables["BASH_SOURCE"] = name
        inner.variables = {k: v for k, v in inner.variables.items()
                           if k in inner.exported or k in ("BASH_SOURCE", "PWD", "UID")}  # fmt: skip
        try:
            return self.inside(text, inner, name)
        except Leave:
            return inner.status
