"""More than a failure's own words: a warning before it, who is silent, a last word."""

from __future__ import annotations

import json

import pytest

from tests.explain.test_shapes import told_right
from vlmguard.explain.command import explain
from vlmguard.explain.show import text

TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in main\n    {}\n'
DRIVER = (
    "/v/torch/cuda/__init__.py:124: UserWarning: CUDA initialization: The NVIDIA driver on your "
    "system is too old (found version 11000).\n"
)
BF16 = TRACE.format("raise ValueError(") + (
    "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with "
    "cuda>=11.0\n"
)
CUDA = TRACE.format("start()") + "AssertionError: Megatron requires CUDA.\n"
OWN = TRACE.format("start()") + "AssertionError: the moon is full\n"
LOST = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/w/train.py", line 9, in main\n[rank0]:     work.wait()\n'
    "[rank0]: RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:22707. This is typically caused by a remote worker crashing.\n"
)
KILLED = (
    "[2026-11-22 16:06:20,492] [INFO] [launch.py:253:sigkill_handler] Killing subprocess 27026\n"
    "[2026-11-22 16:06:20,535] [INFO] [launch.py:253:sigkill_handler] Killing subprocess 27027\n"
    "[2026-11-22 16:06:20,535] [ERROR] [launch.py:259:sigkill_handler] ['/bin/python', '-u', "
    "'train.py', '--local_rank=1'] exits with return code = -9\n"
)
CAUGHT = TRACE.format("for batch in loader:") + (
    "ValueError: Caught ValueError in DataLoader worker process 0.\n"
    "Original Traceback (most recent call last):\n"
    '  File "/w/collate.py", line 39, in __call__\n    out = self.processor(images=images)\n'
    "ValueError: height:1 or width:612 must be larger than factor:28"
)
LOGGED = json.dumps({"level": "ERROR", "rank": 1, "msg": "the loop died", "exc_info": CAUGHT})
CUT = (
    "Traceback (most recent call last):\n"
    '  File "/w/train.py", line 140, in main\n'
    "    trainer.train(resume_from_checkpoint=checkpoint)\n"
    '  File "/v/site-packages/torch/distributed/fsdp/_flat_param.py", line 583, in __init__\n'
)
WHOLE = TRACE.format("raise ValueError(") + (
    "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`\n"
)
SAVED = (
    TRACE.format("torch.save(state, path)")
    + '  File "/v/site-packages/torch/serialization.py", line 422, in save\n'
    "    with _open_zipfile_writer(f) as opened_zipfile:\n"
    "RuntimeError: File out/checkpoint_0.pt cannot be opened.\n"
)
METRICS = (
    TRACE.format("trainer.evaluate()")
    + '  File "/v/site-packages/transformers/trainer.py", line 4000, in evaluation_loop\n'
    "    metrics = self.compute_metrics(\n"
    '  File "/w/train.py", line 34, in metrics\n'
    "    return (preds[mask] == labels[mask]).mean()\n"
    "IndexError: boolean index did not match indexed array along axis 1; size of axis is 11 but "
    "size of corresponding boolean axis is 12\n"
)
PREEMPTED = (
    "W0309 12:40:51.733000 7 torch/distributed/elastic/agent/server/api.py:723] Received 15 death "
    "signal, shutting down workers\n"
    "12s  Warning  Preempted         pod/vlm-0  Preempted by pod 1d0c99c2 on node gpu-4\n"
    "8s   Warning  FailedScheduling  pod/vlm-0  0/14 nodes are available: 14 Insufficient gpu.\n"
)

