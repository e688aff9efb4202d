"""What stands some lines above a failure comes into its first step: files, locks, models, drivers."""

# ruff: noqa: E501
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from vlmguard.explain import flags, parted
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import of_text
from vlmguard.explain.show import text

KNOWN = {known.code: known for known in load()}
MINE = 'File "/w/sft.py", line 7, in <module> trainer.train() '
REWARD = 'File "/e/site-packages/trl/trainer/grpo_trainer.py", line 9, in _calculate_rewards File "/w/sft.py", line 71, in iou File "/w/sft.py", line 44, in box'
LORA = "size mismatch for base_model.model.model.layers.0.q_proj.lora_{}.default.weight: copying a param with shape torch.Size([{}, {}]) from checkpoint, the shape in current model is torch.Size([{}, {}])."
CONFIG = "loading configuration file {}/config.json\n"
HUB = CONFIG.format("/home/u/.cache/huggingface/hub/models--Qwen--Qwen2-VL-7B-Instruct/snapshots/0a1b2c")
FACTORY = "llamafactory-cli train x.yaml\n"
HALF = "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.BFloat16Tensor) should be the same"
PREFIX = "There were missing keys in the checkpoint model loaded: model.visual.a.weight, and unexpected keys in the checkpoint: visual.a.weight"
STEP = "RuntimeError: The size of tensor a (61) must match the size of tensor b (62) at non-singleton dimension 2"
WRAP = "Exception: Could not find the transformer layer class to wrap in the model."
IMAGES = "ValueError: The number of images does not match the number of <image> tokens"
OWN = 'File "/w/open_r1/trainer/grpo_trainer.py", line 37, in compute_loss'

OWN_CARD = "CUDA out of memory. Tried to allocate 172.00 MiB (GPU 2; 23.69 GiB total capacity; 22.41 GiB already allocated; 93.56 MiB free; 22.43 GiB reserved in total by PyTorch)"
FATAL = """Fatal Python error: Segmentation fault

Thread 0x00007f1d2c7fe700 (most recent call first):
  File "/env/lib/python3.10/threading.py", line 324 in wait

Current thread 0x00007f1e5c3b0740 (most recent call first):
  File "/env/lib/python3.10/site-packages/{}/reader.py", line 176 in get
  File "/w/data.py", line 88 in load_video
"""
EXTENSIONS = "Using /home/u/.cache/torch_extensions/py312_cu126 as PyTorch extensions root...\n"
KEYS = "RuntimeError: Error(s) in loading state_dict for M: Missing key(s) in state_dict: {}. Unexpected key(s) in state_dict: {}. "
OLD_TRL = 'File "/e/site-packages/trl/trainer/sft_trainer.py", line 290, in train File "/e/site-packages/transformers/trainer.py", line 1555, in train'

ROTARY = "AssertionError: Input and cos/sin must have the same dtype, got torch.float32 and torch.bfloat16"
FLASHED = 'File "/e/site-packages/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py", line 154, in apply_rotary_pos_emb_flashatt'
EDGES = "size must contain 'shortest_edge' and 'longest_edge' keys."
HEADLESS = "ValueError: Unrecognized configuration class <class 'transformers.models.paligemma.configuration_paligemma.PaliGemmaConfig'> for this kind of AutoModel: AutoModelForCausalLM."
CREATED = 'File "/e/site-packages/trl/trainer/sft_trainer.py", line 365, in _create_model_from_path model = AutoModelForCausalLM.from_pretrained(model_path)'
SMALLER = "Error(s) in loading state_dict for Qwen3VLForConditionalGeneration: size mismatch for model.language_model.embed_tokens.weight: copying a param with shape torch.Size([151936, 2560]) from checkpoint, the shape in current model is torch.Size([151936, 4096])."
GPTQ = "ValueError: We were not able to get the tokenizer using `AutoTokenizer.from_pretrained` with the string that you have passed {}. For now, we only support quantization for text model."

