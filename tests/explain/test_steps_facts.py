"""What a log states in passing decides the step that comes first: sizes, cards, drivers, precision."""

# ruff: noqa: E501
from __future__ import annotations

from dataclasses import replace

from tests.explain import compose
from vlmguard.explain import flags, refined
from vlmguard.explain.answer import Answer
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.logfacts import of_text
from vlmguard.explain.show import text

KNOWN = {known.code: known for known in load()}
OOM = "CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. 70 GiB is allocated by PyTorch, and {} GiB is reserved by PyTorch but unallocated."
CUT = "CUDA out of memory. Tried to allocate 34.83 GiB. GPU 0 has a total capacity of 44.55 GiB of which 22.25 GiB i"
SWIFT = "swift sft --model Qwen/Qwen2-VL-7B-Instruct --per_device_eval_batch_size {}\n"
FACTORY = "llamafactory-cli train x.yaml\n"
HUB = "We couldn't connect to 'https://huggingface.co' to load this file, and it looks like org/name is not the path to a directory"
WORLD = "The checkpoint being loaded used a DP world size of 8 but the current world size is 16."
SAVING = "Saving model checkpoint to out/r1/checkpoint-100\n"
BAD = "{'loss': 2.3361, 'grad_norm': nan, 'learning_rate': 2.3e-06}"
BAD_FORWARD = "{'loss': 5.071e+30, 'grad_norm': nan, 'learning_rate': 1.7e-07}"
LOST = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.6e-06}"
CPU_ADAM = "Adam Optimizer #0 is created with AVX512 arithmetic capability.\n"
OOM_KILL = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0 cgroup."
CARDLESS = "Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU"
ACTIVE = (
    "AssertionError: {'id': 0, 'status': 'AVAILABLE', 'ds_numel': 1, 'active_sub_modules': {292}}"
)
MISMATCH = "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE)"
LAUNCHED = 'File "/env/bin/accelerate", line 8, in <module>\n File "/env/deepspeed/runtime/zero/partition_parameters.py"\n'

