"""What a command starts, and on how many ranks, by its words alone."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.check.launcher_forms import FORMS, QUIET
from vlmguard.check import answer, launcher, redact, script
from vlmguard.check.shell.state import Call

PEELED = [
    ("swift sft --model x", "swift sft", 1),
    ("NPROC_PER_NODE=8 swift sft --model x", "swift sft", 8),
    ("NPROC_PER_NODE=8 NNODES=2 swift rlhf --model x", "swift rlhf", 16),
    ("megatron sft --load x", "megatron sft", 1),
    ("torchrun --nproc_per_node 4 swift/cli/sft.py --model x", "swift/cli/sft.py", 4),
    ("torchrun --standalone --nproc-per-node=2 -m a.b --x 1", "-m a.b", 2),
    ("torchrun --nnodes 2 --nproc_per_node 4 --master_port 1 t.py", "t.py", 8),
    ("torchrun --nnodes 1:3 --nproc_per_node 4 t.py", "t.py", 12),
    ("torchrun --nproc_per_node $N t.py", "t.py", None),
    ("python -m torch.distributed.run --nproc_per_node 2 t.py", "t.py", 2),
    ("python3.11 -u -m torch.distributed.launch --nproc_per_node 2 t.py", "t.py", 2),
    ("accelerate launch --num_processes 4 --multi_gpu t.py --x", "t.py", 4),
    ("accelerate launch --config_file f.yaml t.py", "t.py", None),
    ("python -m accelerate.commands.launch --num_processes 2 t.py", "t.py", 2),
    ("deepspeed --num_gpus 4 t.py --x", "t.py", 4),
    ("deepspeed --include localhost:1,2 t.py", "t.py", 2),
    ("deepspeed --hostfile h --num_gpus 4 t.py", "t.py", None),
    ("colossalai run --nproc_per_node 8 t.py", "t.py", 8),
    ("trl sft --model_name_or_path x", "trl sft", None),
    ("llamafactory-cli train x.yaml", "llamafactory-cli train", None),
    ("conda run -n env torchrun --nproc_per_node 2 t.py", "t.py", 2),
    ("uv run accelerate launch --num_processes 2 t.py", "t.py", 2),
    ("/opt/conda/bin/python t.py --x", "t.py", None),
    ("nohup env A=1 torchrun --nproc_per_node 2 t.py &", "t.py", 2),
    ("CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node gpu t.py", "t.py", 3),
]


@pytest.mark.parametrize(("words", "target", "world"), PEELED)
def test_peeled(words, target, world, tmp_path):
    (tmp_path / "x.sh").write_text(f"N=$(nvidia-smi -L)\n{words}\n")
    reading = script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"})
    (job,) = reading.jobs
    assert job.target == target
    assert job.world == world
    assert shlex.join([*job.prefix, *job.argv]).split()[-1] in words


@pytest.mark.parametrize(
    "words",
    ["pip install x", "python -c 'import torch'", "python --version", "accelerate config", "ls",
     "python - <<< x", "wget http://x/y"],
)  # fmt: skip
def test_no_job(words):
    call = Call(tuple(shlex.split(words)), {}, "/", 1, "x")
    assert launcher.job(call) is None


@pytest.mark.parametrize("words", ["make train", "find x -exec y ;", "docker pull x", "xargs a b",
                                   "kubectl apply -f x", "./missing.sh x"])  # fmt: skip
def test_not_seen_inside(words, tmp_path):
    (tmp_path / "x.sh").write_text(words)
    reading = script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"})
    assert [call.words[0] for call in reading.unseen] == [words.split()[0]]
    assert not reading.jobs


@pytest.mark.parametrize(("words", "found"), FORMS)
def test_a_form_of_a_command_that_trains(words, found, tmp_path, monkeypatch):
    """Peeled to its job; where it is not, nobody looked into it, and it is no exit 0."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.sh").write_text(words + "\n")
    reading = script.of_file("x.sh", [], {"PATH": "/bin"})
    assert [(job.target, job.world) for job in reading.jobs] == ([found] if found else [])
    assert answer.of(reading, {}).code(False) == 2
    assert answer.of(script.literally("x.sh"), {}).code(False) == 2