# What the log says of the run, class, message, trace → what the first step has.
ROWS = (
    ("", "VG581", "TypeError: 'NoneType' object is not iterable", REWARD, "/w/sft.py:71: try: … except TypeError: 0.0"),
    ("", "VG581", "TypeError: expected string or bytes-like object, got 'list'", REWARD, '/w/sft.py:71: completion[0]["content"]'),
    ("", "VG581", "TypeError: iou() got an unexpected keyword argument 'prompts'", REWARD, "def iou(completions, **kwargs)"),
    ("", "VG581", "KeyError: 'bbox'", REWARD, "/w/sft.py:44: print(list(kwargs))"),
    ("UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n", "VG507", "does not require grad", MINE, "--include='*.py' /w: use_reentrant=False"),
    (FACTORY + "Loading dataset rows_5k.json...\n", "VG510", IMAGES, "", "data/rows_5k.json: the numbers of the rows"),
    (FACTORY + "Loading dataset a.json...\nLoading dataset b.json...\n", "VG510", IMAGES, "", "FILE.json: the numbers of the rows"),
    (FACTORY + "bf16: true\nUsing torch SDPA for faster training and inference.\n", "VG515", "{'loss': nan", "", "flash_attn: disabled"),
    ("torch 2.5.0\ncuDNN SDPA backward got grad_output.strides() != output.strides()\n", "VG515", "{'loss': nan", MINE, "torch.backends.cuda.enable_cudnn_sdp(False) at the top of /w/sft.py: the attention of cuDNN in this torch gives gradients of nan, or torch 2.5.1"),
    ("", "VG543", "n:1:2 [1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'", "", "NCCL_SHM_DISABLE=1 in front of the command: the segment is there"),
    ("", "VG543", "n:1:2 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", "", "docker run --shm-size=16g"),
    ("sft-master-0   2/2     Running            1          33m\n", "VG563", "RuntimeError: Connection reset by peer", "", 'sidecar.istio.io/inject: "false"'),
    ("", "VG536", "The client socket has failed to connect to any network address of (sft-0-0.sft, 29500). The name or the address of the host might be wrong.", "", "until getent hosts sft-0-0.sft; do sleep 2; done; in front of torchrun"),
    ("", "VG536", "The client socket has failed to connect to any network address of (n07, 29500). The name or the address of the host might be wrong.", "", "getent hosts n07; nc -vz n07 29500"),
    ("root@3f2a9c11d0be:/w# nvidia-smi\n", "VG534", "Failed to initialize NVML: Unknown Error", "", "docker restart 3f2a9c11d0be, on the host, then resume"),
    ("", "VG537", "Error 803: system has unsupported display driver / cuda driver combination", "", "grep -v compat | paste -sd:) in front of the command"),
    ("NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0\n", "VG536", "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<385> with error 12, opcode 0, len 0, vendor err 129", "", "NCCL_IB_GID_INDEX=3 in front"),
    ("NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\nNET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0\n", "VG536", "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<385> with error 12, opcode 0, len 0, vendor err 129", "", "NCCL_IB_DISABLE=1 in front"),
    ("run.py --fp16 true\n", "VG593", "{'loss': 0.0, 'learning_rate': 4e-05, 'epoch': 0.02}", "", "bf16"),
    ("SFTConfig(max_length=32, packing=False)\n", "VG593", "{'loss': 0.0, 'grad_norm': 0.0, 'epoch': 0.02}", "", "2048"),
    ("Attempting to resume from out/checkpoint-500\n", "VG532", "exits with return code = -9", "", "--model_name_or_path out/checkpoint-500 --output_dir ANOTHER, without resuming"),
    ("It is strongly recommended to train Gemma2 models with the `eager` attention implementation instead of `sdpa`. Use `eager` with `AutoModelForCausalLM.from_pretrained('<path>', attn_implementation='eager')`.\n", "VG515", "{'loss': nan", "", 'attn_implementation="eager"'),
    ("#SBATCH --cpus-per-task=2\n#SBATCH --mem-per-cpu=4G\n", "VG532", "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=88123.batch.", "", "#SBATCH --mem=32G in place of --mem-per-cpu=4G in the job's script (8G in all now"),
    ("", "VG532", "Ray killed this worker (ID: 7be0): memory usage threshold of 0.95", "", "free -g; ps -eo pid,rss,args --sort=-rss | head"),
    ('  File "/w/train.py", line 288, in main\n    if accelerator.is_main_process: m.save_pretrained(out, state_dict=accelerator.get_state_dict(model))\n', "VG551", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6075, OpType=_ALLGATHER_BASE, Timeout(ms)=1800000)", "", "/w/train.py:288: state = accelerator.get_state_dict(model)"),
    ("Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n", "VG534", "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error", "", "sudo reboot: its card at PCI 0000:03:00.0"),
    ("", "VG535", "OSError: [Errno 122] Disk quota exceeded", 'File "/scratch/u7/lora/finetune.py", line 2, in train File "/home/u7/env/lib/python3.10/site-packages/datasets/arrow_writer.py", line 5, in write_table', "HF_HOME=/scratch/u7/huggingface in front"),
    (FACTORY, "VG522", LORA.format("A", 16, 3584, 8, 3584), "", "lora_rank: 16, as the adapter has it: this run makes 8"),
    ("", "VG522", LORA.format("B", 3584, 16, 3584, 8), "", "LoraConfig(r=16)"),
    (HUB, "VG522", LORA.format("A", 8, 1536, 8, 3584), "", "Qwen/Qwen2-VL-2B-Instruct, by its width (1536; this run's model: 3584)"),
    ("", "VG556", "ValueError: 'llava' is already used by a Transformers config, pick another name.", MINE, "python -m pip install 'transformers==4.31.0' 'tokenizers>=0.12.1,<0.14'"),
    ("", "VG556", "ValueError: 'ovis' is already used by a Transformers config, pick another name.", MINE, 'AutoConfig.register("ovis", …, exist_ok=True): in /w/sft.py:7'),
    (CONFIG.format("/m/mine"), "VG556", "ValueError: Processor was not found, please check", "", "AutoProcessor.from_pretrained(sys.argv[1])' /m/mine: "),
    ("swift rlhf --rlhf_type gkd\n", "VG570", "AttributeError: 'GKDTrainer' object has no attribute 'x'", "", "python -m pip install -U ms-swift: GKDTrainer is its own"),
    ("", "VG570", "AttributeError: 'GKDTrainer' object has no attribute 'x'", MINE, "grep -rnE 'class GKDTrainer"),
    (HUB, "VG522", LORA.format("B", 1536, 8, 3584, 8), "", "Qwen/Qwen2-VL-2B-Instruct, by its width"),
    ("model = load_model(\n", "VG522", LORA.format("A", 8, 1536, 8, 3584), "", "1536 wide; this run's is 3584 wide"),
    ("swift sft --resume_from_checkpoint out/v0-1/checkpoint-400\n", "VG522", PREFIX, "", "out/v0-1/checkpoint-400/config.json)"),
    (OWN, "VG524", STEP, OWN, "--gradient_checkpointing false; in code: GRPOConfig(gradient_checkpointing=False)"),
    ("t.py --stage 2 --deepspeed zero3.json\nx transformers/trainer.py x\n", "VG526", HALF, MINE, 'TrainingArguments(bf16=True, fp16=False), and in zero3.json: "bf16": {"enabled": "auto"}'),
    ("trainable params: 20,185,088 || all\ntrainable params: 40,370,176 || all\n", "VG561", "DDP expects same model across all ranks", MINE, "(20185088, 40370176)"),
    ("still waiting to acquire lock on /home/a/hub/.locks/m/f.lock\n", "VG567", "filelock", "", "fuser -v /home/a/hub/.locks/m/f.lock"),
    (CONFIG.format("/m/Qwen2.5-VL-7B-Instruct"), "VG576", WRAP, "", "Qwen2_5_VLDecoderLayer,Qwen2_5_VLVisionBlock: in accelerate's config"),
    (HUB + "accelerate launch --config_file f.yaml t.py\n", "VG576", WRAP, "", "Qwen2VLDecoderLayer,Qwen2VLVisionBlock: in f.yaml"),
    (CONFIG.format("/m/mine"), "VG576", WRAP, "", "print({type(m).__name__ for m in model.modules()})"),
    ("+ srun -n 1 --mem=64G torchrun t.py --preload_images true\n", "VG532", "slurmstepd: error: Detected 3 oom_kill events in StepId=7.0.", "", "--mem=64G on its line binds this step"),
    ("NVRM: Xid (PCI:0000:ab:00): 48, pid=9, DBE\n", "VG534", "uncorrectable ECC error encountered", "", "sudo nvidia-smi --gpu-reset -i 0000:ab:00.0"),
    ("srun: error: g7: task 3: Exited\nNVRM: Xid (PCI:0000:ab:00): 94, pid=9\n", "VG534", "NVRM: Xid (PCI:0000:ab:00): 94", "", "sbatch --exclude=g7 with the same script"),
    ("swift sft --strict true --max_length 4096\n", "VG511", "Current length of row(6000) is larger than the max_length(4096).", "", "--max_length 8192 --truncation_strategy delete --strict false"),
    ("swift sft --model Qwen/Qwen3-VL-8B-Instruct --max_length 4096\n", "VG511", "Current length of row(10354) is larger than the max_length(4096).", "", "--max_pixels 602112 --truncation_strategy delete: "),
    ("+ srun --export=NONE torchrun t.py\n", "VG558", "Signal 11 (SIGSEGV)", "", "srun --export=ALL,PYTHONFAULTHANDLER=1 … "),
    ("colossalai run train.py --plugin gemini\nworld size: 8\n", "VG508", "ZERO DDP error Reduction failed at model.layers.2.experts.1.w1", 'File "/w/ColossalMoE/train.py", line 9', "--plugin hybrid --pp_size 1 --ep_size 8"),
    ("swift rlhf --model /m/Q --nproc_per_node 2\n", "VG566", "ConnectionError: Servers not reachable after 240.0s: ['http://127.0.0.0:8000']", "", "--vllm_server_host 127.0.0.1 in the training command (127.0.0.0 is no host's address), and in another terminal, before it and on a card of its own: CUDA_VISIBLE_DEVICES=2 swift rollout --model /m/Q --port 8000"),
    ("Token indices sequence length is longer than the specified maximum sequence length for this model (42118 > 32768)\nx transformers/trainer.py x\n", "VG512", "CUDA out of memory. Tried to allocate 23.86 GiB. GPU 1 has a total capacity of 79.11 GiB", 'File "/w/qwenvl/train/train_qwen.py", line 9 File "/e/loss_utils.py", line 60, in ForCausalLMLoss', "--use_liger_kernel true"),
    ("pod/vlm-0 kubectl get events\n", "VG531", "Spot VM was preempted PreemptedByProvider pod", "", "checkpoint-"),
    ("", "VG556", "Unrecognized configuration class <class 'a.PaliGemmaConfig'> for this kind of AutoModel: AutoModelForCausalLM.", "", "AutoModelForImageTextToText.from_pretrained("),
    ("", "VG503", "Expected to have finished reduction in the prior iteration Parameters which did not receive grad for rank 1: head2.w, head2.b, pooler.dense.weight", "", 'n.startswith(("head2", "pooler.dense",))]'),
    ("INFO - __main__ - ***** Running training *****\n", "VG503", "Expected to have finished reduction", "", "Accelerator(kwargs_handlers="),
    ("", "VG522", KEYS.format('"a.w", "b.w"', '"module.a.w", "module.b.w"'), MINE, 'state = {k.removeprefix("module."): v for k, v in state.items()}: in /w/sft.py:7'),
    ("", "VG522", KEYS.format('"base_model.model.a.w"', '"a.w"'), MINE, 'state = {"base_model.model." + k: v'),
    ("swift sft --resume_from_checkpoint out/checkpoint-4\n", "VG522", KEYS.format('"model.visual.a.w"', '"visual.a.w"'), "", "out/checkpoint-4/config.json)"),
    ("", "VG522", KEYS.format('"model.visual.a.w"', '"visual.a.w"'), MINE, "from_pretrained(FOLDER) in place of load_state_dict, in /w/sft.py:7"),
    ("", "VG522", KEYS.format('"a.w"', '"b.w"'), MINE, "grep -r --include=config.json transformers_version"),
    ("", "VG522", "size mismatch for model.mm_projector.0.weight: copying a param with shape torch.Size([4096, 1024]) from checkpoint, the shape in current model is torch.Size([3584, 1152]).", "", "(widths 1152, 3584): the loaded one is of others (1024, 4096;"),
    ("NVIDIA V100\nx transformers/trainer.py x\nTesla V100-SXM2\n", "VG526", HALF, MINE, "TrainingArguments(fp16=True, bf16=False)"),
    ("Instantiating Qwen2VLForConditionalGeneration model under default dtype torch.bfloat16.\n", "VG576", "ValueError: Could not find the transformer layer class LlamaDecoderLayer in the model.", "", "cls_to_wrap: Qwen2VLDecoderLayer,Qwen2VLVisionBlock"),
    ("", "VG581", "TypeError: acc() missing 1 required positional argument: 'solution'", REWARD, 'rename_column("COLUMN", "solution")'),
    ("swift sft --attn_impl sdpa\n", "VG516", "ValueError: The \"packing\" feature requires a flash attention implementation.", "", "--attn_impl flash_attn"),
    ("llamafactory-cli train --stage sft --fp16 true\n", "VG515", "{'loss': nan", "", "--bf16 true --fp16 false"),
    ("NVIDIA H100 with CUDA capability sm_90 is not compatible with\n", "VG537", "CUDA error: no kernel image is available", "", "whl/cu126: this torch was not built for sm_90"),
    ("", "VG567", "KeyboardInterrupt", 'File "/e/site-packages/torch/utils/file_baton.py", line 49, in wait', "find ~/.cache/torch_extensions -name lock"),
    ("", "VG561", "params[0] in this process with sizes [151665, 3584] appears not to match sizes of the same param in process 0.", MINE, "--include='*.py' /w: on every rank alike"),
    ("[12.1] python3[8812]: segfault at 7f01 ip 0007 sp 0007 error 4 in libavcodec.so.58[7f02+a00000]\n", "VG558", "Segmentation fault", "", "PYTHONFAULTHANDLER=1 in front of the command, and DataLoader(num_workers=0)"),
    (FATAL.format("decord"), "VG558", "Fatal Python error: Segmentation fault", "", "--force-reinstall --no-deps decord: the crash is in it (/env/lib/python3.10/site-packages/decord/reader.py:176"),
    (FATAL.format("torch"), "VG558", "Fatal Python error: Segmentation fault", "", "/w/data.py:88: print what is given"),
    ("", "VG558", "Signal 11 (SIGSEGV)", "", "PYTHONFAULTHANDLER=1"),
    ("x trl/trainer/sft_trainer.py x\n", "VG501", "ready only once", MINE + OLD_TRL, "in code: TrainingArguments("),
    ("[INFO] [launch.py:315:sigkill_handler] Killing subprocess 7\nx trl/trainer/dpo_trainer.py x\n", "VG523", "'weight' must be 2-D", "", "\"stage\": 2 under \"zero_optimization\" in DeepSpeed's config"),
    ("", "VG570", "TypeError: LlavaLlamaForCausalLM.__init__() got an unexpected keyword argument 'attn_implementation'", MINE, "python -m pip install 'transformers==4.37.2' 'tokenizers==0.15.1'"),
    ("", "VG570", "TypeError: LlavaQwenForCausalLM.__init__() got an unexpected keyword argument 'x'", MINE, "grep -rnE -A20 'class LlavaQwenForCausalLM"),
    (FACTORY, "VG526", ROTARY, FLASHED, "flash_attn: sdpa"),
    ("", "VG526", ROTARY, FLASHED, "python -m pip install 'transformers>=4.50'"),
    (FACTORY + EDGES + "\n", "VG556", "ValueError: Processor was not found, please check", "", "'transformers<4.50'"),
    ("", "VG518", "ValueError: " + EDGES, "", "'transformers<4.50'"),
    ("", "VG556", HEADLESS, MINE + CREATED, "AutoModelForImageTextToText.from_pretrained(\"NAME\", torch_dtype=\"auto\"): in front of /w/sft.py:7, and there SFTTrainer(model=model, "),
    ("", "VG556", HEADLESS, CREATED, "python -m pip install -U trl"),
    ("Attempting to resume from ./output/checkpoint-10\n", "VG522", SMALLER, MINE, "--output_dir ./output_new: ./output/checkpoint-10 is another run's, which was resumed: its weights are 2560 wide (Qwen3-VL-4B), this model is 4096 wide (Qwen3-VL-8B)"),
    ("", "VG522", SMALLER, MINE, "Qwen/Qwen3-VL-4B-Instruct as the model for this checkpoint"),
    ("", "VG555", "FileNotFoundError: [Errno 2] No such file or directory: '/d/a_1 .jpg'", MINE, "ls /d/a_1.jpg && grep -rlZE '[[:space:]][.]jpg' --include='*.json*' . | xargs -0 sed -i.bak -E 's/[[:space:]]+[.]jpg/.jpg/g'"),
    ("", "VG577", GPTQ.format("./Qwen-VL"), "", "MODEL=Qwen/Qwen-VL-Chat-Int4"),
    ("", "VG577", GPTQ.format("/m/mine"), "", "ready GPTQ checkpoint"),
    ("", "VG512", OWN_CARD, 'File "/w/InternLM/train.py", line 9, in main File "/w/InternLM/internlm/model/modeling_internlm.py", line 387, in _build chunk = PackedFlashInternLm1D(**kw).to(device)', "parallel = dict(zero1=8, tensor=4, …)"),
    ("", "VG512", OWN_CARD, 'File "/w/train.py", line 9, in main model = MyModel(**cfg).to(device)', "/w/train.py:9: .to(torch.bfloat16) in front of"),
    ("INFO:swift] x\nrun sh: swift/cli/rlhf.py --rlhf_type grpo --per_device_train_batch_size 1 --gradient_accumulation_steps 2\n[INFO:swift] rank: 0, world_size: 2\n", "VG553", "ValueError: range() arg 3 must not be zero", 'File "/e/site-packages/trl/trainer/grpo_trainer.py", line 132, in __iter__', "--gradient_accumulation_steps 4: 2 ranks × micro-batch 1 × accumulation 2 = 4 rows"),
    ("", "VG553", "ValueError: range() arg 3 must not be zero", 'File "/e/site-packages/trl/trainer/grpo_trainer.py", line 132, in __iter__', "--gradient_accumulation_steps 8 (as many times yours"),
    ("swift rlhf --rlhf_type dpo --ld_alpha 0.8\n", "VG553", "ValueError: remaining_argv: ['--ld_alpha', '0.8']", 'File "/r/ms-swift/swift/cli/rlhf.py", line 7', "git -C /r/ms-swift pull; python -m pip install -e /r/ms-swift: its newest release takes --ld_alpha"),
    ("swift rlhf --rlhf_type dpo\n", "VG553", "ValueError: remaining_argv: ['--learning_rat', '0.8']", "", "swift rlhf --help | grep -i learning"),
    ("", "VG552", "ModuleNotFoundError: No module named 'FlagEmbedding.baai_general_embedding'", "", "pip install 'FlagEmbedding<1.3', in the environment of the job: 1.3 moved"),
    ("", "VG552", "ModuleNotFoundError: No module named 'FlagEmbedding.visual'", "", "1.3 has FlagEmbedding.visual no more"),
    ("", "VG536", "ncclSystemError: System call failed. Last error: socketStartConnect: Connect to 172.17.0.3<45619> failed : Software caused connection abort", "", "docker run --network=host --ipc=host …"),
    ("swift sft --master_addr 10.61.7.24 --nnodes 2\n", "VG536", "ncclSystemError: System call failed. Last error: socketStartConnect: Connect to 10.9.9.3<45619> failed", "", "NCCL_SOCKET_IFNAME=$(ip -o -4 addr | grep -F ' 10.61.7.' | awk"),
    ("x transformers/trainer.py x\n--fp16 True\n", "VG520", "ValueError: Attempting to unscale FP16 gradients.", "", "for p in model.parameters(): p.data = p.data.float()"),
    ("", "VG578", "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised: RuntimeError: x", 'File "/w/unsloth_compiled_cache/unsloth_compiled_module_gemma3.py", line 851, in forward', "UNSLOTH_COMPILE_DISABLE=1 in front of the command"),
    ("", "VG578", "RuntimeError: Failed to find C compiler", 'File "/w/unsloth_compiled_cache/x.py", line 851, in forward', "apt-get install gcc"),
    ("", "VG570", "TypeError: preprocess_visual() got an unexpected keyword argument 'grid_thw'", 'File "/w/vl/data/data_qwen.py", line 448, in _get_item', "grep -rn -A 9 'def preprocess_visual(' /w/vl/data: what it takes, grid_thw is none"),
    ("", "VG538", "ImportError: /e/flash_attn_2_cuda.so: undefined symbol: _ZN", "", "flash-attn==$(python -c 'import torch;"),
    ("PyTorch version: 2.5.1\ntorch==2.5.1\n", "VG538", "ImportError: /e/flash_attn_2_cuda.so: undefined symbol: _ZN", "", "flash-attn==2.7.4.post1: the release that has wheels"),
)  # fmt: skip