GONE = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/w/train.py", line 9, in main\n[rank{0}]:     loss.backward()\n'
    "[rank{0}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, remote "
    "process exited or there was a network error, NCCL version 2.27.5\n"
    "[rank{0}]: ncclRemoteError: A call failed possibly due to a network error or a remote process "
    "exiting prematurely.\n[rank{0}]: Last error:\n[rank{0}]: {1}\n"
)
CLOSED = "socketProgress: Connection closed by remote peer worker-1<41122>"
REFUSED = "socketPollConnect: connect returned Connection refused, exceeded error retry count"
SHM = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"  # noqa: E501
WORKER = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/w/train.py", line 9, in main\n[rank0]:     for batch in loader:\n'
    "[rank0]: RuntimeError: DataLoader worker (pid(s) 1201, 1202) exited unexpectedly\n"
)
CELL = (
    "OutOfMemoryError                          Traceback (most recent call last)\n"
    "<ipython-input-14-3435b262f1ae> in <cell line: 0>()\n----> 1 trainer.train()\n\n"
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 1006.00 MiB. GPU 0 has a total "
    "capacity of 14.74 GiB of which 516.12 MiB is free.\n"
)
POOL = (
    "multiprocess.pool.RemoteTraceback: \n"
    '\"\"\"\nTraceback (most recent call last):\n  File "/v/datasets/arrow_writer.py", line 627, '
    "in write_table\n    self.pa_writer.write_table(pa_table)\n"
    'OSError: [Errno 122] Disk quota exceeded\n\"\"\"\n\n'
    "The above exception was the direct cause of the following exception:\n\n"
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/w/train.py", line 9, in main\n[rank0]:     rows.map(f)\n'
    "[rank0]: OSError: [Errno 122] Disk quota exceeded\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800074 milliseconds\n"
)

SHAPES = {
    "a peer that is gone refuses the next": (
        GONE.format(1, CLOSED) + GONE.format(0, REFUSED), "VG563", (0, 1)),
    "an invalid usage that is a wrong interface": (
        GONE.format(0, "Bootstrap : no socket interface found")
        .replace("remote process exited or there was a network error", "invalid usage (run with X)")
        .replace("ncclRemoteError: A call failed", "ncclInvalidUsage: This"), "VG536", (0,)),
    "a system error that is shared memory's": (
        GONE.format(0, "Error: failed to create shared memory file /x, error No space (28)")
        .replace("remote process exited or there was a network error", "unhandled system error")
        .replace("ncclRemoteError", "ncclSystemError"), "VG543", (0,)),
    "an invalid usage that is a driver's": (
        GONE.format(0, "CUDA Driver version found (3). Minimum requirement is 12")
        .replace("remote process exited or there was a network error", "invalid usage (run with X)")
        .replace("ncclRemoteError: A call failed", "ncclInvalidUsage: This"), "VG537", (0,)),
    "refused from the first on": (GONE.format(0, REFUSED), "VG536", (0,)),
    "shared memory, and who lost a worker to it": (SHM + WORKER, "VG543", (0,)),
    "a lost worker": (WORKER, "VG544", (0,)),
    "a notebook's cell": (CELL, "VG512", (0,)),
    "a pool's exception, raised again in a rank, beside a watchdog's": (POOL, "VG535", (0,)),
    "no bfloat16, and a driver that does not fit": (DRIVER + BF16, "VG537", ()),
    "no bfloat16": (BF16, "VG529", ()),
    "no CUDA, and a driver that does not fit": (DRIVER + CUDA, "VG537", ()),
    "another check behind that warning": (DRIVER + OWN, "unknown", ()),
    "killed: the rank that says nothing": (LOST + KILLED, "VG532", (1,)),
    "JSON lines with a rank, an exception of a worker in one": (LOGGED + "\n", "VG518", (1,)),
    "a traceback that is cut beside a whole one": (CUT + WHOLE, "VG519", ()),
    "a file that cannot be opened to write": (SAVED, "VG580", ()),
    "a replica's exception, raised again": (
        TRACE.format("out = model(x)")
        + "RuntimeError: Caught RuntimeError in replica 1 on device 1.\n"
        "Original Traceback (most recent call last):\n"
        '  File "/w/model.py", line 39, in forward\n    q = matmul(x, w)\n'
        "RuntimeError: Expected all tensors to be on the same device, but found at least two "
        "devices, cuda:1 and cuda:0!\n",
        "VG527",
        (),
    ),
    "a metric function of another name": (METRICS, "VG587", ()),
    "preempted, and no other place": (PREEMPTED, "VG531", ()),
    "a configuration of a model's own code": (
        TRACE.format("Config()")
        + '  File "/c/modules/transformers_modules/X/configuration_x.py", line 51, in __init__\n'
        "    if llm_config['architectures'][0] == 'Llama':\nKeyError: 'architectures'\n",
        "VG570",
        (),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(tmp_path, name):
    told_right(tmp_path, *SHAPES[name])


STEPS = "".join(f"step {n} loss 4.{n}\n" for n in range(10))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (STEPS + "done\n", "finished"),
        ("done\n", "unfinished"),
        (STEPS + "done\nstep 10 loss 4.4\n", "unfinished"),
        (STEPS + "Training time 0:20:31\n", "finished"),
        (STEPS + OWN + "done\n", "unknown"),
    ],
)
def test_a_scripts_last_word(tmp_path, text, verdict):
    told_right(tmp_path, text, verdict, None)


