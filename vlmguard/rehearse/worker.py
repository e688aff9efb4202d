"""The warm process, ``-m vlmguard.rehearse.worker ADAPTER``: imports once, then rehearses.

One request a line comes in on standard input, as JSON; events go out on what was standard output,
one a line. All that the framework prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from vlmguard import _bootstrap
from vlmguard.check.deep.sandbox import CPU
from vlmguard.ranks.fork import _die_with_parent


def main(adapter: str) -> int:
    """Serve requests until standard input ends."""
    _die_with_parent()
    out = os.dup(1)
    os.dup2(2, 1)
    os.environ.update(CPU)
    sys.dont_write_bytecode = True

    def tell(event: str, data: Mapping[str, Any]) -> None:
        os.write(out, (json.dumps({"event": event, **data}) + "\n").encode())

    begun = time.monotonic()
    _bootstrap.install()
    from vlmguard.rehearse import framework, request, run

    tell("began", {"pass": "imports"})
    try:
        framework.of(adapter).load()
    except Exception as error:
        traceback.print_exc()
        first = run.first_cause(error)
        print(f"its imports fail: {type(first).__name__}: {first}", file=sys.stderr)
        return 1
    gc.collect()
    gc.freeze()  # else each rank's first collection would copy all pages that it shares
    tell("judged", {"pass": "imports", "kind": "", "seconds": round(time.monotonic() - begun, 1)})
    for line in sys.stdin:
        try:
            answer = run.rehearse(request.read(json.loads(line)), tell)
        except Exception as error:
            traceback.print_exc()
            why = f"a fault of vlmguard's own: {type(error).__name__}: {error}"
            answer = {"verdict": "cannot tell", "exit": 2, "why": why}
        tell("answer", {"answer": answer})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