@pytest.mark.parametrize("words", QUIET)
def test_what_trains_nothing_is_no_alarm(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.sh").write_text(words + "\n")
    assert answer.of(script.of_file("x.sh", [], {"PATH": "/bin"}), {}).code(False) == 0


def test_the_variables_that_a_wrapper_gives(tmp_path):
    """What it clears is gone, what it sets is there, and the whole command stays in front."""
    text = "export NPROC_PER_NODE=8\nenv -i NNODES=2 swift sft --x\nnice -n 5 swift sft --x\n"
    (tmp_path / "x.sh").write_text(text + "docker run -e NPROC_PER_NODE=4 i swift sft --x\n")
    reading = script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"})
    assert [job.world for job in reading.jobs] == [2, 8, 4]
    assert reading.jobs[1].prefix == ("nice", "-n", "5", "swift", "sft")
    assert "in a container" in reading.remarks[0].text


def test_what_a_line_holds_has_the_place_of_that_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y.sh").write_text("\n\nswift sft --a")
    (tmp_path / "x.sh").write_text(
        "\nbash -c 'true\nswift sft --b'\nssh h <<< 'bash y.sh; swift sft --c; if'\nswift sft --d"
    )
    reading = script.of_file("x.sh", [], {"PATH": "/bin"})
    places = [(job.call.source, job.call.line, job.argv[0][2:]) for job in reading.jobs]
    assert places == [("x.sh", 2, "b"), ("x.sh", 5, "d")]
    assert [(one.source, one.line) for one in reading.refused] == [("x.sh", 4)]
    (tmp_path / "x.sh").write_text("\nssh h <<< 'bash y.sh; swift sft --c'")
    reading = script.of_file("x.sh", [], {"PATH": "/bin"})
    assert [(job.call.source, job.call.line) for job in reading.jobs] == [("y.sh", 3), ("x.sh", 2)]


def test_a_script_that_sbatch_starts_sees_slurm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.slurm").write_text(
        "#SBATCH --nodes=4\ntorchrun --nnodes $SLURM_NNODES --nproc_per_node 8 t.py"
    )
    (tmp_path / "x.sh").write_text("sbatch -N 2 job.slurm\nsbatch job.slurm")
    reading = script.of_file("x.sh", [], {"PATH": "/bin"})
    assert [job.world for job in reading.jobs] == [16, 32]


def test_an_unset_variable_of_a_scheduler_is_no_zero(tmp_path):
    (tmp_path / "x.sh").write_text(
        "N=$((WORLD_SIZE * 8))\ntorchrun --nnodes $((SLURM_NNODES)) --nproc_per_node $N t.py\n"
        "A=(1 2)\necho ${A[RANK]} $((UNSET + 1))\n"
    )
    (job,) = script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"}).jobs
    assert (job.nodes, job.per_node) == (None, None)


LOST = {
    "a comment": "swift sft --a 1 \\\n  # --b 2 \\\n  --c 3\n",
    "a blank": "swift sft --a 1 \\ \n  --c 3\n",
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST)
def test_flags_that_bash_loses_are_told(text, tmp_path):
    (tmp_path / "x.sh").write_text(text)
    reading = script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"})
    assert [remark.text[:15] for remark in reading.refused] == ["bash runs --c a"]
    assert answer.of(reading, {}).code(False) == 2


def test_a_comment_behind_the_last_flag_loses_nothing(tmp_path):
    (tmp_path / "x.sh").write_text("swift sft --a 1 \\\n  # --b 2\necho done\n")
    assert not script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"}).refused


CELLS = [
    ("markdown", "!swift sft --no"), ("code", "!pip install ms-swift -U"),
    ("code", "import os\nos.environ['NPROC_PER_NODE'] = '2'\nx = 1"),
    ("code", "!swift sft \\\n  --model x \\\n  --output_dir {out}"),
    ("code", "%%bash\nNPROC_PER_NODE=4 swift pt --model y"), ("code", "%env NNODES=2"),
    ("code", "!swift rlhf --model z"),
]  # fmt: skip


def _notebook(path, cells):
    made = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in cells]
    path.write_text(json.dumps({"cells": made}))
    return str(path)


def test_a_notebooks_cells_are_read(tmp_path):
    path = _notebook(tmp_path / "n.ipynb", CELLS)
    reading = script.of_file(path, [], {"PATH": "/bin"})
    assert [(job.target, job.world) for job in reading.jobs] == [
        ("swift sft", 2), ("swift pt", 4), ("swift rlhf", 4)]  # fmt: skip
    assert not reading.unseen
    assert len(script.literally(path).jobs) == 3


