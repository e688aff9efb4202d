"""``python -m vlmguard``: the commands, where the console script is not on PATH."""

from __future__ import annotations

import sys

from vlmguard.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
