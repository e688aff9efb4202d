"""What every kit that runs a real command shares: outcomes, kept once a session; turns; caches.

    outcome = once([words, env, guard], lambda folder: execute(words, folder, variables, 420))

The same run is made once a session: outcomes are kept in the session's folder, under a lock, so
that tests in several processes share references. As many run at once as there are CPUs.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.kit import envs, processes
from tests.kit.models.families import FAMILIES
from tests.kit.standins.vlmguard_capture import Rank, read
from tests.kit.turns import turn
from vlmguard.ranks import ports

KIT = Path(__file__).resolve().parent
CACHE = envs.HOME / ".cache"
MODELS = KIT / "models"
QUIET = 60.0
"""Seconds without a line of output after which a training run counts as hung; imports count
too. Those in which it wanted a processor and got none are left out (`pace`)."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    command: Sequence[str]
    folder: str
    returncode: int
    seconds: float
    hung: bool
    survivors: Sequence[int]
    """Processes of the run that outlived the command (and were then ended)."""
    lines: Sequence[tuple[float, str]]
    """What it printed, standard error included, each line with its second of progress."""
    progress: float = 0.0
    """Its seconds without those in which a busy machine kept it waiting."""

    @property
    def output(self) -> str:
        """All that was printed."""
        return "\n".join(text for _, text in self.lines)

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """The weights, of those ranks that finished training; read afresh, they are large."""
        return read(Path(self.folder) / "capture")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What the guard reported, of all processes, in the order of time."""
        return [record for record in self.report() if record["kind"] == "finding"]

    def fixed(self) -> set[str]:
        """The codes of what the guard mended."""
        return {found["code"] for found in self.findings if found["outcome"] == "fixed"}

    def report(self) -> list[dict[str, Any]]:
        """All lines of the guard's JSON reports."""
        files = (Path(self.folder) / "report").glob("*.jsonl")
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted(records, key=lambda record: record["time"])

    def seconds_after(self, pattern: str) -> float:
        """From the first line that matches to the end of the run, without those in which a busy
        machine kept it waiting."""
        first = next(second for second, text in self.lines if re.search(pattern, text))
        return self.progress - first

    def __str__(self) -> str:
        end = "hung" if self.hung else f"exit {self.returncode}"
        if self.hung and 0 < self.progress < self.seconds / 2:
            end = f"ended by us, too slow a machine: {self.progress:.0f} s of progress"
        tail = "\n".join(text[:400] for _, text in self.lines[-60:])
        return f"$ {shlex.join(self.command)}\n{tail}\n[{end} after {self.seconds:.0f} s]"


def once(key: Any, make: Callable[[Path], Outcome]) -> Outcome:
    """``make(folder)``, or what it answered earlier in this session.

    Args:
        key: all that the run depends on, as JSON can hold it.
        make: runs in a fresh folder, in which it has home, work and tmp.
    """
    folder = session() / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    with locked(folder.with_suffix(".lock")):
        kept = folder / "outcome.json"
        if not kept.exists():
            kept.write_text(json.dumps(asdict(make(folder))))
        return Outcome(**json.loads(kept.read_text()))


def told(name: str, make: Callable[[], str]) -> str:
    """The text that ``make()`` answers, asked for once a session."""
    kept = session() / f"{name}.txt"
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            kept.write_text(make(), encoding="utf-8")
        return kept.read_text(encoding="utf-8")


def execute(
    words: Sequence[str],
    folder: Path,
    variables: Mapping[str, str | None],
    timeout: float,
    quiet: float = QUIET,
    files: Mapping[str, str] | None = None,
) -> Outcome:
    """Run one command in its turn, in a fresh ``folder``.

    Args:
        variables: its whole environment; what is None is left out.
        files: written into the folder that it runs in, by name.
    """
    fresh(folder)
    for name, text in (files or {}).items():
        (folder / "work" / name).write_text(text, encoding="utf-8")
    given = {name: value for name, value in variables.items() if value is not None}
    with turn():
        ended = processes.watch(words, given, folder / "work", timeout=timeout, quiet=quiet)
    return outcome(words, folder, ended)


def fresh(folder: Path) -> None:
    """What a run finds."""
    shutil.rmtree(folder, ignore_errors=True)
    for each in ("home", "work", "tmp"):
        (folder / each).mkdir(parents=True)


def outcome(words: Sequence[str], folder: Path, ended: processes.Ended) -> Outcome:
    """What is kept of a run. Checkpoints and caches are not looked at, and large."""
    for each in ("home", "work", "tmp"):
        shutil.rmtree(folder / each, ignore_errors=True)
    return Outcome([Path(words[0]).name, *words[1:]], str(folder), **asdict(ended))


def variables(env: str, folder: Path, guard: bool, over: str = "") -> dict[str, str]:
    """The whole environment of a run: nothing of the caller's but the search path."""
    found = {
        "PATH": f"{envs.path(env) / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": search_path(env, over),
        "LANG": "C.UTF-8",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "MASTER_PORT": str(ports.free()),
        "VLMGUARD_TEST_CAPTURE": str(folder / "capture"),
        "VLMGUARD_REPORT": str(folder / "report" / "findings.jsonl"),
    }
    return found if guard else {**found, "VLMGUARD": "off"}


def search_path(env: str, over: str = "") -> str:
    """PYTHONPATH: the stand-ins, this checkout if the environments are another's, an overlay."""
    from tests.kit import overlays

    laid = [str(overlays.folder(over, env))] if over else []
    return os.pathsep.join([str(KIT / "standins"), *envs.SOURCES, *laid])


@functools.cache
def session() -> Path:
    """Where this test session keeps its runs; the same for all its processes."""
    if "VLMGUARD_TEST_SESSION" not in os.environ:
        os.environ["VLMGUARD_TEST_SESSION"] = tempfile.mkdtemp(prefix="vlmguard-runs-")
    return Path(os.environ["VLMGUARD_TEST_SESSION"])


@functools.cache
def model_folder(env: str, family: str, over: str = "") -> Path:
    """A tiny checkpoint for this environment, built by it when its recipe is new."""
    pins = [*envs.sections()[env], *envs.sections().get(over, [])]
    modules = ("tiny", "tiny_qwen", FAMILIES[family][0])
    recipe = "\n".join([(MODELS / f"{name}.py").read_text() for name in modules] + pins)
    python = envs.program(env)

    def build(out: Path) -> None:
        given = {**os.environ, "PYTHONPATH": search_path(env, over), "VLMGUARD": "off"}
        command = [python, str(MODELS), str(out), family]
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"cannot build {family} in {env}:\n{done.stderr[-4000:]}")

    return built(f"{over or env}-{family}", recipe, build)


def built(name: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """The folder that ``build(folder)`` fills, made when its recipe is new."""
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    folder = CACHE / f"{name}-{digest}"
    with locked(CACHE / f"{name}.lock"):
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            (folder / ".whole").touch()
    return folder


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file; it goes with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