# What the log says, class, message, trace, phase → the beginnings of the first steps.
ROWS = (
    (SWIFT.format(4), "VG512", OOM.format(2.3, 6.9), "in preprocess_logits_for_metrics", "evaluation", ("--per_device_eval_batch_size 1 --eval_accumulation_steps 1", "--prediction_loss_only true")),
    (SWIFT.format(1), "VG512", OOM.format(4.6, 6.2), "in pad_across_processes", "evaluation", ("--prediction_loss_only true", "--eval_accumulation_steps 1", "--eval_strategy no", "PYTORCH_CUDA_ALLOC_CONF")),
    (SWIFT.format(1), "VG512", OOM.format(4.6, 0.1), "in forward", "evaluation", ("--eval_accumulation_steps 1", "--prediction_loss_only true", "--eval_strategy no", "--max_pixels")),
    (FACTORY, "VG506", "ValueError: Image features and image tokens do not match: tokens: 0, features 777", "", "", ("cutoff_len: 4096", "python -c 'import json, re, sys")),
    ("x/swift/cli/sft.py\n", "VG506", "ValueError: Image features and image tokens do not match: tokens: 0, features 777", "", "", ("python -c 'import json, re, sys",)),
    (FACTORY + "model_name_or_path: /m/llama\n", "VG545", "Indexing.cu:1290: indexSelectLargeIndex: Assertion `srcIndex < srcSelectDimSize` failed.", "", "", ("python -c 'import sys; from transformers import AutoConfig as C", "resize_vocab: true")),
    (FACTORY, "VG512", OOM.format(2.3, 6.9), "", "evaluation", ("per_device_eval_batch_size: 1, eval_accumulation_steps: 1",)),
    (SWIFT.format(1), "VG512", OOM.format(2.0, 6.9), "", "forward", ("PYTORCH_CUDA_ALLOC_CONF",)),
    (SWIFT.format(1) + "--per_device_train_batch_size 4 --gradient_accumulation_steps 2\n", "VG512", OOM.format(5.0, 6.9), "", "forward", ("--per_device_train_batch_size 2", "PYTORCH_CUDA_ALLOC_CONF")),
    ("", "VG512", CUT, "", "", ("AutoProcessor.from_pretrained(…, max_pixels=602112) (ms-swift: MAX_PIXELS=602112 in front of the command", "max_length=4096")),
    (SWIFT.format(1), "VG512", CUT, "", "forward", ("--max_pixels 602112", "--max_length 4096")),
    (FACTORY + "model_name_or_path: meta-llama/Llama-3-8B\n", "VG512", CUT, "", "backward", ("cutoff_len: 1024",)),
    (FACTORY, "VG512", CUT, "in _flatten_dense_tensors", "forward", ("half of per_device",)),
    (FACTORY + "***** Running Evaluation *****\n  Num examples = 9\n  Batch size = 1\n", "VG512", OOM.format(4.6, 0.2), "in nested_concat", "evaluation", ("prediction_loss_only: true", "eval_accumulation_steps: 1")),
    ("x trl/trainer/grpo_trainer.py x\n", "VG512", OOM.format(46.4, 0.2), "trl/trainer/grpo_trainer.py in selective_log_softmax", "forward", ("half of --per_device_train_batch_size", "half of --max_completion_length", "--use_liger_kernel true")),
    (FACTORY + "per_device_train_batch_size: 1\n", "VG512", OOM.format(46.4, 0.2), "in cross_entropy", "forward", ("cutoff_len: 1024", "enable_liger_kernel: true")),
    ("", "VG529", "ValueError: bf16 mixed precision requires PyTorch >= 1.10 and a supported device. (V100)", "", "", ("accelerate launch --mixed_precision fp16 ",)),
    ("", "VG540", "ConnectionError: Couldn't reach 'org/rows' on the Hub (LocalEntryNotFoundError)", "", "", ("HF_HOME=/SHARED/hf hf download --repo-type dataset org/rows",)),
    ("", "VG550", "AssertionError: Number of checkpoint files 8 does not match current world size 4", "", "", ("torchrun --nproc_per_node 8 ",)),
    ("", "VG550", "AssertionError: checkpoint of another world size", "", "", ("as many ranks as the run that saved it had",)),
    ("", "VG550", "FileNotFoundError: [Errno 2] No such file or directory: '/c/actor/model_world_size_16_rank_0.pt'", "", "", ("ls /c/actor | grep -o",)),
    ("'timed out' thrown while requesting HEAD https://huggingface.co/org/name/resolve/main/config.json\n", "VG540", "LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub", "", "", ("HF_HOME=/SHARED/hf hf download org/name",)),
    ("['python', '-u', 'ft.py', '--model_name_or_path', 'org/name'] exits\n", "VG540", HUB, "", "", ("HF_HOME=/SHARED/hf hf download org/name", "curl", "hf download org/name --local-dir FOLDER, then --model_name_or_path FOLDER")),
    ("", "VG535", "SafetensorError: Error while serializing: I/O error: File too large (os error 27)", "", "", ("ulimit -f",)),
    ("config.py:1001:print]   bfloat16_enabled ............. True\n zero_optimization_stage ...... 2\n", "VG515", LOST, "", "", ('"overlap_comm": false', "from_pretrained(…, attn_impl")),
    ("config.py:1001:print]   bfloat16_config .............. enabled=True immediate\n", "VG515", LOST, "", "", ("from_pretrained(…, attn_impl",)),
    ("config.py:1001:print]   fp16_enabled ................. True\nfp16_enabled .... True\n", "VG515", LOST, "", "", ("bf16=True in",)),
    ("", "VG512", OOM.format(0.02, 0.4), 'File "/w/eval.py", line 12, in evaluate', "evaluation", ("with torch.no_grad(): round /w/eval.py:12", "an evaluation batch of 1", "keep the loss", "evaluate the checkpoints", "AutoProcessor")),
    (FACTORY + "--fp16 true\n", "VG515", BAD, LOST, "", ("bf16: true, fp16: false",)),
    ("", "VG532", "Reason:       OOMKilled", "", "", ("resources.limits.memory: 256Gi", "DataLoader")),
    ("", "VG540", "OSError: We couldn't connect to 'https://huggingface.co' to load the files", 'File "/w/t.py", line 5, in <module> tok = AutoTokenizer.from_pretrained("org/name")', "", ("HF_HOME=/SHARED/hf hf download org/name",)),
    ("", "VG537", "The NVIDIA driver on your system is too old (found version 11040).", "", "", ("python -m pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu118: the driver goes up to CUDA 11.4 (torchaudio, too, where it is installed); or update the driver to 525 or newer", "docker run")),
    ("", "VG537", "The NVIDIA driver on your system is too old (found version 10020).", "", "", ("update the driver to 525 or newer: CUDA 10.2",)),
    ("", "VG537", "The NVIDIA driver on your system is too old (found version 12040).", "", "", ("python -m pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu124",)),
    (FACTORY, "VG515", BAD, BAD, "", ("torch.autograd.set_detect_anomaly(True)", "flash_attn: sdpa")),
    (FACTORY + "--fp16 true\n", "VG515", BAD, BAD, "", ("bf16: true, fp16: false",)),
    (FACTORY, "VG515", BAD, LOST, "", ('"overlap_comm": false in DeepSpeed\'s config (the file behind deepspeed', "flash_attn: sdpa", "debug: underflow_overflow")),
    (FACTORY, "VG515", BAD_FORWARD, LOST, "", ("bf16: true", "flash_attn: sdpa", "the model's own checkpoint")),
    ("transformers/trainer.py\n", "VG515", BAD_FORWARD, LOST, "", ("print(trainer.model.cuda().float()",)),
    ("/e/swift/llm/base.py swift sft --sft_type lora\n", "VG553", "ValueError: remaining_argv: ['--sft_type', 'lora']", "", "", ("--train_type lora in place of --sft_type",)),
    ("/e/swift/pipelines/base.py swift sft --train_type lora\n", "VG553", "ValueError: remaining_argv: ['--train_type', 'lora']", "", "", ("--tuner_type lora in place of",)),
    ("[INFO:swift] args: SftArguments(lora_target_modules=['wqkv'])\n", "VG525", "Target modules {'wqkv'} not found in the base model.", "", "", ("--lora_target_modules ALL",)),
    ("[INFO:swift] x\n", "VG525", "Target modules {'wqkv'} not found in the base model.", "", "", ("--target_modules all-linear",)),
    ("run.sh: line 31: --bf16: command not found\n", "VG512", "CUDA out of memory.", "", "", ("sed -i '30s/[[:space:]\\\\]*$/ \\\\/' run.sh: line 30 lacks",)),
    ("run.sh: 31: --bf16: not found\n", "VG512", "CUDA out of memory.", "", "", ("sed -i '30s/",)),
    ("run.sh: line 31: --bf16: command not found\n", "VG537", "The NVIDIA driver on your system is too old (found version 12040).", "", "", ("python -m pip install",)),
    (FACTORY, "VG506", "Image features and image tokens do not match: tokens: 300, features 298", "", "", ("python -c 'import json, re, sys",)),
    (FACTORY, "VG515", LOST, LOST, "", ("bf16: true, fp16: false", "flash_attn: sdpa")),
    (FACTORY + "device: cuda:0, distributed training: True, compute dtype: torch.bfloat16\n", "VG515", LOST, LOST, "", ("flash_attn: sdpa", "debug: underflow_overflow")),
    (FACTORY + "compute dtype: torch.float16\n", "VG515", LOST, LOST, "", ("bf16: true, fp16: false",)),
    ("torchrun ft.py --deepspeed ds.json --fp16 True\nzero_optimization: {'stage': 3}\n", "VG515", LOST, "", "", ("--bf16 True --fp16 False", '"overlap_comm": false')),
    (CPU_ADAM, "VG532", OOM_KILL, "", "", ("#SBATCH --mem=0 in the job's script (all of the node's memory; where the node is shared, more than the ReqMem that sacct -j 77 ", '"offload_optimizer": {"device": "none"}', "DataLoader(num_workers=0), for a Trainer --dataloader_num_workers 0")),
    ("NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]\n", "VG536", "node2:31:33 [3] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 11.2.1.122<39138> with error 12, opcode 0, len 0, vendor err 129", "", "", ("NCCL_IB_GID_INDEX=3", "NCCL_IB_DISABLE=1 in front", "NCCL_IB_TIMEOUT=22", "ib_write_bw 11.2.1.122, on node2, while ib_write_bw runs on 11.2.1.122")),
    ("NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]\n", "VG536", "NET/IB: Got completion from peer 10.2.2.1<54862> with status=12 opcode=0 hca mlx5_1", "", "", ("NCCL_IB_HCA=^mlx5_1 in front of the same command", "NCCL_IB_DISABLE=1")),
    ("world size: 4\n", "VG512", "CUDA out of memory. Tried to allocate 112.00 MiB. GPU 2 has a total capacity of 79.33 GiB of which 58.81 MiB is free. Process 28 has 67.36 GiB memory in use. Including non-PyTorch memory, this process has 11.90 GiB memory in use. 11.31 GiB is allocated by PyTorch, and 21.50 MiB is reserved by PyTorch but unallocated.", "", "load", ("ps -o pid,user,etime,args -p 28: it holds this card too: end it (kill 28); another's: CUDA_VISIBLE_DEVICES=0,1,3 in front of the command, and 3 ranks",)),
    (FACTORY, "VG596", "EJ0001: 2024-05-21-11:57:54 Failed to initialize the HCCP process. Reason: Maybe the last training process is running.", "", "", ("npu-smi info; pgrep -u $USER -af '[p]ython'", "grep -rh ERROR")),
    (FACTORY, "VG596", "call aclnnCast failed, detail:EZ1001: 2025-07-01 self not implemented for DT_BFLOAT16, should be in dtype support list [DT_FLOAT16]", "", "load", ("fp16: true, bf16: false", "cp -rL MODEL MODEL-fp16; python -c", "npu-smi info: Name 910A")),
    ("", "VG536", "NCCL WARN NET/IB : Got completion from peer 11.2.1.122<39138> with error 4, opcode 0", "", "", ("NCCL_NET_GDR_LEVEL=LOC", "NCCL_IB_DISABLE=1")),
    ("accelerate launch sft.py --add_image_token\nindexSelectLargeIndex: block: [83,0,0]\n", "VG545", "CUDA error: device-side assert triggered", 'File "/w/sft.py", line 9, in main x /transformers/trainer.py', "forward", ("model.resize_token_embeddings(len(tokenizer)) in /w/sft.py, behind the line that adds tokens (--add_image_token)", "print(next(iter(trainer.get_train_dataloader()))[\"input_ids\"].max(), ", "CUDA_LAUNCH_BLOCKING=1 accelerate launch …")),
    ("srcIndex < srcSelectDimSize\n", "VG545", "CUDA error: device-side assert triggered", "", "forward", ("print(batch[", "model.resize")),
    ("Assertion `t >= 0 && t < n_classes` failed\n", "VG545", "CUDA error: device-side assert triggered", "", "forward", ("print(labels.min(), labels.max())", "CUDA_LAUNCH_BLOCKING=1")),
    (FACTORY + "cutoff_len: 1500\n", "VG506", "Image features and image tokens do not match: tokens: 1468, features 1936", "", "", ("cutoff_len: 4096", "image_max_pixels")),
    (FACTORY, "VG532", OOM_KILL, "", "", ("#SBATCH --mem=0", "dataloader_num_workers: 0")),
    ("accelerate launch x.py\n", "VG532", "Memory cgroup out of memory: Killed process 9", "", "", ("ask for more memory",)),
    (LAUNCHED, "VG523", ACTIVE, "in unwrap_model_for_generation", "forward", ("zero_stage: 2 in the YAML behind accelerate launch --config_file", "--ds3_gather_for_generation false")),
    ("deepspeed train.py --deepspeed z3.json\nzero_optimization: {'stage': 3}\n", "VG523", ACTIVE, "", "forward", ('"stage": 2 under "zero_optimization" in z3.json', "call the engine")),
    ("src/train.py --deepspeed scripts/zero3.json --bf16 True --fp16 False --disable_flash_attn2 False --tf32 True\nTesla P100-PCIE\n", "VG529", CARDLESS, "", "", ('--fp16 True --bf16 False --tf32 False --disable_flash_attn2 True, and in scripts/zero3.json: "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}' ,)),
    ("src/train.py --bf16 True\nTesla T4\n", "VG529", CARDLESS, "", "", ("--fp16 True --bf16 False",)),
    ("", "VG540", HUB, "", "", ("HF_HOME=/SHARED/hf hf download org/name where there is a network (a login node; huggingface-cli download before hub 0.34), then HF_HOME=/SHARED/hf HF_HUB_OFFLINE=1 in front of the same command", "curl", "hf download org/name --local-dir FOLDER", "HF_ENDPOINT=")),
    (FACTORY, "VG540", HUB, "", "", ("HF_HOME=/SHARED/hf hf download org/name", "curl", "hf download org/name --local-dir FOLDER, then model_name_or_path: FOLDER")),
    ("swift sft\n", "VG540", "ConnectionError: HTTPSConnectionPool(host='www.modelscope.cn', port=443): Max retries exceeded with url: https://modelscope.cn/api/v1/models/Qwen/Qwen2-VL-7B/revisions modelscope", "", "", ("MODELSCOPE_CACHE=/SHARED/ms modelscope download --model Qwen/Qwen2-VL-7B", "curl -sSI https://www.modelscope.cn")),
    ("", "VG540", "ConnectionError: Couldn't reach https://huggingface.co/datasets/org/rows/resolve/main/x.json", "", "", ("HF_HOME=/SHARED/hf hf download --repo-type dataset org/rows",)),
    ("", "VG543", "DataLoader worker (pid 42) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", "", "", ("docker run --shm-size=32g", "df -h /dev/shm", "DataLoader(num_workers=0), for a Trainer")),
    ("2020 | mmf.trainers.core.training_loop: Starting training\n", "VG543", "insufficient shared memory (shm)", "", "", ("docker run --shm-size=32g", "df -h", "training.num_workers=0 behind the command")),
    ('File "/e/site-packages/detectron2/engine/train_loop.py"\n', "VG543", "insufficient shared memory (shm)", "", "", ("docker run", "df -h", "DATALOADER.NUM_WORKERS 0")),
    ('Defaulted container "pytorch" out of: pytorch\n', "VG543", "insufficient shared memory (shm)", "", "", ("in the pod's YAML volumes: [{name: dshm, emptyDir: {medium: Memory}}]", "df -h /dev/shm")),
    ("torchrun --nproc_per_node=8 t.py --dataloader_num_workers 8 --bf16 True\n", "VG544", "RuntimeError: DataLoader worker (pid(s) 108439) exited unexpectedly", "", "", ("--dataloader_num_workers 2", "dmesg", "--dataloader_num_workers 0")),
    ("t.py --dataloader_num_workers 8\n", "VG544", "RuntimeError: DataLoader worker (pid(s) 108439) exited unexpectedly", "", "", ("--dataloader_num_workers 0",)),
    ("deepspeed x.py\n[W socket.cpp:401] [c10d] The server socket has failed to bind to 0.0.0.0:29600 (errno: 98 - Address already in use).\n", "VG542", "The server socket has failed to listen on any local network address.", "", "", ("ss -ltnp 'sport = :29600'", "deepspeed --master_port 29601 …")),
    ("a:1:2 [0] NCCL INFO NET/Socket : Using [0]bond0:192.168.1.161<0> [1]br-05ab:172.19.0.1<0> [2]veth61:fe80::1%veth61<0>\n", "VG536", "ncclSystemError: System call (socket, malloc, munmap, etc) failed.", "", "", ("NCCL_SOCKET_IFNAME=bond0 GLOO_SOCKET_IFNAME=bond0 in front",)),
    ("a:1:2 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0> [1]eth0:10.0.3.7<0> [2]cali04:fe80::1%cali04<0>\n", "VG536", "ncclSystemError: System call (socket, malloc, munmap, etc) failed.", "", "", ("NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0 in front",)),
    ("a:1:2 [0] NCCL INFO NET/Socket : Using [0]bond0:192.168.1.161<0> [1]eth0:10.0.0.1<0>\n", "VG536", "ncclSystemError: System call (socket, malloc, munmap, etc) failed.", "", "", ("NCCL_SOCKET_IFNAME=$(ip route",)),
    ("a:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.3<0>\n", "VG536", "NCCL WARN Call to ibv_modify_qp failed with error No such device", "", "", ("docker run --network=host --ipc=host --device /dev/infiniband", "NCCL_IB_GID_INDEX=3")),
    ("[real_accelerator.py:191:get_accelerator] Setting ds_accelerator to cuda (auto detect)\ntrain.py --bf16 True\n", "VG529", CARDLESS, "", "", ("--fp16 True --bf16 False",)),
    ("x --freeze_vit false\n", "VG505", MISMATCH, 'File "/w/t.py", line 9, in main File "/e/site-packages/transformers/trainer.py", line 4, in train', "", ("python -c $'import json, os, sys", "freeze the vision tower")),
    ("", "VG547", "not equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 8 * 1", "", "", ('"train_batch_size": "auto"', '"train_batch_size": 32')),
    ("world size: 2\n", "VG547", "not equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 8 * 1", "", "", ('deepspeed.init_distributed(dist_backend="nccl"), on a line before ', "grep -rn")),
    ("world size: 2\n", "VG547", "not equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 8 * 1", 'File "/w/llava/train/train.py", line 7, in train', "", ("deepspeed.init_distributed(dist_backend=\"nccl\"), on a line before /w/llava/train/train.py:7, its from_pretrained", "python -m pip install 'deepspeed==0.12.6'")),
    (FACTORY, "VG532", OOM_KILL, "", "load", ("#SBATCH --mem=0", "deepspeed: examples/deepspeed/ds_z3_config.json", "from_pretrained(…, torch_dtype")),
    ("train.py --deepspeed scripts/zero3_offload.json --bf16 True\n", "VG532", "exits with return code = -9", "", "", ("dmesg", "ask for", '"offload_optimizer": {"device": "none"}')),
    ("g-12 kernel: NVRM: Xid (PCI:0000:44:00): 79, pid=1\n", "VG534", "kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus.", "", "", ("ssh g-12 sudo reboot: its card at PCI 0000:44:00", "nvidia-smi")),
    ("slurmstepd: error: x\ng-12 kernel: NVRM: Xid (PCI:0000:44:00): 79, pid=1\n", "VG534", "kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus.", "", "", ("sbatch --exclude=g-12",)),
    ("accelerate launch x.py\n", "VG550", WORLD, "", "", ("accelerate launch --num_processes 8 … (the rest as it was): as many ranks as the run that saved it had, not 16", "from_pretrained('CHECKPOINT')", "python -m deepspeed.checkpoint.ds_to_universal --input_folder CHECKPOINT/global_stepN --output_folder CHECKPOINT/global_stepN_universal", "cd CHECKPOINT && python zero_to_fp32.py . OUT")),
    (FACTORY, "VG550", WORLD, "", "", ("NPROC_PER_NODE=8 ",)),
    (FACTORY + SAVING, "VG535", "IoError(Os { code: 28, kind: StorageFull })", "", "save", ("df -h out/r1 ", "ls -la out/r1/checkpoint-100; du -sh out/r1/checkpoint-*")),
    (FACTORY + SAVING, "VG535", "OSError: [Errno 28] No space left on device", "", "forward", ("df -h out/r1 ", "delete the newest checkpoint if")),
)  # fmt: skip


