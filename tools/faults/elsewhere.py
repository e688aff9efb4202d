"""What goes wrong around us in a rank: other patchers, plug-ins, tables, disks, processes, threads.

`OTHERS` names them; `begin` makes one happen in a rank that is about to run its program.
"""

from __future__ import annotations

import functools
import importlib.metadata
import io
import os
import random
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OTHERS: dict[str, Callable[[Path, int], None]] = {}


def begin(name: str, folder: Path, rank: int) -> None:
    """Make it happen."""
    OTHERS[name](folder, rank)


def other(call: Callable[[Path, int], None]) -> Callable[[Path, int], None]:
    OTHERS[call.__name__.replace("_", " ")] = call
    return call


def _trainer() -> Any:
    from transformers.trainer import Trainer

    return Trainer


def _around(owner: Any, name: str) -> None:
    kept = getattr(owner, name)

    @functools.wraps(kept)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return kept(*args, **kwargs)

    setattr(owner, name, wrapped)


@other
def a_patcher_after_us(folder: Path, rank: int) -> None:
    for name in ("train", "training_step", "evaluate"):
        _around(_trainer(), name)


@other
def a_patcher_before_us(folder: Path, rank: int) -> None:
    """The seams are taken off and put on again, on top of somebody else's wrapper."""
    from vlmguard.runtime import seams

    ours = [each for each in seams._wanted if any("transformers" in t for t in each.targets)]
    seams.detach(ours)
    for name in ("train", "training_step", "evaluate"):
        _around(_trainer(), name)
    seams.attach(ours)


@other
def a_patcher_that_replaces_ours(folder: Path, rank: int) -> None:
    """A step of its own, which calls neither ours nor the framework's."""
    kept = _trainer().training_step
    original = getattr(kept, "__wrapped__", kept)
    code = types.FunctionType(original.__code__, original.__globals__, "training_step",
                              original.__defaults__, original.__closure__)  # fmt: skip
    code.__kwdefaults__ = original.__kwdefaults__
    _trainer().training_step = code


@other
def a_missing_seam(folder: Path, rank: int) -> None:
    from vlmguard.runtime import seams
    from vlmguard.runtime.seams import Seam

    gone = [each for each in seams._wanted if each.name == "step"]
    seams.detach(gone)
    adapter = importlib.import_module("vlmguard_transformers")
    moved = [each for each in adapter.SEAMS if each.name != "step"]
    lost = Seam("step", ("transformers.trainer:Trainer.no_such_step",),
                "vlmguard_transformers.lifecycle:training_step", "gone")  # fmt: skip
    adapter.SEAMS = (*moved, lost)
    seams.attach([lost])


class _Entry:
    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name, self.value, self.load = name, name, load


def _plugged(*entries: _Entry) -> None:
    kept = importlib.metadata.entry_points

    def entry_points(**words: Any) -> Any:
        found = kept(**words)
        return [*found, *entries] if words.get("group") == "vlmguard" else found

    importlib.metadata.entry_points = entry_points


def _rule(code: str, **hooks: Any) -> Any:
    from vlmguard import hookimpl

    made = types.SimpleNamespace(CODE=code, NAME=code.lower(), DEFAULT="error", __name__=code)
    for name, call in hooks.items():
        setattr(made, name, hookimpl(call))
    return made


def _boom(*_: Any) -> Any:
    raise RuntimeError("somebody else's fault")


@other
def a_plug_in_that_does_not_load(folder: Path, rank: int) -> None:
    _plugged(_Entry("broken", _boom))


@other
def a_plug_in_that_raises_in_every_hook(folder: Path, rank: int) -> None:
    def pre_wrap(run):
        raise ValueError("no")

    def pre_step(run, batch, gradients):
        raise ValueError("no")

    def on_error(run, batch, failure):
        raise ValueError("no")

    made = _rule("XX101", pre_wrap=pre_wrap, pre_step=pre_step, on_error=on_error)
    _plugged(_Entry("raises", lambda: made))


@other
def a_plug_in_that_answers_nonsense(folder: Path, rank: int) -> None:
    def pre_wrap(run):
        return "everything is fine"

    def pre_step(run, batch, gradients):
        return [42]

    made = _rule("XX102", pre_wrap=pre_wrap, pre_step=pre_step)
    _plugged(_Entry("nonsense", lambda: made))


@other
def a_plug_in_with_our_own_code(folder: Path, rank: int) -> None:
    _plugged(_Entry("thief", lambda: _rule("VG101", pre_wrap=lambda run: None)))


@other
def a_plug_in_that_is_no_plug_in(folder: Path, rank: int) -> None:
    _plugged(_Entry("odd", lambda: object()))


def _tables(folder: Path, spoil: Callable[[bytes], bytes]) -> None:
    there = folder / "tables"
    there.mkdir(parents=True)
    for file in sorted((ROOT / "compat").glob("*.toml")):
        (there / file.name).write_bytes(spoil(file.read_bytes()))
    os.environ["VLMGUARD_TABLES"] = str(there)


