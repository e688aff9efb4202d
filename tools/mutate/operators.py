"""Small changes to a module's source, each of which a test should notice.

Changed are conditions, comparisons, boolean operators, numbers and truth values, default policies
and levels, returned values, and statements. Left alone are docstrings, words of messages,
annotations, decorators, and what only a type checker reads.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NEGATED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
POLICIES = {"fix": ("warn", "error"), "error": ("warn",), "warn": ("off", "error")}
LEVELS = {"error": "note", "warning": "error", "note": "error"}
_BARE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.NamedExpr)
_UNREAD = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)


@dataclass(frozen=True)
class Mutation:
    """One change.

    Attributes:
        file: path below the root.
        where: the function, as Class.name; "" at the module's top.
        start, end: (line from 1, column in bytes) of what is replaced.
        number: which of those that read alike in this function.
    """

    file: str
    where: str
    line: int
    kind: str
    before: str
    after: str
    start: tuple[int, int]
    end: tuple[int, int]
    number: int = 0

    @property
    def key(self) -> str:
        """The same while other parts of the file change."""
        told = [self.file, self.where, self.kind, self.before, self.after, str(self.number)]
        return hashlib.sha256("\0".join(told).encode()).hexdigest()[:12]

    def applied(self, source: str) -> str:
        """The whole file with this change."""
        lines = source.encode().splitlines(keepends=True)
        (first, left), (last, right) = self.start, self.end
        changed = lines[first - 1][:left] + self.after.encode() + lines[last - 1][right:]
        return b"".join([*lines[: first - 1], changed, *lines[last:]]).decode()


def mutations(root: Path, file: str) -> list[Mutation]:
    """All changes to a file, in the order of its lines."""
    source = (root / file).read_text("utf-8")
    found = _Finder(file, source)
    found.visit(ast.parse(source))
    return found.numbered()


class _Finder(ast.NodeVisitor):
    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.scope: list[str] = []
        self.found: list[Mutation] = []

    def numbered(self) -> list[Mutation]:
        seen: dict[str, int] = {}
        made = []
        for each in self.found:
            count = seen[each.key] = seen.get(each.key, -1) + 1
            made.append(Mutation(**{**vars(each), "number": count}))
        return made

    def change(self, node: ast.AST, kind: str, after: str) -> None:
        before = ast.get_source_segment(self.source, node) or ""
        self.found.append(
            Mutation(
                self.file, ".".join(self.scope), node.lineno, kind, before, after,
                (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset),
            )
        )  # fmt: skip

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _UNREAD):
            return
        for kind, after in changes(node):
            self.change(node, kind, after)
        for test in tests(node):
            self.change(test, "condition negated", f"(not {_text(test)})")
        getattr(self, f"visit_{type(node).__name__}", self.generic_visit)(node)

    def _scoped(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        """Its body alone: no decorator, annotation or default."""
        self.scope.append(node.name)
        for each in node.body:
            self.visit(each)
        self.scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scoped

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """`zip`'s ``strict`` guards against what no input makes."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "Literal"):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(kind, replacement) for one node."""
    match node:
        case ast.Compare(ops=[op]):
            yield "comparison negated", _compared(node, NEGATED[type(op)])
            if type(op) in SHIFTED:
                yield "boundary", _compared(node, SHIFTED[type(op)])
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and/or", _text(ast.BoolOp(other, node.values))
            for number in range(len(node.values)):
                rest = [each for at, each in enumerate(node.values) if at != number]
                left = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                yield "condition dropped", _text(left)
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", _text(node.operand)
        case ast.IfExp():
            yield "branch", _text(node.body)
            yield "branch", _text(node.orelse)
        case ast.Constant(value=bool(value)):
            yield "constant", str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", str(value + 1)
        case ast.Call(func=ast.Name(id="Finding"), args=[_, ast.Constant(value=level), *_]):
            yield "level", _releveled(node, LEVELS[level])
        case ast.Return(value=value) if not _nothing(value):
            yield "return None", "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "statement removed", "pass"
        case ast.Continue():
            yield "statement removed", "pass"
        case ast.Break():
            yield "statement removed", "pass"
        case ast.Assign(targets=[ast.Name(id="DEFAULT")], value=ast.Constant(value=policy)):
            for other in POLICIES.get(policy, ()):
                yield "default policy", f"DEFAULT = {other!r}"


def tests(node: ast.AST) -> list[ast.expr]:
    """The conditions of a node that hold no operator to be changed."""
    found = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
    return [each for each in found if isinstance(each, _BARE)]


def _nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _compared(node: ast.Compare, op: type[ast.cmpop]) -> str:
    return _text(ast.Compare(node.left, [op()], node.comparators))


def _releveled(node: ast.Call, level: str) -> str:
    args = [node.args[0], ast.Constant(level), *node.args[2:]]
    return ast.unparse(ast.Call(node.func, args, node.keywords))
