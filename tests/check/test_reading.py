"""Scripts as people write them: the jobs in them, the ranks, and what is not known."""

from __future__ import annotations

import pytest

from vlmguard.check import script
from vlmguard.check.shell.state import known

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def reading(text: str, *arguments: str, **env: str) -> script.Reading:
        (tmp_path / "train.sh").write_text(text)
        return script.of_file("train.sh", arguments, {**ENV, **env})

    return reading


def argv(reading: script.Reading, number: int = 0) -> list[str]:
    return [reading.trace.shown(word) for word in reading.jobs[number].argv]


def test_variables_arrays_and_lines(read):
    reading = read(
        "#!/bin/bash\nset -euo pipefail\nMODEL=${1:-Qwen/x}\nARGS=(--model $MODEL --lr 1e-5)\n"
        'if [[ "${FULL:-0}" == 1 ]]; then ARGS+=(--tuner_type full); fi\n'
        'GPUS=0,1,2,3\nexport NPROC_PER_NODE=$(echo $GPUS | tr "," "\\n" | wc -l)\n'
        'swift sft "${ARGS[@]}" \\\n  --dataset "a b" 2>&1 | tee "log-$(date +%F).txt"\n',
        FULL="1",
    )
    assert reading.jobs[0].world == 4
    assert argv(reading) == ["--model", "Qwen/x", "--lr", "1e-5", "--tuner_type", "full",
                             "--dataset", "a b"]  # fmt: skip
    assert reading.jobs[0].call.line == 8
    assert not reading.refused


def test_arguments_of_the_script(read):
    reading = read("swift sft --model $1 ${@:2}", "m", "--x", "1")
    assert argv(reading) == ["--model", "m", "--x", "1"]


def test_slurm_directives_give_the_ranks(read):
    reading = read(
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=a100:8\n"
        "torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE "
        "--node_rank $SLURM_NODEID t.py\n"
    )
    assert reading.jobs[0].world == 32


def test_what_is_skipped_does_not_stop_what_follows(read):
    reading = read(
        "set -e\nnvidia-smi\npip install -U x || exit 1\ngit clone y && cd y\nexport A=$(curl z)\n"
        "test -d nowhere || mkdir nowhere\nswift sft --model $A --seed 1 || exit 3\nswift pt\n"
    )
    assert [job.target for job in reading.jobs] == ["swift sft", "swift pt"]
    assert argv(reading)[1] == "‹the output of curl z›"
    skipped = {call.words[0] for call in reading.skipped}
    assert skipped == {"nvidia-smi", "pip", "git", "curl", "mkdir"}


def test_both_branches_of_what_is_not_known(read):
    reading = read("if nvidia-smi; then swift sft --a 1; else swift sft --b 1; fi")
    assert [argv(reading, n)[0] for n in (0, 1)] == ["--a", "--b"]
    assert [job.call.certain for job in reading.jobs] == [False, False]


BRANCHES = {
    "if": "if nvidia-smi; then N=8; else N=1; fi",
    "if alone": "N=1; if nvidia-smi; then N=8; fi",
    "elif": "if nvidia-smi; then N=8; elif true; then N=1; fi",
    "and, or": "[[ $(nvidia-smi) =~ A100 ]] && N=8 || N=1",
    "case": "case $(nvidia-smi) in a) N=8;; *) N=1;; esac",
    "while": "N=1; while nvidia-smi; do N=8; done",
    "in a function": "f() { local N; if nvidia-smi; then N=8; fi; echo $N; }; N=$(f)",
}


@pytest.mark.parametrize("text", BRANCHES.values(), ids=BRANCHES)
def test_what_a_branch_that_may_not_run_sets_is_not_known(text, read):
    (job,) = read(f"{text}\nswift sft --seed $N").jobs
    assert not known(job.argv[1])


SURE = {
    "both alike": "if nvidia-smi; then N=8; else N=8; fi",
    "the other one leaves": "if nvidia-smi; then N=8; else exit 1; fi",
    "another variable": "N=8; if nvidia-smi; then M=1; fi",
    "in one go": "nvidia-smi && N=1 && N=8; N=8",
}


