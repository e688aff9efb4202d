"""Which rank a process id, an actor, a logger's record or a file of its own stands for."""

from __future__ import annotations

import json

import pytest

from vlmguard.explain.command import explain

STEPS = "".join(f" {n}%|x| {n}/100 [00:0{n % 10}<01:00, 1.00it/s]\n" for n in range(1, 40))
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in main\n    step()\n'
FULL = TRACE + (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.20 GiB is free.\n"
)
DS = "[2025-05-03 11:02:11,402] [INFO] [launch.py:{}] "
NODES = (
    DS.format("163:main")
    + "nnodes=2, num_local_procs=2, node_rank={}\n"
    + (
        DS.format("164:main") + "global_rank_mapping=defaultdict(<class 'list'>, "
        "{{'worker-0': [0, 1], 'worker-1': [2, 3]}})\n"
    )
)
SPAWNED = DS.format("256:main") + (
    "process {} spawned with command: ['/usr/bin/python', '-u', 'train.py', '--local_rank={}']\n"
)
KILL = "[Sat May  3 13:44:49 2025] Out of memory: Killed process {} (python3.10) total-vm:18127kB\n"
ENDED = "[2025-05-03 13:44:52,901] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=1'] exits with return code = {}\n"  # noqa: E501
PAIR = SPAWNED.format(5000, 0) + SPAWNED.format(5001, 1)
OTHERS = SPAWNED.format(7000, 0) + SPAWNED.format(7001, 1)
FIRST, SECOND = NODES.format(0) + PAIR, NODES.format(1)
RAY = (
    "(TorchTrainer pid=311) - (node_id=aa, ip=10.0.0.4, pid=401) world_rank=0, local_rank=0, n\n"
    "(TorchTrainer pid=311) - (node_id=bb, ip=10.0.0.5, pid=501) world_rank=1, local_rank=0, n\n"
)
RAY_OLD = (
    "(W pid=401, ip=10.0.0.4) INFO config.py:86 -- Setting up process group for: env:// [rank=0, "
    "world_size=2]\n(W pid=501, ip=10.0.0.5) INFO config.py:86 -- Setting up process group for: "
    "env:// [rank=1, world_size=2]\n"
)
AGENT = (
    "  local_ranks=[0, 1]\n  global_ranks=[2, 3]\ntorchrun --nnodes=2 --node_rank=1\n{}"
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 1 "
    "(pid: 573) of binary: /usr/bin/python\n"
)
NCCL = "srv4:77{0}:90{0} [{0}] NCCL INFO ncclCommInitRank comm 0x5 rank {0} nranks 4 cudaDev 0\n"
SHM = "Error: failed to extend /dev/shm/nccl-9fG2kq to 9637892 bytes"
SHARED = (
    "".join(NCCL.format(n) for n in range(4))
    + f"srv4:773:1204 [3] misc/shmutils.cc:72 NCCL WARN {SHM}, error: No space left on device\n"
    + TRACE
    + "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:328, unhandled "
    + f"system error, NCCL version 2.20.5\nLast error:\n{SHM}\n"
)


def actor(text):
    return "".join(f"(W pid=501, ip=10.0.0.5) {line}\n" for line in text.splitlines())


def record(**what):
    return json.dumps({"ts": "2025-11-04T21:41:00Z", **what}) + "\n"