MASKED = "WARNING: tokenization mismatch: 1213 vs. 1214. (ignored)\n" * 5
LOSS = "{{'loss': {}, 'grad_norm': 0.0, 'learning_rate': 1.9e-05, 'epoch': 0.02}}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MASKED + LOSS.format(1.3) + LOSS.format(0.0) * 12, "VG593"),
        (MASKED + LOSS.format(0.0) * 12 + LOSS.format(1.3), "unfinished"),
        (LOSS.format(1.3) + LOSS.format(0.0) * 12, "unfinished"),
    ],
)
def test_a_loss_of_zero_to_the_last_where_rows_are_masked(tmp_path, text, told):
    told_right(tmp_path, text, told, None)


NO_TOKEN = (
    "[ERROR:swift] Authentication token does not exist, failed to access model /d/qwen which may "
    "not exist or may be private. Please login first.\n"
)
MORE = {
    "sacct's word below a run that was ended": (
        STEPS + "W0309 12:40:51.7 7 torch/distributed/elastic/agent/server/api.py:723] Received 15 "
        "death signal, shutting down workers\n5533377       PREEMPTED      0:0   02:11:40\n",
        "VG531",
    ),
    "a benchmark's bar behind the last step": (
        STEPS + "TextVQA:  29%|##9       | 1477/5000 [10:20<24:39,  2.38it/s]\n"
        "[E ProcessGroupNCCL.cpp:523] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=3011, OpType=_ALLGATHER_BASE, NumelIn=1310, NumelOut=10480, "
        "Timeout(ms)=1800000) ran for 1800060 milliseconds before timing out.\n",
        "VG551",
    ),
    "a rollout's bar behind the last step": (
        STEPS + "Processed prompts:  29%|##9       | 147/500 [10:20<24:39,  2.38it/s]\n"
        "[E ProcessGroupNCCL.cpp:523] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=3011, OpType=_ALLGATHER_BASE, NumelIn=1310, NumelOut=10480, "
        "Timeout(ms)=1800000) ran for 1800060 milliseconds before timing out.\n",
        "VG505",
    ),
    "a reward's own server": (
        'Traceback (most recent call last):\n  File "/w/rewards.py", line 9, in judge_reward\n'
        "    answer.raise_for_status()\n"
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: "
        "http://10.3.0.9:8000/v1/chat/completions\n",
        "VG581",
    ),
    "a token's message, and another end": (
        NO_TOKEN
        + TRACE.format("cos = cos[position_ids]")
        + "RuntimeError: CUDA error: device-side assert triggered\n",
        "VG545",
    ),
    "a rank without its cache, and the others' time-out": (
        "2: Traceback (most recent call last):\n2:   File \"/w/train.py\", line 61, in <module>\n"
        "2:     processor = AutoProcessor.from_pretrained(args.model)\n"
        "2: OSError: We couldn't connect to 'https://huggingface.co' to load the files, and "
        "couldn't find them in the cached files.\n0: [rank0]:[E606 06:10:00.152522719 "
        "ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        "600015 milliseconds before timing out.\n",
        "VG540",
    ),
    "a token's message alone": (
        NO_TOKEN,
        "VG539",
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_more(tmp_path, name):
    told_right(tmp_path, *MORE[name], None)


def test_a_backends_exception_is_part_of_the_message(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        TRACE.format("out = model(x)")
        + "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
        "RuntimeError: Detected that you are using FX to symbolically trace\n"
    )
    answer, digests = explain([str(path)])
    assert "raised: RuntimeError: Detected that" in text(answer, digests)
    assert answer.known is not None
    assert answer.known.code == "VG578"
