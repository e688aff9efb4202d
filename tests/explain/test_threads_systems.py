"""Shapes of clusters' and systems' logs: srun's tasks, MPI's abort, NCCL's and Kubernetes' words."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

OWN = compose.traced("RuntimeError: the field `x` is not there", None)

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "hafs-community/HAFS#101 srun names the task that the kernel killed": (
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 3495064.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.\n"
        "srun: error: Orion-01-01: task 4: Out Of Memory\nsrun: Terminating job step 3495064.0\n", "VG532", (4,)),
    "the same, a bus error": ("srun: error: Orion-18-69: task 289: Bus error\nsrun: Terminating job step 3495450.0\n", "VG543", (289,)),
    "srun's lone task killed": ("srun: error: gpu-17: task 3: Killed\n", "VG532", (3,)),
    "task 0 alone may be a launcher": ("srun: error: gpu-17: task 0: Killed\n", "VG532", ()),
    "ROCm/legacy-rocm-build#4021 AMD's runtime on a card": (
        " 41%|####      | 366/903 [5:15:39<6:53:09, 46.16s/it]HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang\nAborted (core dumped)\n", "VG534", None),
    "facebookincubator/submitit#1641 submitit's word on an end": (
        "submitit INFO (2021-07-29 00:56:05,771) - Job completed successfully\n", "finished", None),
    "kubeflow/trainer#2575 a flag that Katib filled with JSON": (
        'Traceback (most recent call last):\n  File "/app/hf_llm_training.py", line 203, in <module>\n    train_args = TrainingArguments(**json.loads(args.training_parameters))\n'
        '  File "/usr/lib/python3.10/json/decoder.py", line 353, in raw_decode\n    obj, end = self.scan_once(s, idx)\n'
        "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 122 (char 121)\n", "VG553", None),
    "NVIDIA/nccl-tests#369 a test's own words": (
        "#  Rank  7 Group  0 Pid 3230361 on    gpu-1-7 device  3 [0039:01:00] NVIDIA GH200 120GB\n#\n# bytes\n# time\n"
        "gpu-1-1: Test CUDA failure common.cu:1304 'CUDA-capable device(s) is/are busy or unavailable'\n", "VG559", None),
    "NVIDIA/DIGITS#2005 a check of glog's": (
        "I0326 10:00:00.000000 12 solver.cpp:45] Initializing\na\nb\nc\n"
        "F0326 10:00:01.000000 12 common.cpp:142] Check failed: error == cudaSuccess (46 vs. 0)  all CUDA-capable devices are busy or unavailable\n", "VG559", None),
    "real-stanford/scalingup#6 Ray has no such node": (
        "(autoscaler +32s) Error: No available node types can fulfill resource request {'CPU': 1.0, 'GPU': 1.0}. Add suitable node types to this cluster to resolve this issue.\n", "VG591", None),
    "of several tasks none is named": ("srun: error: gpu-17: tasks 0-3: Killed\n", "VG532", ()),
    "a task that starts ranks is a node": (
        "srun torchrun --nnodes 2 --nproc_per_node 8 train.py\nsrun: error: gpu-17: task 1: Killed\n", "VG532", ()),
    "the rank of an exception without a mark": (OWN + "srun: error: gpu-17: task 3: Exited with exit code 1\n", "unknown", (3,)),
    "aws/amazon-sagemaker-examples#3827 MPI_ABORT names the rank": (
        OWN + "MPI_ABORT was invoked on rank 2 in communicator MPI COMMUNICATOR 5 DUP FROM 0\nwith errorcode 1.\n", "unknown", (2,)),
    "kubeflow/trainer#2034 a container that fails again and again": (
        "  Normal   Scheduled       9m35s                  default-scheduler  Successfully assigned sampler/exp-worker-0 to node-17\n"
        "  Warning  BackOff         2m49s                  kubelet            Back-off restarting failed container init-pytorch in pod exp-worker-0_sampler(8d6860a7)\n", "unknown", None),
    "wenet-e2e/wenet#1891 an address of IPv6's own link": (
        "voicec105:90736:91655 [0] include/socket.h:403 NCCL WARN Connect to fe80::c4eb:49ff:fe04:e32d%6<57335> failed : Network is unreachable\n", "VG536", None),
    "NVIDIA/nccl-tests#15 NCCL before 2.4": (
        "gpu-103:18553:18611 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out\ngpu-103:18553:18611 [0] INFO bootstrap.cu:28 -> 2 [Net]\n", "VG536", None),
    "aws/aws-ofi-nccl#715 an address of no family": (
        "  | 2024-11-28T07:42:14.532Z | algo-1:17774:17862 [1] misc/socket.cc:717 NCCL WARN ncclSocketInit: connecting to address with family 33022 is neither AF_INET(2) nor AF_INET6(10)\n", "VG536", None),
    "NCCL finds no library for InfiniBand and goes on": (
        "voicec105:90736:90736 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\nvoicec105:90736:90736 [0] NCCL INFO NET/Socket : Using [0]eno1:172.16.20.105<0>\n", "unfinished", None),
    "keras-team/keras-tuner#390 a quota in small letters": (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: disk quota exceeded [Op:SaveV2]\n", "VG535", None),
    "SpongebobBob/Finetune-ChatGLM2-6B#13 without the exception's type": (
        "This may indicate a possible application crash on rank 0 or a network set up issue.[7] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout\n"
        "Exception raised from recvBytes at ../torch/csrc/distributed/c10d/Utils.hpp:604 (most recent call first)\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57\n", "VG517", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


# What NCCL 2.14 to 2.28 warns of before it gives up: src/init.cc, misc/, transport/.
NCCL = {
    "CUDA Driver version found is 11040. Minimum requirement is 12000": "VG537",
    "Mismatched NCCL version detected : rank 0 version 21803 rank 1 version 22005": "VG537",
    "AllReduce : sendbuff 0x7f00 is not a valid pointer": "VG588",
    "AllReduce : recvbuff allocated on device 1 mismatchs with NCCL device 0": "VG588",
    "improper usage of ncclCommInitRank: nId = 1, nranks=2, myrank=2": "VG584",
    "Detected mixed local Net device counts across ranks (min 1, max 4). Set NCCL_IGNORE_NET_MISMATCH=1 to override": "VG536",
    "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/RoCE and [1]mlx5_1:1/IB.": "VG536",
    "ncclSocketAccept: wrong socket state 3": "VG536",
}


@pytest.mark.parametrize("words", NCCL)
def test_nccl_says_why(tmp_path, words):
    start = "".join(f"n1:12:13 [0] NCCL INFO {said}\n" for said in ("Bootstrap", "cudaDriverVersion 12020", "Using network IB"))
    told_right(tmp_path, f"{start}\nn1:12:13 [0] x.cc:45 NCCL WARN {words}\nn1:12:13 [0] NCCL INFO init.cc:12 -> 3\n", NCCL[words], None)
