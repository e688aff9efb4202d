"""Whole logs of machines, memory and losses → the beginning of the first thing to type."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from vlmguard.explain.command import explain
from vlmguard.explain.show import text

LIB = "/env/lib/python3.10/site-packages/"
OWN = 'File "/app/train.py", line 88, in main\n    trainer.train()\n'


def log(said, *frames, first=OWN):
    inner = "".join(
        f'  File "{path if path[0] == "/" else LIB + path}", line 7, in {name}\n    {code}\n'
        for path, name, code in frames
    )
    return f"Traceback (most recent call last):\n  {first}{inner}{said}\n"


def step(number, loss, norm):
    return f"{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 5e-05, 'epoch': 0.0{number}, 'global_step/max_steps': '{number * 5}/400'}}\n"


FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.66 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.06 GiB is free."
CHUNK = ("huggingface_hub/file_download.py", "http_get", "temp_file.write(chunk)")
LOADED = "Loading checkpoint shards: 100%|██████████| 8/8 [00:31<00:00,  3.93s/it]\n"
KILLED = "E1118 10:14:55.202000 139 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 0 (pid: 3020) of binary: /usr/bin/python3.10\n"
BRIDGE = "accelerate launch --machine_rank {} train.py\nn1:22:22 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\nn1:22:22 [0] NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1<0> [1]eno1:10.0.3.11<0>\nNCCL version 2.10.3+cuda11.3\n"
CALLBACK = "03/12/2024 11:24:33 - INFO - llmtuner.extras.callbacks - {{'loss': {0}, 'learning_rate': 4.9999e-02, 'epoch': 0.01}}\n{{'loss': {0}, 'grad_norm': nan, 'learning_rate': 0.04999, 'epoch': 0.01}}\n"
AWAY = "urllib3.exceptions.ConnectTimeoutError: (<urllib3.connection.HTTPSConnection object at 0x7f>, 'Connection to huggingface.co timed out. (connect timeout=10)')\n"
UNHANDLED = "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:825, unhandled system error, NCCL version 2.7.8\nncclSystemError: System call (socket, malloc, munmap, etc) failed."
WRAPPED = ("torch/nn/parallel/distributed.py", "__init__", "dist._verify_model_across_ranks(self.process_group, parameters)")
WAITS = "[E ProcessGroupNCCL.cpp:828] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=18364, OpType={1}, Timeout(ms)=4800000) ran for 4804648 milliseconds before timing out.\n"
HUB = "huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local cache."

ROWS = {
    "an evaluation of one's own": (log(FULL, ("/app/tasks/base.py", "valid_step", "output = model(samples)"), ("/app/vit.py", "forward", "x = self.act(x)")), "with torch.no_grad(): round /app/tasks/base.py:7"),
    "a download that is named generate": ("accelerate launch t.py\n" + log("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='cdn-lfs.huggingface.co', port=443): Read timed out.", CHUNK, ("requests/models.py", "generate", "raise ConnectionError(e)")), "HF_HUB_DOWNLOAD_TIMEOUT=60"),
    "8 bits, saved": (log(FULL, ("bitsandbytes/nn/modules.py", "_save_to_state_dict", "x"), ("bitsandbytes/autograd/_functions.py", "undo_layout", "x")), "python -m pip install bitsandbytes==0.39.1"),
    "a callback between losses of nan": ("train_bash.py --stage sft\n" + CALLBACK.format("2.93") + CALLBACK.format("0.0000") * 3, "--learning_rate"),
    "the hub cannot be reached, it says": (AWAY + log(HUB), "HF_ENDPOINT=https://hf-mirror.com"),
    "the hub, and nobody says why": (log(HUB), "curl -sSI https://huggingface.co"),
    "a bridge that no node reaches": (BRIDGE.format(0), "NCCL_SOCKET_IFNAME=eno1 GLOO_SOCKET_IFNAME=eno1"),
    "a bridge on one machine": (BRIDGE.replace("--machine_rank {} ", ""), "tail -n 2"),
    "each node meets itself": ("torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=127.0.0.1:29500 t.py\n  rdzv_configs     : {'timeout': 900}\n", "--rdzv_endpoint $(scontrol show hostnames"),
    "a cache on a full disk": (log("OSError: [Errno 28] No space left on device", CHUNK), "HF_HOME=/LARGER/huggingface in front of the same command"),
    "ModelScope's, too": ("swift sft --model Qwen/Qwen2-VL-7B-Instruct\n[INFO:swift] x\n" + log("OSError: [Errno 28] No space left on device", ("datasets/arrow_writer.py", "write_table", "x")), "MODELSCOPE_CACHE=/LARGER/modelscope HF_HOME="),
    "a checkpoint on a full disk": (log("OSError: [Errno 28] No space left on device", ("transformers/trainer.py", "_save_checkpoint", "x")), "df -h"),
    "a driver that was updated": ("Failed to initialize NVML: Driver/library version mismatch\n" + log("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW"), "sudo reboot"),
    "the same, in docker's words": ("docker: Error response from daemon: failed to create task for container: OCI runtime create failed: runc create failed: error running hook #0: exit status 1\nnvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.\n", "sudo reboot"),
    "vLLM's cache beside a training": ("trl grpo --x\n" + log(FULL, ("trl/trainer/grpo_trainer.py", "__init__", "self.llm = LLM("), ("vllm/worker/cache_engine.py", "_allocate_kv_cache", "x")), "--vllm_gpu_memory_utilization 0.4"),
    "vLLM wakes up": ("python ppo.py --vllm_gpu_memory_utilization 0.6\n" + log("RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62", ("vllm/device_allocator/cumem.py", "wake_up", "create_and_map(handle)")), "--vllm_gpu_memory_utilization 0.4"),
    "a build that was broken off": ("torchrun t.py\n" + "Using /home/s/.cache/torch_extensions/py310_cu118 as PyTorch extensions root...\n" * 4, "pgrep -u $USER -af 'nvcc|ninja' || find /home/s/.cache/torch_extensions/py310_cu118 -name lock"),
    "NCCL on one machine": ("dist_url: tcp://127.0.0.1:23456, world_size: 4\n" + log(UNHANDLED, WRAPPED), "df -h /dev/shm"),
    "NCCL between machines": ("dist_url: tcp://10.0.0.1:23456, world_size: 4\n" + log(UNHANDLED, WRAPPED), "NCCL_SOCKET_IFNAME="),
    "Lightning without srun": ("#SBATCH --nodes=2\nInitializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8\nhpc-25-14:18569:18835 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in\n", "srun python SCRIPT.py"),
    "two nodes of one rank": ("n:18569:18835 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in\n", "echo $(hostname) RANK=$RANK"),
    "a group that is made twice": (log("ValueError: trying to initialize the default process group twice!"), "grep -rn init_process_group"),
    "an endpoint without a port": (log("ValueError: The port number of the rendezvous endpoint '10.0.0.1:' must be an integer between 0 and 65536."), 'echo "$MASTER_ADDR:$MASTER_PORT"'),
    "Slurm names the limit": ("slurmstepd: error: Step 1141810.0 exceeded memory limit (52917772 > 20971520), being killed\nsrun: error: falkor7: task 0: Killed\n", "#SBATCH --mem=0"),
    "a launch that failed": (log("RuntimeError: CUDA error: unspecified launch failure"), "dmesg -T | grep -i xid"),
    "a save under the main process alone": ("accelerate launch t.py\nepoch 0 step 99 loss 2.31\nINFO:accelerate.accelerator:Saving current state to ./out/state_100\n" + "".join(WAITS.format(rank, kind) for rank, kind in enumerate(("_ALLGATHER_BASE", "ALLGATHER", "ALLGATHER"))), "grep -nE 'is_main_process"),
    "it says an exabyte": (log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.", ("torch/distributed/fsdp/_optim_utils.py", "_optim_state_dict", "x"), ("torch/distributed/distributed_c10d.py", "all_gather_object", "input_tensor.resize_(max_object_size)")), "grep -nE 'is_main_process"),
    "adapters on the first card": (log(FULL, ("peft/peft_model.py", "load_adapter", "adapters_weights = load_peft_weights(model_id, device=torch_device)"), ("peft/utils/save_and_load.py", "load_peft_weights", "x")), 'PeftModel.from_pretrained(…, torch_device="cpu")'),
    "a checkpoint onto the card that it is of": (log(FULL, ("torch/serialization.py", "load", "return _load(opened_zipfile,"), ("torch/serialization.py", "_cuda_deserialize", "return obj.cuda(device)")), 'torch.load(…, map_location="cpu")'),
    "a pod that finds no node": ("  Warning  FailedScheduling  42m   default-scheduler  0/6 nodes are available: 4 Insufficient nvidia.com/gpu.\n", "kubectl describe nodes"),
    "a taint": ("  Warning  FailedScheduling  42m   default-scheduler  0/6 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}, 4 Insufficient nvidia.com/gpu.\n", "tolerations: ["),
    "it rose before it was none": ("torchrun t.py --bf16 True\nx transformers/trainer.py\n" + "".join(step(n, loss, norm) for n, (loss, norm) in enumerate(((0.9, 2.0), (0.8, 2.0), (4.1, 98.0), (9.8, 412.0), ("nan", "nan"), ("nan", "nan"), ("nan", "nan")))), "--learning_rate 5.0e-06 --max_grad_norm 1.0"),
    "ModelScope's download": (log("requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))", ("modelscope/hub/file_download.py", "download_part_with_retry", "raise e")), "the same command again"),
    "nothing learns": ("swift sft --tuner_type lora\n[INFO:swift] x\n" + "".join(step(n, f"1.8{n}", "0.0") for n in range(1, 8)), "--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"),
    "it learns, and its gradients are not told": ("swift sft --tuner_type lora\n[INFO:swift] x\n" + "".join(step(n, f"1.{9 - n}", "0.0") for n in range(1, 8)), "tail -n 2"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_the_first_thing_to_type(row, tmp_path):
    said, begins = ROWS[row]
    (tmp_path / "train.log").write_text(said)
    answer = text(*explain([str(tmp_path / "train.log")]))
    steps = [line.strip() for line in answer.split("\n") if line.startswith(("  1. ", "  - "))]
    assert steps[0].removeprefix("1. ").removeprefix("- ").startswith(begins), answer


def test_memory_of_the_host_is_not_of_the_weights_any_more(tmp_path):
    train = tmp_path / "train.log"
    for words, asked in (("", False), ("Time to load cpu_adam op: 60.9 seconds\n", True)):
        train.write_text(
            f"llamafactory-cli train x.yaml\n[INFO|2024-11-18 10:11:12] llamafactory.hparams.parser:355 >> Process rank: 0\ndeepspeed: ds_z3.json\n{LOADED}{words}{KILLED}"
        )
        answer = text(*explain([str(train)]))
        assert answer.startswith("VG532"), answer
        assert ("ds_z3_config.json" in answer) is asked, answer
