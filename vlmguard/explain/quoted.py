"""What a log quotes: rows, samples and completions that a run prints, whose text may be an error.

A model that is trained on issues or code prints tracebacks that are nobody's. Told by their frame:
a chat template's marks, a framework's heading, a table of completions, a fence of Markdown in a
run that already steps. Only what is closed again is taken out, and never what torch has marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vlmguard.explain import unfold
from vlmguard.explain.lines import Line

LONGEST = 4000  # lines of one quotation
_TURN = re.compile(
    r"<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<\|(?:user|User)\|>|\[INST\]"
)
_TURNED = re.compile(
    r"<\|(?:im_end|eot_id|endoftext|end|end_of_text|return)\|>|<(?:end_of_turn|eos)>|</s>|\[/INST\]"
)
# Headings behind which frameworks print a row: LLaMA-Factory 0.9.5, ms-swift 4.6, verl 0.5.
_FACTORY = re.compile(r"(?:chosen_|rejected_)?(?:inputs|labels):$")
_SWIFT = re.compile(r"^\[INFO:swift\] \[(?:\w{1,20}_)?(?:INPUT|LABELS|PROMPT|COMPLETION)\] ")
_NAMED = re.compile(r"Step|Sample|Prompt|Completion|Generat")
_TROUBLE = re.compile(r"Traceback|[Ee]rror|Exception|FAILED")
_FENCE = "```"
_WHOLE, _BEFORE = "whole", "before"
_GAP = 64  # lines: more than that between two was not kept


@dataclass
class _Open:
    """A quotation that has begun: its lines so far; whether it is sure to be one."""

    kind: str
    lines: list[Line]
    sure: bool = True


def spoken(kept: Sequence[Line]) -> list[Line]:
    """``kept`` without what is quoted; fences are `unfenced`'s."""
    return _without(kept, _framed(kept))


def unfenced(kept: Sequence[Line], since: int | None) -> list[Line]:
    """``kept`` without what stands between fences behind the place ``since``, the first step.

    Before it, or where there is none, a fence is an issue's, which quotes the log itself.
    """
    return list(kept) if since is None else _without(kept, _fenced(kept, since))


def _without(kept: Sequence[Line], quoted: Iterable[Line]) -> list[Line]:
    out = {id(line) for line in quoted if not line.marked}
    return [line for line in kept if id(line) not in out]


def _framed(kept: Sequence[Line]) -> Iterator[Line]:
    lanes: dict[str, _Open] = {}
    above: dict[str, str] = {}
    number = 0
    for line in kept:
        text = line.text
        if line.number > number + _GAP:
            lanes.clear()
        number = line.number
        if unfold.is_row(line.raw):
            yield line
            continue
        now, ended = lanes.get(line.lane), ""
        if now is not None:
            now.lines.append(line)
            now.sure = now.sure or "┃" in text
            ended = _ended(now.kind, text)
            if ended and now.sure:
                yield from now.lines if ended == _WHOLE else now.lines[:-1]
            if ended or len(now.lines) > LONGEST:
                del lanes[line.lane]
        kind = "" if ended == _WHOLE else _begins(text, above.get(line.lane, ""))
        if kind and (now is None or ended or kind == now.kind == "chat"):
            sure = kind != "table" or _NAMED.search(text) is not None
            lanes[line.lane] = _Open(kind, [line], sure)
        above[line.lane] = text


def _begins(text: str, above: str) -> str:
    """What kind of quotation begins with ``text``, "" for none."""
    first = text[:1]
    if first and first in "╭┏┌":
        return "" if _TROUBLE.search(text) else "table"
    if text.startswith("[prompt]"):
        return "verl"
    if first == "[" and _SWIFT.match(text):
        return "swift"
    if above.startswith("[") and _FACTORY.match(text):
        return "factory"
    turns = list(_TURN.finditer(text)) if "<" in text or "[INST]" in text else []
    return "chat" if turns and not _TURNED.search(text, turns[-1].end()) else ""


def _ended(kind: str, text: str) -> str:
    """Whether a quotation ends with ``text``, or `_BEFORE` it; "" for neither."""
    if kind == "table":
        return _WHOLE if text[:1] and text[:1] in "╰┗└" else ""
    if kind == "verl":
        return _WHOLE if text.startswith("[score]") else ""
    if kind == "swift" and text.startswith(("[INFO:swift]", "[WARNING:swift]", "[ERROR:swift]")):
        return _BEFORE
    if kind == "factory" and text.startswith(("[INFO|", "[WARNING|", "label_ids:")):
        return _BEFORE
    return _WHOLE if kind != "swift" and _TURNED.search(text) else ""


def _fenced(kept: Sequence[Line], since: int) -> Iterator[Line]:
    lanes: dict[str, list[Line]] = {}
    for line in kept:
        open_ = lanes.get(line.lane)
        if open_ is not None:
            open_.append(line)
        if line.text.lstrip().startswith(_FENCE) and line.at > since:
            if open_ is None:
                lanes[line.lane] = [line]
            else:
                yield from lanes.pop(line.lane)
