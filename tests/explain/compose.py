"""Logs put together from what frameworks, launchers and kernels print: failing ones and healthy ones.

Failures that no CPU can cause take their text from the source that prints it (`told.py`); round it
stands what a real run prints: arguments, progress bars, warnings, the other ranks' tracebacks, the
launcher's last words. Everything is drawn from a seed.
"""

# ruff: noqa: E501
from __future__ import annotations

import random

PREAMBLES = {
    "ms-swift": """run sh: `/usr/bin/python3 -m torch.distributed.run --nproc_per_node {world} /env/swift/cli/sft.py --model Qwen/Qwen2.5-VL-7B-Instruct --tuner_type lora --deepspeed zero2`
[INFO:swift] Successfully registered `/env/swift/dataset/data/dataset_info.json`.
[INFO:swift] rank: 0, local_rank: 0, world_size: {world}, local_world_size: {world}
[INFO:swift] Setting args.lazy_tokenize: True
[INFO:swift] args: SftArguments(output_dir='/out/v0', per_device_train_batch_size={micro}, gradient_accumulation_steps={accumulation}, gradient_checkpointing=True, freeze_vit=True, max_length=4096)
""",
    "LLaMA-Factory": """[INFO|2026-01-12 08:00:01] llamafactory.cli:143 >> Initializing {world} distributed tasks at: 127.0.0.1:29500
[INFO|2026-01-12 08:00:09] llamafactory.hparams.parser:401 >> Process rank: 0, world size: {world}, device: cuda:0, distributed training: True, compute dtype: torch.bfloat16
[INFO|2026-01-12 08:00:11] llamafactory.data.loader:143 >> Loading dataset mllm_demo.json...
per_device_train_batch_size: {micro}
gradient_accumulation_steps: {accumulation}
""",
    "TRL": """`torch_dtype` is deprecated! Use `dtype` instead!
launching: accelerate launch --num_processes {world} /env/trl/scripts/sft.py --per_device_train_batch_size {micro} --gradient_accumulation_steps {accumulation} --use_peft
Applying formatting function to train dataset: 100%|██████████| 1200/1200 [00:01<00:00, 900.1 examples/s]
""",
    "FlagEmbedding": """W0112 08:00:01.120 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
01/12/2026 08:00:05 - INFO - FlagEmbedding.abc.finetune.reranker.AbsRunner -   Training/evaluation parameters AbsRerankerTrainingArguments(per_device_train_batch_size={micro}, gradient_accumulation_steps={accumulation}, world_size={world})
""",
    "transformers": """[2026-01-12 08:00:01,120] [INFO] [real_accelerator.py:260:get_accelerator] Setting ds_accelerator to cuda (auto detect)
[2026-01-12 08:00:05,551] [INFO] [comm.py:821:init_distributed] cdb=None
[2026-01-12 08:00:19,120] [INFO] [config.py:1007:print]   zero_optimization_stage ...... 2
***** Running training *****
  Num examples = 12,000
  Instantaneous batch size per device = {micro}
  Gradient Accumulation steps = {accumulation}
""",
}