def test_a_part_that_is_empty_is_filled_on_all_ranks():
    trace = 'File "/w/llava/model/llava_arch.py", line 97, in initialize_vision_modules self.mm_projector.load_state_dict(w)'
    facts = of_text(["deepspeed t.py --deepspeed ./scripts/zero3.json\n"]).at("size mismatch for 0.weight: the shape in current model is torch.Size([0]).", trace, "load")
    said = [flags.say(do, facts) for do in KNOWN["VG523"].remedies(facts)]
    assert said[1].startswith("with deepspeed.zero.GatheredParameters(list(self.mm_projector.parameters()), modifier_rank=0): round the load_state_dict of /w/llava/model/llava_arch.py:97")


def test_the_first_step_has_what_the_log_told_before():
    for words, code, message, trace, part in ROWS:
        facts = of_text([words]).at(message, trace, "load" if message == OWN_CARD else "")
        said = flags.say(KNOWN[code].remedies(facts)[0], facts)
        assert part in said, (words, said)


def test_gathered_logits_become_numbers_of_words_first():
    trace = f'{MINE}File "/e/transformers/trainer.py", line 4, in evaluation_loop File "/e/transformers/trainer_pt_utils.py", line 1, in nested_concat'
    facts = of_text(["x transformers/trainer.py x\n"]).at("CUDA out of memory. Tried to allocate 29.41 GiB.", trace, "evaluation")
    said = [flags.say(do, facts) for do in KNOWN["VG512"].remedies(facts)]
    assert parted.step(said[0]).startswith("Trainer(…, preprocess_logits_for_metrics=lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1))  # in /w/sft.py: ")
    assert [s[:17] for s in said[1:3]] == ["--prediction_loss", "--eval_accumulati"]


