"""Whole logs by their situation: which rank's words explain the others', what a victim says."""

# ruff: noqa: E501
from __future__ import annotations

from vlmguard.explain.command import explain

STEPS = "".join(f" {n}%|x| {n}/100 [00:0{n % 10}<01:00, 1.00it/s]\n" for n in range(1, 20))
SITE = "/env/lib/python3.11/site-packages"
LOST = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, remote process exited or there was a network error, NCCL version 2.26.2\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\nsocketPollConnect: poll() returned 1, no POLLIN/POLLOUT events"
RESET = "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer"
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.90 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.02 GiB is free."
LATE = "[rank{0}]:[E918 03:22:44 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=911, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.\n"
UNLIKE = "RuntimeError: DDP expects same model across all ranks, but Rank {} has 729 params, while rank {} has inconsistent 733 params."
XID = "[Thu Sep 18 03:12:39 2025] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
KILLED = "[Thu Sep 18 03:12:39 2025] Memory cgroup out of memory: Killed process 4106 (python3.11) total-vm:233321920kB, anon-rss:98234112kB\n"
SPAWNED = "[2025-09-18 03:00:00,120] [INFO] [launch.py:256:main] process {} spawned with command: ['/usr/bin/python', '-u', 'train.py', '--local_rank={}']\n"
KILLING = "[2025-09-18 03:12:44,300] [INFO] [launch.py:335:sigkill_handler] Killing subprocess {}\n"
CODE = "[2025-09-18 03:12:44,811] [ERROR] [launch.py:341:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9\n"
ROPE = f"{SITE}/transformers/models/qwen2_vl/modeling_qwen2_vl.py"


def raised(message, *frames, rank=None):
    """A traceback; a frame is (file, function, source)."""
    given = frames or ((f"{SITE}/torch/autograd/graph.py", "_engine_run_backward", "run()"),)
    told = "".join(f'  File "{path}", line 9, in {name}\n    {text}\n' for path, name, text in given)
    lines = f"Traceback (most recent call last):\n{told}{message}\n".splitlines()
    return "".join(f"[rank{rank}]: {line}\n" if rank is not None else f"{line}\n" for line in lines)


def root(*ended):
    """torchrun's table: (rank, exit code), the first of which it saw first."""
    told = "".join(
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {4100 + rank})\n"
        for rank, code in ended[1:]
    )
    first = f"  rank      : {ended[0][0]} (local_rank: {ended[0][0]})\n  exitcode  : {ended[0][1]} (pid: {4101 + ended[0][0]})\n"
    return f"Failures:\n{told}Root Cause (first observed failure):\n[0]:\n{first}{'=' * 60}\n"


def clocked(second):
    record = f"2025-09-18 03:12:{second},201 ERROR training failed\n"
    reads = ("/w/data.py", "__getitem__", "conv = row['conversations']")
    return STEPS + record + raised("KeyError: 'conversations'", reads)