WARNINGS = (
    "/env/torch/utils/checkpoint.py:85: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n  warnings.warn(\n",
    "Invalidate trace cache @ step 12 and module 871: cache has only 871 modules\n",
    "[rank3]:[W112 08:01:14.123 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 3]  using GPU 3 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.\n",
    "[W112 08:01:14.123 reducer.cpp:1400] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass.\n",
    "WARNING:huggingface_hub.utils._http:'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), '(Request ID: x)')' thrown while requesting HEAD https://huggingface.co/x/resolve/main/config.json\nRetrying in 1s [Retry 1/5].\n",
    "Traceback (most recent call last):\n  File \"/env/apex/__init__.py\", line 3, in <module>\n    import amp_C\nModuleNotFoundError: No module named 'amp_C'\nfalling back to torch's fused kernels\n",
    "[2026-01-12 08:02:14,123] [WARNING] [stage3.py:2148:step] 2 pytorch allocator cache flushes since last step. this happens when there is high memory pressure\n",
    "[2026-01-12 08:02:14,123] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n",
    "wandb: WARNING Network error (ConnectionError), entering retry loop.\n",
    "wandb: ERROR Error while calling W&B API: context deadline exceeded; will retry\n",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (5213 > 4096). Running this sequence through the model will result in indexing errors\n",
    "[WARNING:swift] Error occurred in lazy tokenize: Current length of row(5213) is larger than the max_length(4096).\n",
    "[WARNING:swift] Traceback (most recent call last):\n  File \"/env/swift/dataset/utils.py\", line 92, in __getitem__\n    return self.encode_func(data)\nswift.template.base.MaxLengthError: Current length of row(5213) is larger than the max_length(4096).\n\n[WARNING:swift] There are errors in the dataset, another row is taken\n",
    "gpu-node-17:12345:12399 [3] NCCL INFO NET/IB : No device found.\ngpu-node-17:12345:12399 [3] NCCL INFO Could not find: nvmlDeviceGetGpuFabricInfoV. Ignoring it; error 0\n",
    "gpu-node-17:12345:12399 [3] transport/net_ib.cc:210 NCCL WARN NET/IB : mlx5_0:1 Got async event : GID table change\n",
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f0a>\nTraceback (most recent call last):\n  File \"/env/torch/utils/data/dataloader.py\", line 1604, in __del__\n    self._shutdown_workers()\nAssertionError: can only test a child process\n",
    "/env/torch/distributed/distributed_c10d.py:4807: UserWarning: No device id is provided via `init_process_group` or `barrier `. Using the current device set by the user.\n  warnings.warn(  # warn only once\n",
    "Could not estimate the number of tokens of the input, floating-point operations will not be computed\n",
    "Some weights of Qwen2VLForSequenceClassification were not initialized from the model checkpoint at /models/x and are newly initialized: ['score.weight']\n",
    "torch.OutOfMemoryError was caught: batch size 8 is too large, trying 4\n",
    "Skip row 17: OSError: image file is truncated (41 bytes not processed)\n",
    "[rank0]:[W112 09:01:14.123 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=95, addr=[localhost]:52346, remote=[localhost]:29500): Connection reset by peer\nException raised from recvBytes at /pytorch/torch/csrc/distributed/c10d/Utils.hpp:675 (most recent call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7f in libc10.so)\n",
    "[rank0]:[W112 09:01:14.123 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.\n",
    "DeepSpeed: Loading extension module cpu_adam... ninja: no work to do.\n",
    "WARNING 01-12 08:01:14 [cuda.py:81] Detected different devices in the system. Please make sure to set CUDA_DEVICE_ORDER=PCI_BUS_ID to avoid unexpected behavior.\n",
    "[INFO:swift] The last checkpoint was interrupted by SIGTERM (DUE TO TIME LIMIT), resuming from /out/checkpoint-100\n",
    "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.\n",
    "Setting `WANDB_LOG_MODEL` failed: Permission denied: no artifact is uploaded\n",
    "UserWarning: 1Torch was not compiled with flash attention. (Triggered internally at sdp_utils.cpp:455.)\n",
    "FutureWarning: You are using `torch.load` with `weights_only=False` (the current default value), which uses the default pickle module implicitly.\n",
    "[W112 08:01:14.123 socket.cpp:697] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol).\n",
    "[W112 08:01:14.123 socket.cpp:755] [c10d] The IPv6 network addresses of (gpu-node-17, 29500) cannot be retrieved (gai error: -2 - Name or service not known).\n",
    "WARNING 01-12 08:02:14 [scheduler.py:1515] Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space.\n",
    "gpu-node-17:12345:12399 [3] misc/socket.cc:484 NCCL WARN Call to connect returned Connection refused, retrying (1/20)\n",
    "gpu-node-17:12345:12399 [3] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n",
    "Flash Attention 2 is not available: No module named 'flash_attn'; sdpa is used\n",
    "Unsloth: vLLM is not installed: slow generation is used\n",
    "[INFO:swift] Setting ddp_timeout: 18000000; a rank whose client socket times out is retried\n",
    "[WARNING:swift] max_pixels: an image of 3 x 900 is narrower than 28: it is enlarged\n",
    "Failed to resume the dataloader's state: rows are skipped instead\n",
    "[2026-01-12 08:02:14,123] [WARNING] [stage3.py:150:_check] parameter 'ds_id' 12 status NOT_AVAILABLE, fetched again\n",
)