def test_a_pod_is_told_nothing_of_slurm_and_a_tower_has_its_own_flag():
    facts = of_text(["$ kubectl get events\n"]).at("Spot VM was preempted", "", "")
    assert not any("SBATCH" in do.action or "sacct" in do.action for do in KNOWN["VG531"].remedies(facts))
    facts = of_text([""]).at("We couldn't connect to 'https://huggingface.co'; it looks like openai/clip-vit-large-patch14-336 is not the path", 'File "/w/llava/model/multimodal_encoder/clip_encoder.py", line 2', "load")
    said = [flags.say(do, facts) for do in KNOWN["VG540"].remedies(facts)]
    assert "(another machine;" in said[0]
    assert "--vision_tower FOLDER" in " ".join(said)


def test_what_a_model_of_another_time_means():
    for words, message, part in (
        ("", "'llava' is already used by a Transformers config", "newer than the code"),
        (EDGES + "\n", "ValueError: Processor was not found, please check", "refused some lines above"),
    ):
        assert part in KNOWN["VG556"].told(of_text([words]).at(message, "", ""))


def test_parameters_are_named_by_their_numbers():
    facts = of_text([""]).at("Expected to have finished reduction. Parameter indices which did not receive grad for rank 0: 130 131", "", "")
    said = [flags.say(do, facts) for do in KNOWN["VG503"].remedies(facts)]
    assert said[1].startswith("print([n for n, p in model.named_parameters() if p.requires_grad][130:132])")
    assert "TORCH_DISTRIBUTED_DEBUG" not in " ".join(said)


