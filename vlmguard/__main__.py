"""``python -m vlmguard``: the commands, where the console script is not on PATH."""

from __future__ import annotations

import os
import sys

from vlmguard.cli.main import main

HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def as_the_console_script() -> None:
    """Take this folder off ``sys.path``, where ``-m`` has put it: what is checked does not see it.

    It stays if vlmguard itself lies in it.
    """
    here = os.getcwd()
    if sys.path[:1] == [here] and here != HOME and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]


if __name__ == "__main__":
    as_the_console_script()
    sys.exit(main())