MAGICS = {
    "%%capture\n!swift sft --model x": "swift sft",
    "%%time\n!swift sft --model x": "swift sft",
    "%%capture out\nx = 1\n!swift sft --model x": "swift sft",
    "out = !swift sft --model x": "swift sft",
    "!!swift sft --model x": "swift sft",
    "%sx swift sft --model x": "swift sft",
    "%system swift sft --model x": "swift sft",
    "%time !swift sft --model x": "swift sft",
    "%run -m swift.cli.sft --model x": "-m swift.cli.sft",
    "%%time\n%%bash\nswift sft --model x": "swift sft",
    "%%system\nswift sft --model x": "swift sft",
    "%%script --bg /bin/bash\nswift sft --model x": "swift sft",
    "d['o'] = !swift sft --model x": "swift sft",
}
UNSEEN = (
    "%run nowhere.py --a 1", "%run -i nowhere.py", "%time trainer.train()",
    "%%time\ntrainer.train()", "%%python\nSFTTrainer(m).train()",
    "from accelerate import notebook_launcher\nnotebook_launcher(run, num_processes=2)",
)  # fmt: skip
NOTHING = (
    "%%script false --no-raise-error\n!swift sft --model x", "%%skip\nSFTTrainer(m).train()",
    "%%time\n%%writefile t.py\nt.train()", "if (a\n    != b):\n    pass",
    "%%html\n!swift sft", "%%writefile x.py\nt.train()", "%matplotlib inline", "%time f()",
           "a != b", "x = 1  # !swift sft")  # fmt: skip


@pytest.mark.parametrize("cell", [*MAGICS, *UNSEEN, *NOTHING])
def test_a_cells_magics_are_read(cell, tmp_path):
    path = _notebook(tmp_path / "n.ipynb", [("code", cell)])
    reading = script.of_file(path, [], {"PATH": "/bin"})
    if cell in MAGICS:
        assert [job.target for job in reading.jobs] == [MAGICS[cell]]
    else:
        assert answer.of(reading, {}).code(False) == (2 if cell in UNSEEN else 0)


def test_a_cell_that_trains_in_python_is_not_looked_at(tmp_path):
    path = _notebook(tmp_path / "n.ipynb", [("code", "t = Trainer(m)\nt.train()")])
    assert answer.of(script.of_file(path, [], {}), {}).code(False) == 2
    path = _notebook(tmp_path / "n.ipynb", [("code", "print(1)")])
    assert answer.of(script.of_file(path, [], {}), {}).code(False) == 0


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"cells": [1]}', "[]"])
def test_a_damaged_notebook_is_one_line(text, tmp_path):
    (tmp_path / "n.ipynb").write_text(text)
    with pytest.raises(OSError, match="is no notebook"):
        script.of_file(str(tmp_path / "n.ipynb"), [], {})


SECRET = "s3cr3t-value-0123"
HIDDEN = [
    ["--hub_token", SECRET], [f"--hub_token={SECRET}"], [f"WANDB_API_KEY={SECRET}"],
    ["--api-key", SECRET], [f"https://me:{SECRET}@host/x"], [f"http://h/x?token={SECRET}"],
    ["curl", "-u", f"me:{SECRET}"], ["curl", "--user", f"me:{SECRET}"],
    ["-H", f"Authorization: Bearer {SECRET}"], [f'{{"password": "{SECRET}"}}'],
    ["--swanlab_token", SECRET], [f"hf_{'a' * 30}{SECRET}"], [f"AWS_SECRET_ACCESS_KEY={SECRET}"],
]  # fmt: skip


@pytest.mark.parametrize("words", HIDDEN)
def test_secrets_are_black(words):
    assert SECRET not in " ".join(redact.words(words))
    assert SECRET not in " ".join(redact.words([redact.text(word) for word in words]))


@pytest.mark.parametrize(
    "words",
    [["--max_new_tokens", "64"], ["--tokenizer", "x"], ["--num_tokens", "5"], ["--model", "a/b"],
     ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}'], ["--author", "me"]],
)  # fmt: skip
def test_the_rest_is_not(words):
    assert redact.words(words) == words
