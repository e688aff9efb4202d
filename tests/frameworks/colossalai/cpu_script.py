"""Run a script of a user's as it is, on a machine without an accelerator: `cpu_script.py SCRIPT …`.

Beside `cpu.install`, two defaults are off that need a stream of a device: asynchronous reduction
under Gemini, overlapped communication under low-level ZeRO.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import cpu

cpu.install()

from colossalai.booster import plugin as plugins  # noqa: E402  (after the device is there)


def _without(kind: Any, name: str) -> None:
    made = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **{name: False, **kwargs})

    kind.__init__ = init


_without(plugins.GeminiPlugin, "enable_async_reduce")
_without(plugins.LowLevelZeroPlugin, "overlap_communication")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
