"""Shapes of threads on LLaMA-Factory, axolotl, unsloth, xtuner, Lightning, and of what clusters do."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain import unfold

FRAME = '  File "/env/lib/python3.10/site-packages/{}", line 7, in {}\n'
HEAD = "Traceback (most recent call last):\n"
FAILED = "E0503 23:07:14.1 46942 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: 1 (pid: 92643) of binary: /env/bin/python\n" + HEAD + FRAME.format("torch/distributed/run.py", "run") + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
OOM_KILL = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=42.0. Some of your processes may have been killed by the cgroup out-of-memory handler.\n"

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "a rank's message without its exception's name": (
        HEAD + FRAME.format("torch/nn/functional.py", "embedding") + "    return torch.embedding(weight, input)\nExpected all tensors to be on the same device, but found at least two devices, cuda:1 and cpu!\n  0%|          | 0/75 [00:01<?, ?it/s]\n" + FAILED, "VG527", (1,)),
    "two ranks' exceptions in one line": ("ImportErrorImportError: : No module named 'x'No module named 'x'\n", "VG552", None),
    "FoNDUE-HTR/Documentation#5 the kernel's word goes before the loader's": (
        compose.traced("RuntimeError: DataLoader worker (pid(s) 12161) exited unexpectedly", None) + OOM_KILL + "srun: error: gpu001: task 0: Out Of Memory\n", "VG532", None),
    "ray-project/ray#14394 and before what the driver said": (compose.traced("ray.tune.error.TuneError: ('Trials did not complete', [seed])", None) + OOM_KILL, "VG532", None),
    "CoBrALab/MAGeTbrain#20 why a job was deleted": ("Job deleted at request of root@sched\nMOAB_INFO:  job exceeded wallclock limit\n", "VG530", None),
    "mehta-lab/waveorder#201 what the scheduler refused": ("srun: error: Unable to create step for job 16413634: Invalid generic resource (gres) specification\n", "VG590", None),
    "facebookresearch/mae#119": ("sbatch: unrecognized option '--gpus-per-node=8'\nsbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n", "VG590", None),
    "hiyouga/LlamaFactory#5268 a container without a GPU": ('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]\n', "VG590", None),
    "a job script without its environment": ("/var/spool/slurmd/job42/slurm_script: line 110: accelerate: command not found\n", "VG590", None),
    "a command that the script can do without": (
        "/var/spool/slurmd/job42/slurm_script: line 9: srun: command not found\n" + compose.traced("ValueError: Image features and image tokens do not match, tokens: 14, features: 17", 1), "VG506", (1,)),
    "pytorch/ci-infra#490 of two signs in a line the narrower": (
        "pod-1:202016:202235 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)\n", "VG543", None),
    "Lightning-AI/pytorch-lightning#6169 an exception whose words are below it": (
        "pytorch_lightning.utilities.exceptions.MisconfigurationException: \n                You requested GPUs: [0, 1]\n                But your machine only has: [0]\n", "VG559", None),
    "Lightning-AI/pytorch-lightning#14949": (HEAD + FRAME.format("pytorch_lightning/strategies/ddp.py", "root_device") + "IndexError: list index out of range\n", "VG559", None),
    "cBio/cbio-cluster#403 a bar that turns": ("output of Clustering:  20% (117/558) [#      ] eta 28:34:54 \\Terminated\n", "VG569", None),
    "a tracker that got through in the end": (
        "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)\nwandb: Synced 6 W&B file(s), 0 media file(s), 2 artifact file(s) and 0 other file(s)\n", "unfinished", None),
    "InternLM/xtuner#739 xtuner's word for any exception": (
        "06/02 00:10:53 - mmengine - WARNING - WARNING: command error: 'libGL.so.1: cannot open shared object file: No such file or directory'!\n", "VG538", None),
    "hiyouga/LlamaFactory#5635 one card only": ("[rank3]: RuntimeError: Unsloth currently does not support multi GPU setups - but we are working on it!\n", "VG559", (3,)),
    "hiyouga/LlamaFactory#9350 a log that ends at the ranks' meeting": (
        "[W1025 14:52:22.1 socket.cpp:464] [c10d] waitForInput: poll for socket SocketImpl(fd=66, addr=[::ffff:10.164.0.78]:50434) returned 0, likely a timeout\n", "VG517", None),
    "the same, and then steps": (
        "[W1025 14:52:22.1 socket.cpp:464] [c10d] The client socket has failed to connect to [node1]:29500 (errno: 111)\n  1%|          | 1/400 [00:01<09:39,  1.50s/it]\n", "unfinished", None),
    "torchrun was told to end": (
        "W0616 00:44:57.731000 4026234 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death signal, shutting down workers\n"
        "W0616 00:44:57.732000 4026234 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4026322 closing signal SIGTERM\n", "VG569", None),
    "kohjingyu/fromage#29 of a spawned rank": (
        "-- Process 2 terminated with the following error:\n" + compose.traced("RuntimeError: Error(s) in loading state_dict for DistributedDataParallel:\n        Missing key(s) in state_dict: \"module.logit_scale\"", None), "VG522", None),
}  # fmt: skip


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


# The frame that raised a message that nobody has read → class.
PLACES = {
    ("pytorch_lightning/trainer/configuration_validator.py", "verify_loop_configurations"): "VG553",
    ("lightning/fabric/strategies/deepspeed.py", "load_checkpoint_"): "VG575",
    ("lightning/pytorch/loggers/wandb.py", "experiment"): "VG565",
    ("axolotl/prompt_strategies/chat_template.py", "tokenize_prompt"): "VG554",
    ("sentence_transformers/losses/CoSENTLoss.py", "forward"): "VG554",
    ("unsloth/chat_templates.py", "get_chat_template"): "VG574",
    ("unsloth/models/llama.py", "get_peft_model"): "VG585",
    ("mmengine/registry/build_functions.py", "build_from_cfg"): "VG553",
    ("llamafactory/model/patcher.py", "patch_config"): "VG556",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_place_tells(tmp_path, place):
    log = HEAD + FRAME.format(*place) + "ValueError: words of a release to come\n"
    told_right(tmp_path, log, PLACES[place], None)


@pytest.mark.parametrize("said", ["no x", "a: b", "aa"])
def test_what_ranks_say_at_once_is_said_once(said):
    for ranks in (2, 3, 8):
        line = "ValueError" * ranks + ": " * ranks + said * ranks
        assert unfold.parts(line) == [f"ValueError: {said}"]
    assert unfold.parts(f"ValueError: {said}") == [f"ValueError: {said}"]
