"""How each framework says a change: ``tables/changes.toml`` by the change's name."""

from __future__ import annotations

from vlmguard_explain.match.catalogue import table

CHANGES: dict[str, dict[str, str]] = table("changes")
