"""Shapes that a third set of threads and whole logs taught; each with the thread that has such a one."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

BAR = "  3%|▎         | {k}/400 [00:18<09:39,  1.50s/it]\n"
BANNER = "W0112 08:00:01.120 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
CANCELLED = "slurmstepd: error: *** JOB 42 ON gpu-node-17 CANCELLED AT 2026-01-12T08:00:21 ***\n"
SHARED = "ImportError: /env/flash_attn_2_cuda.cpython-39-x86_64-linux-gnu.so: undefined symbol: _ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def cut(text: str, lines: int) -> str:
    """Without the first lines."""
    return "".join(text.splitlines(keepends=True)[lines:])


# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "InternLM/xtuner#314 two ranks' words in one another": (
        "torch.distributedtorch.distributed..DistBackendError: DistBackendErrorNCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled cuda error\nncclUnhandledCudaError: Call to CUDA function failed.\n", "VG562", None),
    "verl-project/verl#2398 a worker that died without a word": (
        "\x1b[33m(raylet)\x1b[0m A worker died or was killed while executing a task by an unexpected system error. Worker exit type: SYSTEM_ERROR\nError executing job with overrides: ['data.train_batch_size=64']\n", "unknown", None),
    "Unakar/Logic-RL a driver's exception long after a worker's": (
        "(raylet) Traceback (most recent call last):\n" + cut(compose.traced("RuntimeError: The actor with name WorkerDict failed to import on the worker. This may be because needed library dependencies are not installed:", None), 1)
        + "\n" + compose.traced(SHARED, None) + "noise\n" * 80 + compose.traced("ray.exceptions.RayTaskError(AssertionError): ray::main_task() (pid=1, ip=10.0.0.1)\n  File \"/verl/main.py\", line 9, in main_task\nAssertionError: failed to get register_center_actor: x in []", None), "VG538", None),
    "LaVi-Lab/VG-LLM#21 gradients of nan beside a loss that falls": (
        "".join(BAR.format(k=10 * k) + f"{{'loss': 1.{7 - k}018, 'grad_norm': nan, 'learning_rate': 1.3e-06, 'epoch': 0.0{k}}}\n" for k in (1, 2, 3)), "VG515", None),
    "the loss scale that falls in float16's first steps": (
        "".join(BAR.format(k=k) + f"{{'loss': 1.7018, 'grad_norm': {n}, 'learning_rate': 1.3e-06, 'epoch': 0.0}}\n" for k, n in ((1, "nan"), (2, "nan"), (3, "2.1"), (4, "2.0"))), "unfinished", None),
    "2U1/Qwen-VL-Series-Finetune#10 a log of two steps": (
        BAR.format(k=1) + "{'loss': 1.0446, 'grad_norm': nan, 'learning_rate': 1e-08}\n" + BAR.format(k=2) + "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2e-08}\n", "VG515", None),
    "moojink/openvla-oft a log to which every job is appended": (
        BANNER + compose.traced("ValueError: Unknown split 'val'", 0) + compose.TEARDOWN.format(code=1, rank=0, others="", said="x") + BANNER + BAR.format(k=1) + CANCELLED, "VG531", ()),
    "the same, the last run is under way": (
        BANNER + compose.traced("ValueError: Unknown split 'val'", 0) + compose.TEARDOWN.format(code=1, rank=0, others="", said="x") + BANNER + BAR.format(k=1), "unfinished", None),
    "the same, after a run that finished": (
        BANNER + compose.DONE["TRL"].format(steps=1) + "[launch.py:350:main] Process 4242 exits successfully.\n" + BANNER + BAR.format(k=1), "unfinished", None),
    "DeepSpeed's launcher, Ctrl-C": ("[2026-01-12 09:14:14,902] [INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting\n", "VG569", None),
    "meta-llama/llama-cookbook#920 the watchdog's last line alone": (
        "[rank0]:[E419 18:14:51.952620177 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank 0] Timeout at NCCL work: 5, last enqueued NCCL work: 6, last completed NCCL work: 4.\n", "VG505", None),
    "zai-org/CogVideo#770 a child that was killed": (compose.traced("subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.", None), "VG532", None),
    "torch.multiprocessing.spawn": (compose.traced("torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGSEGV", None), "VG558", (3,)),
    "kohya-ss/sd-scripts#1434 the rank in another line": (
        compose.traced(ECC, None) + f"\n[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: {ECC.partition(': ')[2]}\n", "VG534", (1,)),
    "axolotl-ai-cloud/axolotl#1494 the rank in the launcher's line": (
        compose.traced("ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.uint8", None)
        + "[2026-04-10 01:54:11,740] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: 2 (pid: 12) of binary: /usr/bin/python3\n", "VG519", (2,)),
    "huggingface/huggingface_hub#2586 a chain that is cut": (
        compose.traced("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/meta-llama/Llama-2-7b-chat-hf/resolve/main/config.json", None)
        + "\nThe above exception was the direct cause of the following exception:\n\n" + compose.traced("x", None).rpartition("x")[0], "VG539", None),
    "deepspeedai/DeepSpeed#3094 a build that failed, cut": (
        compose.traced("subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.", 0)
        + "\n[rank0]: The above exception was the direct cause of the following exception:\n\n" + compose.traced("x", 0).rpartition("[rank0]: x")[0], "VG557", (0,)),
    "LianjiaTech/BELLE#376 without its beginning, the message on the next line": (
        cut(compose.traced("RuntimeError: \n        CUDA Setup failed despite GPU being available. Inspect the CUDA SETUP outputs above to fix your environment!", None), 1), "VG538", None),
    "FlagOpen/FlagEmbedding#980 the launcher's exception without a summary": (cut(compose.traced("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\nrun FAILED", None), 1), "unknown", None),
    "Lightning-AI/pytorch-lightning#20542 steps after the time was up": (
        BAR.format(k=1) + "slurmstepd: error: *** STEP 5.0 ON node-3 CANCELLED AT 2026-01-10T15:27:25 DUE TO TIME LIMIT ***\n" + "".join(BAR.format(k=k) for k in range(2, 9)), "VG530", None),
    "the same, started again": (
        "".join(BAR.format(k=k) for k in range(1, 30)) + "slurmstepd: error: *** JOB 5 ON node-3 CANCELLED AT 2026-01-10T15:27:25 DUE TO TIME LIMIT ***\n" + "".join(BAR.format(k=k) for k in range(1, 9)), "unfinished", None),
    "hiyouga/LlamaFactory#3597 a web page trains in a thread": (
        "Exception in thread Thread-21:\nTraceback (most recent call last):\n  File \"D:\\Python39\\lib\\threading.py\", line 980, in _bootstrap_inner\n    self.run()\n  File \"F:\\LLaMA-Factory\\src\\tuner.py\", line 33, in run_exp\n    run_sft(model_args)\nValueError: Target modules {'c_attn'} not found in the base model. Please check the target modules and try again.\n", "VG525", None),
    "hiyouga/LlamaFactory#6784 copied without the first bracket": ("rank1]: ValueError: The checkpoint you are trying to load has model type `qwen2_5_vl` but Transformers does not recognize this architecture.\n", "VG556", (1,)),
    "huggingface/open-r1#620 a terminal's width": (
        "".join(f"[rank2]:[E424 01:17:25.03{n} ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminat\ned with exception: x\n" for n in range(3))
        + "[rank2]: ValueError: Image features and image tokens do not match in a sentence that is written so long that it has to be br\noken: tokens: 1, features: 2\n", "VG506", (2,)),
    "mila-iqia/milabench#367 a table's columns": ("| step | loss |\n" + "model_a   | 12 | 0.5\n" * 5 + BAR.format(k=2), "unfinished", None),
    "NVIDIA/nccl#426 NCCL 2.8": ("machine-17:20109:20123 [0] transport/net_ib.cc:849 NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n", "VG536", None),
    "hiyouga/EasyR1#275 a tower that never had an image": (compose.traced("RuntimeError: The state of _OptimStateKey(unflat_param_names=('visual.blocks.0.norm1.weight',), is_fsdp_managed=True) is empty. This should happen when use_orig_params=True.", None), "VG550", None),
    "huggingface/trl#2826 no card left for vLLM": (compose.traced("ValueError: The requested device for vllm (cuda:1) is not available. You are likely using vLLM without restricting the number of GPUs for training.", None), "VG566", None),
    "pytorch/pytorch#85604 the port, then a traceback that is cut": (
        "[E socket.cpp:435] [c10d] The server socket has failed to listen on any local network address.\n" + compose.traced("x", None).rpartition("x")[0], "VG542", None),
    "kubectl's events, memory": ("Warning  Evicted    3m   kubelet            The node was low on resource: memory. Threshold quantity: 100Mi, available: 51712Ki.\n", "VG532", None),
    "kubectl's events, disk": ("Message: Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.\n", "VG535", None),
    "kubectl's events, a node's condition": ("Reason: Evicted\nMessage: The node had condition: [MemoryPressure].\n", "VG532", None),
    "a kernel's failure that only the watchdog names": (
        "terminate called after throwing an instance of 'c10::DistBackendError'\nterminate called after throwing an instance of 'c10::DistBackendError'\n"
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n", "VG562", (2,)),
    "only its last line": ("  what():  [Rank 5] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n", "VG562", (5,)),
    "QwenLM/Qwen3-VL#1414 VS Code's debugger": ("Exception has occurred: RuntimeError\nDetected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=6088, OpType=ALLREDUCE)\n", "VG505", None),
    "deepspeedai/DeepSpeed#5570 the end of a list": (
        "[rank1]:        size mismatch for model.norm.weight: copying a param with shape torch.Size([1024]) from checkpoint, the shape in current model is torch.Size([4096]).\n"
        "W0527 01:21:26.844000 140472356030272 torch/distributed/elastic/multiprocessing/api.py:851] Sending process 1056309 closing signal SIGTERM\n", "VG522", (1,)),
    "deepspeedai/DeepSpeed#864 moments of another partition": (
        "Traceback (most recent call last):\n  File \"/w/train.py\", line 5, in <module>\n    trainer.train()\n  File \"/e/torch/optim/adam.py\", line 100, in step\n    exp_avg.mul_(beta1)\n"
        "RuntimeError: The size of tensor a (597396608) must match the size of tensor b (15013760) at non-singleton dimension 0\n", "VG550", None),
    "verl-project/verl#1986 Ray ends its workers": (
        "(TaskRunner pid=26626) step:2 - actor/pg_loss:0.01\nTraining Progress: 100%|██████████| 2/2 [10:10<00:00, 305.1s/it]\n(TaskRunner pid=26626) 'Final validation metrics: {\"val/gsm8k\": 0.7}'\n"
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly by a signal. SystemExit is raised (sys.exit is called). Exit code: 1. The process receives a SIGTERM.\n", "finished", None),
    "a log of errors that the run survived": ("2026-01-08 16:00:01,000 - ERROR - CUDA out of memory, a smaller batch is tried\n" + "2026-01-08 16:11:06,949 - INFO - configured\n" * 70, "unfinished", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])
