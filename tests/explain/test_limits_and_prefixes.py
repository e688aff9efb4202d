"""What a system refuses, weights under another prefix, an agent's last words, rank 0's store."""

# ruff: noqa: E501
from __future__ import annotations

import base64

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

STEPS = "".join(f"{{'loss': 2.{n}, 'grad_norm': 1.1, 'epoch': 0.0{n}}}\n" for n in range(1, 6))
CTRL_C = 'Traceback (most recent call last):\n  File "/w/train.py", line 60, in <module>\n    main()\nKeyboardInterrupt\n'
NAMES = [f"blocks.{n}.norm1.weight" for n in range(6)]
LISTED = "There were {} keys in the checkpoint model loaded: {}.\n"
MISSES = LISTED.format("missing", [f"model.visual.{name}" for name in NAMES])
MOVED = MISSES + LISTED.format("unexpected", [f"visual.{name}" for name in NAMES])
OTHERS = MISSES + LISTED.format("unexpected", ["lm_head.weight", "ema.step"])
CLOSING = (
    "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'n1_91022_0' has failed to shutdown the rendezvous '1' due to an error of type RendezvousConnectionError.\n",
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.\n",
)
AGENT = 'Traceback (most recent call last):\n  File "/env/bin/torchrun", line 33, in <module>\n    sys.exit(main())\n'
TAKEN = "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to 0.0.0.0:29600 (errno: 98 - Address already in use)."
JOINS = 'Traceback (most recent call last):\n  File "main.py", line 7, in main\n    dist.init_process_group("nccl")\n  File "/env/lib/python3.8/site-packages/torch/distributed/{0}.py", line 177, in _create_c10d_store\n    return TCPStore(\n' + TAKEN + "\n"
RANK = JOINS.format("rendezvous").replace("in main", "in main\n    run()\n  File \"/env/lib/python3.8/site-packages/torch/distributed/distributed_c10d.py\", line 888, in init_process_group", 1)
ELASTIC = JOINS.format("elastic/rendezvous/static_tcp_rendezvous")
UNUSED = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\nParameter indices which did not receive grad for rank 3: 130 131"
CALLBACK = 'Traceback (most recent call last):\n{}  File "/w/callbacks.py", line 38, in on_step_end\n    ema = self.shadow[name].mul_(self.decay)\nKeyError: \'model.visual.merger.mlp.0.bias\'\n'
CALLS = '  File "/env/lib/python3.10/site-packages/transformers/trainer_callback.py", line 556, in call_event\n    result = getattr(callback, event)(\n'
ONE = base64.urlsafe_b64encode(b'{"localhost": [0]}').decode()
TWO = base64.urlsafe_b64encode(b'{"localhost": [0, 1]}').decode()
LAUNCHED = "[INFO] [runner.py:568:main] cmd = /env/bin/python -u -m deepspeed.launcher.launch --world_info={} --master_port=29500 train.py\n"
OOM = compose.traced("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", None)
EVAL = "Generation Evaluation: 100%|████| 497/499 [18:29:58<05:20, 160.10s/it]\n"
WAITS = "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=22134630, OpType=ALLGATHER, NumelIn=499, NumelOut=998, Timeout(ms)=18000000) ran for 18000109 milliseconds before timing out.\n"

NODE = (
    "gpu011:211733:212041 [4] NCCL WARN [Proxy Service 12] Failed to execute operation Connect from rank 12, retcode 3\n"
    "srun: error: Node failure on gpu017\nslurmstepd: error: *** JOB 1290331 ON gpu011 CANCELLED AT 2024-11-02T07:51:40 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
)

DRIVER = "/env/torch/cuda/__init__.py:138: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n"

ENDS = "{'train_runtime': 660.0, 'train_samples_per_second': 4.8, 'train_loss': 1.0, 'epoch': 1.0}\nPushing to hub...\n"
PUSHED = 'Traceback (most recent call last):\n  File "/env/lib/python3.11/site-packages/huggingface_hub/utils/_http.py", line 409, in hf_raise_for_status\n    response.raise_for_status()\nrequests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://huggingface.co/api/models/a/b\n[push] attempt {}/3 failed, sleeping 60 s\n'
PREEMPTED = "slurmstepd: error: *** JOB 5120 ON n1 CANCELLED AT 2025-11-11T11:11:00 DUE TO PREEMPTION ***\n"
BARS, MORE = ("".join(f" {n}%|█▏  | {n}/100 [00:{n:02}<01:00,  1.00it/s]\n" for n in range(m, m + 6)) for m in (1, 7))
LOADS = "Loading checkpoint shards: 100%|███| 3/3 [00:04<00:00,  1.24s/it]\n"
INSTALLED = 'Traceback (most recent call last):\n  File "/env/lib/python3.12/site-packages/swift/rl_core/advantage.py", line 51, in compute_advantages\n    rewards = rewards - beta * kl\n{}\n'
SAVES = 'Traceback (most recent call last):\n  File "/env/lib/python3.10/site-packages/transformers/trainer_callback.py", line 113, in save_to_json\n    json_string = json.dumps(dataclasses.asdict(self))\n  File "/usr/lib/python3.10/json/encoder.py", line 179, in default\n    raise TypeError()\nTypeError: Object of type {} is not JSON serializable\n'