NO_SHARE = "ValueError: DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True` or with passing a `device_map`."
UPSERT = "wandb.errors.errors.CommError: failed to upsert bucket: returned error 403 Forbidden"
WANDB = "wandb: Currently logged in as: zhou-j to https://api.wandb.ai\nwandb: View run SFT at: https://wandb.ai/huggingface/open-r1/runs/oy\n"
LIMITED = "ValueError: You set {0}=1 (or defaulted to 1) in `--limit-mm-per-prompt`, but passed 3 {0} items in the same prompt."
KILLED = "[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9"
HOST = "[INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 141.07 GB, percent = {}%\n"
ADAM = "Adam Optimizer #0 is created with AVX512 arithmetic capability.\n"
INVALID = "ValueError: The generation config instance is invalid"
RERANKER = "torchrun -m FlagEmbedding.llm_reranker.finetune_for_instruction.run --use_lora True"
ROWS += (
    ("swift/cli/sft.py --sft_type lora --preprocess_num_proc 1\n", "VG517", "", "", "data", ("--preprocess_num_proc $(nproc)", "--lazy_tokenize true")),
    ("2024-10-02 09:41:57 [INFO:swift] x\nswift sft --preprocess_num_proc 1\n", "VG517", "", "", "data", ("--ddp_timeout 18000 --preprocess_num_proc $(nproc)",)),
    ("swift sft --sft_type lora\n", "VG517", "", "", "data", ("--preprocess_num_proc $(nproc)",)),
    ("swift sft --train_type lora\n", "VG517", "", "", "data", ("--dataset_num_proc $(nproc)",)),
    ("trl sft --model x\n", "VG517", "", "", "data", ("--ddp_timeout 18000 --dataset_num_proc",)),
    ("run.py --preprocess_num_workers 2 --bf16 True\n", "VG517", "", "", "data", ("--ddp_timeout 18000 --preprocess_num_workers $(nproc)",)),
    (ADAM + HOST.format(74.8) + "x.train_sft --zero_stage 2 --adam_offload --bf16\n[launch.py:1] dist_world_size=4\n", "VG532", KILLED, "", "load", ("--zero_stage 3 in place of --adam_offload", "#SBATCH --mem=0 (docker run --memory", "dmesg")),
    (ADAM + HOST.format(74.8) + "x.train_sft --zero_stage 3 --adam_offload --bf16\n", "VG532", KILLED, "", "load", ("the same command without --adam_offload",)),
    (ADAM + HOST.format(74.8) + "swift sft --deepspeed zero2_offload\n", "VG532", KILLED, "", "load", ("--deepspeed zero3",)),
    (ADAM + HOST.format(12.1), "VG532", KILLED, "", "load", ("dmesg",)),
    ("llamafactory/src/train.py --stage sft --use_unsloth true --do_train\n", "VG575", NO_SHARE, "", "load", ("--use_unsloth false",)),
    ("llamafactory-cli train x.yaml\n", "VG575", NO_SHARE, 'File "/e/site-packages/unsloth/models/loader.py", line 142, in from_pretrained', "load", ("use_unsloth: false",)),
    ("", "VG575", NO_SHARE, "", "load", ("take device_map",)),
    ("swift rlhf --rlhf_type grpo\nfeatures: Dataset({\n    features: ['messages', 'videos'],\n", "VG566", LIMITED.format("video"), "", "", ("""--vllm_limit_mm_per_prompt '{"image": 0, "video": 3}'""",)),
    ("swift rlhf --rlhf_type grpo\n", "VG566", LIMITED.format("image"), "", "", ("""--vllm_limit_mm_per_prompt '{"image": 3}'""",)),
    ("", "VG566", "ValueError: At most 1 image(s) may be provided in one prompt.", "", "", ("""LLM(…, limit_mm_per_prompt={"image": 10})""",)),
    (WANDB, "VG565", UPSERT, 'File "/w/open-r1/src/open_r1/sft.py", line 156, in main', "", ("--wandb_entity zhou-j --wandb_project open-r1",)),
    (WANDB, "VG565", UPSERT, "", "", ("WANDB_ENTITY=zhou-j WANDB_PROJECT=open-r1 in front of",)),
    ("llamafactory-cli train x.yaml\n", "VG592", INVALID, "", "save", ("python -c 'import json, sys; p = sys.argv[1]",)),
    ("llamafactory-cli train x.yaml --model_name_or_path meta-llama/Llama-2-7b-hf\n", "VG592", INVALID, "", "save", ("python -c 'import json, sys; p = sys.argv[1]",)),
    ("", "VG592", INVALID, "", "save", ("model.generation_config.do_sample = True",)),
    ("swift sft --sft_type lora\nfault kernel_name=FlashAttentionScoreGrad_3bdf1dd5d5a8ed8ae7d8ff0e2a6ce2f8_high_performance_200, program id=61\n", "VG596", "RuntimeError: NPU error, error code is 507015", "", "backward", ("--use_flash_attn false",)),
    ("swift sft --sft_type lora\nfault kernel_name=MatMulV2_3bdf1dd5d5a8ed8ae7d8ff0e2a6ce2f8, program id=61\n", "VG596", "RuntimeError: NPU error, error code is 507015", "", "backward", ("cat /usr/local/Ascend/ascend-toolkit/latest",)),
    (f"{RERANKER} --train_group_size 16 --passage_max_len 512\n", "VG512", OOM.format(6.1, 0.2), "", "backward", ("--train_group_size 8: 16 now", "--passage_max_len 256", "--gradient_checkpointing true")),
    (f"{RERANKER}\n/e/torch/utils/checkpoint.py:464: UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended\n", "VG512", OOM.format(6.1, 0.2), "", "backward", ("--train_group_size 4: 8 by default", "half of --passage_max_len")),
    (f"{RERANKER}\n", "VG512", OOM.format(6.1, 0.2), "in cross_entropy", "forward", ("--train_group_size 4",)),
    ("ERROR: This container was built for NVIDIA Driver Release 560.35 or later, but\n       version 525.147.05 was detected and compatibility mode is UNAVAILABLE.\n", "VG537", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination", "", "load", ("an older tag of this image in docker run: one whose greeting asks for no newer driver than 525.147.05",)),
)  # fmt: skip


def test_what_the_log_states_decides():
    for words, code, message, trace, phase, first in ROWS:
        facts = of_text([words]).at(message, trace, phase)
        said = [flags.say(do, facts) for do in KNOWN[code].remedies(facts)]
        for step, begins in zip(said, first, strict=False):
            assert step.startswith(begins), (words, code, said)


def test_a_link_that_worked_for_many_steps():
    facts = of_text([""]).at(LINK, "", "")
    said = [flags.say(do, facts) for do in KNOWN["VG536"].remedies(replace(facts, steps=(513, 900)))]
    assert said[0].startswith("ibstat mlx5_3; dmesg -T | grep -i mlx5_3 | tail; perfquery, on dgx-a08")
    assert "ib_write_bw -d mlx5_3 10.20.0.7, on dgx-a08" in " ".join(said)
    assert not any("RETRY_CNT=" in step for step in said)


LINK = "dgx-a08:81:93 [3] x.cc:16 NCCL WARN NET/IB: Got completion from peer 10.20.0.7<42718> with status=12 opcode=0 localGid fe80::1 hca mlx5_3"
ECC = "CUDA error: uncorrectable ECC error encountered"
CARDS = (
    ("", (1,), True, "nvidia-smi -i 1 -q -d ECC"),
    ("torchrun --nnodes 4 x.py\n", (1,), True, "nvidia-smi -q -d ECC"),
    ("torchrun --nnodes 2 --nproc_per_node 8 x.py\n", (11,), True, "nvidia-smi -i 3 -q -d ECC"),
    ("", (11,), True, "nvidia-smi -q -d ECC"),
    ("", (1,), False, "nvidia-smi -q -d ECC"),
    ("srun: error: gpu-7: task 0: Exited with exit code 1\n", (1,), True, "sbatch --exclude=gpu-7"),
)


def test_which_card_failed():
    """Its rank's number, where nothing tells of another machine."""
    for words, ranks, sure, first in CARDS:
        facts = of_text([words]).at(ECC, "", "")
        told = Answer("explained", KNOWN["VG534"], ranks=ranks, sure=sure, facts=facts)
        facts = refined.by_facts(told, load(), []).facts
        said = [flags.say(do, facts) for do in KNOWN["VG534"].remedies(facts)]
        assert said[0].startswith(first), (words, said)
        assert "start again" not in " ".join(said)


TABLE = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-12_09:14:14\n  host      : {}\n  rank      : {} (local_rank: {})\n  exitcode  : 1 (pid: 42)\n"
BROKEN = compose.traced("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", 7)
PACE = " 62%|██████▏   | 3242/5198 [{}, 13.07s/it]\n"
STALLED = "[E ProcessGroupNCCL.cpp:475] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1250, OpType=ALLREDUCE, NumelIn=2028, NumelOut=2028, Timeout(ms)=1800000) ran for 180051{} milliseconds before timing out.\n"
LIMIT = "slurmstepd: error: *** JOB 49 ON g-1 CANCELLED AT 2026-01-12T09:14:14 DUE TO TIME LIMIT ***\n"
STEPPED = "{'loss': 0.9, 'learning_rate': 9.3e-06, 'epoch': 0.6}\n" + PACE.format("1:00:00<2:00:00")
ENDED = "".join(f"W0708 01:47:25.316000 1946 site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process {n} closing signal SIGTERM\n" for n in (1, 2, 3))
ABORTED = TABLE.format("g1", 3, 3).replace(": 1 (pid", ": -6 (pid")
VERBS = "Call to ibv_reg_mr_iova2 failed with error Invalid argument"
PODS = """$ kubectl get pods
vlm-ft-worker-0          0/1     RunContainerError   4 (31s ago)   2m6s
$ kubectl describe pod vlm-ft-worker-0
Events:
  Normal   Pulled     117s                 kubelet            Successfully pulled image "reg.example/nccl-tests:latest" in 8.142s
  Warning  Failed     31s (x5 over 117s)   kubelet            Error: failed to create containerd task: OCI runtime create failed: runc create failed: unable to start container process: exec: "torchrun": executable file not found in $PATH: unknown
"""
# Logs by name → what the answer's text holds.
LOGS = (
    ({"a.log": STEPPED + PACE.format("11:48:54<7:05:48") + LIMIT}, "the same limit is enough: 7:05:48 were left"),
    ({"a.log": STEPPED + LIMIT}, "sbatch --time=3:00:00 of the job's script: 2:00:00 were left"),
    ({"a.log": STEPPED + "  62%|██████▏   | 3243/51"}, "- tail -n 3 -f a.log  # its last line is cut"),
    ({"a.log": "2026-01-12T12:00:00.12Z" + STEPPED + "2026-01-12T12:00:10.12Z  62%|██████▏   | 3243/51"}, "- kubectl logs -f --tail 3 POD  #"),
    ({"a.log": "swift sft --model Qwen/Qwen2-VL-7B-Instruct\nMap (num_proc=8):  37%|███       | 1041302/2814330 [37:01<63:11, 847.3 examples/s]\n"}, "  - --dataset_num_proc $(nproc)  # it prepares the data"),
    ({"slurm-77.out": STEPPED + "{'loss': 1.2088, 'grad_norm': 1.8, 'learning_ra"}, "- tail -n 3 -f slurm-77.out; squeue -j 77  #"),
    ({"n0.log": TABLE.format("g0", 2, 2), "n1.log": BROKEN + TABLE.format("g1", 7, 3)}, "done  # on g1 first"),
    ({"a.log": compose.traced(f"RuntimeError: {ECC}", 9) + TABLE.format("g1", 9, 1)}, "grep -vx 1 | paste -sd,) in front of the command"),
    ({"a.log": STALLED.format(0, 0) + STALLED.format(1, 1) + STALLED.format(3, 3) + TABLE.format("g1", 3, 3)}, "1. pip install py-spy; for p in $(pgrep -u $USER python); do grep -qzx RANK=2 "),
    ({"a.log": STALLED.format(0, 0) + STALLED.format(3, 3) + TABLE.format("g1", 11, 3)}, "OTHER_LOG"),
    ({"a.log": "gpu-18:38810:39401 [0] transport/net_ib.cc:86 NCCL WARN NET/IB : Got async event : port error\n" + compose.traced("torch.distributed.DistBackendError: NCCL error: NET/IB : Got completion from peer 10.141.0.18<4791> with error 12, opcode 0, len 0, vendor err 129", 1)}, "1. sbatch --exclude=gpu-18 with the same script"),
    ({"a.log": "slurmstepd: error: *** JOB 7712403 ON gpu8 CANCELLED AT 2025-11-04T03:17:42 DUE TO PREEMPTION ***\n"}, "1. squeue -j 7712403"),
    ({"a.log": "".join(f"gpu-6:21460:21733 [{n}] misc/socket.cc:510 NCCL WARN socketPollConnect: Connect to 10.12.0.7<5142{n}> returned 113(No route to host)\n" for n in (0, 1)) + compose.traced("torch.distributed.DistBackendError: NCCL error: unhandled system error\nLast error:\nsocketPollConnect: Connect to 10.12.0.7<51423> returned 113(No route to host) errno 115(Operation now in progress)", 0)}, "1. ping -c 2 10.12.0.7; sudo firewall-cmd --list-all"),
    ({"a.log": "swift sft --sft_type lora\n" + compose.traced("RuntimeError: Expected to mark a variable ready only once.", 0)}, "1. --gradient_checkpointing false"),
    ({"a.log": compose.traced("RuntimeError: Error building extension 'cpu_adam'", 0).replace("transformers/trainer.py", "colossalai/nn/optimizer/hybrid_adam.py")}, "1. grep -n -m5 -E 'error:|fatal error|not found' a.log"),
    ({"a.log": "LLM_type: llama_3_1, version: llama_3_1\nWARNING: tokenization mismatch: 276 vs. 272. (ignored)\n" + "".join(f"WARNING: tokenization mismatch: {n}6 vs. {n}2. (ignored)\n{{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 1.2e-07, 'epoch': 0.0}}\n" for n in range(20, 32))}, "1. git pull  # in the project's folder"),
    ({"a.log": PODS}, "1. docker run --rm --entrypoint sh reg.example/nccl-tests:latest -c 'command -v torchrun python'"),
    ({"a.log": STALLED.format(3, 3) + ENDED + ABORTED}, "py-spy dump --pid $p; done  # at the next stall, before the time-out: the one that is elsewhere"),
    ({"a.log": STALLED.format(3, 3) + ENDED + ABORTED.replace("-6", "-9")}, "dmesg -T | grep -i -E 'killed process|oom|xid'"),
    ({"a.log": f"[node1] misc/ibvwrap.cc:182 NCCL WARN {VERBS}\n" + compose.traced("RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)", 8)}, "1. NCCL_NET_GDR_LEVEL=LOC in front"),
    ({"a.log": "".join(f"Epoch 0:   0%|          | {n}/2413 [00:27<2:24:12,  3.60s/it, loss={loss}]\n" for n, loss in enumerate((2.9, 3.1, 2.7, 3.5, 8.1, *["nan"] * 12), 1))}, "1. a tenth of the learning rate"),
    ({"a.log": "".join(f"Epoch 0:   0%|          | {n}/2413 [00:27<2:24:12,  3.60s/it, loss={loss}]\n" for n, loss in enumerate((2.9, 2.8, 2.7, 2.5, 2.4, *["nan"] * 12), 1))}, "1. bf16=True"),
    ({"a.log": "10.0.0.7: Loading checkpoint shards:  20%|██        | 3/15 [00:36<02:07, 12.31s/it]\n10.0.0.7: [2026-01-12 10:25:19,873] [ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=7'] exits with return code = -9\n"}, "| tail  # on 10.0.0.7: "),
)  # fmt: skip


def test_where_and_how_far_a_run_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for logs, said in LOGS:
        for name, words in logs.items():
            (tmp_path / name).write_text(words, encoding="utf-8")
        told = text(*explain(list(logs)))
        assert said in told, told
