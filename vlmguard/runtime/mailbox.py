"""Larger values that ranks leave for one of them in the rendezvous store; nobody waits."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any


class Mailbox:
    """A few keys of a store. Nothing here raises, and nothing blocks.

    Args:
        store: one of torch's.
        place: prefix of its keys.
    """

    def __init__(self, store: Any, place: str) -> None:
        self.store, self.place = store, place

    def leave(self, name: str, data: bytes) -> bool:
        """One message; whether it was left."""
        with contextlib.suppress(Exception):
            self.store.set(self._key(name), data)
            return True
        return False

    def first(self, name: str) -> bool:
        """Whether this is the first to ask: one message."""
        with contextlib.suppress(Exception):
            return int(self.store.add(self._key(name), 1)) == 1
        return False

    def read(self, name: str) -> bytes | None:
        """What was left, which is `there`; it stays."""
        with contextlib.suppress(Exception):
            return bytes(self.store.get(self._key(name)))
        return None

    def there(self, names: Sequence[str]) -> bool:
        """Whether all of them were left by now: one message."""
        with contextlib.suppress(Exception):
            return bool(self.store.check([self._key(name) for name in names]))
        return False

    def take(self, names: Sequence[str]) -> list[bytes | None]:
        """What was left under ``names``, which are `there`, and emptied: two messages where the
        store can answer for many keys at once."""
        keys = [self._key(name) for name in names]
        with contextlib.suppress(Exception):
            many = self.store.has_extended_api()
            found = self.store.multi_get(keys) if many else [self.store.get(key) for key in keys]
            if many:
                self.store.multi_set(keys, [b""] * len(keys))
            else:
                for key in keys:
                    self.store.delete_key(key)
            return [bytes(each) for each in found]
        return [None] * len(keys)

    def _key(self, name: str) -> str:
        return f"{self.place}/{name}"
