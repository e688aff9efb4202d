"""Walks through a script: every command is met as words, none is started."""

from __future__ import annotations

import time
from collections.abc import Sequence

from vlmguard.check.shell import arith, conditions, patterns, tree
from vlmguard.check.shell.builtins import Leave, Status, status
from vlmguard.check.shell.commands import Commands
from vlmguard.check.shell.expand import Expander
from vlmguard.check.shell.parse import CARRIED, WINDOWS, parse
from vlmguard.check.shell.state import Remark, State, Stdin, Trace, known
from vlmguard.check.shell.tree import NotUnderstood

STEPS, SECONDS, ROUNDS = 50_000, 5.0, 1_000
"""Commands, seconds and rounds of one loop after which reading ends."""


class Machine(Commands):
    """One reading. ``trace`` collects what was met."""

    def __init__(self, name: str) -> None:
        self.trace = Trace()
        self.expander = Expander(self.trace, self.captured)
        self.script = name
        self.line = 0
        self.held = False  # a line's own words are read: what is in them stands in that line
        self.out: list[str] = []
        self.stdin = Stdin()
        self.piped = False
        self.around: tuple[str, ...] = ()
        self.many, self.implied = "", 0
        self.started = time.monotonic()

    # what is said about the script
    def say(self, text: str) -> None:
        self.out.append(text)

    def remark(self, text: str) -> None:
        remark = Remark(self.line, self.script, text)
        if remark not in self.trace.remarks:
            self.trace.remarks.append(remark)

    def refuse(self, text: str, line: int = 0) -> None:
        refused = Remark((not self.held and line) or self.line, self.script, text)
        if refused not in self.trace.refused:
            self.trace.refused.append(refused)

    # texts
    def source(self, text: str, state: State) -> Status:
        """Evaluate text in this shell."""
        if state.depth > 30:
            self.refuse("scripts that call each other too deeply")
            return None
        state.depth += 1
        if WINDOWS in text:
            self.refuse(CARRIED, 1 + text.count("\n", 0, text.index(WINDOWS)))
        try:
            return self.run(parse(text), state)
        except NotUnderstood as error:
            self.refuse(error.what, error.line)
            return None
        finally:
            state.depth -= 1

    def inside(self, text: str, state: State, name: str) -> Status:
        """The same for another file, whose name stands in remarks; "": for words of this one."""
        before = self.script, self.line, self.held
        self.script, self.held = name or self.script, not name
        try:
            return self.source(text, state)
        finally:
            self.script, self.line, self.held = before

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
        if command.line and not self.held and not isinstance(command, tree.Sequence):
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
            except (Leave, RecursionError):
                raise
            except Exception as error:  # a fault of this reader must not end the check
                self.refuse(f"could not be read ({type(error).__name__})", item.line)
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

    def maybe(self, command: tree.Command | None, state: State) -> list[State]:
        """Evaluate what may or may not run: the state that it ends in, none where it leaves."""
        inner = state.copy(certain=False)
        try:
            if command is not None:
                self.run(command, inner)
        except Leave as leave:
            return [inner] if leave.kind in ("break", "continue") else []
        return [inner]

    def join(self, state: State, ends: Sequence[State]) -> None:
        """One of ``ends`` is what comes next: what differs between them is not known."""
        for name in sorted({name for end in ends for name in (*end.variables, *state.variables)}):
            values = [end.get(name) for end in ends]
            if any(value != values[0] for value in values):
                state.set(name, self.trace.unknown(f"{name}, by a condition that is not known"))
            elif values[0] is not None:
                state.set(name, values[0])
        for end in ends:
            state.exported |= end.exported
            state.functions = {**end.functions, **state.functions}
            for own, theirs in zip(state.scopes, end.scopes, strict=False):
                own.update({name: theirs[name] for name in theirs if name not in own})

    def do_andor(self, command: tree.AndOr, state: State) -> Status:
        answer = self.run(command.first, state)
        rest = list(command.rest)
        while rest:
            op, following = rest.pop(0)
            if answer is None:  # nobody knows whether the right side runs, nor what && adds to it
                parts = [following]
                while rest and rest[0][0] == "&&":
                    parts.append(rest.pop(0)[1])
                items = tree.Sequence(command.line, items=tuple((part, False) for part in parts))
                ends = self.maybe(items, state)
                self.join(state, [state.copy(), *ends])
                if op == "&&" and ends:
                    state.folder = ends[0].folder
                    state.set("PWD", state.folder)
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
        unclear: list[tree.Command] = []
        last = command.otherwise
        for condition, body in command.branches:
            answer = self.run(condition, state)
            if answer is None:
                self.remark("a condition that is not known here: both branches are read")
                unclear.append(body)
            if answer == 0:
                last = body
                break
        if unclear:
            return self.one_of([*unclear, last], state)
        return self.run(last, state) if last else 0

    def one_of(self, bodies: Sequence[tree.Command | None], state: State) -> Status:
        """One of them runs, nobody knows which; None stands for nothing."""
        self.join(state, [end for body in bodies for end in self.maybe(body, state)])
        return None

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
                return self.one_of([command.body, None], state)
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
        if not known(value):
            self.remark("case of a value that is not known here: all branches are read")
            every = any(word.literal == "*" for choices, *_ in command.clauses for word in choices)
            bodies = [body for _, body, _ in command.clauses]
            return self.one_of([*bodies, *([] if every else [None])], state)
        for choices, body, end in command.clauses:
            globs = [self.expander.pattern(choice, state) for choice in choices]
            if through or any(patterns.glob(glob).fullmatch(value) for glob in globs):
                answer = self.run(body, state)
                if end == ";;":
                    return answer
                through = end == ";&"
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
