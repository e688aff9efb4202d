"""Shapes that clusters' logs taught: MPI, clouds and containers, stacks of hung processes, who began."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

BAR = "  3%|▎         | 12/400 [00:18<09:39,  1.50s/it]\n"
WATCH = "[rank{r}]:[E816 00:34:01.33 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={s}, OpType=ALLREDUCE, NumelIn=3106, NumelOut=3106, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"


def stack(rank: int, *frames: str) -> str:
    """What `py-spy dump` prints of one rank."""
    head = f'Process {100 + rank}: python -u train.py --local_rank={rank}\nPython v3.10.12 (/usr/bin/python3.10)\n\nThread {100 + rank} (idle): "MainThread"\n'
    other = 'Thread 5406 (idle): "Thread-1"\n    wait (threading.py:324)\n    run (tqdm/_monitor.py:60)\n'
    return head + "".join(f"    {frame}\n" for frame in (*frames, "main (train.py:40)")) + other


REDUCES = ("all_reduce (torch/distributed/distributed_c10d.py:2219)", "backward (deepspeed/runtime/engine.py:2020)")
LOADS = ("get (queue.py:180)", "_try_get_data (torch/utils/data/dataloader.py:1133)")

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "horovod/horovod#469 mpirun names the rank and the signal": (
        "Epoch 1/1\nmpirun noticed that process rank 7 with PID 0 on node HOSTNAME exited on signal 9 (Killed).\n", "VG532", (7,)),
    "horovod/horovod#1421 mpirun names the first to fail": (
        "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[29973,1],4]\n  Exit code:    1\n", "unknown", (4,)),
    "horovod/horovod#410 Horovod was shut down": (
        "2018-07-30 06:41:52.525932: W tensorflow/core/framework/op_kernel.cc:1318] OP_REQUIRES failed at mpi_ops.cc:422 : Aborted: Horovod has been shut down. This was caused by an exception on one of the ranks\n", "VG563", None),
    "aws/sagemaker-python-sdk#134 SageMaker's exit code": ("AlgorithmError: Exit Code: 139\n", "VG558", None),
    "aws/sagemaker-python-sdk#658 SageMaker's last words alone": (
        'sagemaker-containers ERROR    ExecuteUserScriptError:\nCommand "/usr/bin/python -m rnn --epochs 2"\n2019-02-25 14:11:16 Failed - Training job failed\n', "unknown", None),
    "kubeflow/trainer#2008 the operator's words alone": (
        'time="2024-02-21T09:32:29Z" level=info msg="Pod: kubeflow.pytorch-simple-worker-0 exited with code 1" job=kubeflow.pytorch-simple replica-type=worker\n', "unknown", None),
    "googlefonts/fontbakery-dashboard#100 kubectl describe": (
        "Last State:     Terminated\n      Reason:       Error\n      Exit Code:    137\n      Started:      Wed, 27 Mar 2019 01:53:04 +0100\n", "VG532", None),
    "hpcaitech/ColossalAI#2441 the launcher's words alone": ("Error: failed to run torchrun --nproc_per_node=4 train.py -s on 127.0.0.1\n", "unknown", None),
    "hpcaitech/ColossalAI#3066 no ssh between the nodes": (
        "Error: failed to run torchrun --nproc_per_node=4 --nnodes=2 train.py on gpu-1648, is localhost: False, exception: No authentication methods available\n", "VG536", None),
    "hpcaitech/ColossalAI#3582 an exit code without a process": (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2023-04-17_17:02:33\n  host      : gpu21\n  rank      : 1 (local_rank: 0)\n  exitcode  : 1 \n  error_file: <N/A>\n", "unknown", (1,)),
    "kubeflow/trainer#1638 the agent's own report": (
        'ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:{\n  "message": {\n    "message": "RendezvousClosedError: ",\n    "extraInfo": {\n      "py_callstack": "Traceback (most recent call last):\\n  File \\"/env/torch/distributed/run.py\\", line 719, in main\\n    run(ar', "VG517", None),
    "Slurm cancels a step and then kills its tasks": (
        "slurmstepd: error: *** STEP 1545677.1 ON kn052 CANCELLED AT 2025-12-04T18:12:22 ***\nsrun: error: kn053: task 1: Killed\nsrun: error: kn052: task 0: Killed\n", "VG569", None),
    "a cluster that is taken down when the program has ended": (
        "Script completed successfully\nPython script completed with exit code: 0\nslurmstepd: error: *** STEP 15.1 ON kn071 CANCELLED AT 2025-12-04T18:51:55 ***\nsrun: error: kn079: task 1: Killed\n", "finished", None),
    "an exception, and what the container's file system says after it": (
        compose.traced("ValueError: Please specify `max_steps` in streaming mode.", None, ("get_train_args", "check")) + "\nINFO:    Cleanup error: while stopping driver: Software caused connection abort\n", "VG553", None),
    "a trainer that says how long it ran when somebody ended it": (
        BAR + "KeyboardInterrupt\n2024-08-08 12:21:46 - LOGS   - Keyboard interruption. Exiting from early training\n2024-08-08 12:21:46 - LOGS   - Training took 01:19:39.71\n", "VG569", None),
    "a spawned rank's loader has an exception": (
        "-- Process 1 terminated with the following error:\n" + compose.traced("EOFError: Caught EOFError in DataLoader worker process 7.", None)
        + "Original " + compose.traced("EOFError: Ran out of input", None), "VG541", (1,)),
    "Lightning's watcher": (BAR + "[rank: 1] Child process with PID 12345 terminated with code -9. Forcefully terminating all other processes to avoid zombies\n", "VG532", (1,)),
    "deepspeedai/DeepSpeedExamples#302 the stack of a process that waits for a build": (
        stack(0, "wait (torch/utils/file_baton.py:42)", "_jit_compile (torch/utils/cpp_extension.py:1522)"), "VG567", None),
    "deepspeedai/DeepSpeed#6524 stacks in a backward": (stack(0, "_engine_run_backward (torch/autograd/graph.py:769)", "backward (torch/_tensor.py:521)"), "VG505", ()),
    "stacks of three ranks, one of which loads data": (stack(0, *REDUCES) + stack(1, *REDUCES) + stack(2, *LOADS), "VG505", (2,)),
    "faulthandler's stack after a time-out": (
        'Timeout (0:30:00)!\nThread 0x00007f1c4a3ff740 (most recent call first):\n  File "/env/torch/distributed/distributed_c10d.py", line 3685 in barrier\n  File "train.py", line 99 in main\n', "VG505", None),
    "a stack of a loader alone says nothing": (stack(0, *LOADS), "unfinished", None),
    "OpenRLHF/OpenRLHF#1126 who waits did not begin": (WATCH.format(r=5, s=9), "VG505", ()),
    "ROCm/rccl#59 a fault that the driver tells": (
        "Memory access fault by GPU node-1 (Agent handle: 0x1c8e690) on address 0x7f5d2ae00000. Reason: Page not present or supervisor privilege.\nAborted (core dumped)\n", "VG562", None),
    "an abort without a word": ("loading\nAborted (core dumped)\n", "unknown", None),
    "hiyouga/LlamaFactory#975 HCCL's words without an exception": (
        "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [4294967295].\n", "VG505", None),
    "Ascend/pytorch#48 CANN's words without an exception": (
        "EE1002: 2024-09-03-16:50:00.041.231 Stream synchronize timeout. rtDeviceSynchronize execute failed, reason=[stream sync timeout]\n", "VG505", None),
    "pytorch/pytorch#135355 one node's address is IPv6": ("RuntimeError: [../third_party/gloo/gloo/transport/tcp/device.cc:83] ss1.ss_family == ss2.ss_family. 2 vs 10\n", "VG536", None),
    "mozilla/translations#964 a spot machine is taken back": ("Dec 17 16:03:58Z linux-v100-1 start-worker 2024/12/17 16:03:58 GCP Metadata Service says termination is imminent\n", "VG531", None),
    "wandb's own debug.log": (
        "2025-12-03 05:22:23,843 ERROR   wandb-AsyncioManager-main:24641 [asyncio_manager.py:fn_wrap_exceptions():183] Uncaught exception in run_soon callback.\n"
        + compose.traced("ConnectionResetError: Connection lost", None), "unfinished", None),
    "wandb's own log of an upload": (
        "2023-07-04 14:47:36,868 ERROR   wandb-upload_0:15750 [internal_api.py:upload_file():2099] upload_file exception https://storage.googleapis.com/x: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))\n", "unfinished", None),
    "an object store without credentials": (compose.traced("botocore.exceptions.NoCredentialsError: Unable to locate credentials", 2), "VG598", (2,)),
    "Vertex AI's word for memory": ("The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137(SIGKILL).\n", "VG532", None),
    "zsh's word": ("[1]    12345 killed     python train.py\n", "VG532", None),
    "hkust-nlp/simpleRL-reason#98 Ray's driver lost a worker": (
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n\tclass_name: WorkerDict\n", "VG563", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])
