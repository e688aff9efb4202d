"""What a command starts, and on how many ranks, by its words alone."""

from __future__ import annotations

import shlex

import pytest

from vlmguard.check import launcher, redact, script
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


@pytest.mark.parametrize("words", ["sbatch train.sh", "srun torchrun t.py", "ssh a b",
                                   "docker run x torchrun t.py", "kubectl apply -f x"])  # fmt: skip
def test_not_seen_inside(words, tmp_path):
    (tmp_path / "x.sh").write_text(words)
    reading = script.of_file(str(tmp_path / "x.sh"), [], {"PATH": "/bin"})
    assert [call.words[0] for call in reading.unseen] == [words.split()[0]]
    assert not reading.jobs


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
