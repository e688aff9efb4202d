"""A process crashed in compiled code."""

from __future__ import annotations

import re

from vlmguard.explain import cudas
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# A crash in these is their caller's data, or the whole environment's.
_BASE = ("torch", "numpy", "transformers", "accelerate", "")
_LOOK = Do("PYTHONFAULTHANDLER=1 in front of the command: it prints where each thread was", "none")
_WORKERS = Do("workers", "slower loading; tells whether a decoder in a worker is at fault")
_ANEW = Do("reinstall compiled packages for this torch (VG538)", "time")
_PLACED = (
    Do(
        "{crashplace}: print what is given to that call, with flush=True: the crash is below it, "
        "in {crash}; the last row or file that was printed is at fault, or the package",
        "none",
        kind="place",
    ),
    Do(
        "python -m pip check; python -m pip list | grep -iE 'torch|cuda|flash|deepspeed': the "
        "crash is in {crash}: what stands there is of one release and built for this torch",
        "none",
        kind="place",
    ),
)
_PACKAGE = Do(
    "python -m pip install -U --force-reinstall --no-deps {crashpackage}: the crash is in it "
    "({crash}, as the stack in the log says)",
    "none",
)
_BUILD = Do(
    "mv ~/.cache/torch_extensions ~/.cache/torch_extensions.old: DeepSpeed's kernels are built "
    "anew for this torch: the log's last words are of loading them",
    "minutes",
)


# Libraries that decode images and videos.
_MEDIA = re.compile(r"libav|libsw|decord|opencv|cv2|jpeg|png|webp|tiff|imaging")
_DECODER = (
    Do("workers_crash", "slower loading; the stack then names the line, and the row's file"),
    Do(
        "take that file out of the data; the decoder in another release: the crash is in "
        "{crashlib} (python -m pip install -U of av, decord or opencv-python-headless, whichever "
        "the stack has)",
        "none",
    ),
)


# LlamaFactory#2750, diffusers#11241: cuBLAS of CUDA 12.1 to 12.3 on this card.
_CUBLAS = Do(
    "python -m pip install nvidia-cublas-cu12==12.4.5.8: on an H20 the cuBLAS of CUDA 12.1 to 12.3 "
    "divides by zero; pip's word that torch wants another one is no matter (a torch that is not "
    "pip's: with its nvidia/cublas/lib first in LD_LIBRARY_PATH)",
    "none",
)
_DIVIDED = ("SIGFPE", "Floating point exception", "signal 8", "exitcode: -8")


def _old_cublas(facts: Facts) -> bool:
    """A division by zero on an H20, with a torch that may have cuBLAS 12.1 to 12.3."""
    if "h20" not in facts.said or not any(words in facts.message for words in _DIVIDED):
        return False
    told = re.match(r"2\.(\d{1,2})", facts.releases.get("torch", ""))
    cuda = cudas.of_torch(facts)
    return cuda[:2] != "11" and cuda < "12.4" and (told is None or int(told[1]) < 6)


def _do(facts: Facts) -> tuple[Do, ...]:
    """The faulthandler's stack, where the log has it; else what prints it."""
    if _old_cublas(facts):
        return (_CUBLAS, _LOOK)
    if "crash" in facts.said:
        known = facts.said.get("crashpackage", "") not in _BASE
        anew = (_PACKAGE,) if known else ()
        if facts.steps is not None and facts.steps[0] > 0:  # it worked: a row is at fault
            return (*_PLACED, *anew, _WORKERS)
        return (*anew, *_PLACED, _WORKERS)
    if _MEDIA.search(facts.said.get("crashlib", "")):
        return _DECODER
    if "extensions" in facts.said and facts.steps is None:
        return (_LOOK, _BUILD, _ANEW)
    return (_LOOK, _WORKERS, _ANEW)


FAILURE = Known(
    code="VG558",
    name="explain-segfault",
    title="A process crashed in compiled code (SIGSEGV, SIGFPE, SIGILL)",
    zh="进程在本地代码中崩溃（段错误）",
    why="the process was ended by a signal of the processor (11, 8 or 4): a compiled library "
    "crashed, often two that do not fit (torch, flash-attn, an "
    "image or video decoder, a tracker)",
    do=_do,
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
