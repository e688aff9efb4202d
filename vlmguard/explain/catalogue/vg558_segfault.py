"""A process crashed in compiled code."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG558",
    name="explain-segfault",
    title="A process crashed in compiled code (SIGSEGV, SIGFPE, SIGILL)",
    zh="进程在本地代码中崩溃（段错误）",
    why="the process was ended by a signal of the processor (11, 8 or 4): a compiled library "
    "crashed, often two that do not fit (torch, flash-attn, an "
    "image or video decoder, a tracker)",
    do=(
        Do("PYTHONFAULTHANDLER=1 in front of the command: it prints where each thread was", "none"),
        Do("workers", "slower loading; tells whether a decoder in a worker is at fault"),
        Do("reinstall compiled packages for this torch (VG538)", "time"),
    ),
    wrong="Without the faulthandler's lines the library is a guess.",
    signs=(
        Sign("Segmentation fault", where="line", no=("worker", "DataLoader")),
        Sign("Fatal Python error", where="line"),
        Sign("SIGSEGV", where="line", no=("worker",)),
        Sign("Caught signal 11", where="line"),
        Sign("Signal 11 (SIGSEGV)"),
        Sign("Floating point exception", where="line"),
        Sign("Illegal instruction", where="line"),
        Sign("SIGFPE", where="line"),
        Sign("SIGILL", where="line"),
        Sign("double free or corruption", where="line"),
        Sign("free(): invalid", where="line"),
        Sign("malloc(): ", where="line"),
        Sign("corrupted double-linked list", where="line"),
        Sign("munmap_chunk(): invalid", where="line"),
        Sign("realloc(): invalid", where="line"),
        Sign("stack smashing detected", where="line"),
        Sign("corrupted size vs. prev_size", where="line"),
        Sign("Signal: Segmentation fault", where="line"),
        Sign("segfault at ", where="line"),
        Sign("*** StackTrace Information ***", where="line", releases="Ray's C++"),
        Sign("*** SIGSEGV received at", where="line"),
        Sign("*** SIGABRT received at", where="line"),
    ),
    examples=(
        Example(
            "traceback : Signal 11 (SIGSEGV) received by PID 4242",
            "torch/distributed/elastic/multiprocessing/errors, 2.13.0",
        ),
        Example(
            "Fatal Python error: Segmentation fault",
            "made by causing it, Python 3.11, -X faulthandler",
        ),
    ),
    evidence="Python's and torchrun's own messages.",
)
