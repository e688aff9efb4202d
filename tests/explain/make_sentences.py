"""Writes `vlmguard/explain/sentences/`: what packages' checks say, by the class of their places.

    python -m tests.explain.make_sentences ENV/lib/python3.11/site-packages [more of them]

Reads the sources of the packages below (none is imported), takes each `raise` and `assert` with
a message, and asks the catalogue for the class by the frame that would raise it. Kept is the
longest literal part of a message that neither a sign nor a topic tells when it stands alone, and
that one class alone has. What it writes is a draft: those whose class is in doubt, or whose words
another package may say of something else, are taken out by eye before they are committed. The files that
bear a package's name (megatron.txt and its like) were made so from checkouts, and are left alone.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vlmguard.explain import sentences
from vlmguard.explain.catalogue import load
from vlmguard.explain.classify import classify
from vlmguard.explain.event import Event
from vlmguard.explain.lines import Line

PACKAGES = (
    "torch/distributed", "torch/utils", "torch/optim", "torch/amp", "torch/cuda", "torch/nn/parallel",
    "torch/serialization.py", "transformers", "peft", "trl", "accelerate", "deepspeed", "datasets",
    "huggingface_hub", "safetensors", "swift", "llamafactory", "FlagEmbedding", "colossalai", "qwen_vl_utils",
)  # fmt: skip
# What no training reaches, and what only a package's own developers do.
LEFT_OUT = re.compile(
    r"/(tests?|testing|agents|onnx|nnapi|rpc|pipelines|_shard|_tensor|executorch|inference|benchmarks?)/"
    r"|/convert_|_test\.py|deepspeed/(module_inject|autotuning|compile)/|zero/test|gradcheck|chat_parsing"
    r"|huggingface_hub/(?!file_download|_snapshot|constants|errors|utils/_(?:http|validators|auth))"
    r"|modeling_tf|_tf_|flax|distributed/(tensor|_local|_pycute|pipelining|_symmetric)|datapipes"
)
INTERNAL = re.compile(r"(?i)must not be none|internal error|report a bug|hould not happen|unreachable|file an issue")
HOLE = "\0"
LONGEST, SHORTEST, WORDS = 60, 24, 4
NOWHERE = ("VG578", "VG562")  # compilers' inner checks; what only passes another's error on


@dataclass(frozen=True)
class Check:
    """One `raise` or `assert`: where it stands, its type, its message with holes."""

    path: str
    function: str
    kind: str
    message: str


def words(node: ast.expr | None, known: dict[str, str]) -> str | None:
    """The text of a message's expression; `HOLE` for what a run puts in. None: no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(v.value if isinstance(v, ast.Constant) else HOLE for v in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = words(left, known), words(right, known)
            return None if parts == (None, None) else "".join(HOLE if p is None else p for p in parts)
        case ast.BinOp(left=left, op=ast.Mod()):
            text = words(left, known)
            return None if text is None else re.sub(r"%[-#0-9.]{0,6}[sdrfxi]", HOLE, text)
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            text = words(value, known)
            return None if text is None else re.sub(r"\{[^{}]*\}", HOLE, text)
        case ast.Name(id=name):
            return known.get(name)
    return None


def checks(path: Path, shown: str) -> Iterator[Check]:
    """Those of one file; a message that was put into a variable before is followed."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    yield from _inside(tree, shown, "<module>", {})


def _inside(node: ast.AST, path: str, function: str, known: dict[str, str]) -> Iterator[Check]:
    for child in ast.iter_child_nodes(node):
        where, inner = function, known
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                where, inner = name, dict(known)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if (text := words(value, known)) is not None:
                    known[name] = text
            case ast.Raise(exc=ast.Call(func=func, args=[first, *_])):
                if text := words(first, known):
                    yield Check(path, function, _named(ast.unparse(func)), text)
            case ast.Assert(msg=message) if message is not None:
                if text := words(message, known):
                    yield Check(path, function, "AssertionError", text)
        yield from _inside(child, path, where, inner)


def _named(kind: str) -> str:
    name = kind.rpartition(".")[2]
    return name if hasattr(builtins, name) else f"package.errors.{name}"


def told(check: Check, framed: bool) -> str | None:
    """The class of a check, with its frame or alone, as the sentences do not tell it."""
    line = Line(0, 0, 0, None, "", None, "", "", "")
    event = Event(line, check.kind, check.message.replace(HOLE, "3"), final=not framed)
    if framed:
        event.frames = [("/job/train.py", 42, "main"), (f"/env/site-packages/{check.path}", 7, check.function)]
    known = classify(event, load())
    return known.code if known else None


def part(message: str) -> str:
    """The longest literal part of a message, cut between words; "" if it says too little."""
    text = max((" ".join(p.split()) for p in message.split(HOLE)), key=len)
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0]
    text = text.strip(" .,:;'\"`()[]{}")
    return text if len(text) >= SHORTEST and len(text.split()) >= WORDS else ""


def collected(folders: list[Path]) -> dict[str, str]:
    """Sentence → class."""
    found: dict[str, set[str]] = defaultdict(set)
    seen = set()
    for folder in folders:
        for package in PACKAGES:
            files = [folder / package] if package.endswith(".py") else sorted((folder / package).rglob("*.py"))
            for file in files:
                shown = file.relative_to(folder).as_posix()
                if not file.is_file() or LEFT_OUT.search(f"/{shown}"):
                    continue
                for check in checks(file, shown):
                    text = part(check.message)
                    if not text or check in seen or INTERNAL.search(check.message):
                        continue
                    seen.add(check)
                    code = told(check, framed=True)
                    if code is not None and code not in NOWHERE and told(check, framed=False) != code:
                        found[text].add(code)
    return _alone({text: codes.pop() for text, codes in found.items() if len(codes) == 1})


def _alone(found: dict[str, str]) -> dict[str, str]:
    """Without those that a shorter one tells, and those that one of another class holds."""
    kept: dict[str, str] = {}
    for text in sorted(found, key=len):
        inner = [other for other in kept if other in text]
        if not inner:
            kept[text] = found[text]
        elif any(found[other] != found[text] for other in inner):
            for other in inner:
                del kept[other]
            kept[text] = found[text]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args().folders
    sentences._all = tuple  # what the signs, places and topics tell without them
    by_class: dict[str, list[str]] = defaultdict(list)
    for text, code in collected(folders).items():
        by_class[code].append(text)
    out = Path(sentences.__file__).parent / "sentences"
    for old in out.glob("VG*.txt"):
        old.unlink()
    for code, texts in by_class.items():
        (out / f"{code}.txt").write_text("\n".join(sorted(texts)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