@other
def half_written_tables(folder: Path, rank: int) -> None:
    chance = random.Random(7)
    _tables(folder / f"rank{rank}", lambda text: text[: chance.randrange(len(text))])


@other
def damaged_tables(folder: Path, rank: int) -> None:
    chance = random.Random(11)

    def spoil(text: bytes) -> bytes:
        changed = bytearray(text)
        for _ in range(30):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed)

    _tables(folder / f"rank{rank}", spoil)


@other
def no_tables(folder: Path, rank: int) -> None:
    os.environ["VLMGUARD_TABLES"] = str(folder / "nowhere")


@other
def tables_of_another_release(folder: Path, rank: int) -> None:
    _tables(folder / f"rank{rank}", lambda text: text.replace(b"format = 1", b"format = 2"))


@other
def a_full_disk_under_the_report(folder: Path, rank: int) -> None:
    (folder / "report" / f"findings.rank{rank}.jsonl").symlink_to("/dev/full")


@other
def a_report_that_has_no_place(folder: Path, rank: int) -> None:
    os.environ["VLMGUARD_REPORT"] = "/proc/no/such/place.jsonl"


@other
def a_home_that_takes_no_file(folder: Path, rank: int) -> None:
    os.environ["HOME"] = "/proc/no/home"
    os.environ["HF_HOME"] = str(folder / "home")
    os.environ["HF_DATASETS_CACHE"] = str(folder / "home" / "datasets")
    os.environ.pop("XDG_CACHE_HOME", None)


@other
def files_of_no_size(folder: Path, rank: int) -> None:
    """Every file that we open to write is full: /dev/full in place of its bytes."""
    import builtins

    kept = io.open

    def refusing(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_code.co_filename
        ours = f"{ROOT}/vlmguard" in caller or f"{ROOT}/plugins" in caller
        if ours and set(mode) & set("wax+"):
            raise OSError(28, "No space left on device")
        return kept(file, mode, *args, **kwargs)

    builtins.open = refusing


class _Stream(io.StringIO):
    """A notebook's: no file behind it."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


@other
def a_notebooks_streams(folder: Path, rank: int) -> None:
    """And its event loop, which is running, and its marks of an interactive process."""
    sys.stderr, sys.stdout = _Stream(), _Stream()
    sys.ps1 = ">>> "  # type: ignore[attr-defined]
    import asyncio

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    asyncio.events._set_running_loop(loop)


class _Ascii(io.StringIO):
    def write(self, text: str) -> int:
        text.encode("ascii")
        return super().write(text)


@other
def a_terminal_of_ascii_alone(folder: Path, rank: int) -> None:
    sys.stderr = _Ascii()


class _Closed(_Stream):
    def write(self, text: str) -> int:
        if text.startswith("vlmguard"):
            raise BrokenPipeError("nobody listens")
        return super().write(text)


@other
def a_terminal_that_is_gone(folder: Path, rank: int) -> None:
    """For what we say: frameworks that cannot print end by themselves."""
    sys.stderr = _Closed()


@other
def a_child_that_was_forked_in_a_step(folder: Path, rank: int) -> None:
    Trainer = _trainer()
    kept = Trainer.training_step

    @functools.wraps(kept)
    def step(*args: Any, **kwargs: Any) -> Any:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        return kept(*args, **kwargs)

    Trainer.training_step = step


@other
def spawned_workers(folder: Path, rank: int) -> None:
    import multiprocessing

    multiprocessing.set_start_method("spawn", force=True)


@other
def a_busy_thread(folder: Path, rank: int) -> None:
    """That imports, allocates and looks at every module while the ranks train."""

    def busy() -> None:
        while True:
            for module in list(sys.modules.values()):
                getattr(module, "__name__", "")
            threading.Event().wait(0.01)

    threading.Thread(target=busy, daemon=True).start()


@other
def a_debugger(folder: Path, rank: int) -> None:
    """Every call is traced."""

    def trace(frame: Any, event: str, argument: Any) -> None:
        return None

    sys.settrace(trace)
    threading.settrace(trace)


@other
def warnings_are_errors(folder: Path, rank: int) -> None:
    import warnings

    warnings.filterwarnings("error", module=r"vlmguard.*")


@other
def an_environment_that_changes(folder: Path, rank: int) -> None:
    """Between two steps, as a notebook's does; and on one rank alone."""
    Trainer = _trainer()
    kept = Trainer.training_step

    @functools.wraps(kept)
    def step(*args: Any, **kwargs: Any) -> Any:
        if rank:
            os.environ["VLMGUARD_RULES"] = "VG1=off"
        return kept(*args, **kwargs)

    Trainer.training_step = step


@other
def a_thread_of_its_own(folder: Path, rank: int) -> None:
    """The whole program runs in one: `warm` sees to it."""


@other
def no_garbage_is_collected(folder: Path, rank: int) -> None:
    import gc

    gc.disable()
    gc.freeze()
