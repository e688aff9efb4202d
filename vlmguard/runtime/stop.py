"""The one exception of ours that escapes, and how every rank of the node comes down with it.

torchrun ends the other ranks once one has failed, and shows in its last block what the failed one
recorded in ``TORCHELASTIC_ERROR_FILE``. The exception may not get that far by itself: it passes
``finally`` clauses of the framework, and non-daemon threads may keep a dead rank alive.
"""

from __future__ import annotations

import os
import sys
import threading

GRACE = 5.0  # seconds; with torchrun's own 1–3 s, all ranks are gone within 10 s of the finding


def bring_down(error: BaseException) -> None:
    """Record ``error`` for torchrun's last block and see that this rank ends within `GRACE` s.

    Does nothing outside torchrun: a notebook's kernel is not ours to end.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    try:  # torch writes down the exception that is being handled
        raise error
    except BaseException:
        get_error_handler().record_exception(error)
    reaper = threading.Timer(GRACE, _leave)
    reaper.daemon = True
    reaper.start()


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
