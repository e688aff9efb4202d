"""Shapes that threads drawn by topic taught, each named by its thread."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain.test_shapes import BAR, told_right
from tests.explain.test_threads_vlm import trace

ACCUMULATE = "/env/lib/python3.10/site-packages/accelerate/accelerator.py"
SCALER = "/env/lib/python3.10/site-packages/torch/amp/grad_scaler.py"
SAVE = 'H:\\envs\\d\\lib\\site-packages\\torch\\serialization.py'
CHAIN = "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
BUCKET = "    assert len(set(p.ds_id for p in self.params_in_ipg_bucket)) == len(self.params_in_ipg_bucket)\n"

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "Oryx-mllm/Oryx#18 ranks' assertions in one another": (
        trace(("/env/lib/python3.10/site-packages/deepspeed/utils/nvtx.py", "wrapped_fn", "ret_val = func(*args, **kwargs)")) + BUCKET + BUCKET + "AssertionError\nAssertionError\n" + BUCKET + "AssertionError\n", "VG502", None),
    "huggingface/transformers#30277 the end of a mismatch": (
        "072], TensorDtypes=BFloat16).Collectives differ in the following aspects: \n  Tensor Tensor shapes: 2228224vs 131072\n", "VG505", None),
    "OpenGVLab/VideoChat-Flash#26 weights into a model that ZeRO-3 sharded": (
        "\tsize mismatch for blocks.16.attn.qkv.weight: copying a param with shape torch.Size([3072, 1024]) from checkpoint, the shape in current model is torch.Size([0]).\n", "VG523", None),
    "ariG23498/gemma3-object-detection#48 the message under its type": (
        "...\nRuntimeError: \n            Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: [{'lm_head.weight', 'embed_tokens.weight'}].\n", "VG546", None),
    "OpenBuddy/OpenBuddy#45 typed in lower case": (
        "valueerror: bfloat16 is only supported on gpus with compute capability of at least 8.0. your tesla v100-sxm2-32gb gpu has compute capability 7.0.\n", "VG529", None),
    "MouseLand/cellpose#940 a slip that reads like another one's end": (
        "TypeError: 'NoneType' object is not subscriptable\n", "unknown", None),
    "unslothai/notebooks#124 cut within its message": (
        "Traceback (most recent call last):\n" + trace(("/env/lib/python3.10/site-packages/unsloth_zoo/vision_utils.py", "__init__", 'raise TypeError("Unsloth: UnslothVisionDataCollator is only for image models!")'), last="TypeError: Unsloth: UnslothVis\n"), "VG553", None),
    "hpcaitech/ColossalAI#5226 inputs without a gradient": (
        "Traceback (most recent call last):\n" + trace(("/env/lib/python3.8/site-packages/colossalai/tensor/param_op_hook.py", "pre_op", "assert len(grad_args) > 0"), last="AssertionError\n"), "VG508", None),
    "thu-coai/PPT#12 not the first tensor": ("RuntimeError: element 1 of tensors does not require grad and does not have a grad_fn\n", "VG507", None),
    "2U1/Qwen-VL-Series-Finetune#184 cut within the scaler": (
        "Traceback (most recent call last):\n" + trace((ACCUMULATE, "unscale_gradients", "self.scaler.unscale_(opt)"), (SCALER, "unscale_", 'optimizer_state["')), "VG520", None),
    "JyChen9811/FaithDiff#24 cut within no_sync": (
        "".join(f"[rank2]: {line}\n" for line in trace((ACCUMULATE, "no_sync", "with context():"), ("/env/lib/python3.10/contextlib.py", "__enter__", "return next(self.gen)"), last='  File "/env/lib/python3.10/site-packages/deepspeed/runtime/engine.py", lin').split("\n")), "VG513", (2,)),
    "hiyouga/LlamaFactory#1194 DeepSpeed's last line, cut": (
        f"{BAR}\n[2023-10-16 05:05:57,961] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 44150\n"
        "[2023-10-16 05:06:02,579] [ERROR] [launch.py:321:sigkill_handler] ['/env/bin/python', '-u', 'train.py', '--local_rank=1', '--stage', 'sft'\n", "unknown", None),
    "XavierXiao/Dreambooth-Stable-Diffusion#45 no memory to write with": (
        "Traceback (most recent call last):\n" + trace((SAVE, "save", "_save(obj, opened_zipfile)"), last="MemoryError\n") + CHAIN
        + trace((SAVE, "__exit__", "self.file_like.write_end_of_file()"), last="RuntimeError: [enforce fail at inline_container.cc:300] . unexpected pos 6057217600 vs 6057217496\n"), "VG532", None),
    "ZCMax/LLaVA-3D#34 a module's own words in the message": (
        "ValueError: Target module LlamaDecoderLayer(\n  (self_attn): LlamaFlashAttention2(\n    (q_proj): Linear(in_features=4096, out_features=4096, bias=False)\n  )\n) is not supported. Currently, only the following modules are supported: `torch.nn.Linear`.\n", "VG525", None),
    "hiyouga/LlamaFactory#6938 a quotation's margin": (" ValueError: Conv3d layer kernel must have 5 dimensions, not 1\n", "VG523", None),
    "modelscope/ms-swift#5948 cut within the engine's check": (
        "".join(f"[rank0]: {line}\n" for line in trace(("/env/vllm/engine/llm_engine.py", "_add_processed_request", "self._validate_model_inputs(processed_inputs, lora")).splitlines()), "VG511", (0,)),
    "StarsfieldAI/R1-V#69 cut behind a loss that is no number": (
        BAR + "\n" + "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 9.9e-07, 'reward': 0.25, 'kl': 0.0007, 'epoch': 0.0}\n" + BAR + "Traceback (most recent call last):\n"
        + trace(("/w/open_r1/grpo.py", "<module>", "main(script_args, training_args, model_args)")), "VG515", None),
    "om-ai-lab/VLM-R1#33 positions one apart": (
        "q_embed = (q * cos) + (rotate_half(q) * sin)\nRuntimeError: The size of tensor a (61) must match the size of tensor b (62) at non-singleton dimension 2\n", "VG524", None),
    "datawhalechina/unlock-deepseek#39 the cache was switched off before": (
        "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.\n[rank1]: Traceback (most recent call last):\n"
        "[rank1]: RuntimeError: The size of tensor a (780) must match the size of tensor b (781) at non-singleton dimension 2\n", "VG524", (1,)),
    "sizes one apart elsewhere": ("RuntimeError: The size of tensor a (25) must match the size of tensor b (26) at non-singleton dimension 2\n", "unknown", None),
    "QwenLM/Qwen3#677 an adapter of a newer release": ("TypeError: LoraConfig.__init__() got an unexpected keyword argument 'layer_replication'\n", "VG585", None),
    "markingprowlik/EasyR1#37 the sharded model asked at the wrong moment": (
        "2025-06-26 03:30:57 ValueError: expected to be in states [<TrainingState.FORWARD_BACKWARD: 2>] but current state is TrainingState.IDLE\n", "VG576", None),
    "modelscope/ms-swift#4721 images that the rollout engine did not get": (
        "[rank4]: AssertionError: Expected multimodal embeddings to be a list/tuple of 2D tensors, or a single 3D tensor, but got <class 'NoneType'> instead.\n", "VG566", (4,)),
    "hpcaitech/ColossalAI#6390 float8's sizes": (
        "RuntimeError: Expected both dimensions of mat2 to be divisible by 16 but got torch.Size([768, 2])\n", "VG577", None),
    "huggingface/trl#3304 an older rollout engine": (
        "Traceback (most recent call last):\n" + trace(("/env/lib/python3.10/site-packages/vllm/entrypoints/llm.py", "__init__", "engine_args = EngineArgs("), last="TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'\n"), "VG566", None),
    "unslothai/unsloth#1829 a trainer that unsloth could not patch": ("RuntimeError: Unsloth: Please file a bug report! Error patching SFTTrainer\n", "VG570", None),
    "axolotl-ai-cloud/axolotl#2409 no_sync of another kind of sharding": (
        "".join(f"[rank1]: {line}\n" for line in trace((ACCUMULATE, "no_sync", "with context():"), ("/env/lib/python3.11/site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py", "no_sync", "_lazy_init(self, self)"), ("/env/lib/python3.11/site-packages/torch/distributed/fsdp/_runtime_utils.py", "_share_state_and_init_handle_attrs", "handle.init_flat_param_attributes()"), last='  File "/env/lib/py').split("\n")), "VG576", None),
    "a scheduler made anew for a resumed run": (
        "KeyError: \"param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer\"\n", "VG550", None),
    "modelscope/ms-swift#4181 an image that was not resized": (
        "Caught ValueError in DataLoader worker process 0与cannot reshape array of size 1843200 into shape (1,2,3,17,2,14,22,2,14)\n", "VG518", None),
    "Haoyan-Guan/CAReg#6 another array": ("ValueError: cannot reshape array of size 1288 into shape (28,28)\n", "unknown", None),
    "huggingface/open-r1#299 the assertion alone": ("assert not param.ds_active_sub_modules, param.ds_summary()\n", "VG523", None),
    "karpathy/nanoGPT#277 autocast without bfloat16": ("RuntimeError: Current CUDA Device does not support bfloat16. Please switch dtype to float16.\n", "VG529", None),
    "deepspeedai/DeepSpeed#8148 the end of what was recomputed": (
        "[rank1]: saved metadata: {'shape': torch.Size([128]), 'dtype': torch.bfloat16}\n[rank1]: recomputed metadata: {'shape': torch.Size([0]), 'dtype': torch.bfloat16}\n[rank1]: .\n\n"
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/mre.py\", line 11, in <module>\n[rank0]:     trainer.train()\n", "VG504", (1,)),
    "aik2mlj/polyffusion#2 cut within a worker's end": (
        "Traceback (most recent call last):\n" + trace(("/env/lib/python3.10/site-packages/torch/utils/data/_utils/signal_handling.py", "handler", "_error_if_any_worker_fails()"), last="RuntimeError: DataLoader worker (pid 2978) is killed by\n"), "VG544", None),
    "QwenLM/Qwen3-VL#226 an assertion on the device, all of its lines": (
        "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n", "VG545", None),
    "linkedin/Liger-Kernel#174 a clock without a day before each line": (
        "".join(f"[06:08:30.740]: {line}\n" for line in trace(("/env/lib/python3.11/site-packages/torch/_inductor/compile_fx.py", "compile_fx", "return aot_autograd("), ("/env/lib/python3.11/site-packages/torch/_dynamo/backends/common.py", "__call__", "cg = aot_module_simplified(gm, example_inputs, **self.kwargs)"), last='  File "/opt/').split("\n")), "VG578", None),
    "NVIDIA/nccl#914 NCCL's own words alone": (
        "host:22337:22453 [6] NCCL INFO proxy.cc:968 -> 2\n\nhost:22337:22453 [6] proxy.cc:1097 NCCL WARN [Proxy Service 14] Failed to execute operation Connect from rank 14, retcode 2\n\n"
        "host:22337:22400 [6] misc/socket.cc:521 NCCL WARN Net : Connection closed by remote peer 10.104.148.191<37877>\nhost:22337:22400 [6] NCCL INFO misc/socket.cc:529 -> 6\n", "VG536", None),
    "hiyouga/LlamaFactory#8452 a tokenizer without the processor's tokens": ("[rank1]: AttributeError: Qwen2TokenizerFast has no attribute video_token\n", "VG556", (1,)),
    "hpcaitech/ColossalAI#6386 an optimizer and a plug-in that do not go together": ("AssertionError: div_scale should remain default\n", "VG575", None),
    "hiyouga/LlamaFactory#7874 an engine that knows the model as text only": ("ValueError: `limit_mm_per_prompt` is only supported for multimodal models.\n", "VG566", None),
    "verl-project/verl#3296 rows that tensor parallelism cannot part": ("AssertionError: First dimension of the tensor should be divisible by tensor parallel size\n", "VG594", None),
    "PKU-YuanGroup/Video-LLaVA#176 cut while weights were loaded": (
        trace(("/w/llava_arch.py", "initialize_vision_modules", "self.mm_projector.load_state_dict(get_w(mm_projector_weights, 'mm_projector'))"), ("/w/train.py", "train", "self.mm_projector.load_state_dict(get_w(mm_projector_weights, 'mm_projector'))"), last='  File "/env/lib/python3.10/site-packages/torch/nn/modules/module.p\n'), "VG522", None),
    "verl's FAQ: a sentence of Megatron's": (" KeyError: decoder.layers.0.self_attention.q_layernorm.weight\n\n", "VG522", None),
    "verl's FAQ: a bucket": (
        "   AssertionError: Weight model.embed_tokens.weight(torch.Size([151936, 4096]), torch.float32) is too large to fit in the bucket.\n   Please increase rollout.update_weights_bucket_megabytes(2048 MB).\n\n\n", "VG553", None),
    "verl's FAQ: a checkpoint on a disk of each node": ("FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/global_step_10/actor/dist_ckpt/common.pt'\n", "VG550", None),
    "verl's FAQ: gcc, which Triton calls": (
        trace(("/env/lib/python3.10/site-packages/triton/common/build.py", "_build", "ret = subprocess.check_call(cc_cmd)"), last="subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmp3/main.c', '-O3', '-shared']' returned non-zero exit status 1.\n"), "VG578", None),
    "ms-swift's FAQ: fewer rows than a step takes": ("AttributeError: 'TrainerState' object has no attribute 'last_model_checkpoint'\n", "VG554", None),
    "axolotl's FAQ: bitsandbytes' own words": ("Error invalid argument at line 359 in file /workspace/bitsandbytes/csrc/pythonInterface.c\n", "VG562", None),
    "axolotl's own check, without its frame": ("ValueError: torch_compile_options is set but torch_compile is not\n", "VG553", None),
    "mattmireles/gemma-tuner-multimodal#19 killed, as its starter says": ("Training failed with exit code -9\nCheck the logs for detailed error information\n", "VG532", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])