def test_kernels_whose_loading_is_the_last_word_are_built_anew():
    facts = of_text([EXTENSIONS]).at("Signal 11 (SIGSEGV)", "", "")
    said = [flags.say(do, facts) for do in KNOWN["VG558"].remedies(facts)]
    assert said[1].startswith("mv ~/.cache/torch_extensions")
    facts = of_text([EXTENSIONS + "Time to load fused_adam op: 0.1 seconds\n"]).at("Signal 11", "", "")
    assert "mv" not in KNOWN["VG558"].remedies(facts)[1].action


def test_a_log_that_ends_in_a_wait_for_a_lock(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("Fetching 9 files\n" + "still waiting to acquire lock on /home/a/hub/.locks/m/f.lock\n" * 3)
    assert "fuser -v /home/a/hub/.locks/m/f.lock  # who holds this lock" in text(*explain([str(path)]))


def test_the_drivers_number_is_the_warnings(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        "x.py:124: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11000).\n"
        'Traceback (most recent call last):\n  File "/w/x.py", line 4, in main\nAssertionError: Megatron requires CUDA.\n'
    )
    said = text(*explain([str(path)]))
    assert "VG537" in said
    assert "whl/cu118  # the driver goes up to CUDA 11.0" in said


def test_a_row_that_is_larger_than_all_before_is_left_out():
    words = "[node 1] step 1197: longest row so far: 9216 tokens, 36 images\n"
    facts = of_text([words]).at("CUDA out of memory. Tried to allocate 1.94 GiB.", 'File "/w/t.py", line 268, in main', "backward")
    for steps, part in (((1190, 4000), 'len(r["images"]) <= 18] in /w/t.py'), ((1, 4000), "gradient_checkpointing_enable()")):
        facts = replace(facts, steps=steps)
        assert part in flags.say(KNOWN["VG512"].remedies(facts)[0], facts)


def test_a_buffer_of_another_size_is_no_idle_tower():
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7221, OpType=BROADCAST, NumelIn=64, NumelOut=64, Timeout(ms)=3000000)"
    facts = replace(of_text(["swift sft --model /m/MiniCPM-o-4_5\n"]).at(said, "", ""), seen=frozenset({"parted", "all wait"}))
    known = KNOWN["VG505"]
    assert flags.say(known.remedies(facts)[0], facts) == "--ddp_broadcast_buffers false"
    assert "buffer has another size" in known.told(facts)
    assert not known.rules(facts)
    sharded = replace(facts, strategy="zero3")
    assert "broadcast_buffers" not in known.remedies(sharded)[0].action
    assert known.rules(sharded)
    assert not known.rules(facts.at(said.replace("7221", "1"), "", ""))