ABORTED = TRACE + "torch.distributed.DistBackendError: NCCL communicator was aborted on rank {}.\n"
SELF = "parser:423 >> Process rank: {0}, world size: 3, device: cuda:{0}\n"
FILES = {f"w{'abc'[n]}.txt": SELF.format(n) + STEPS + ABORTED.format(n) for n in range(3)}
LATE = "[E ProcessGroupNCCL.cpp:475] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3011, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800330 milliseconds before timing out.\n"  # noqa: E501
ON_NODES = {f"n{r // 2}/none_x/attempt_0/{r % 2}/stderr": LATE.format(r) for r in range(6)}
ROOT = (
    "[1]:\n  time      : 2025-11-04_21:40:20\n  rank      : 0 (local_rank: 0)\n"
    "  exitcode  : -6 (pid: 572)\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2025-11-04_21:10:11\n  rank      : {0} (local_rank: {0})\n"
    "  exitcode  : -9 (pid: 578)\n" + "=" * 60 + "\n"
)
MONITOR = (
    "(raylet, ip=10.0.0.5) Memory on the node (IP: 10.0.0.5, ID: bb) where the task (actor ID: 0f, "
    "name=W.__init__, pid=501, memory used=180.11GB) was running was 251.90GB / 256.00GB (0.983), "
    "which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 77) because it "
    "was the most recently scheduled task\n"
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
)
FAULT = "[Sat May  3 13:44:49 2025] python3[5001]: segfault at 0 ip 00007f1 sp 00007ffd error 4\n"
SHAPES = {
    "killed long before the others' time-outs": (
        STEPS + LATE.format(0) + LATE.format(1) + ROOT.format(2),
        "VG532",
        (2,),
    ),
    "a rank that waited, too, was killed": (
        STEPS + LATE.format(0) + LATE.format(2) + ROOT.format(2),
        "VG505",
        (1,),
    ),
    "torchrun's folders of three nodes: a number on a node is no rank": (
        {**ON_NODES, "n1/none_x/attempt_0/1/stderr": FULL},
        "VG512",
        (3,),
    ),
    "torchrun's folders of one node": (
        {
            **{f"none_x/attempt_0/{r}/stderr": LATE.format(r) for r in range(3)},
            "none_x/attempt_0/3/stderr": FULL,
        },
        "VG512",
        (3,),
    ),
    "every log of a node quotes the same rank": (
        {
            **{f"none_x/attempt_0/{r}/stderr": LATE.format(0) for r in range(3)},
            "none_x/attempt_0/3/stderr": FULL,
        },
        "VG512",
        (3,),
    ),
    "Ray's memory monitor": (RAY + STEPS + MONITOR, "VG532", (1,)),
    "the kernel's word on a crash": (PAIR + STEPS + FAULT + ENDED.format(-11), "VG558", (1,)),
    "the kernel's process, DeepSpeed's rank": (PAIR + STEPS + KILL.format(5001), "VG532", (1,)),
    "a process that is no rank": (PAIR + STEPS + KILL.format(9999), "VG532", ()),
    "of the second node": (
        {"one": FIRST + STEPS, "two": SECOND + OTHERS + KILL.format(7001) + ENDED.format(-9)},
        "VG532",
        (3,),
    ),
    "one number on two nodes, and one launcher saw it killed": (
        {
            "one": FIRST + STEPS + ENDED.format(1),
            "two": SECOND + PAIR + ENDED.format(-9),
            "dmesg": KILL.format(5001),
        },
        "VG532",
        (3,),
    ),
    "one number on two nodes": (
        {"one": FIRST + STEPS, "two": SECOND + PAIR, "dmesg": KILL.format(5001)},
        "VG532",
        (),
    ),
    "torchrun's agent": (AGENT.format(STEPS), "VG558", (3,)),
    "Ray's actor": (RAY + STEPS + actor(FULL), "VG512", (1,)),
    "Ray's actor of old": (RAY_OLD + STEPS + actor(FULL), "VG512", (1,)),
    "Ray's actors with one number, on two nodes": (
        RAY.replace("pid=401)", "pid=501)") + STEPS + actor(FULL),
        "VG512",
        (1,),
    ),
    "an actor's own words": (
        "(W pid=501, ip=10.0.0.5) [Rank 3] ready\n" + actor(FULL),
        "VG512",
        (3,),
    ),
    "a folder a rank": (
        {"rank_0/log": STEPS + LATE.format(0), "rank_1/log": STEPS + FULL},
        "VG512",
        (1,),
    ),
    "an actor of which nothing is told": (STEPS + actor(FULL), "VG512", ()),
    "NCCL's own warning": (SHARED, "VG543", (3,)),
    "a record above a traceback": (
        STEPS + "2025-11-04T21:41:02Z [error    ] training failed   rank=5 local_rank=5\n" + FULL,
        "VG512",
        (5,),
    ),
    "a record that begins with its rank": (
        STEPS + "ERROR:root:Rank 3: training failed\n" + FULL,
        "VG512",
        (3,),
    ),
    "a record on a rank that was lost": (
        STEPS + "ERROR:root:Rank 3: connection to it was lost\n" + FULL,
        "VG512",
        (),
    ),
    "a message that begins with its rank": (
        STEPS
        + TRACE
        + "RuntimeError: [rank 5] failed to load sample 8812: cannot identify image file 'a'\n",
        "VG555",
        (5,),
    ),
    "a starter's own words": (
        "".join(f"INFO - launched rank {r} (pid {4000 + r})\n" for r in range(4))
        + STEPS
        + "2025-05-03 10:22:11,100 - ERROR - process 4002 exited with exit code -11\n",
        "VG558",
        (2,),
    ),
    "torchfrtrace": (
        STEPS
        + LATE.format(0)
        + "Not all ranks joining collective, sequence number: 3011\ngroup info: 0:default_pg\n"
        + "collective: nccl:all_reduce\nmissing ranks: {6}\nworld size: 8\n",
        "VG505",
        (6,),
    ),
    "a record of something else": (
        STEPS + "2025-11-04T21:41:02Z [info     ] step done   rank=5 local_rank=5\n" + FULL,
        "VG512",
        (),
    ),
    "a record in JSON": (
        record(level="INFO", rank=0, msg="step 3/500")
        + record(level="ERROR", rank=6, msg="crashed", exc_info=FULL),
        "VG512",
        (6,),
    ),
    "files that name a rank each": (
        {**FILES, "wc.txt": SELF.format(2) + STEPS + FULL},
        "VG512",
        (2,),
    ),
    "a launcher's beside them": ({**FILES, "torchrun": STEPS + FULL}, "VG512", ()),
    "one of them names two": (
        {**FILES, "wc.txt": SELF.format(2) + STEPS + "from rank: 1\n" + FULL},
        "VG512",
        (),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_rank(tmp_path, name):
    texts, code, ranks = SHAPES[name]
    for file, text in (texts if isinstance(texts, dict) else {"train": texts}).items():
        path = tmp_path / f"{file.removesuffix('.txt')}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    answer, _ = explain([str(tmp_path)])
    assert (answer.known.code if answer.known else answer.verdict, answer.ranks) == (code, ranks)