TEARDOWN = (
    "W0112 09:14:14.123 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4243 closing signal SIGTERM\n"
    "E0112 09:14:15.000 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: {rank} (pid: 4242) of binary: /usr/bin/python3\n"
    "Traceback (most recent call last):\n"
    '  File "/env/torch/distributed/run.py", line 918, in main\n    run(args)\n'
    '  File "/env/torch/distributed/launcher/api.py", line 269, in launch_agent\n    raise ChildFailedError(\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\ntrain.py FAILED\n"
    "------------------------------------------------------------\nFailures:\n{others}"
    "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-01-12_09:14:14\n  host      : gpu-node-17\n  rank      : {rank} (local_rank: {rank})\n"
    "  exitcode  : {code} (pid: 4242)\n  error_file: <N/A>\n  traceback : {said}\n"
    "============================================================\n"
)
OTHER = (
    "[{n}]:\n  time      : 2026-01-12_09:14:15\n  host      : gpu-node-17\n  rank      : {rank} (local_rank: {rank})\n"
    "  exitcode  : -15 (pid: 4300)\n  error_file: <N/A>\n  traceback : Signal 15 (SIGTERM) received by PID 4300\n"
)
DEEPSPEED = (
    "[2026-01-12 09:14:14,879] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4242\n"
    "[2026-01-12 09:14:14,885] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4243\n"
    "[2026-01-12 09:14:15,885] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1', '--deepspeed', 'ds.json'] exits with return code = {code}\n"
)
DONE = {
    "ms-swift": "{{'train_runtime': 3601.2, 'train_samples_per_second': 1.2, 'train_loss': 0.51, 'epoch': 1.0}}\n[INFO:swift] last_model_checkpoint: /out/v0/checkpoint-{steps}\n[INFO:swift] End time of running main: 2026-01-12 09:00:00\n",
    "LLaMA-Factory": "***** train metrics *****\n  epoch                    =        1.0\n  train_loss               =     0.5123\n  train_runtime            = 1:00:01.20\n",
    "transformers": "{{'train_runtime': 3601.2, 'train_samples_per_second': 1.2, 'train_loss': 0.51, 'epoch': 1.0}}\n[2026-01-12 09:14:14,885] [INFO] [launch.py:350:main] Process 4242 exits successfully.\n",
    "TRL": "{{'train_runtime': 3601.2, 'train_samples_per_second': 1.2, 'train_loss': 0.51, 'epoch': 1.0}}\n",
    "FlagEmbedding": "{{'train_runtime': 3601.2, 'train_samples_per_second': 1.2, 'train_loss': 0.51, 'epoch': 1.0}}\n",
}


def steps(draw: random.Random, total: int, until: int, noise: list[str]) -> str:
    """Progress bars and losses up to a step, with warnings in between."""
    lines = []
    for k in range(1, until + 1):
        bar = f"\r {100 * k // total:3d}%|{'█' * (10 * k // total):10}| {k}/{total} [00:{k % 60:02d}<01:00,  1.20s/it]"
        loss = f"\n{{'loss': {draw.random():.4f}, 'grad_norm': {draw.random():.4f}, 'learning_rate': 1e-05, 'epoch': {k / total:.2f}}}\n"
        lines.append(bar + (loss if k % 5 == 0 else ""))
    for warning in noise:
        lines.insert(draw.randrange(len(lines) + 1), "\n" + warning)
    return "".join(lines) + "\n"


def preamble(framework: str, world: int, micro: int = 4, accumulation: int = 2) -> str:
    return PREAMBLES[framework].format(world=world, micro=micro, accumulation=accumulation)


def healthy(seed: int) -> str:
    """A run that ends well, with frightening lines."""
    draw = random.Random(seed)
    framework = draw.choice(sorted(PREAMBLES))
    total = draw.randrange(20, 120)
    noise = draw.sample(WARNINGS, 6)
    end = DONE[framework].format(steps=total)
    after = draw.choice(["", *[w for w in WARNINGS if "TCPStore" in w or "destroy" in w or "__del__" in w]])
    return preamble(framework, draw.choice([1, 2, 8])) + steps(draw, total, total, noise) + end + after


def traced(error: str, rank: int | None, frames: tuple[str, ...] = ()) -> str:
    """A traceback as a rank prints it."""
    head = ["Traceback (most recent call last):", '  File "/job/train.py", line 42, in <module>', "    main()"]
    for number, name in enumerate(frames or ("train", "training_step", "_call_impl")):
        head += [f'  File "/env/lib/python3/site-packages/transformers/trainer.py", line {1200 + number}, in {name}', "    return call(*args, **kwargs)"]
    mark = f"[rank{rank}]: " if rank is not None else ""
    return "".join(f"{mark}{line}\n" for line in [*head, *error.split("\n")])


def failing(seed: int, error: str, rank: int = 1, world: int = 2, launcher: str = "torchrun", marked: bool = True, framework: str = "ms-swift", code: int = 1, line: bool = False) -> str:
    """A run that fails on ``rank``; other ranks lose their connection afterwards."""
    draw = random.Random(seed)
    total = draw.randrange(50, 200)
    start = preamble(framework, world) + steps(draw, total, draw.randrange(2, 40), draw.sample(WARNINGS[:20], 3))
    said = error + "\n" if line else traced(error, rank if marked else None)
    peers = "" if line else "".join(
        traced("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4242", other if marked else None)
        for other in range(world) if other != rank
    )
    others = "".join(OTHER.format(n=n + 1, rank=r) for n, r in enumerate(r for r in range(world) if r != rank))
    words = {-9: "Signal 9 (SIGKILL) received by PID 4242", -11: "Signal 11 (SIGSEGV) received by PID 4242"}.get(code, "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html")
    end = {"torchrun": TEARDOWN.format(code=code, rank=rank, others=others, said=words), "deepspeed": DEEPSPEED.format(code=code), "none": ""}[launcher]
    return start + said + peers + end