def test_ranks_with_other_rows_are_made_alike_by_the_frameworks_own_means():
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3129, OpType=_ALLGATHER_BASE, NumelIn=64, NumelOut=512, Timeout(ms)=3000000)"
    for words, first in (
        ("swift sft --model /m/Qwen2.5-VL-7B --deepspeed zero3 --dataset /d/a.jsonl\n", ("--deepspeed zero2", "python -c $'import json, os, sys")),
        ("swift sft --model /m/Qwen2.5-VL-7B --deepspeed zero3 --freeze_vit false --dataset /d/a.jsonl\n", ("python -c $'import json, os, sys", "--deepspeed zero2 --freeze_vit true")),
        ("llamafactory-cli train --freeze_vision_tower false --deepspeed ds_z3.json\n", ("python -m pip install -U 'llamafactory>=0.9.2'",)),
        ("llamafactory==0.9.3\nllamafactory-cli train --freeze_vision_tower false --deepspeed ds_z3.json\n", ("python -c $'import json, os, sys", "deepspeed: examples/deepspeed/ds_z2_config.json, freeze_vision_tower: true")),
    ):
        facts = replace(of_text([words]).at(said, "", ""), seen=frozenset({"parted", "all wait"}), strategy="zero3")
        steps = [flags.say(do, facts) for do in KNOWN["VG505"].remedies(facts)]
        assert [s[: len(part)] for s, part in zip(steps, first, strict=False)] == list(first), (words, steps)


