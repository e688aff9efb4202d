"""A rehearsal's answer as text, JSON or annotations for GitHub. Secrets are blacked out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlmguard import __version__
from vlmguard.check import redact
from vlmguard.check.shell.state import Call, Trace
from vlmguard.check.show import line, several
from vlmguard.core.annotations import annotation
from vlmguard.rehearse.training_rows import LOADER
from vlmguard.rehearse.verdict import AS_SHOWN, share

_HEADS = {"right": "RIGHT", "crash": "WILL CRASH", "hang": "WILL HANG", "stopped": "IS STOPPED",
          "silently wrong": "SILENTLY WRONG", "cannot tell": "CANNOT TELL",
          "does not train": "DOES NOT TRAIN"}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """One command and what was found.

    Attributes:
        answer: as `run.rehearse` gives it.
        typed: the whole command with the flags that `check` would change; "" without any.
    """

    call: Call
    words: tuple[str, ...]
    answer: Mapping[str, Any]
    trace: Trace = field(default_factory=Trace)
    typed: str = ""

    @property
    def code(self) -> int:
        return int(self.answer["exit"])

    @property
    def command(self) -> str:
        return line(self.words, self.trace)

    @property
    def place(self) -> str:
        return f"{self.call.source}:{self.call.line}" if self.call.line else self.call.source


def text(told: Sequence[Told], unseen: Sequence[str] = ()) -> str:
    """For a terminal.

    unseen: what of the script nobody looked at.
    """
    lines = [part for one in told for part in _command(one)]
    if unseen:
        lines.append(f"not looked at: {redact.text(several(unseen))}")
    return "\n".join(lines)


def _command(told: Told) -> Iterator[str]:
    answer = told.answer
    yield f"{told.place}: {told.command[:160]}"
    head = _HEADS.get(answer["verdict"], answer["verdict"])
    yield f"  {head}{' AS FAR AS SHOWN' * (answer['exit'] == AS_SHOWN)}{_sentence(answer)}"
    if "times" not in answer:
        if answer.get("why"):
            yield f"    {redact.text(answer['why'])}"
        return
    if answer["verdict"] == "cannot tell" and answer.get("why") != answer["off"]["why"]:
        yield f"    {redact.text(answer['why'])}"
    wrong = answer["off"]["kind"] not in ("right", "cannot tell")
    if told.typed and wrong and (answer.get("mended") or not answer["on"]):
        yield f"    by flags of the command: {told.typed}"
    for what in answer.get("left_out", ()):
        yield f"    limits this answer: {redact.text(what)}"
    yield from _side("guard off", answer["off"])
    if answer["on"]:
        yield from _side("guard on", answer["on"])
    for code, what in answer["fixes"].items():
        yield f"      {code} {what}"
    if answer.get("alone"):
        yield from _alone(answer["alone"])
    yield from _around(answer)


def _alone(found: Mapping[str, Any]) -> Iterator[str]:
    """What one rank alone said of the real size; nothing where it was not asked."""
    if found["kind"] == "cannot tell":
        yield f"    {found['how']}: could not be looked at: {redact.text(found['why'])[:200]}"
    elif found["kind"] != "not asked":
        yield f"    {found['how']}: {found['kind']}"
        for one in found.get("unseen", ()):
            yield f"      not seen: {one}"


def _sentence(answer: Mapping[str, Any]) -> str:
    """ " at step 1; vlmguard fixes it: VG106"."""
    off = answer.get("off") or {}
    told = f" at step {off['step']}" if off.get("step") and off["kind"] in ("crash", "hang") else ""
    if off.get("odds"):
        told += f" when {off['order']}"
    if answer.get("mended"):
        return f"{told}; vlmguard fixes it: {', '.join(answer['mended'])}"
    if answer.get("on") and off["kind"] not in ("right", "cannot tell"):
        return f"{told}; with vlmguard: {answer['on']['kind']}"
    return told


def _side(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    head = f"    {name}: {found['kind']}"
    if found["step"]:
        head += f", step {found['step']}"
    if found["order"]:
        head += f", {found['order']}"
    if found["kind"] == "right":
        head += f"; {found['judged']} tensors moved as they should, within {found['off']:.0e}"
        head += f": {found['against']}" if found["against"] else ""
    yield head
    if found["why"]:
        yield f"      {redact.text(found['why'])}"
    if found["error"]:
        yield f"      rank {found['rank']}: {found['error']}: {redact.text(found['message'])[:300]}"
    for place in found["where"]:
        yield f"        at {place}"
    for rank, phase, call, site in found["sites"]:
        yield f"      rank {rank} in {phase or 'setup'}: {call[:70]} at {site}"
    if found["tensors"]:
        yield f"      {found['count']} of {found['judged']} tensors are updated wrongly:"
    for name_, error in found["tensors"]:
        yield f"        {share(error)} off: {name_}"
    if found["odds"]:
        yield f"      {found['odds']}"


def _around(answer: Mapping[str, Any]) -> Iterator[str]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in answer["kinds"].items())
    full = f" for {answer['full'] / 1e9:.1f} G" if answer["full"] > 1e8 else ""
    size = f"{answer['weights'] / 1e6:.1f} M weights{full}"
    ranks = f"{answer['ranks']} ranks for {answer['world']}"
    yield f"    {answer['model']} of {size}, {answer['strategy']}, {ranks}; rows: {kinds}"
    if answer["orders"] != [LOADER]:
        yield f"    orders: {', '.join(answer['orders'])}"
    if answer["notes"]:
        yield "    replaced: " + "; ".join(map(redact.text, answer["notes"]))
    yield "    not shown by this: " + ", ".join(answer["not_shown"])
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in answer["times"].items())
    yield f"    {times}; at most {answer['rss']} MB a rank"


def as_json(name: str, told: Sequence[Told], code: int) -> str:
    """For another program."""
    jobs = [
        {
            "source": one.call.source,
            "line": one.call.line,
            "command": one.command,
            "typed": one.typed,
            **_clean(one),
        }
        for one in told
    ]
    return json.dumps(
        {"vlmguard": __version__, "source": name, "exit": code, "jobs": jobs}, indent=2,
        ensure_ascii=False,
    )  # fmt: skip


def _clean(told: Told) -> dict[str, Any]:
    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return redact.text(value)
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items()}
        return [clean(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    cleaned: dict[str, Any] = clean(dict(told.answer))
    return cleaned


def github(told: Sequence[Told]) -> str:
    """One annotation a command that is not right."""
    lines = []
    for one in told:
        if one.code == 0:
            continue
        level = "error" if one.code == 1 else "warning"
        off = one.answer.get("off") or {}
        why = one.answer.get("why") or off.get("message") or _where(off)
        head = _HEADS.get(one.answer["verdict"], "") + _sentence(one.answer)
        body = redact.text(f"{head}. {why}".strip(". "))
        place = {"file": one.call.source, "line": max(one.call.line, 1)}
        lines.append(annotation(level, body, **place, title="rehearse"))
    return "\n".join(lines)


def _where(found: Mapping[str, Any]) -> str:
    sites = [f"rank {rank} at {site}" for rank, _, _, site in found.get("sites", ())]
    tensors = [f"{name} {share(error)} off" for name, error in found.get("tensors", ())[:1]]
    return "; ".join([*sites, *tensors])
