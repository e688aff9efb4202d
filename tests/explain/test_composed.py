"""What no CPU can cause, in the middle of what real runs print; and runs that end well."""

# ruff: noqa: E501
from __future__ import annotations

import gzip
import lzma
import re

import pytest

from tests.explain import compose
from tests.explain.schema import load
from vlmguard_explain.advice import flags
from vlmguard_explain.advice.steps import cause
from vlmguard_explain.advice.steps import steps as steps_of
from vlmguard_explain.command import explain
from vlmguard_explain.show.headline import headline

# Told by a table, by other ranks, by losses, or without the frame that gives it away.
ELSEWHERE = {"VG508", "VG515", "VG551", "VG563", "VG569", "VG593"}
EXAMPLES = [
    pytest.param(known, number, example["text"], id=f"{known.code}-{number}")
    for known in load()
    if known.code not in ELSEWHERE
    for number, example in enumerate(known.examples)
    if "traceback :" not in example["text"]
]


def judged(tmp_path, text, name="train.log"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return explain([str(path)])[0]


@pytest.mark.parametrize(("known", "number", "text"), EXAMPLES)
def test_example_in_a_run(tmp_path, known, number, text):
    variant = (int(known.code[2:]) + number) % 3  # each example in one of them
    line = known.match_line(text) is not None and known.match(text) is None
    launcher = ("torchrun", "deepspeed", "torchrun")[variant]
    framework = sorted(compose.PREAMBLES)[(int(known.code[2:]) + number) % 5]
    seed = 10 * int(known.code[2:]) + variant + 1000 * number
    log = compose.failing(
        seed, text, rank=variant % 2, world=2 + 2 * (variant // 2), launcher=launcher,
        marked=variant != 2, framework=framework, line=line,
    )
    answer = judged(tmp_path, log)
    assert answer.known is not None
    assert answer.known.code == known.code
    if launcher == "torchrun" and known.order == "cause":
        assert answer.ranks == (variant % 2,)


@pytest.mark.parametrize("seed", range(100))
def test_healthy(tmp_path, seed):
    answer = judged(tmp_path, compose.healthy(seed))
    assert (answer.verdict, answer.known) == ("finished", None)


@pytest.mark.parametrize("seed", range(0, 100, 10))
def test_healthy_but_cut(tmp_path, seed):
    """No finding, and how far it came."""
    whole = compose.healthy(seed)
    answer = judged(tmp_path, whole[: len(whole) * 2 // 3])
    assert (answer.verdict, answer.known) == ("unfinished", None)
    assert answer.facts.steps is not None


OOM = next(k for k in load() if k.code == "VG512").examples[0]["text"]


def test_memory_keeps_the_global_batch(tmp_path):
    log = compose.preamble("ms-swift", 2, micro=6, accumulation=4) + compose.traced(
        OOM, 1, ("train", "training_step", "backward")
    )
    answer = judged(tmp_path, log)
    do = next(do for do in steps_of(answer.known, answer.facts) if do.do == "batch")
    said = flags.say(do, answer.facts)
    micro, accumulation = map(int, re.findall(r"\d+", said))
    assert micro < 6
    assert micro * accumulation == 6 * 4
    assert answer.facts.phase == "backward"
    assert "2.0 GiB were asked for, 1.2 GiB of 79.2 GiB free" in cause(answer.known, answer.facts)


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        (("from_pretrained",), "load"),
        (("training_step", "compute_loss", "forward"), "forward"),
        (("evaluate", "evaluation_loop", "prediction_step", "forward"), "evaluation"),
        (("training_step", "generate", "forward"), "generation"),
        (("_save_checkpoint", "save_pretrained"), "save"),
    ],
)
def test_phase(tmp_path, frames, phase):
    assert judged(tmp_path, compose.traced(OOM, 0, frames)).facts.phase == phase


WAIT = (
    "[rank{rank}]:[E112 09:14:14.123456 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)


def wait(rank, seq=7, op="ALLREDUCE", numel=64):
    return WAIT.format(rank=rank, seq=seq, op=op, numel=numel)


def test_who_never_came(tmp_path):
    log = compose.preamble("ms-swift", 4) + wait(0) + wait(1) + wait(3)
    answer = judged(tmp_path, log)
    assert (answer.known.code, answer.ranks, answer.sure) == ("VG505", (2,), True)
    assert len(answer.table.waits) == 3


def test_who_waits_elsewhere(tmp_path):
    log = compose.preamble("ms-swift", 4) + wait(0) + wait(1, op="ALLGATHER") + wait(2) + wait(3)
    answer = judged(tmp_path, log)
    assert (answer.known.code, answer.ranks) == ("VG505", (1,))


def test_time_out_at_evaluation(tmp_path):
    log = compose.preamble("transformers", 2) + "  5%|▌ | 5/100 [00:01<00:10, 1.0it/s]\n"
    log += "***** Running Evaluation *****\n" + wait(0) + wait(1)
    assert judged(tmp_path, log).known.code == "VG551"


def test_losses_of_nan(tmp_path):
    healthy = "{'loss': 1.2, 'grad_norm': 0.5, 'epoch': 0.1}\n"
    broken = "{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}\n"
    done = compose.DONE["TRL"].format(steps=9)
    assert judged(tmp_path, 3 * healthy + 5 * broken + done).known.code == "VG515"
    assert judged(tmp_path, healthy + broken + 3 * healthy + done).verdict == "finished"


def test_end_without_a_cause(tmp_path):
    killed = compose.failing(5, "", rank=1, code=-9, line=True)
    answer = judged(tmp_path, killed)
    assert (answer.known.code, answer.ranks) == ("VG532", (1,))


def per_rank(tmp_path, first=1):
    """torchrun --log-dir: RUN/attempt_0/RANK/stderr.log; no clock tells which rank was first."""
    for rank in range(3):
        folder = tmp_path / "none_abc" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        error = "ValueError: row 17 has no label" if rank == first else (
            "RuntimeError: [/gloo/pair.cc:534] Connection closed by peer [10.0.0.7]:1"
        )
        (folder / "stderr.log").write_text(compose.traced(error, None))
        (folder / "stdout.log").write_text(compose.preamble("TRL", 3))
    return explain([str(tmp_path)])[0]


def test_folder_of_ranks(tmp_path):
    answer = per_rank(tmp_path)
    assert (answer.verdict, answer.ranks, answer.sure) == ("unknown", (1,), True)
    assert "3 ranks" not in answer.how


def test_one_of_ranks(tmp_path):
    """Two ranks with errors of their own, no clock: said as such."""
    for rank, error in enumerate(("ValueError: a", "KeyError: 'b'")):
        (tmp_path / f"rank_{rank}.log").write_text(compose.traced(error, None))
    answer = explain([str(tmp_path)])[0]
    assert (answer.ranks, answer.sure) == ((0, 1), False)


def test_clocks_decide(tmp_path):
    for rank, second in enumerate((9, 3)):
        error = compose.traced(f"ValueError: of rank {rank}", None)
        stamped = re.sub("(?m)^(?=.)", f"2026-01-12T08:00:0{second}.5Z ", error)
        (tmp_path / f"rank_{rank}.log").write_text(stamped)
    answer = explain([str(tmp_path)])[0]
    assert (answer.ranks, answer.how) == ((1,), "the ranks' clocks")


def test_restarts_the_last_attempt_counts(tmp_path):
    for attempt, text in enumerate(("ValueError: once", "")):
        folder = tmp_path / "run" / f"attempt_{attempt}" / "0"
        folder.mkdir(parents=True)
        said = compose.traced(text, None) if text else compose.healthy(3)
        (folder / "stderr.log").write_text(said)
    assert explain([str(tmp_path)])[0].verdict == "finished"


@pytest.mark.parametrize(("suffix", "packed"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed(tmp_path, suffix, packed):
    path = tmp_path / f"slurm-4242.out{suffix}"
    path.write_bytes(packed(compose.failing(3, OOM).encode()))
    assert explain([str(path)])[0].known.code == "VG512"
    path.write_bytes(path.read_bytes()[:-20])  # cut: what can be read is read
    assert explain([str(path)])[0].verdict in ("explained", "unfinished")


LABELS = {
    "srun": lambda line: f"1: {line}",
    "docker": lambda line: f"2026-01-12T08:00:01.123456789Z {line}",
    "pods": lambda line: f"[pod/train-0/main] {line}",
    "colours": lambda line: f"\x1b[31m{line[:12]}\x1b[0m{line[12:]}",
    "windows": lambda line: f"{line}\r",
    "vllm": lambda line: f"(RayWorkerWrapper pid=206994, ip=10.0.0.7) ERROR 03-27 10:29:13 [worker_base.py:620] {line}",
    "nul": lambda line: f"{line}\0",
}


@pytest.mark.parametrize("label", LABELS)
def test_what_stands_before_lines(tmp_path, label):
    log = compose.traced(OOM, None if label == "srun" else 1)
    log = "".join(LABELS[label](line) + "\n" for line in log.splitlines())
    answer = judged(tmp_path, log)
    assert (answer.known.code, answer.ranks) == ("VG512", (1,))


def test_two_ranks_on_one_line(tmp_path):
    one, other = (compose.traced(OOM, rank).splitlines() for rank in (0, 1))
    log = "".join(f"{a}{b}\n" for a, b in zip(one, other, strict=True))
    answer = judged(tmp_path, log)
    assert answer.known.code == "VG512"
    assert answer.alike == (0, 1)


def test_a_launcher_that_marks_every_line(tmp_path):
    """A mark on all lines is no sign of an end: the exception that was caught stays caught."""
    log = "".join(f"[rank0]:{line}\n" for line in compose.healthy(2).splitlines())
    assert judged(tmp_path, log).verdict == "finished"


def test_ranks_that_wait_apart(tmp_path):
    """As users report it: one rank is four collectives behind; no time in torch 2.3's prefix."""
    behind = wait(0, seq=959, numel=544997376).replace("E112 09:14:14.123456 ", "E ")
    log = compose.preamble("transformers", 8) + behind + "".join(wait(r, seq=963, numel=2560) for r in range(1, 8))
    answer = judged(tmp_path, log)
    assert (answer.known.code, answer.ranks) == ("VG505", (0,))


def test_several_nodes_the_earliest_root(tmp_path):
    first = compose.failing(1, "ValueError: a", rank=0).replace("09:14:14\n", "09:14:52\n")
    second = compose.TEARDOWN.format(code=1, rank=4, others="", said="x").replace("(local_rank: 4)", "(local_rank: 0)")
    answer = judged(tmp_path, first + second.replace("09:14:14\n", "09:14:01\n"))
    assert answer.verdict == "unknown"


def test_what_trackers_print_at_exit_is_no_end(tmp_path):
    said = "wandb: Run summary:\nwandb:   train/loss 0.5\nwandb: Synced 5 W&B file(s)\n"
    answer = judged(tmp_path, compose.failing(7, OOM, launcher="none") + said)
    assert answer.known.code == "VG512"


def test_a_full_bar_of_an_evaluation_is_no_end(tmp_path):
    log = compose.preamble("transformers", 2) + "  5%|▌ | 5/100 [00:01<00:10, 1.0it/s]\n"
    log += "100%|██████████| 13/13 [00:01<00:00, 9.0it/s]\n"
    assert judged(tmp_path, log).verdict == "unfinished"


def test_facts_of_our_own_first_line(tmp_path):
    said = "vlmguard: 0.1.0 guards FlagEmbedding 1.4.2, zero3, 8 ranks; settings abc (VLMGUARD=off …)\n"
    facts = judged(tmp_path, said + compose.traced(OOM, 3)).facts
    assert (facts.framework, facts.strategy, facts.world) == ("FlagEmbedding", "zero3", 8)
    assert facts.releases["FlagEmbedding"] == "1.4.2"


def test_facts_of_a_deepspeed_dump(tmp_path):
    log = compose.preamble("transformers", 2, micro=3, accumulation=5) + compose.traced(OOM, 0)
    facts = judged(tmp_path, log).facts
    assert (facts.strategy, facts.zero) == ("zero2", 2)


def test_a_chain_is_told_by_its_end_and_what_came_before(tmp_path):
    chained = "\nDuring handling of the above exception, another exception occurred:\n\n"
    log = compose.traced("KeyError: 'a'", None) + chained + compose.traced("ValueError: b", None)
    answer = judged(tmp_path, log)
    assert answer.pick.event.type == "ValueError"
    assert headline(answer) == "not known: ValueError: b, after KeyError: 'a'"
    known = compose.traced(OOM, None) + chained + compose.traced("ValueError: b", None)
    assert judged(tmp_path, known).known.code == "VG512"