MISFIT = "warning: The size of tensor a (1912) must match the size of tensor b (3328) at non-singleton dimension 0, input_embeds[selected].shape=torch.Size([1912, 2048]), vit_embeds.shape=torch.Size([3328, 2048])\n"
TAGGED = "".join(
    f"2023-09-14 21:27:58.000 [INFO] [Driver] {line.strip()}\n"
    for line in compose.traced("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.73 GiB (GPU 5; 79.35 GiB total capacity)", None).splitlines()
)

# what → (log, class or verdict, starting ranks or None)
SHAPES = {
    "no further thread": (STEPS + compose.traced("RuntimeError: can't start new thread", 2), "VG599", (2,)),
    "no further process": (compose.traced("BlockingIOError: [Errno 11] Resource temporarily unavailable", 1), "VG599", (1,)),
    "a lock that is held is no limit": (compose.traced("BlockingIOError: [Errno 11] Resource temporarily unavailable: 'cache.lock'", 1), "unknown", None),
    "no further file": (STEPS + compose.traced("OSError: [Errno 24] Too many open files: '/data/1.jpg'", 0), "VG599", (0,)),
    "torch's own files in shared memory": (compose.traced("RuntimeError: unable to open shared memory object </torch_1_2_3> in read-write mode: Too many open files (24)", 0), "VG543", (0,)),
    "a warning of a library of threads": ("OpenBLAS blas_thread_init: pthread_create failed for thread 41 of 64: Resource temporarily unavailable\n" + STEPS, "unfinished", None),
    "who ends a run that loaded nothing": (MOVED + STEPS + CTRL_C, "VG522", None),
    "who ends one that lacks a few names": (OTHERS + STEPS + CTRL_C, "VG569", None),
    "an agent that closes last": ("".join(CLOSING[:1]) + AGENT + CLOSING[1], "VG563", None),
    "an agent that cannot begin": (AGENT + CLOSING[1], "VG517", None),
    "rank 0 cannot serve": (RANK, "VG542", (0,)),
    "a launcher cannot": (ELASTIC, "VG542", ()),
    "DDP names the rank": (compose.traced(UNUSED, None), "VG503", (3,)),
    "a callback's own table": (CALLBACK.format(CALLS), "unknown", None),
    "one GPU, by the launcher's argument": (LAUNCHED.format(ONE) + OOM, "VG512", (0,)),
    "two": (LAUNCHED.format(TWO) + OOM, "VG512", ()),
    "not a launcher's argument": (LAUNCHED.format("bm90IGpzb24h") + OOM, "VG512", ()),
    "a node that failed, and who called it": (STEPS + NODE, "VG533", None),
    "a program's own check, behind torch's warning of the driver": (DRIVER + compose.traced("AssertionError: Megatron requires CUDA.", None), "VG537", None),
    "an upload that was tried again": (STEPS + ENDS + PUSHED.format(1) + "[push] ok\nbye\n", "finished", None),
    "and for the last time": (STEPS + ENDS + PUSHED.format(3), "VG540", None),
    "preempted, and loaded anew behind it": (BARS + PREEMPTED + LOADS + MORE, "unfinished", None),
    "preempted, and some steps more": (BARS + PREEMPTED + MORE, "VG531", None),
    "sizes in a package's code are no check": (INSTALLED.format("RuntimeError: The size of tensor a (512) must match the size of tensor b (2048) at non-singleton dimension 0"), "unknown", None),
    "and what it raises itself there is": (INSTALLED.format("ValueError: advantages need a reward"), "VG553", None),
    "a norm that is a tensor": (SAVES.format("Tensor"), "VG570", None),
    "a metric that is an array": (SAVES.format("float32"), "VG587", None),
    "Ray repeats a bar of loading": (LOADS.replace("]", "] [repeated 6x across cluster]") + "(raylet) up\n", "unfinished", None),
    "one of a group of eight": (STEPS + WAITS.replace("NumelOut=998", "NumelOut=3992"), "VG505", ()),
    "features that are cut, and it goes on": ((STEPS[:60] + MISFIT) * 4, "VG506", None),
    "one row's": (STEPS + MISFIT + STEPS, "unfinished", None),
    "a platform's tags before a traceback": (TAGGED, "VG512", None),
    "an evaluation that generates": (STEPS + EVAL + WAITS, "VG551", (0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_told(tmp_path, name):
    told_right(tmp_path, *SHAPES[name])
