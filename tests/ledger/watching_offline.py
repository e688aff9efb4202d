"""What the judge says of pages that readers left in a folder. Needs no torch."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

STATIONS = ("rows", "targets", "reach", "reduce", "update", "ranks")


def judged(folder: Path, world: int) -> list[dict[str, Any]]:
    """What the judge says of the pages in a folder, window by window. Needs no torch."""
    from vlmguard.ledger.account import Account, Tensor
    from vlmguard.ledger.judge import Judge

    told = json.loads((folder / "account.json").read_text())
    account = Account(tuple(Tensor(**t) for t in told["tensors"]), told["world"], told["strategy"])
    files = [folder / f"pages.rank{rank}.jsonl" for rank in range(world)]
    pages = [[json.loads(line) for line in f.read_text().splitlines()] if f.exists() else []
             for f in files]  # fmt: skip
    judge, found = Judge(account, [s for s in STATIONS if _there(s)]), []
    for window in range(max(map(len, pages), default=0)):
        verdicts = judge.window([each[window] if window < len(each) else None for each in pages])
        found += [_verdict(window, each) for each in verdicts]
    return found


def _there(station: str) -> bool:
    return importlib.util.find_spec(f"vlmguard.ledger.{station}") is not None


def _verdict(window: int, verdict: Any) -> dict[str, Any]:
    entries = [{"code": e.code, "level": e.level, "why": e.why, "what": e.what, "since": e.since}
               for e in verdict.entries]  # fmt: skip
    return {"window": window, "station": verdict.station, "state": verdict.state,
            "reason": verdict.reason, "entries": entries, "shown": dict(verdict.shown)}  # fmt: skip
