"""Files that hold several runs without a launcher's words: told is the last; ranks are no runs."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain.command import explain
from vlmguard.explain.show import text

BAR = "  3%|▎         | {k}/920 [00:18<09:39,  1.50s/it]\n"
DONE = "{'train_runtime': 9837.1289, 'train_samples_per_second': 0.951, 'train_loss': 0.86, 'epoch': 20.0}\n"
# What a single process prints first: the same each time.
BANNER = (
    "Special tokens have been added in the vocabulary, make sure the word embeddings are trained.\n"
    "You set `add_prefix_space`. The tokenizer needs to be converted from the slow tokenizers\n"
    "/env/lib/python3.10/site-packages/transformers/models/auto/auto_factory.py:468: FutureWarning: use `token`\n"
)
JOB = (
    "Removing miniconda version 22.11.1-1\nLoading miniconda version 22.11.1-1\nloading zlib version 1.2.11\n"
    "Running on node gpu-17 as job 25039619\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 488.00 MiB. GPU 0 has a total capacity of 23.6 GiB of which 12 MiB is free."
FLASH = "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package flash_attn seems to be not installed."
PEER = "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0."


def traced(error: str, script: str = "train.py") -> str:
    return f'Traceback (most recent call last):\n  File "/w/{script}", line 88, in <module>\n    main()\n  File "/w/{script}", line 70, in main\n    trainer.train()\n{error}\n'


def steps(until: int) -> str:
    return "".join(BAR.format(k=k) for k in range(1, until))


# thread or shape → (log, class or verdict, starting ranks or None)
LOGS = {
    "namwoam/dl-final an import that fails between two runs": (
        BANNER + steps(28) + traced(OOM) + BANNER + traced(FLASH) + BANNER + traced(OOM), "VG512", None),
    "the same, and the last run has only begun": (BANNER + steps(28) + traced(OOM) + BANNER, "unfinished", None),
    "the last run finished without a step's line": (BANNER + traced(FLASH) + BANNER + DONE, "finished", None),
    "only the very first line is the same": (
        "INFO: reading /data/train.json\n2 rows\n" + traced(OOM) + "INFO: reading /data/train.json\n3 rows\n", "unfinished", None),
    "a short second failure stands close to the first": (
        BANNER + traced(FLASH) + "learning rate is 0.0001 now\n" + traced(OOM), "VG512", None),
    "nohup's own word": (traced(FLASH) + "nohup: ignoring input\nloading the data\n", "unfinished", None),
    "AndreiS22/Reproduce_GCD_LLM refused arguments end a job": (
        JOB + "usage: train.py [-h] [--x X]\ntrain.py: error: unrecognized arguments: --y\n" + JOB + traced(OOM), "VG512", None),
    "chtmp223/alignment-handbook a job's modules are loaded again, whatever runs in it": (
        JOB + traced(FLASH) + JOB + "torchrun --nproc_per_node 4 train.py\n" + steps(9), "unfinished", None),
    "madehua98/corenet Ctrl-C ends all of them": (
        BANNER + "distributed init (rank 1)\n" + traced("KeyboardInterrupt") + traced("_pickle.UnpicklingError: pickle data was truncated") + BANNER + steps(4), "unfinished", None),
    "a run that is killed": (BANNER + steps(9) + "Killed\n" + BANNER + steps(3), "unfinished", None),
    "a terminal in which the script is started again": (
        "(env) me@node1:~/job$ python train.py --lr 1\n" + traced(FLASH) + "(env) me@node1:~/job$ vim train.py\n"
        "(env) me@node1:~/job$ python train.py --lr 2\nloading\n", "unfinished", None),
    "a terminal: of two starts of a script the second": (
        "[root@node1 job]# bash run.sh\n" + steps(4) + traced(OOM) + "[root@node1 job]# bash run.sh\n" + traced(FLASH), "VG548", None),
    # no second run
    "a terminal on each of two nodes": (
        "root@node1:~# torchrun --nnodes 2 --node_rank 0 train.py\n" + traced(OOM)
        + "root@node2:~# torchrun --nnodes 2 --node_rank 1 train.py\n" + traced(PEER), "VG512", None),
    "a terminal in which something else is started": (
        "$ python train.py\n" + traced(OOM) + "$ python -c 'import torch; print(torch.__version__)'\n2.7.0\n$ python collect_env.py\nPyTorch version: 2.7.0\n", "VG512", None),
    "a second rank that begins late": (
        BANNER + traced(OOM) + BANNER + traced(PEER) + compose.DEEPSPEED.format(code=1), "VG512", None),
    "a second rank whose launcher is told last": (
        BANNER + traced(FLASH) + BANNER + "world_size: 2\n" + steps(1), "VG548", None),
    "train, then evaluate: another script": (
        BANNER + traced(OOM) + BANNER + traced("FileNotFoundError: [Errno 2] No such file or directory: 'out/adapter.bin'", "evaluate.py"), "VG512", None),
    "output that was buffered until the end": ("epoch 1\n" + traced(OOM) + "the first line of standard output\n", "VG512", None),
    "ranks' clocks: the other node's log behind it": (
        "2026-01-12 08:00:00 INFO starting training of the model\n2026-01-12 08:00:01 INFO arguments are read from the file\n2026-01-12 08:20:01 INFO step\n" + traced(OOM)
        + "2026-01-12 08:00:00 INFO starting training of the model\n2026-01-12 08:00:01 INFO arguments are read from the file\n2026-01-12 08:20:01 INFO step\n", "VG512", None),
    "torchrun starts the workers again": (
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n" + BANNER * 2 + traced(OOM)
        + "[WARNING] torch.distributed.elastic.agent.server.api: [default] Worker group FAILED. 2/3 attempts left; will restart worker group\n" + BANNER * 2 + "waiting\n", "VG512", None),
}


@pytest.mark.parametrize("what", LOGS)
def test_runs(tmp_path, what):
    told_right(tmp_path, *LOGS[what])


def test_how_the_one_before_ended_is_a_line(tmp_path):
    path = tmp_path / "nohup.out"
    path.write_text(BANNER + traced(FLASH) + BANNER + steps(9) + traced(OOM), encoding="utf-8")
    answer, digests = explain([str(path)])
    said = text(answer, digests)
    assert answer.known.code == "VG512"
    assert "holds 1 earlier run" in said
    assert "nohup.out:9 | ImportError: FlashAttention2" in said.partition("the one before it ended: ")[2]
