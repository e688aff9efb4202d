"""What a release does when the user says nothing, and since when: ``compat/defaults.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vlmguard.compat import verdicts
from vlmguard.runtime.faults import fault


@dataclass(frozen=True)
class InForce:
    """A default as one release has it.

    Attributes:
        what: what the value answers.
        value: the answer, in the source's own words where it is no plain value.
        since: the first release that has it, as far as was read.
        before: the value before that; "" if no other was read.
    """

    package: str
    name: str
    what: str
    value: str
    since: str
    before: str = ""


def in_force(releases: Mapping[str, str]) -> Iterator[InForce]:
    """Every default known of the installed releases; nothing if the table cannot be read."""
    try:
        yield from list(_in_force(releases))
    except Exception as error:  # a table is damaged
        fault("compatibility table defaults", error)


def _in_force(releases: Mapping[str, str]) -> Iterator[InForce]:
    for row in verdicts.table("defaults").get("default", ()):
        version = verdicts.base(releases.get(row["package"]))
        before = ""
        found = None
        for span in row["span"]:
            since = verdicts.base(span["from"])
            if version is None or since is None or version < since:
                break
            if found is not None:
                before = found.value
            found = InForce(
                row["package"], row["name"], row["what"], span["value"], span["from"], before
            )
        if found is not None:
            yield found


def value(releases: Mapping[str, str], package: str, name: str) -> InForce | None:
    """One default, None where the release or the table is not known."""
    return next((d for d in in_force(releases) if (d.package, d.name) == (package, name)), None)
