"""Faults of libraries that their own threads settled: the first step is what mended them there."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from vlmguard.explain import settled, show
from vlmguard.explain.command import explain
from vlmguard.explain.settled.fault import Settled, numbers

LIB = "/env/lib/python3.10/site-packages/"
OWN = 'File "/app/train.py", line 88, in main\n    trainer.train()\n'


def log(said, *frames, first=OWN):
    inner = "".join(f'  File "{LIB}{path}", line 7, in {name}\n    {code}\n' for path, name, code in frames)
    return f"Traceback (most recent call last):\n  {first}{inner}{said}\n"


DISPATCHED = ("accelerate/data_loader.py", "_fetch_batches", "batch = concatenate(batches, dim=0)")
JOINED = ("accelerate/utils/operations.py", "concatenate", "return torch.cat(data, dim=dim)")
TRAINER = ("transformers/trainer.py", "training_step", "self.accelerator.backward(loss, **kwargs)")
SERVING = ("vllm/v1/worker/gpu_worker.py", "init_device", "raise ValueError(")
FREE = "ValueError: Free memory on device ({}/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB)."
BEST = "ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found\n- Evaluation strategy: IntervalStrategy.{}\n- Save strategy: SaveStrategy.{}"
ZERO = ("deepspeed/runtime/zero/stage_1_and_2.py", "has_overflow_partitioned_grads_serial", "for j, grad in enumerate(self.averaged_gradients[i]):")
NESTED = "ValueError: Unable to create tensor, you should probably activate truncation and/or padding. Perhaps your features (`{}` in this case) have excessive nesting (inputs type `list` where type `int` is expected)."

# log → the beginning of the first step
ROWS = (
    ("torchrun run_mlm.py --deepspeed ds.json\n" + log("NotImplementedError: Model data type and gradient accumulation data type must be equal to use ZeRO", ("deepspeed/runtime/engine.py", "_do_optimizer_sanity_check", "raise NotImplementedError(")), '"data_types": {"grad_accum_dtype": "bf16"} in ds.json'),
    ("x.py: error: argument --coord_norm_type/--coord-norm-type: invalid choice: 'qwen2p5vl' (choose from q, w, e, n, 2, v, l, ,,  , q, w)\n", "choices of the field coord_norm_type"),
    ("error: #error -- unsupported GNU version! gcc versions later than 12 are not supported!\n" + log("RuntimeError: Error building extension 'fused_adam'", ("torch/utils/cpp_extension.py", "_run_ninja_build", "raise RuntimeError(message) from e")), "CC=gcc-12 CXX=g++-12"),
    ("WARNING User-specified max_model_len (40960) is greater than the derived max_model_len (max_position_embeddings=32768 or model_max_length=None in model's config.json).\n/tmp/x.py:29: unknown: block: [70,0,0], thread: [30,0,0] Assertion `index out of bounds: 0 <= tmp16 < 32768` failed.\n" + log("RuntimeError: CUDA error: device-side assert triggered"), "--vllm_max_model_len 32768"),
    (log("TypeError: read_json() got an unexpected keyword argument 'dtype_backend'") + "\nThe above exception was the direct cause of the following exception:\n\n" + log("datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset"), "python -m pip install -U 'pandas>=2.0'"),
    (log("NotImplementedError: Using RTX 4000 series doesn't support faster communication broadband via P2P or IB.", ("accelerate/state.py", "__init__", "raise NotImplementedError(")), "NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1"),
    (log("NameError: name 'colossal_C' is not defined", ("colossalai/utils/common.py", "_calc_l2_norm", "colossal_C.multi_tensor_l2norm,")), "CUDA_EXT=1 python -m pip install"),
    (log("TypeError: MiniCPMV.__init__() got an unexpected keyword argument 'init_vision'", ("transformers/modeling_utils.py", "from_pretrained", "model = cls(config, *model_args, **model_kwargs)")), "/app/train.py:88: without init_vision"),
    ("ERROR 08-20 09:48:31 [pynccl_wrapper.py:229] Failed to load NCCL library from /w/libnccl.so.2.21.5. It is expected if you are not running on NVIDIA/AMD GPUs.\n", "unset VLLM_NCCL_SO_PATH"),
    (log("AttributeError: 'list' object has no attribute 'read'", ("PIL/Image.py", "open", "fp = io.BytesIO(fp.read())")), "/app/train.py:88: print(image)"),
    (log("ValueError: The dataset appears to be vision-related (contains 'image' or 'images' keys), but the provided model does not seem to be a vision-language model. Please check your model and dataset.", ("trl/trainer/sft_trainer.py", "__init__", "raise ValueError(")), "processing_class=processor"),
    (log("FileNotFoundError: [Errno 2] No such file or directory: '/env/lib/python3.10/site-packages/colossalai/kernel/extensions/pybind/optimizer/optimizer.cpp'", ("torch/utils/_cpp_extension_versioner.py", "hash_source_files", "with open(filename) as file:")), "python -m pip uninstall -y colossalai"),
    (log("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5 Last error: Failed to open libnvidia-ml.so.1", ("torch/distributed/distributed_c10d.py", "barrier", "work = group.barrier(opts=opts)")), "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
    ("llamafactory-cli train --model_name_or_path /m/gemma-3-270m-it --template gemma3\n" + log("ValueError: Processor was not found, please check and update your model file."), "template: gemma"),
    (log("KeyError: 'blocks.0.mlp.gate_proj.weight'", ("trl/trainer/grpo_trainer.py", "_move_model_to_vllm", "llm_model.load_weights(x)"), ("vllm/model_executor/models/qwen3_vl.py", "load_weights", "param = params_dict[name]")), "python -m pip install -U vllm trl transformers"),
    (log("RuntimeError: use_libuv was requested but PyTorch was build without libuv support", ("torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py", "next_rendezvous", "self._store = TCPStore(")), "python TRAIN.py …  # or without FORCE_TORCHRUN"),
    (log("RuntimeError: use_libuv was requested but PyTorch was build without libuv support", ("torch/distributed/rendezvous.py", "_create_c10d_store", "return TCPStore(")), "USE_LIBUV=0 in front"),
    (log("RuntimeError: Failed to find function HcclCommInitRootInfoConfig", ("torch/distributed/distributed_c10d.py", "barrier", "work = group.barrier(opts=opts)")), "cat /usr/local/Ascend/ascend-toolkit/latest/"),
    ("torchrun train.py --bits 4 --deepspeed scripts/zero3.json\n" + log("NotImplementedError: Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead", ("accelerate/big_modeling.py", "dispatch_model", "model.to(device)")), '"stage": 2 under "zero_optimization" in scripts/zero3.json'),
    (log("ValueError: zip() argument 2 is longer than argument 1", ("torch/optim/lr_scheduler.py", "_update_lr", "for param_group, lr in zip(self.optimizer.param_groups, values, strict=True):")), "python -m pip install 'torch<2.10' torchvision"),
    (log("safetensors_rust.SafetensorError: Error while serializing: I/O error: Invalid argument (os error 22)", ("safetensors/torch.py", "save_file", "serialize_file(_flatten(tensors), filename, metadata=metadata)")), "--output_dir FOLDER_ON_A_LOCAL_DISK"),
    (log("OSError: Unable to load weights from pytorch checkpoint file for 'LLaVA-7B-v0/pytorch_model-00001-of-00002.bin' at 'LLaVA-7B-v0/pytorch_model-00001-of-00002.bin'. If you tried"), "ls -l LLaVA-7B-v0; head -c 130 LLaVA-7B-v0/pytorch_model-00001-of-00002.bin"),
    (log("TypeError: Couldn't cast array of type list<item: string> to null", ("llamafactory/data/loader.py", "_get_preprocessed_dataset", "dataset = dataset.map("), ("datasets/table.py", "array_cast", "raise TypeError(")), "preprocessing_num_workers: 1"),
    ("swift sft --deepspeed zero3 --model Qwen/Qwen2.5-VL-7B\n" + log("ValueError: DeepSpeed is not compatible with `device_map`. n_gpu: 3, local_world_size: 1."), "NPROC_PER_NODE=3 in front"),
    ("swift sft --deepspeed zero3 --torch_dtype bfloat16 --model Qwen/Qwen2.5-VL-7B\n" + log("TypeError: output tensor must have the same type as input tensor", ("torch/distributed/distributed_c10d.py", "all_gather_into_tensor", "x")), "--deepspeed zero2"),
    ("swift sft --deepspeed zero3 --model Qwen/Qwen2.5-VL-7B\n" + log("TypeError: output tensor must have the same type as input tensor", ("torch/distributed/distributed_c10d.py", "all_gather_into_tensor", "x")), "--torch_dtype bfloat16"),
    (log("ValueError: The model you want to train is loaded in 8-bit precision.  if you want to fine-tune an 8-bit model, please make sure that you have installed `bitsandbytes>=0.37.0`."), "--model_name_or_path FOLDER_OF_THE_UNQUANTISED_MODEL"),
    (log("ImportError: /opt/anaconda3/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /home/u/.cache/torch_extensions/py39_cu117/cpu_adam/cpu_adam.so)"), "conda install -y -c conda-forge libstdcxx-ng"),
    (log("ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /home/u/.cache/torch_extensions/py39_cu117/cpu_adam/cpu_adam.so)"), "LD_LIBRARY_PATH=$CONDA_PREFIX/lib"),
    (log("ValueError: Some specified arguments are not used by the HfArgumentParser: ['--scale_factor', '2']", first='File "/a/TokenPacker/llava/train/train_mem.py", line 13, in <module>\n    train()\n  File "/a/LLaVA/llava/train/train.py", line 793, in train\n    x\n'), "python -m pip uninstall -y llava; python -m pip install -e /a/TokenPacker"),
    (log("ValueError: Some specified arguments are not used by the HfArgumentParser: ['--scale_factor', '2']", first='File "/a/LLaVA/llava/train/train_mem.py", line 13, in <module>\n    train()\n  File "/a/LLaVA/llava/train/train.py", line 793, in train\n    x\n'), "grep -rn"),
    (log("RuntimeError: You can't use batches of different size with `dispatch_batches=True` or when using an `IterableDataset`.", TRAINER, DISPATCHED), "--accelerator_config '{\"dispatch_batches\": false}'"),
    (log("RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 6 but got size 9 for tensor number 1 in the list.", DISPATCHED, JOINED), "Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False))"),
    (log("KeyError: 0", ZERO), "/app/train.py:88: engine.backward(loss)"),
    (log("RuntimeError: Output 0 of ViewBackward0 is a view and its base or another view of its base has been modified inplace.", ("torch/distributed/fsdp/fully_sharded_data_parallel.py", "forward", "x")), "auto_wrap_policy="),
    (log("IndexError: index 0 is out of bounds for dimension 0 with size 0", ("transformers/modeling_utils.py", "_init_weights", "module.weight.data[module.padding_idx].zero_()")), '"zero_optimization": {"stage": 2}'),
    (log("AttributeError: 'Accelerator' object has no attribute 'deepspeed_engine_wrapped'"), "model, optimizer, loader, scheduler = accelerator.prepare("),
    (log("AttributeError: 'Accelerator' object has no attribute 'deepspeed_engine_wrapped'", TRAINER), "python -m pip install -U transformers accelerate deepspeed"),
    (log("AttributeError: 'DeepSpeedZeroOptimizer_Stage3' object has no attribute 'train'", ("accelerate/optimizer.py", "train", "return self.optimizer.train()")), "python -m pip install -U 'accelerate>=0.34'"),
    (log("TypeError: Qwen2VLForConditionalGeneration.forward() got an unexpected keyword argument 'num_items_in_batch'"), "trainer.model_accepts_loss_kwargs = False"),
    (log("AttributeError: 'GemmaForCausalLM' object has no attribute 'vllm_engine'"), "fast_inference=True in FastLanguageModel"),
    (log("AttributeError: 'LLMEngine' object has no attribute 'model_executor'", ("trl/trainer/x.py", "y", "z")), "VLLM_ENABLE_V1_MULTIPROCESSING=0 in front"),
    (log(FREE.format("12.3"), SERVING), "nvidia-smi --query-compute-apps"),
    (log(FREE.format("52.3"), SERVING), "--vllm_gpu_memory_utilization 0.63"),
    (log("ValueError: To serve at least one request with the models's max seq len (131072), 16.00 GiB KV cache is needed. Based on the available memory, the estimated maximum model length is 25536.", SERVING), "--vllm_max_model_length 25536"),
    (log(BEST.format("NO", "EPOCH"), ("transformers/training_args.py", "__post_init__", "raise")), "--eval_strategy epoch"),
    (log(BEST.format("EPOCH", "STEPS"), ("transformers/training_args.py", "__post_init__", "raise")), "--save_strategy epoch"),
    (log(BEST.format("STEPS", "NO"), ("transformers/training_args.py", "__post_init__", "raise")), "--save_strategy steps"),
    (log("ValueError: --load_best_model_at_end requires the saving steps to be a round multiple of the evaluation steps, but found 500, which is not a round multiple of 200.", ("transformers/training_args.py", "__post_init__", "raise")), "--save_steps 400"),
    (log("KeyError: 'eval_loss'", ("transformers/trainer.py", "_save_checkpoint", "metric_value = metrics[metric_to_check]")), "--label_names labels"),
    (log(NESTED.format("domain"), ("transformers/tokenization_utils_base.py", "convert_to_tensors", "raise")), "dataset = dataset.map(…, remove_columns=dataset.column_names)"),
    (log(NESTED.format("labels"), ("transformers/tokenization_utils_base.py", "convert_to_tensors", "raise")), "data_collator=DataCollatorForSeq2Seq"),
    (log("AttributeError: 'OurTrainer' object has no attribute 'deepspeed'"), "python -m pip install 'transformers==4.28.1'"),
    (log("ImportError: cannot import name 'HybridCache' from 'transformers' (/env/x)", ("peft/peft_model.py", "<module>", "x")), "python -m pip install -U 'peft>=0.18'"),
    (log("ValueError: Feature type 'List' not found. Available feature types: ['Value']", ("datasets/features/features.py", "generate_from_dict", "x")), "python -m pip install -U 'datasets>=4'"),
    (log("RuntimeError: Dataset scripts are no longer supported, but found name.py", ("datasets/load.py", "dataset_module_factory", "x")), "python -m pip install 'datasets<4'"),
    (log("pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays", ("datasets/arrow_dataset.py", "_map_single", "x")), "writer_batch_size=100"),
    (log("huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/datasets/o/n", ("huggingface_hub/utils/_http.py", "hf_raise_for_status", "x")), "hf auth whoami || hf auth login"),
    (log("safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization", ("peft/utils/save_and_load.py", "load_peft_weights", "x")), "take the lines old_state_dict"),
    (log("ValueError: When using DeepSpeed, `accelerate.prepare()` requires you to pass at least one of training or evaluation dataloaders with `batch_size` attribute", ("accelerate/accelerator.py", "_prepare_deepspeed", "x")), "AcceleratorState().deepspeed_plugin.deepspeed_config.update(train_micro_batch_size_per_gpu=1)  # in front of /app/train.py:88"),
    (log("RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)", ("trl/extras/vllm_client.py", "init_communicator", "x")), "--vllm_mode colocate"),
    (log("RuntimeError: ZeRO3 is incompatible with LoRA when finetuning on base model."), "--deepspeed finetune/ds_config_zero2.json"),
    (log("RuntimeError: Only Tensors of floating point and complex dtype can require gradients", ("deepspeed/runtime/zero/partition_parameters.py", "wrapper", "f(module)")), '"stage": 2 under'),
    (log("RuntimeError: expected there to be only one unique element in <generator object Init._convert_to_deepspeed_param.<locals>.all_gather_coalesced.<locals>.<genexpr>>"), "load_in_8bit=True (load_in_4bit) out"),
    (log("RuntimeError: still have inflight params [{'id': 5}]", ("deepspeed/runtime/zero/partitioned_param_coordinator.py", "reset_step", "x")), '"stage3_prefetch_bucket_size": 0'),
    (log("AttributeError: 'DeepSpeedZeRoOffload' object has no attribute 'backward'"), "deepspeed.initialize(model=model, model_parameters="),
    (log("RuntimeError: Error(s) in loading state_dict for M:\n\tWhile copying, an exception occurred : ('aten.copy_.default: got mixed torch.Tensor and DTensor',)."), "set_model_state_dict(model, full_state"),
    (log("KeyError: None", ("torch/distributed/fsdp/fully_sharded_data_parallel.py", "set_state_dict_type", "c = _state_dict_type_to_config[state_dict_type]")), "python -m pip install -U 'transformers>=4.34'"),
    (log("ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision with `device_map='auto'` in any distributed mode."), 'device_map={"": int(os.environ'),
    (log("RuntimeError: expected scalar type Half but found Float", ("bitsandbytes/autograd/_functions.py", "backward", "x")), 'with torch.autocast("cuda"): trainer.train()'),
    (log("ValueError: Tokenizer class Qwen2Tokenizer does not exist or is not currently imported."), "python -m pip install -U 'transformers>=4.37'"),
    (log("AttributeError: 'list' object has no attribute 'keys'", ("transformers/tokenization_utils_base.py", "_set_model_specific_special_tokens", "x")), "python -m pip install -U 'transformers>=5'"),
    (log("TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'"), "python -m pip install 'accelerate<1.0'"),
    (log("ImportError: cannot import name 'log' from 'torch.distributed.elastic.agent.server.api' (/x)", ("deepspeed/x.py", "<module>", "x")), "python -m pip install -U 'deepspeed>=0.14.1'"),
    (log("TypeError: DPOTrainer.__init__() got an unexpected keyword argument 'beta'"), "args=DPOConfig(beta=…, …)"),
    (log("TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'max_seq_length'"), "args=SFTConfig(max_length=…, …)"),
    (log("ValueError: You are attempting to perform batched generation with padding_side='right' this may lead to unexpected behaviour for Flash Attention version of Qwen2."), "model.config.use_cache = False"),
    (log("OSError: [Errno 39] Directory not empty: '/r/tmp-checkpoint-s0' -> '/r/checkpoint-50'", ("transformers/trainer.py", "_save_checkpoint", "os.renames(output_dir, checkpoint_dir)")), "python -m pip install 'transformers==4.49.0'"),
    (log("AttributeError: 'Gemma3Config' object has no attribute 'vocab_size'"), "/app/train.py:88: config.get_text_config().vocab_size"),
    (log("AttributeError: 'Gemma3Config' object has no attribute 'vocab_size'", ("peft/peft_model.py", "x", "y")), "python -m pip install -U peft"),
    (log("pyarrow.lib.ArrowInvalid: JSON parse error: Column(/a/[]/value) changed from string to array in row 5", ("datasets/packaged_modules/json/json.py", "_generate_tables", "x")), "python -c $'import json, sys\\nt, k = open(sys.argv[1]).read(), {}"),
    (log("ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now require users to upgrade torch to at least v2.6", ("transformers/utils/import_utils.py", "check_torch_load_is_safe", "x")), "python -m pip install -U 'torch>=2.6' torchvision"),
    (log("AssertionError", ("deepspeed/runtime/state_dict_factory.py", "check_ckpt_list", "assert len(self.ckpt_list) > 0")), "ls CHECKPOINT/global_step*"),
    (log("TypeError: flash_attn_varlen_func() got an unexpected keyword argument 'softcap'"), "python -m pip install --no-build-isolation -U 'flash-attn>=2.6'"),
    (log("ValueError: InternVLChatModel does not support gradient checkpointing.", ("transformers/trainer.py", "train", "x")), "--gradient_checkpointing false"),
    (log("ValueError: M does not support an attention implementation through torch.nn.functional.scaled_dot_product_attention yet."), 'attn_implementation="eager"'),
    (log("TypeError: M._set_gradient_checkpointing() got an unexpected keyword argument 'enable'"), "python -m pip install 'transformers<4.35'"),
    (log("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", ("trl/trainer/grpo_trainer.py", "__init__", "x"), ("torch/cuda/__init__.py", "_lazy_init", "x"), ("/vllm/worker.py", "y", "z")), "VLLM_WORKER_MULTIPROCESSING_METHOD=spawn in front"),
    (log("RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 8 but got size 9 for tensor number 1 in the list.", ("accelerate/accelerator.py", "gather_for_metrics", "x"), ("accelerate/utils/operations.py", "gather", "x")), "x = accelerator.pad_across_processes("),
    (log("RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient."), "/app/train.py:88: leave DistributedDataParallel(…) out"),
    (log('ValueError: Unknown split "train". Should be one of [\'test\', \'validation\'].', ("datasets/arrow_reader.py", "x", "y")), 'split="test" in load_dataset(…)'),
    (log("ValueError: Attempted to assign 25 + 25 + 25 = 75 multimodal tokens to 147 placeholders", ("vllm/model_executor/models/utils.py", "_merge_multimodal_embeddings", "x")), '{"prompt": processor.apply_chat_template('),
    (log("ValueError: Attempted to assign 256 multimodal tokens to 200 placeholders", ("vllm/model_executor/models/utils.py", "_merge_multimodal_embeddings", "x")), "--max_prompt_length 8192"),
    (log("ValueError: vllm_tensor_parallel_size (4) must divide world size (6) evenly.", ("trl/trainer/grpo_trainer.py", "__init__", "x")), "--vllm_tensor_parallel_size 2"),
    (log('Exception: Request failed: 404, {"detail":"Not Found"}', ("trl/extras/vllm_client.py", "generate", "x")), "trl vllm-serve --model MODEL"),
    (log("RuntimeError: Error no kernel image is available for execution on the device at line 62 in file /src/csrc/ops.cu"), "python -m pip install -U bitsandbytes"),
    (log("RuntimeError: Data processing error: CAS service error : ReqwestMiddleware Error", ("huggingface_hub/file_download.py", "xet_get", "x")), "HF_HUB_DISABLE_XET=1 in front"),
    (log("huggingface_hub.errors.HfHubHTTPError: 416 Client Error: Requested Range Not Satisfiable for url: https://x"), 'find "${HF_HOME:-$HOME/.cache/huggingface}" -name "*.incomplete" -delete'),
    (log("ValueError: You are trying to load a dataset that was saved using `save_to_disk`. Please use `load_from_disk` instead."), "datasets.load_from_disk(FOLDER)"),
    (log("ValueError: Invalid image type. Expected either PIL.Image.Image, but got <class 'str'>."), 'Image.open(path).convert("RGB")  # for each path, in /app/train.py:88'),
    (log("ValueError: Could not make a flat list of images from [[None], [None]]"), 'dataset = dataset.filter(lambda row: row["image"] is not None)'),
    (log("ValueError: The number of images in each batch [1, 1] should be the same  [1, 1] should be the same."), "processor(text=texts, images=[[image] for image in images]"),
    (log("ValueError: The number of images in the text [0] and images [1] should be the same."), 'content=[{"type": "image"}, {"type": "text"'),
    (log("ValueError: The number of images in the text [2] and images [1] should be the same."), "python -c 'import json"),
    (log("ValueError: A formatting function was provided while `completion_only_loss=True`, which is incompatible.", ("trl/trainer/sft_trainer.py", "__init__", "x")), "completion_only_loss=False in SFTConfig"),
    (log("RuntimeError: Expected to mark a variable ready only once. Parameter at index 440 with name backbone.layers.3.fc2.bias has been marked as ready twice.", ("torch/utils/checkpoint.py", "backward", "x")), "grep -rnE '(checkpoint|cp)"),
    (log("RuntimeError: Expected to mark a variable ready only once. Parameter at index 44 with name model.layers.3.mlp.up_proj.weight has been marked as ready twice.", ("torch/utils/checkpoint.py", "backward", "x")), "use_reentrant=False: model.gradient_checkpointing_enable("),
    (log("RuntimeError: The expanded size of the tensor (32001) must match the existing size (0) at non-singleton dimension 0.", ("transformers/modeling_utils.py", "_get_resized_embeddings", "x")), "python -m pip install -U 'transformers>=4.32' deepspeed"),
    (log("NotImplementedError: You are calling `save_pretrained` on a 4-bit converted model. This is currently not supported", ("transformers/modeling_utils.py", "save_pretrained", "x")), "python -m pip install -U 'bitsandbytes>=0.41.3'"),
    (log("AttributeError: 'NoneType' object has no attribute 'next_functions'", ("deepspeed/runtime/utils.py", "count_used_parameters_in_backward", "x")), "python -m pip install -U 'deepspeed>=0.18.7'"),
    (log("AssertionError: count_used_parameters_in_backward requires internal PyTorch APIs that are not available in this PyTorch build."), "python -m pip install 'deepspeed<0.18.3'"),
    (log("TypeError: DPOTrainer.__init__() got an unexpected keyword argument 'processing_class'"), "python -m pip install -U 'trl>=0.12'"),
    (log("TypeError: Trainer.__init__() got an unexpected keyword argument 'processing_class'"), "python -m pip install -U 'transformers>=4.46'"),
    (log("TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'", ("trl/trainer/sft_trainer.py", "__init__", "super().__init__(")), "python -m pip install -U 'trl>=0.12'"),
    (log("TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'"), "processing_class=tokenizer instead of tokenizer=tokenizer"),
    (log("ValueError: `.to` is not supported for `4-bit` or `8-bit` bitsandbytes models. Please use the model as it is", ("accelerate/big_modeling.py", "dispatch_model", "model.to(device)")), "python -m pip install 'accelerate<1.2'"),
    (log("ValueError: `.to` is not supported for `4-bit` or `8-bit` models. Please use the model as it is", ("accelerate/big_modeling.py", "dispatch_model", "model.to(device)")), "python -m pip install -U transformers accelerate bitsandbytes"),
    (log("ValueError: weight is on the meta device, we need a `value` to put in on 0.", ("transformers/modeling_utils.py", "from_pretrained", "dispatch_model(model, **kwargs)")), "from_pretrained(…, low_cpu_mem_usage=True)"),
    (log("RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all", ("peft/peft_model.py", "generate", "x")), "python -m pip install -U 'transformers>=5'"),
    (log("RuntimeError: aten._foreach_norm.Scalar: got mixed torch.Tensor and DTensor, need to convert all", ("torch/nn/utils/clip_grad.py", "_get_total_norm", "x")), "--max_grad_norm 0"),
    (log("RuntimeError: The size of tensor a (778567680) must match the size of tensor b (155713536) at non-singleton dimension 0", ("deepspeed/ops/adam/cpu_adam.py", "step", "x")), "ls CHECKPOINT/global_step*/*optim_states.pt | wc -l"),
    (log("ImportError: cannot import name 'PartialState' from 'accelerate' (/env/x)"), "python -m pip install 'accelerate>=0.17'"),
    (log("ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.20.1`", first='File "/tmp/ipykernel_28/1.py", line 5, in <module>\n    x\n'), "python -m pip install 'accelerate>=0.20.1'  # in the environment of the job: then restart the notebook's kernel"),
    (log("TypeError: LoraConfig.__init__() got an unexpected keyword argument 'use_dora'", first='File "/app/adapter.py", line 16, in init_adapter\n    x = LoraConfig(\n'), "python -m pip install -U peft  # the code gives use_dora"),
    (log("TypeError: LoraConfig.__init__() got an unexpected keyword argument 'use_dora'", ("peft/config.py", "from_pretrained", "x")), "python -m pip install -U peft  # the adapter was saved by a newer one"),
    ("deepspeed --include localhost:0,1,2,3,4,5,6 train_sft --train_batch_size 256 --micro_train_batch_size 2\n" + log("AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 2 * 18 * 7"), "--train_batch_size 252"),
    (log("RuntimeError: Error(s) in loading state_dict for PeftModel:\n\tsize mismatch for base_model.h.0.lora_A.default.weight: copying a param with shape torch.Size([16, 4096]) from checkpoint, the shape in current model is torch.Size([8, 4096]).", ("peft/peft_model.py", "from_pretrained", "x")), "grep -E"),
    ("accelerate launch -m axolotl.cli.train a.yml\n" + log("ValueError: Cannot flatten integer dtype tensors", ("axolotl/train.py", "train", "x"), ("torch/distributed/fsdp/_flat_param.py", "_validate_tensors_to_flatten", "x")), "load_in_8bit: false"),
    (log("torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\nNumber of tensors saved during forward: 27\nNumber of tensors saved during recomputation: 8", ("torch/utils/checkpoint.py", "unpack_hook", "x")), "with torch.utils.checkpoint.set_checkpoint_debug_enabled(True)"),
    (log("AttributeError: 'MatmulLtState' object has no attribute 'memory_efficient_backward'", ("peft/tuners/lora/bnb.py", "dispatch_bnb_8bit", "x"), ("torch/nn/modules/module.py", "__getattr__", "x")), "python -m pip install -U 'peft>=0.14' bitsandbytes"),
    (log("AttributeError: type object 'FullyShardedDataParallelPlugin' has no attribute 'get_module_class_from_name'", ("peft/utils/other.py", "fsdp_auto_wrap_policy", "x")), "python -m pip install -U 'peft>=0.11'"),
    (log("AttributeError: 'FullyShardedDataParallelPlugin' object has no attribute 'activation_checkpointing'", TRAINER), "python -m pip install -U 'accelerate>=0.23'"),
    (log("AttributeError: 'AcceleratorState' object has no attribute 'distributed_type'", first='File "/a/LLaVA/llava/train/train.py", line 97, in train\n    x\n'), "python -m pip install 'accelerate==0.21.0'"),
    (log("AttributeError: 'AcceleratorState' object has no attribute 'distributed_type'"), "python -m pip install -U accelerate transformers"),
    (log("AttributeError: 'GradientState' object has no attribute 'plugins'", TRAINER), "python -m pip install -U transformers accelerate"),
    (log("ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half precision evaluation (`--fp16_full_eval`) can only be used on CUDA devices."), "python -c 'import os, torch; print("),
    (log("RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cuda:1", ("torch/nn/parallel/data_parallel.py", "forward", "raise RuntimeError(")), "CUDA_VISIBLE_DEVICES=0 in front"),
    (log("StopIteration: Caught StopIteration in replica 0 on device 0.", ("transformers/models/x.py", "forward", "m = m.to(dtype=next(self.parameters()).dtype)")), "CUDA_VISIBLE_DEVICES=0 in front"),
    (log("RuntimeError: expected mat1 and mat2 to have the same dtype, but got: c10::Half != c10::BFloat16", ("deepspeed/runtime/zero/linear.py", "forward", "x")), '"zero_quantized_weights": false'),
    (log("RuntimeError: {'id': 1, 'status': 'INFLIGHT'} already in registry", first='File "/x/training/step3_rlhf_finetuning/ppo.py", line 98, in gen\n    x\n'), "python -m pip install -U 'deepspeed>=0.9.3'"),
    (log("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/env/x)"), 'python -m pip install --force-reinstall --no-deps "$(python -c'),
    (log("ModuleNotFoundError: No module named 'transformers.modeling_layers'", ("peft/tuners/lora/model.py", "<module>", "x")), "python -m pip install 'peft<0.18'"),
    (log("AttributeError: 'BloomForCausalLM' object has no attribute 'get_submodule'", ("peft/mapping.py", "get_peft_model", "return MODEL_TYPE_TO_PEFT_MODEL_MAPPING[t](model)"), ("torch/nn/modules/module.py", "__getattr__", "x")), "python -m pip install -U 'torch>=1.9'"),
    (log("AttributeError: 'TinyLlava' object has no attribute 'peft_config'"), '/app/train.py:88: getattr(model, "peft_config", None)'),
    (log("UnicodeDecodeError: 'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte", ("datasets/load.py", "dataset_module_factory", "x")), "python -m pip install -U 'datasets>=3,<4' huggingface_hub"),
    (log("RuntimeError: The size of tensor a (70) must match the size of tensor b (69) at non-singleton dimension 3", ("transformers/trainer_seq2seq.py", "prediction_step", "self.model.generate("), ("transformers/models/q.py", "forward", "attn_weights + causal_mask")), "the same command without deepspeed"),
    ("bash tools/dist_train.sh configs/p.py 4\n" + log("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.", ("mmcv/parallel/distributed.py", "train_step", "x")), "--cfg-options find_unused_parameters=True"),
    (log("ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group", ("torch/optim/optimizer.py", "load_state_dict", "x"), first='File "/app/main.py", line 189, in main\n    optimizer.load_state_dict(checkpoint["optimizer"])\n'), "/app/main.py:189: leave optimizer.load_state_dict(…) out"),
    (log("ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group", ("torch/optim/optimizer.py", "load_state_dict", "x")), "print(sum(p.requires_grad"),
    (log("AttributeError: 'list' object has no attribute 'keys'", ("accelerate/utils/dataclasses.py", "__post_init__", "{list(FSDP_AUTO_WRAP_POLICY.keys())}")), "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"),
    (log("Exception: Could not find the transformer layer class to wrap in the model.", ("accelerate/test_utils/scripts/test_script.py", "main", "x")), "accelerate launch --config_file FSDP.yaml YOUR_SCRIPT.py"),
    (log("RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk", ("accelerate/checkpointing.py", "save_accelerator_state", "x")), "accelerator.save_state(FOLDER, safe_serialization=False)"),
    (log("TypeError: __init__() got an unexpected keyword argument 'enable_lora'", ("peft/config.py", "from_pretrained", "x")), "sed -i.bak -E"),
    (log("ImportError: cannot import name 'flash_attn_func' from 'flash_attn' (/env/flash_attn/__init__.py)"), "python -m pip install -U --no-build-isolation 'flash-attn>=2'"),
    (log("RuntimeError: linalg.svd: The input tensor A must have at least 2 dimensions.", ("peft/tuners/lora/layer.py", "pissa_init", "x")), "python -m pip install -U 'peft>=0.12'"),
    (log("TypeError: LlamaForCausalLM.__init__() got an unexpected keyword argument 'load_in_8bit'", ("transformers/modeling_utils.py", "from_pretrained", "model = cls(config, *model_args, **model_kwargs)")), "quantization_config=BitsAndBytesConfig(load_in_8bit=True)"),
    ("llamafactory-cli train a.yaml\nRunning tokenizer on dataset (num_proc=512):  98%|###| 81273/82730 [01:36<00:01, 843.85 examples/s]\n" + log("RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable multiprocessing."), "preprocessing_num_workers: 8"),
    ("deepspeed finetune.py --preprocessing_num_workers 2\n" + log("TypeError: cannot pickle 'torch._C._distributed_c10d.ProcessGroup' object", ("datasets/arrow_dataset.py", "map", "x"), ("dill/_dill.py", "save", "x")), "--preprocessing_num_workers 1"),
    (log("TypeError: output tensor must have the same type as input tensor", ("deepspeed/runtime/zero/partition_parameters.py", "_allgather_params_coalesced", "x"), ("torch/distributed/distributed_c10d.py", "all_gather_into_tensor", "x")), "python -m pip install -U 'deepspeed>=0.19.3'"),
    (log("FileNotFoundError: [Errno 2] No such file or directory: 'rng_state_3.pth'", ("transformers/trainer.py", "_inner_training_loop", "shutil.rmtree(checkpoint)"), ("shutil.py", "_rmtree_safe_fd", "x")), "python -m pip install -U 'transformers>=4.26'"),
    (log("FileNotFoundError: [Errno 2] No such file or directory: 'out/checkpoints/checkpoint_0'", ("accelerate/accelerator.py", "save_state", "shutil.rmtree(folder)")), "python -m pip install -U 'accelerate>=0.23'"),
    (log("RuntimeError: expected scalar type Float but found BFloat16", first='File "/a/LLaVA/llava/model/llava_arch.py", line 96, in encode_images\n    x = self.get_model().mm_projector(image_features)\n'), "deepspeed llava/train/train_mem.py"),
    (log("AttributeError: 'DynamicCache' object has no attribute 'get_max_length'. Did you mean: 'get_seq_length'?"), "python -m pip install 'transformers<4.49'"),
    (log("AttributeError: 'DynamicCache' object has no attribute 'seen_tokens'"), "python -m pip install 'transformers<4.54'"),
    ("transformers==4.52.4\n" + log("AttributeError: 'InternLM2ForCausalLM' object has no attribute 'generate'"), "python -m pip install 'transformers<4.52'"),
    ("transformers==4.44.0\n" + log("AttributeError: 'InternLM2ForCausalLM' object has no attribute 'generate'"), "python -m pip show transformers"),
    (log("TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'warmup_ratio'"), "warmup_steps instead of warmup_ratio"),
)  # fmt: skip


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_the_first_step_is_what_mended_it(row, tmp_path):
    text, begins = ROWS[row]
    (tmp_path / "train.log").write_text(text)
    said = show.text(*explain([str(tmp_path / "train.log")]))
    assert not said.startswith("unfinished")
    steps = [line.strip() for line in said.split("\n") if line.startswith(("  1. ", "  - "))]
    assert steps[0].removeprefix("1. ").removeprefix("- ").startswith(begins), steps


def test_a_release_that_is_told_decides():
    fault = Settled(said=("x",), steps=("y",), since="trl 0.9", mended="trl 0.27")
    assert fault.fits("x", "", {})
    assert fault.fits("x", "", {"trl": "0.26.1"})
    assert not fault.fits("x", "", {"trl": "0.27.0"})
    assert not fault.fits("x", "", {"trl": "0.8"})
    assert numbers("4.46.0.dev0") == (4, 46, 0)


def test_words_are_narrow_and_steps_are_there():
    for fault in settled.TABLE:
        assert fault.steps
        assert sum(map(len, (*fault.said, *fault.trace))) >= 16, fault.said
