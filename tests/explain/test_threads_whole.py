"""Shapes that whole logs of vision-language runs taught, as their authors published them, and threads."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import BAR, told_right

CANCELLED = "slurmstepd: error: *** STEP 42.1 ON kn053 CANCELLED AT 2025-12-04T18:19:48 ***\n"
FEEDBACK = "[WARNING|2025-10-23 13:56:51] llamafactory.extras.misc:154 >> Version checking has been disabled.\n\n====== JOB FEEDBACK ======\n\nJob ID: 42\nCluster: hk\nState: {state}\nNodes: 1\nMemory Efficiency: 0.10% of 485.84 GB (485.84 GB/node)\n"
FUSE = "INFO:    Cleanup error: while stopping driver for /mnt/session/final: fuse-overlayfs exited: fuse: reading device: Software caused connection abort\n"
COMPILE = "Uncaught exception in compile_worker subprocess\nTraceback (most recent call last):\n  File \"/opt/conda/lib/python3.11/site-packages/torch/_inductor/compile_worker/__main__.py\", line 38, in main\n    pre_fork_setup()\nOSError: [Errno 107] Transport endpoint is not connected\n"
TORCHRUN = "W0731 11:08:41.198000 3253423 /env/site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process 42 closing signal SIGTERM\n"
NODE = "[INFO|2025-12-04 17:38:37] llamafactory.launcher:143 >> Initializing 1 distributed tasks at: kn140:60009\n[INFO|2025-12-04 17:38:37] llamafactory.launcher:143 >> Multi-node training enabled: num nodes: 2, node rank: {rank}\n"
CHILD = "subprocess.CalledProcessError: Command '['torchrun', '--nnodes', '2', '--node_rank', '{rank}', '--master_port', '60009']' returned non-zero exit status 1.\n"
ACTOR = "(ActorWorker(actor_train-3) pid=14820, ip=33.108.200.75) "

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "chrisindris 1545681 a step that its own script cancelled": (
        "Shutting down Ray cluster...\nsrun: forcing job termination\n" + CANCELLED + "srun: error: kn079: task 1: Killed\nsrun: error: kn053: task 0: Killed\n", "VG569", None),
    "chrisindris 1545801 the shell's Killed behind it": (
        CANCELLED + "srun: error: kn079: task 1: Killed\n/var/spool/job42/slurm_script: line 143: 3411160 Killed                  srun -N 2 ray\n", "VG569", None),
    "a task that was killed without a word": ("srun: error: kn079: task 1: Killed\n", "VG532", None),
    "chrisindris 85922 Apptainer's words behind a message": (
        compose.traced("ValueError: Please provide `model_name_or_path`.", None) + FUSE, "VG553", None),
    "chrisindris 1527988 inductor's worker at a rank's end": (
        compose.traced("ValueError: Please provide `model_name_or_path`.", None) + COMPILE + FUSE, "VG553", None),
    "chrisindris 1819048 an engine's record behind a message": (
        compose.traced("ValueError: Cannot open data/dataset_info.json due to [Errno 2] No such file or directory: 'data/dataset_info.json'.", None)
        + "ERROR 01-09 03:02:15 [core_client.py:600] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n", "VG554", None),
    "chrisindris 1545531 two nodes' launchers in one log": (
        NODE.format(rank=0) + compose.traced("RuntimeError: The server socket has failed to listen on any local network address. port: 60009, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use", None)
        + CHILD.format(rank=0) + NODE.format(rank=1) + compose.traced("RuntimeError: nonce == returnedNonce INTERNAL ASSERT FAILED at TCPStore.cpp:405, please report a bug to PyTorch. Ping failed, invalid nonce returned", None)
        + CHILD.format(rank=1), "VG542", None),
    "an engine's process says why, the rank only that it waited": (
        "".join(f"(Worker_TP1 pid=813) ERROR 09-11 10:20:30 [multiproc_executor.py:700] {line}\n" for line in compose.traced("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 1 has a total capacity of 79.25 GiB of which 300.00 MiB is free.", None).splitlines())
        + "".join(f"(EngineCore_DP0 pid=812) ERROR 09-11 10:20:31 [core.py:700] {line}\n" for line in ["EngineCore failed to start.", *compose.traced("Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.", None).splitlines()])
        + compose.traced("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", 0), "VG512", None),
    "a module that the engine's process lacks": (
        "".join(f"(EngineCore_DP0 pid=812) ERROR 09-11 10:20:31 [core.py:700] {line}\n" for line in ["EngineCore failed to start.", *compose.traced("ModuleNotFoundError: No module named 'flashinfer'", None).splitlines()])
        + compose.traced("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", None), "VG552", None),
    "what a spawned process says of an object that was not sent": (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n  File "/usr/lib/python3.10/multiprocessing/spawn.py", line 116, in spawn_main\n    exitcode = _main(fd, parent_sentinel)\nEOFError: Ran out of input\n'
        + compose.traced("AttributeError: Can't pickle local object 'main.<locals>.<lambda>'", None), "VG583", None),
    "chrisindris 101623 not in the container": ('FATAL:   "llamafactory-cli": executable file not found in $PATH\n', "VG590", None),
    "chrisindris 85940 nor there": ("/opt/nvidia/nvidia_entrypoint.sh: line 67: exec: FORCE_TORCHRUN=1: not found\n", "VG590", None),
    "chrisindris 3839932 a bus error where the memory ran out": (
        "/var/spool/job42/slurm_script: line 28: 222073 Bus error               (core dumped) apptainer run --nv image.sif\n"
        "slurmstepd: error: Detected 1 oom_kill event in StepId=42.batch. Some of the step tasks have been OOM Killed.\n", "VG532", None),
    "nilsblank 3592451 a job's report: failed": (FEEDBACK.format(state="FAILED (exit code 1)"), "unknown", None),
    "nilsblank 3589949 a job's report: its time was up": (FEEDBACK.format(state="TIMEOUT (exit code 0)"), "VG530", None),
    "nilsblank 3589948 a job's report: cancelled": (FEEDBACK.format(state="CANCELLED (exit code 0)"), "VG531", None),
    "nilsblank 3598632 a job's report: completed": (FEEDBACK.format(state="COMPLETED (exit code 0)"), "finished", None),
    "johnson7788 a vague exception and what it was raised from": (
        compose.traced("ImportError: /opt/flashinfer_kernels.abi3.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSsb", 0)
        + "\n[rank0]: The above exception was the direct cause of the following exception:\n\n" + compose.traced("ImportError: Loading prebuilt ops failed.", 0), "VG538", (0,)),
    "johnson7788 a launcher's record behind an open question": (
        compose.traced("ValueError: Tools should either be a JSON schema, or a callable function with type hints.", None).replace("transformers/trainer.py", "transformers/utils/chat_template_utils.py")
        + "wandb: Enter your choice: " + TORCHRUN, "VG574", None),
    "johnson7788 errno in a Chinese locale": (compose.traced("OSError: [Errno 98] 地址已在使用", None), "VG542", None),
    "a shell in a Chinese locale": (f"{BAR}\ntrain.sh：行 12: 12345 已杀死               python train.py\n", "VG532", None),
    "alibaba/ROLL#181 an actor with a name of its own": (
        "".join(f"{ACTOR}{line}\n" for line in compose.traced("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", None).splitlines()), "VG512", None),
    "axolotl-ai-cloud/axolotl#2791 pydantic's words, cut": (
        "  Input should be 'alpaca' or 'aya' [type=enum, input_value='phi_35_vl', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.10/v/enum\n", "VG553", None),
    "pydantic's warning": ("PydanticDeprecatedSince20: deprecated, see https://errors.pydantic.dev/2.10/migration/\n" + BAR + "\n{'train_runtime': 42.0}\n", "finished", None),
    "bmaltais/kohya_ss#3128 a page's words behind a launcher's failure": (
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\nsubprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n"
        "08:36:33-604009 INFO     Training has ended.\n", "unknown", None),
    "johnson7788 a coroutine that was cancelled at the end": (
        f"{BAR}\n{{'train_runtime': 42.0}}\n" + compose.traced("asyncio.exceptions.CancelledError", None), "finished", None),
    "amazingvince/nanoVLM a loader's own thread, and nothing after it": (
        "Using device: cuda\nException in thread Thread-3 (_producer):\n" + compose.traced("AttributeError: GemmaTokenizerFast has no attribute r1c5. Did you mean: 'r1c1'?", None, ("_producer", "__getitem__", "__getattr__")), "unknown", None),
    "TIGER-AI-Lab/VLM2Vec#66 a processor that this release lacks": (
        compose.traced("ValueError: Could not find module Qwen2VLImageProcessorFast in `transformers`. If this is a custom class, it should be registered", 1), "VG556", (1,)),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])
