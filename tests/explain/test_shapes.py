"""Shapes of logs that users' threads show: composed here, each with the thread that has such a one."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from vlmguard.explain.command import explain

BAR = "  3%|▎         | 12/400 [00:18<09:39,  1.50s/it]"
TEARDOWN = (
    "W0521 18:06:31.916000 29159 site-packages/torch/distributed/elastic/multiprocessing/api.py:897] Sending process 41 closing signal SIGTERM\n"
    "E0521 18:06:37.491000 29159 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: 3 (pid: 44) of binary: /usr/bin/python3\n"
    'Traceback (most recent call last):\n  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main\n    return _run_code(code, main_globals, None,\n'
)
WATCH = "[rank{r}]:[E816 00:34:01.33 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={s}, OpType=ALLREDUCE, NumelIn=31\n06, NumelOut=3106, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
ACCELERATE = compose.traced("subprocess.CalledProcessError: Command '['python', '-m', 'axolotl.cli.train', 'a.yml']' returned non-zero exit status 1.", None)

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "modelscope/ms-swift#4302 a launcher's traceback that is cut": (TEARDOWN.format(code=-11), "VG558", (3,)),
    "OpenGVLab/InternVL#553 SIGFPE": (TEARDOWN.format(code=-8), "VG558", (3,)),
    "the same on one of two nodes": ("torchrun --nnodes 2 --nproc_per_node 8 train.py\n" + TEARDOWN.format(code=-11), "VG558", ()),
    "deepspeedai/DeepSpeed#4510 SIGABRT alone": ("[2026-01-12 09:14:14,879] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 249\n" + compose.DEEPSPEED.format(code=-6), "unknown", None),
    "unslothai/unsloth#3620 killed at the end of a bar": (f"{BAR}Killed\n", "VG532", None),
    "axolotl-ai-cloud/axolotl#1571 the launcher's words alone": (ACCELERATE, "unknown", None),
    "axolotl-ai-cloud/axolotl#2215 the terminal was closed": (
        f"{BAR}W1221 17:13:59.24 46 torch/distributed/elastic/agent/server/api.py:704] Received 1 death signal, shutting down workers\n"
        "W1221 17:13:59.24 46 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 47 closing signal SIGHUP\n", "VG569", None),
    "modelscope/ms-swift#5409 a watchdog's line broken by the terminal": (
        "world_size: 3\n" + WATCH.format(r=0, s=9) + WATCH.format(r=2, s=9), "VG505", (1,)),
    "QwenLM/Qwen-VL#103 eight ranks' assertions in one another": (
        "    assert param.ds_status == ZeroParamStatus.AVAILABLE, param.ds_summary()AssertionError\n"
        "AssertionError    assert param.ds_status == ZeroParamStatus.AVAILABLE, param.ds_summary()\n", "VG523", None),
    "StarsfieldAI/R1-V#10 an assertion on the device, broken by the terminal": (
        "../aten/src/ATen/native/cuda/IndexKernel.cu:93: operator(): block: [0,0,0], thread: [0,0,0] Assertion `-sizes[i] <= index && index < size$\n"
        '[i] && "index out of bounds"` failed.\n', "VG545", None),
    "facebookresearch/deit#76 time and MPI's rank before each line": (
        "".join(f"2026-03-10T13:22:37.434Z: [1,3]<stderr>:{line}\n" for line in compose.traced("OSError: cannot identify image file '/data/1.jpg'", None).splitlines()), "VG555", (3,)),
    "FlagOpen/FlagEmbedding#1381 python -m without the module": (
        "/usr/bin/python: Error while finding module specification for 'FlagEmbedding.x.run' (ModuleNotFoundError: No module named 'FlagEmbedding.x')\n"
        + TEARDOWN.format(code=1), "VG552", None),
    "pytorch/pytorch#79388 a rendezvous without a traceback": (
        "[E socket.cpp:793] [c10d] The client socket has timed out after 60s while trying to connect to (10.0.0.1, 2222).\n", "VG517", None),
    "NVIDIA/nccl#1664 another plug-in of NCCL's": ("node1:1:99 [0] ibp.c:1 NCCL WARN NET/IBP:Got completion from peer 10.0.0.7<36315> with status=12 opcode=32698 len=32696 vendor err 129 (Send)\n", "VG536", None),
    "huggingface/trl#5927 the framework's sentence after the model's": (
        compose.traced("ValueError: Image features and image tokens do not match, tokens: 14, features: 17", 1)
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + compose.traced("ValueError: The current max_length (64) is too short and causes image placeholder tokens to be truncated", 1), "VG506", (1,)),
    "deepspeedai/DeepSpeed#2898 another number of ranks": (
        "deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded used a DP world size of 4 but the current world size is 6.\n", "VG550", None),
    "modelscope/ms-swift#2115 forward() got what it does not take": (
        compose.traced("TypeError: Florence2ForConditionalGeneration.forward() got an unexpected keyword argument '_data'", 0), "VG570", (0,)),
    "hiyouga/LlamaFactory#6955 nothing to resume from": (
        compose.traced("AssertionError", 3, ("load_checkpoint", "check_ckpt_list")), "VG550", (3,)),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


def told_right(tmp_path, text, expected, ranks):
    """That `explain` says ``expected``: a code or a verdict; and where it began, unless None."""
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    answer, _ = explain([str(path)])
    assert (answer.known.code if answer.known else answer.verdict) == expected
    if ranks is not None:
        assert answer.ranks == ranks
