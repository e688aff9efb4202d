"""What the rules that explain known exceptions share."""

from __future__ import annotations

from vlmguard.core.facts import Failure
from vlmguard.core.findings import Finding


def explained(
    code: str, match: tuple[str, ...], why: str, advice: str, failure: Failure
) -> Finding | None:
    """A finding if the message holds one of ``match``: stable prefixes, since messages drift."""
    if not any(text in failure.message for text in match):
        return None
    return Finding(code, "error", why.strip(), scope="rank", advice=advice.strip())