@pytest.mark.parametrize("text", SURE.values(), ids=SURE)
def test_what_every_branch_agrees_on_is_known(text, read):
    (job,) = read(f"{text}\nswift sft --seed $N").jobs
    assert job.argv == ("--seed", "8")


def test_a_folder_that_is_entered_if_all_goes_well(read, tmp_path):
    (job,) = read("mkdir -p y\ngit pull && cd y && export N=8\nswift sft --seed 1").jobs
    assert job.call.folder == str(tmp_path / "y")


def test_a_file_that_the_script_writes_is_read_from_memory(read, tmp_path):
    reading = read(
        "mkdir -p cfg\ncat > cfg/ds.json <<EOF\n"
        '{"zero_optimization": {"stage": $((1 + 2))}}\nEOF\n'
        "swift sft --deepspeed cfg/ds.json"
    )
    assert reading.files[str(tmp_path / "cfg/ds.json")] == '{"zero_optimization": {"stage": 3}}\n'
    assert not (tmp_path / "cfg").exists()


def test_a_function_hides_a_launcher_as_in_bash(read):
    text = 'run() { swift "$@" --seed 2; }\nfor lr in 1 2; do run sft --lr $lr & done; wait'
    reading = read(text)
    assert [argv(reading, n) for n in (0, 1)] == [["--lr", "1", "--seed", "2"],
                                                  ["--lr", "2", "--seed", "2"]]  # fmt: skip


def test_other_scripts_are_read_too(read, tmp_path):
    (tmp_path / "env.sh").write_text("export NPROC_PER_NODE=2; M=m")
    (tmp_path / "run.sh").write_text('swift sft --model "$1"')
    reading = read("source ./env.sh\nbash run.sh $M\n./run.sh other\nexec swift pt\nswift rlhf")
    assert [(job.target, job.world) for job in reading.jobs] == [
        ("swift sft", 2), ("swift sft", 2), ("swift pt", 2)]  # fmt: skip
    assert reading.jobs[0].call.source == "run.sh"


@pytest.mark.parametrize(
    "text",
    ["if true; then swift sft", "swift sft --x 'a", "eval \"$(curl x)\"", "bash <(curl x)",
     "curl x | bash", "select a in b; do swift sft; done", "$(curl x) sft"],
)  # fmt: skip
def test_what_is_not_understood_is_refused(read, text):
    assert read(text).refused


def test_no_shell_expands_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.sh").write_text(
        "X=1\nif false; then\nNPROC_PER_NODE=2 swift sft --model $X --lr 1\nfi\nsrun torchrun x.py"
    )
    reading = script.literally("x.sh")
    job, inner = reading.jobs
    assert inner.target == "x.py"
    assert job.world == 2
    assert [reading.trace.shown(w) for w in job.argv] == ["--model", "‹not expanded›", "--lr", "1"]


def test_options_that_are_not_known_hide_the_ranks_not_the_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.sh").write_text("torchrun $ARGS swift/cli/sft.py --model x")
    (job,) = script.literally("x.sh").jobs
    assert (job.target, job.world, job.argv) == ("swift/cli/sft.py", None, ("--model", "x"))


def test_a_command_of_words_is_taken_literally(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["NPROC_PER_NODE=2", "swift", "sft", "--x", "$(touch y)", "a b", ";", "rm"]
    reading = script.of_words(words, ENV)
    assert reading.jobs[0].world == 2
    assert reading.jobs[0].argv == ("--x", "$(touch y)", "a b", ";", "rm")


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/null", "/sys/kernel/notes"])
def test_the_kernels_files_are_not_opened(read, path):
    assert "‹" in argv(read(f"swift sft --model x$(cat {path})x"))[1]


def test_a_script_ends_where_it_exits(read):
    reading = read("swift sft; [ -f nowhere ] || { echo no; exit 1; }; swift pt")
    assert [job.target for job in reading.jobs] == ["swift sft"]


def test_a_trap_may_train(read):
    reading = read("trap 'swift sft --resume' EXIT; swift pt")
    assert [(job.target, job.call.certain) for job in reading.jobs] == [
        ("swift sft", False), ("swift pt", True)]  # fmt: skip
