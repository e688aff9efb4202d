"""Whole logs of peers that are gone, of rows too long, of other attempts → class, rank, first step."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from vlmguard.explain.command import explain
from vlmguard.explain.show import text

LIB = "/env/lib/python3.10/site-packages/"


def log(said, *frames):
    inner = "".join(
        f'  File "{path if path[0] == "/" else LIB + path}", line 7, in {name}\n    {code}\n'
        for path, name, code in frames
    )
    return f'Traceback (most recent call last):\n  File "/app/train.py", line 88, in main\n    trainer.train()\n{inner}{said}\n'


PREFIX = "[rank{0}]:[E527 03:37:12.100508941 ProcessGroupNCCL.cpp:552] [Rank {0}] Collective WorkNCCL(SeqNum=190312, OpType=REDUCE, NumelIn=2000, NumelOut=2000, Timeout(ms)=7200000) raised the following async exception: NCCL error: {1}, NCCL version 2.21.5\n"
TIMED = "[E ProcessGroupNCCL.cpp:566] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1804582 milliseconds before timing out.\n"
CUT_OFF = log("RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:38, unhandled cuda error, NCCL version 2.7.8\nncclUnhandledCudaError: Call to CUDA function failed.", ("torch/autograd/__init__.py", "backward", "x"))
SSH = "n1: ssh: connect to host 10.0.0.57 port 22: {}\npdsh@n0: n1: ssh exited with exit code 255\n"
VLLM = ("vllm/v1/engine/processor.py", "_validate_model_input", "raise ValueError(")
LONG = "ValueError: The decoder prompt (length 6811) is longer than the maximum model length of 6144. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens."
SDPA = ("transformers/models/qwen2/modeling_qwen2.py", "forward", "attn_output = torch.nn.functional.scaled_dot_product_attention(")
AGAIN = (("torch/_tensor.py", "backward", "torch.autograd.backward("), ("torch/utils/checkpoint.py", "backward", "outputs = ctx.run_function(*detached_inputs)"), SDPA)
KEYS = "RuntimeError: The expanded size of the tensor ({0}) must match the existing size ({1}) at non-singleton dimension 3.  Target sizes: [1, 28, {1}, {0}].  Tensor sizes: [1, 1, {1}, {1}]"
EXPANDS = (("transformers/generation/utils.py", "generate", "x"), ("transformers/models/qwen2_vl/modeling_qwen2_vl.py", "_expand_dict_for_generation_visual", "x"))
NVML = "pynvml.NVMLError_{}"
WATT = (("/app/power.py", "on_log", "logs['watt'] = nvmlDeviceGetPowerUsage(handle)"), ("pynvml.py", "_nvmlCheckReturn", "raise NVMLError(ret)"))
UNSLOTH = "==((====))==  Unsloth 2025.3.14: Fast Qwen2_Vl patching. Transformers: 4.49.0.\n   \\\\   /|    NVIDIA GeForce RTX 3090. Num GPUs = {}. Max memory: 23.691 GB. Platform: Linux.\n"
NORM = "ValueError: Target module LayerNorm((1152,), eps=1e-06, elementwise_affine=True) is not supported. Currently, only the following modules are supported: `torch.nn.Linear`."

ROWS = {
    "all that this node has is gone peers": ("".join(PREFIX.format(r, "remote process exited or there was a network error") for r in (4, 5)), "VG563", (), "vlmguard explain"),
    "the system failed": (PREFIX.format(4, "unhandled system error (run with NCCL_DEBUG=INFO for details)"), "VG536", (4,), ""),
    "a card failed": (PREFIX.format(4, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"), "VG562", (4,), ""),
    "the watchdog cut it off": (TIMED + CUT_OFF, "VG505", (), ""),
    "no watchdog before it": (CUT_OFF, "VG562", (), ""),
    "no sshd": (SSH.format("Connection refused"), "VG536", (), "nc -vz 10.0.0.57 22"),
    "no machine": (SSH.format("No route to host"), "VG533", (), ""),
    "verl's rows": (log("RuntimeError: Prompt length 2671 is longer than 2048.", ("/app/verl/utils/dataset/rl_dataset.py", "__getitem__", "x")), "VG511", (), "data.filter_overlong_prompts=True"),
    "EasyR1's, in its engine": (log(LONG, ("/root/EasyR1/verl/workers/rollout/vllm_rollout_spmd.py", "generate_sequences", "x"), VLLM), "VG511", (), "data.filter_overlong_prompts=True"),
    "TRL's, in its engine": (log(LONG, ("trl/trainer/grpo_trainer.py", "_generate", "x"), VLLM), "VG511", (), ""),
    "keys twice as many": (log(KEYS.format(2962, 1481), *AGAIN), "VG524", (), "model.config.use_cache = False"),
    "keys one more": (log(KEYS.format(1482, 1481), *AGAIN), "unknown", (), ""),
    "twice as many in a first forward": (log(KEYS.format(2962, 1481), SDPA), "unknown", (), ""),
    "a batch's dimension": (log("RuntimeError: split_with_sizes expects split_sizes to sum exactly to 1 (input tensor's size at dimension 0), but got split_sizes=[1296]", *EXPANDS), "VG518", (), "/app/train.py:88"),
    "a vGPU that tells no power": (log(NVML.format("NotSupported: Not Supported"), *WATT), "unknown", (), "sed -n 1,10p /app/power.py"),
    "no driver's library": (log(NVML.format("LibraryNotFound: NVML Shared Library Not Found"), *WATT), "VG537", (), ""),
    "Unsloth on one card": (UNSLOTH.format(1) + log("AttributeError: module 'x' has no attribute 'y'", ("peft/tuners/tuners_utils.py", "forward", "x")), "VG570", (0,), ""),
    "Unsloth beside two": (UNSLOTH.format(2) + log("AttributeError: module 'x' has no attribute 'y'", ("peft/tuners/tuners_utils.py", "forward", "x")), "VG570", (), ""),
    "a norm is no place for an adapter": (log(NORM, ("peft/tuners/lora/model.py", "_create_new_module", "x")), "VG525", (), "print(sorted("),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_class_rank_and_first_step(row, tmp_path):
    said, code, ranks, begins = ROWS[row]
    (tmp_path / "train.log").write_text(said)
    answer, digests = explain([str(tmp_path / "train.log")])
    shown = text(answer, digests)
    assert (answer.known.code if answer.known else answer.verdict) == code, shown
    assert tuple(answer.ranks) == ranks, shown
    steps = [line.strip() for line in shown.split("\n") if line.startswith(("  1. ", "  - "))]
    assert steps[0].removeprefix("1. ").removeprefix("- ").startswith(begins), shown


DONE = "100%|██████████| 750/750 [42:24<00:00, 10.10s/it]\n{'train_runtime': 2544.7, 'train_loss': 0.16, 'epoch': 3.0}\n"
RESUMED = "rank 1 resumed from /ckpt/checkpoint-500 (previous attempt was preempted at step 533)\n"
PREEMPTED = "*** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n"


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (RESUMED, DONE, "finished"),
        (RESUMED + DONE, "", "finished"),
        (PREEMPTED, DONE, "finished"),
        (PREEMPTED, "", "explained"),
        (RESUMED + PREEMPTED, "", "explained"),
    ],
)
def test_of_another_attempt_is_not_of_this(tmp_path, first, second, verdict):
    for name, said in (("0.log", first), ("1.log", second)):
        (tmp_path / name).write_text(said)
    answer, _ = explain([str(tmp_path)])
    assert answer.verdict == verdict


@pytest.mark.parametrize(
    ("clock", "verdict"),
    [("00:00<00:00, 301.90it/s", "unfinished"), ("00:02<00:00, 1.10s/it", "finished")],
)
def test_a_bar_that_takes_no_time_is_no_training(tmp_path, clock, verdict):
    path = tmp_path / "train.log"
    path.write_text(
        f"torchrun t.py\nFound cached dataset json\n100%|██████████| 2/2 [{clock}]\n", "utf-8"
    )
    assert explain([str(path)])[0].verdict == verdict
