"""Pages, rules' texts, the changelog and docstrings: no riddles, no private terms, no long
sentences."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vlmguard.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
MADE = {  # `python -m tools.pages` and `tools.lab` write these
    "benchmarks.md", "compatibility.md", "extras.md", "facts.md", "gpu.md", "ledger_tried.md",
    "matrix.md", "ordinary.md", "proof.md", "rehearsals.md", "suites.md", "zoo.md",
}  # fmt: skip
OWN = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [ROOT / name for name in OWN] + [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.name not in MADE  # a rule's page is made of the rule's docstring
]
WORDS, CELL = 40, 300
NOT_PLAIN = {
    "a rank acts; it does not 'part' or 'come late'": r"\branks? (that )?(parts?|comes? late)\b",
    "a rank writes a mark before it reads": r"\bleaves? before (it|they) looks?\b",
    "'what … is plain' is a riddle": r"(?i)\bwhat (it|they) do(es)? not \w+ is plain\b",
    "'what is to be changed' is the plan's changes": r"\bwhat is to be changed\b",
    "'is no log' means 'is not a log'": (
        r"\b(?<!here )(is|are) no (booster|FSDP|Trainer|hang|log|verdict|`)"
    ),
    "'of … is read' turns the sentence round": r"(?i)(^|[.;:] )of [^.;]{0,80} (is|are) read\b",
    "'who' without a person": r"\bonly who\b|\bwho comes\b",
    "a sentence begins with its subject": r"^(Nor (is|are|do|does)|So (were|it went))\b",
    "a model takes audio; it does not hear": r"(?i)\b(model|it) (sees and )?hears\b",
    "a tool reports; nothing 'is told as'": r"\b(is|are) told (as|plainly)\b",
    "'the house' is the code's layout": r"(?i)\bthe house\b",
    "'taken up' is 'guarded from'": r"\btaken up\b",
    "'said of' is 'reported for'": r"\b(is|are) said of\b",
    "'parted by' is 'separated by'": r"\bparted by\b",
    "'wants' needs a person": r"\b(step|run|rule|model) wants\b|\bare wanted\b",
}


def prose(text: str) -> str:
    """Text without code blocks, tags and addresses; code in the line counts as one word."""
    text = re.sub(r"(?ms)^ *(```|~~~).*?^ *\1[^\n]*$", "\n", text)
    text = re.sub(r"<!--.*?-->|<[^>\n]+>", "", text, flags=re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    return re.sub(r"`+[^`\n]+`+", "`code`", text)


def sentences(text: str) -> list[str]:
    """A paragraph, list item, heading or cell at a time, split at full stops, `?` and `!`."""
    blocks: list[str] = [""]
    for line in prose(text).splitlines():
        table = line.lstrip().startswith("|")
        if not line.strip() or table or re.match(r"\s*([-*#]|\d+\.)\s", line):
            blocks.append("")
        if table:
            blocks += line.split("|")
        else:
            blocks[-1] += " " + line
    return [each.strip() for block in blocks for each in re.split(r"(?<=[.?!])[\"*)]*\s", block)]


def cells(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    return [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]


def found(text: str) -> list[str]:
    """What is not plain, one line a place."""
    told = []
    for sentence in sentences(text):
        count = len(re.findall(r"\S*\w\S*", sentence))
        if count > WORDS:
            told.append(f"{count} words: {sentence}")
        told += [
            f"{why}: {sentence}" for why, said in NOT_PLAIN.items() if re.search(said, sentence)
        ]
    return told + [
        f"a cell of {len(c)} characters: {c[:80]}…" for c in cells(text) if len(c) > CELL
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_plain(page):
    assert not (told := found(page.read_text("utf-8"))), "\n" + "\n".join(told)


@pytest.mark.parametrize("folder", ["vlmguard", "plugins", "tools"])
def test_docstrings_are_plain(folder):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    told = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        texts = filter(None, (ast.get_docstring(n) for n in nodes if isinstance(n, documented)))
        told += [f"{path.relative_to(ROOT)}: {each}" for text in texts for each in found(text)]
    assert not told, "\n" + "\n".join(told)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "lab"])
def test_the_help_tells_the_exit_status_and_fits(command):
    words = [sys.executable, "-m", "vlmguard", command, "--help"]
    done = subprocess.run(words, env=os.environ, capture_output=True, text=True, check=True)
    assert "Exit status: " in " ".join(done.stdout.split())
    assert not [line for line in done.stdout.splitlines() if len(line) > 100]


@pytest.mark.parametrize(
    "text",
    [
        "It leaves before it looks, so of two ranks that part at least one sees it, and stops.",
        "What it does not say is plain.",
        "A device is no log; of a pack that grows 1 GB is read.",
        "rank 0 and rank 1 have different what is to be changed: [] against [1].",
        "## The house",
        " ".join(["word"] * 41) + ".",
        "| name | " + "x" * 301 + " |",
    ],
)
def test_a_riddle_is_found(text):
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no log yet. The part of the ranks that reads rows is small.",
        " ".join(["word"] * 40) + ". " + " ".join(["word"] * 40) + ".",
        "```\n" + "word " * 50 + "\n```",
        "| " + " | ".join(["two words"] * 30) + " |",
        "- " + "word " * 30 + "\n- " + "word " * 30,
    ],
)
def test_plain_text_is_left_alone(text):
    assert not found(text)