# situation → (files, class or verdict, starting ranks or None)
LOGS = {
    "the kernel's word in another file, torchrun's on the same end": (
        {"train": STEPS + raised(LOST, rank=4) + raised(LOST, rank=0) + root((5, -9), (4, 1), (0, 1)), "dmesg": KILLED}, "VG532", (5,)),
    "a driver's word in another file, and a rank that lost its peer": (
        {"train": STEPS + raised("torch.AcceleratorError: CUDA error: unspecified launch failure", rank=1) + raised(LOST, rank=0) + root((1, 1), (0, 1)), "dmesg": XID}, "VG534", (1,)),
    "a rank that lost its peer comes first among the files": (
        {"attempt_1/0/stderr": STEPS + raised(LOST), "attempt_1/1/stderr": STEPS + raised(MEMORY)}, "VG512", (1,)),
    "who ended first said nothing, and others lost it": (
        STEPS + raised(LOST, rank=0) + raised(LOST, rank=3) + root((5, 1), (0, 1), (3, 1)), "VG563", (5,)),
    "who ended first left words": (
        STEPS + "[rank6]: no samples for this shard, stopping\n" + raised(LOST, rank=0) + root((6, 1), (0, 1)), "unknown", (6,)),
    "a card's fault on the other node": (
        {"n1": STEPS + raised(LOST, rank=3), "n2": STEPS + XID}, "VG534", None),
    "shared memory that NCCL could not extend": (
        STEPS + raised("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error, NCCL version 2.26.2\nncclSystemError: System call failed.\nLast error:\nError: failed to extend /dev/shm/nccl-aB3 to 33030532 bytes, error: No space left on device (28)", rank=2), "VG543", (2,)),
    "a quantiser's library for another CUDA": (
        raised("RuntimeError: \n🚨 CUDA VERSION MISMATCH 🚨\nRequested CUDA version:          12.1\n", (f"{SITE}/bitsandbytes/cextension.py", "throw_on_call", "raise RuntimeError(text)")), "VG538", None),
    "a launcher's word on a process that was killed": (
        "".join(SPAWNED.format(400 + r, r) for r in range(4)) + STEPS + "".join(raised(LOST, rank=r) for r in (0, 1, 3)) + "".join(KILLING.format(400 + r) for r in range(4)) + CODE, "VG532", (2,)),
    "an unknown failure of who ended first, and others that waited": (
        STEPS + LATE.format(0) + raised("zebra.errors.ZebraError: the stripes are not aligned", rank=1) + root((1, 1), (0, -6)), "unknown", (1,)),
    "an unknown slip, and others that lost their peer": (
        STEPS + raised(LOST, rank=0) + raised("TypeError: combine() takes 2 positional arguments but 3 were given", ("/w/train.py", "main", "x = combine(a, b, c)"), rank=6), "unknown", (6,)),
    "clocks of the records above different failures": (
        {"rank0": "2025-09-18 03:17:44,001 ERROR run failed\n" + raised(MEMORY), "rank2": "2025-09-18 03:12:44,001 ERROR run failed\n" + raised("PIL.UnidentifiedImageError: cannot identify image file '/d/1.png'")}, "VG555", (2,)),
    "a rank whose file is empty": (
        {"rank_0": "ready\n" + raised(LOST), "rank_1": raised(RESET), "rank_2": raised(RESET), "rank_3": ""}, "VG563", (3,)),
    "tracebacks without marks, one of a lost peer": (
        STEPS + raised(LOST) + raised(MEMORY) + root((1, 1)), "VG512", (1,)),
    "no way to the master": (raised("torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (n0, 29500). The client socket has failed to connect to 10.0.0.1:29500 (errno: 113 - No route to host)."), "VG536", None),
    "the network alone": (STEPS + raised(LOST, rank=0) + root((0, 1)), "VG536", (0,)),
    "clocks of the records above tracebacks": (
        {f"rank{r}": clocked(s) for r, s in ((0, 44), (1, 45), (2, 41), (3, 46))}, "VG554", (2,)),
    "a rank that spoke and did not come": (
        STEPS + "".join(f"[rank{r}]: ready\n" for r in range(4)) + "".join(map(LATE.format, (0, 2, 1))), "VG505", (3,)),
    "a rank that speaks alone beyond those that wait": (
        STEPS + "[rank7]: ready\n" + LATE.format(0) + LATE.format(1), "VG505", (0, 1)),
    "three ranks name one": (
        "".join(raised(UNLIKE.format(r, o), rank=r) for r, o in ((0, 2), (1, 2), (3, 2), (2, 0))) + root((0, 1)), "VG561", (2,)),
    "rank 0 names another than its neighbour": (raised(UNLIKE.format(0, 3), rank=0) + root((0, 1)), "VG561", (3,)),
    "two ranks name each other": (
        raised(UNLIKE.format(0, 1), rank=0) + raised(UNLIKE.format(1, 0), rank=1) + root((0, 1)), "VG561", None),
    "a reward lacks a column": (
        STEPS + raised("KeyError: 'solution'", (f"{SITE}/trl/trainer/grpo_trainer.py", "_calculate_rewards", "reward_func(prompts=prompts)"), ("/w/rewards.py", "accuracy", "gold = kwargs['solution']")), "VG581", None),
    "a row lacks one": (
        STEPS + raised("KeyError: 'solution'", ("/w/data.py", "__getitem__", "gold = row['solution']")), "VG554", None),
    "Python's own file raises for a reader of rows": (
        STEPS + raised("IndexError: Cannot choose from an empty sequence", (f"{SITE}/FlagEmbedding/abc/finetune/embedder/AbsDataset.py", "__getitem__", "pos = random.choice(row['pos'])"), ("/env/lib/python3.11/random.py", "choice", "raise IndexError('Cannot choose')")), "VG554", None),
    "a text that was cut behind an image's first token": (
        STEPS + raised("IndexError: index 2048 is out of bounds for dimension 0 with size 2048", (ROPE, "get_rope_index", "vision_tokens = input_ids[vision_start_indices + 1]")), "VG506", None),
    "more placeholders than images": (
        STEPS + raised("IndexError: index 3 is out of bounds for dimension 0 with size 3", (ROPE, "get_rope_index", "image_grid_thw[image_index][0],")), "VG510", None),
    "InternVL's own addition of images": (
        STEPS + raised("RuntimeError: The size of tensor a (1536) must match the size of tensor b (1792) at non-singleton dimension 0", ("/w/modeling_internvl_chat.py", "forward", "input_embeds[selected] = input_embeds[selected] * 0.0 + vit_embeds[:n_token]")), "VG506", None),
    "remote code that does not say where its embeddings are": (
        raised("NotImplementedError", ("/w/internvl_chat_finetune.py", "main", "model.enable_input_require_grads()"), (f"{SITE}/transformers/modeling_utils.py", "get_input_embeddings", "raise NotImplementedError")), "VG556", None),
    "a device without a number": (
        raised("RuntimeError: Invalid device string: 'cuda:'", ("/w/train.py", "<module>", "torch.device(name)")), "VG553", None),
}


def test_whole_logs(tmp_path):
    told = {}
    for number, (name, (texts, code, ranks)) in enumerate(LOGS.items()):
        folder = tmp_path / str(number)
        for file, text in (texts if isinstance(texts, dict) else {"train": texts}).items():
            path = folder / f"{file}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        answer, _ = explain([str(folder)])
        said = answer.known.code if answer.known else answer.verdict
        if (said, ranks) != (code, answer.ranks if ranks is not None else None):
            told[name] = said, answer.ranks
    assert told == {}
