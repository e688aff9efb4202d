"""The words behind ``vlmguard NAME``, read by argparse: what it does not understand is one line."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Of one command. A flag that it does not know is told with the one that is meant."""

    def __init__(self, name: str, description: str | None, **named: Any) -> None:
        raw = argparse.RawDescriptionHelpFormatter
        named = {"formatter_class": raw, "allow_abbrev": False, **named}
        super().__init__(prog=f"vlmguard {name}", description=description, **named)

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\n")
        raise SystemExit(2)

    def read(self, words: Sequence[str] | None) -> argparse.Namespace:
        """The options in ``words``; None: in what was typed."""
        asked, unknown = self.parse_known_args(list(sys.argv[2:] if words is None else words))
        if unknown:
            self.error(self.unknown(unknown))
        return asked

    def unknown(self, flags: Sequence[str], otherwise: str = "") -> str:
        """Flags that are not ours: one of ours is meant, or else what there is to say."""
        known = list(self._option_string_actions)
        meant = difflib.get_close_matches(flags[0].partition("=")[0], known, 1, 0.75)
        said = f" (did you mean {meant[0]}?)" if meant else otherwise
        return f"unrecognized arguments: {shlex.join(flags)}{said}"
