"""``make demo``: one swift command, guard off and on, and what the guard changed. Stdlib only."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.kit import envs

COMMAND = ["--tuner_type", "lora", "--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
CRASH = "Expected to mark a variable ready only once"


def _tick(what: str, done: threading.Event) -> None:
    started = time.monotonic()
    while not done.wait(5):
        print(f"[demo] {what}, {time.monotonic() - started:.0f} s", flush=True)


def _run(guard: bool):
    from tests.kit import swift

    done = threading.Event()
    what = f"swift sft in 2 ranks, guard {'on' if guard else 'off'}"
    print(f"[demo] {what} …", flush=True)
    threading.Thread(target=_tick, args=(what, done), daemon=True).start()
    try:
        return swift.run(["sft"], "qwen2_vl", "image", COMMAND, guard=guard)
    finally:
        done.set()


def main() -> int:
    off, on = _run(False), _run(True)
    crashed = off.returncode != 0 and CRASH in off.output
    trained = on.returncode == 0 and len(on.ranks) == 2
    print("\nNPROC_PER_NODE=2 swift sft --model tiny-random-Qwen2-VL", *COMMAND, "\n")
    rows = [
        ("guard", "exit", "seconds", "what happened"),
        ("off", off.returncode, f"{off.seconds:.0f}",
         CRASH if crashed else "not the crash that was told"),
        ("on", on.returncode, f"{on.seconds:.0f}",
         "trained; losses " + ", ".join(f"{loss:.4f}" for loss in on.ranks[0].losses)
         if trained else "did not train"),
    ]  # fmt: skip
    for row in rows:
        print("| {:<5} | {:>4} | {:>7} | {}".format(*row))
    print("\nwhat the guard changed, and why:")
    for finding in on.findings:
        if finding["outcome"] == "fixed" and finding["rank"] == 0:
            print(f"  {finding['code']}  {finding['change']}: {finding['why']}")
    if not (crashed and trained):
        print((off if not crashed else on).output[-4000:])
    return 0 if crashed and trained else 1


if __name__ == "__main__":
    if "torch" not in sys.modules:
        try:
            import torch  # noqa: F401
        except ImportError:  # any Python may start it: go on in the environment that has torch
            import os

            python = envs.program("swift")
            os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent / "standins")
            os.execv(python, [python, __file__])
    sys.exit(main())