WAITING = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=72, OpType=_ALLGATHER_BASE, NumelIn=64, NumelOut=64, Timeout(ms)=3000000)"


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        ("--freeze_vit false --deepspeed zero3", ("python -c $", "--deepspeed zero2 --freeze_vit true")),
        ("--freeze_vit true --deepspeed zero3", ("--deepspeed zero2", "python -c $")),
    ],
)
def test_stage_2_alone_does_not_help_a_tower_that_trains(command, steps):
    facts = of_text([f"swift sft --model /m/Qwen2-VL --dataset d.json {command}\n"]).at(WAITING, "", "")
    facts = replace(facts, seen=frozenset({"parted"}))
    said = [flags.say(do, facts) for do in KNOWN["VG505"].remedies(facts)]
    assert said[0].startswith(steps[0])
    assert said[1].startswith(steps[1])


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (
            [{"conversations": [{"from": "human", "value": "<image>a"}], "image": "a.png"}, {"conversations": [{"from": "human", "value": "b"}]}],
            {"conversations": [{"from": "human", "value": "<image>b"}], "image": "blank.png"},
        ),
        (
            [{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "b"}]}],
            {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "<image>b"}], "images": ["blank.png"]},
        ),
    ],
)
def test_the_command_for_blank_images_does_it(rows, wanted, tmp_path):
    facts = of_text(["swift sft --dataset rows.json --deepspeed zero3 --freeze_vit false\n"]).at(WAITING, "", "")
    said = flags.say(KNOWN["VG505"].remedies(facts)[0], facts)
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    command = f"{said.split(': writes')[0]}".replace("python", sys.executable, 1)
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"1 of {len(rows)} rows had no image\n"
    last = (tmp_path / "with_blank.json").read_text().replace(f"{tmp_path}/", "")
    assert json.loads(last) == [*rows[:-1], wanted]


def test_an_argument_of_the_call_that_loads_the_model_has_its_file():
    facts = of_text([""]).at("Attempting to unscale FP16 gradients.", MINE, "")
    assert flags.say(Do("sdpa"), facts) == 'from_pretrained(…, attn_implementation="sdpa") in /w/sft.py'
    assert flags.say(Do("fp32_masters"), facts).startswith("from_pretrained(…, torch_dtype=torch.float32) in /w/sft.py, with fp16=True: ")
    deeper = facts.at("x", MINE + 'File "/w/model/loss.py", line 3, in f', "")
    assert "in /w (grep -rn 'from_pretrained(' /w)" in flags.say(Do("sdpa"), deeper)
