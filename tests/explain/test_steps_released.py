"""A known pin, a task's wrapper and a checkpoint's other form come before any inquiry."""

# ruff: noqa: E501
from __future__ import annotations

from vlmguard.explain import flags
from vlmguard.explain.catalogue import load
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import of_text

KNOWN = {known.code: known for known in load()}
VLLM = 'File "/e/site-packages/vllm/platforms/interface.py", line 183, in is_async_output_supported raise NotImplementedError'
PEFT = 'File "/e/site-packages/peft/peft_model.py", line 2037, in forward'
LLAVA = 'File "/w/LLaVA/llava/train/train.py", line 932, in train'
FETCH = 'File "/e/site-packages/transformers/trainer.py", line 5122, in get_batch_samples File "/w/t.py", line 41, in collate_fn texts = [p(e["messages"]) for e in examples] File "/w/t.py", line 41, in <listcomp>'
CONFIG = 'File "/e/site-packages/transformers/configuration_utils.py", line 1059, in _get_non_default_generation_parameters'
INTERN = 'File "/w/internvl_chat/internvl/train/internvl_chat_mpo.py", line 9, in main '
RETRO = 'File "/e/site-packages/FlagEmbedding/baai_general_embedding/retromae_pretrain/modeling.py", line 24, in __init__ File "/e/site-packages/torch/nn/modules/module.py", line 1688, in __getattr__'
FACTORY = "llamafactory-cli train x.yaml\nloading configuration file /m/{}/config.json\n"
PROCESSOR = "ValueError: Processor was not found, please check and update your processor config."

# What the log says of the run, class, message, trace → how the first step begins.
ROWS = (
    ("", "VG566", "NotImplementedError: ", VLLM, "python -m pip install 'vllm==0.7.1'"),
    ("vllm  0.7.2\ntrl                                      0.17.0\n", "VG566", "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'", "", "python -m pip install 'trl[vllm]==0.17.0'"),
    ("", "VG566", "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'", "", "python -m pip install -U 'vllm>=0.8.3'"),
    ("", "VG570", "TypeError: Qwen2_5_VLForConditionalGeneration.forward() got an unexpected keyword argument 'decoder_input_ids'", PEFT, 'LoraConfig(…, task_type="CAUSAL_LM")'),
    ("", "VG570", "TypeError: ViTModel.forward() got an unexpected keyword argument 'inputs_embeds'", PEFT, "LoraConfig(…, task_type=None)"),
    ("", "VG570", "RuntimeError: Unsloth: Could not find an embedding module", "", "python -m pip install -U --no-cache-dir unsloth unsloth_zoo; rm -rf unsloth_compiled_cache"),
    ("", "VG570", "TypeError: forward() got an unexpected keyword argument 'padding_mask'", LLAVA, "python -m pip install 'transformers==4.31.0'"),
    ("", "VG570", "TypeError: forward() got an unexpected keyword argument 'padding_mask'", "", "python -m pip install 'transformers<4.34'"),
    ("", "VG570", "AttributeError: module 'transformers.models.llama.modeling_llama' has no attribute 'LLAMA_ATTENTION_CLASSES'", "", "python -m pip install 'transformers<4.48'"),
    ("", "VG552", "ImportError: cannot import name 'LlavaLlamaForCausalLM' from 'llava.model' (/w/LLaVA/llava/model/__init__.py)", "", "python -c 'import flash_attn, deepspeed' || python -m pip install --force-reinstall"),
    ("", "VG570", "AttributeError: 'VisionAttention' object has no attribute 'head_dim'", "", "python -m pip install -U 'transformers>=4.45.1'"),
    ("", "VG570", "UnboundLocalError: local variable 'default_config' referenced before assignment", CONFIG, "python -m pip install -U 'transformers>=4.46'"),
    ("", "VG570", "UnboundLocalError: local variable 'default_config' referenced before assignment", INTERN + CONFIG, "python -m pip install 'transformers==4.44.2'"),
    ("", "VG570", "KeyError: 'architectures'", 'File "transformers_modules/InternVL2-8B/configuration_internvl_chat.py", line 51, in __init__', "python -m pip install 'transformers==4.44.2'"),
    ("", "VG570", "AttributeError: 'BGEM3Model' object has no attribute 'save_pretrained'", 'File "/e/site-packages/FlagEmbedding/BGE_M3/trainer.py", line 20, in _save', "python -m pip install 'transformers==4.40.2'"),
    ("", "VG570", "AttributeError: 'XLMRobertaForMaskedLM' object has no attribute 'bert'", RETRO, "python -m pip install -U 'FlagEmbedding<1.3'"),
    ("", "VG570", "AttributeError: 'LlavaConfig' object has no attribute 'mlp_bias'", 'File "/w/LLaVA-NeXT/llava/model/language_model/llava_llama.py", line 50, in __init__', "python -m pip install -e '/w/LLaVA-NeXT[train]'"),
    ("", "VG570", "AttributeError: 'LoraModel' object has no attribute '_enable_peft_forward_hooks'", "", "python -m pip install 'peft>=0.10'"),
    ("", "VG570", "KeyError: 'prompt_input_ids'", 'File "/w/ms-swift/swift/trainers/dpo_trainer.py", line 114, in tokenize_row', "git -C /w/ms-swift pull; python -m pip install -e /w/ms-swift"),
    ("swift rlhf --rlhf_type dpo\n", "VG554", "KeyError: 'prompt'", 'File "/e/site-packages/trl/trainer/dpo_trainer.py", line 85, in _tokenize', "python -m pip install -U ms-swift"),
    ("llava/train/train_mem.py --model_name_or_path liuhaotian/llava-v1.6-34b --version v1\nWARNING: tokenization mismatch: 385 vs. 399. (ignored)\n", "VG593", "", "", "--version mpt"),
    ("", "VG582", "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True'. Perhaps your features (`text` in this case) have excessive nesting", "", "dataset = dataset.map(…, remove_columns=dataset.column_names)"),
    ("loading configuration file /m/qwen-ext/config.json\n", "VG522", 'ValueError: Trying to set a tensor of shape torch.Size([151938, 1024]) in "weight" (which has shape torch.Size([151936, 1024])), this look incorrect.', "", """sed -i 's/"vocab_size": 151936/"vocab_size": 151938/' /m/qwen-ext/config.json"""),
    ("llamafactory-cli export x.yaml\n", "VG522", "RuntimeError: Error(s) in loading state_dict for PeftModelForCausalLM: size mismatch for base_model.model.model.embed_tokens.modules_to_save.default.weight: copying a param with shape torch.Size([158656, 4096]) from checkpoint, the shape in current model is torch.Size([128256, 4096]).", "", "resize_vocab: true"),
    ("train_mem.py --bits 4 --deepspeed ./scripts/zero3.json --lora_enable True\n", "VG575", "ValueError: DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True` or with passing a `device_map`.", LLAVA, "--deepspeed ./scripts/zero2.json"),
    ("", "VG552", "ModuleNotFoundError: No module named 'colossalai.kernel.op_builder'", 'File "/w/ColossalAI/colossalai/nn/optimizer/cpu_adam.py", line 6, in <module>', "python -m pip install /w/ColossalAI"),
    ("", "VG552", "ImportError: cannot import name 'nullcontext'", "", "conda create -n py310 python=3.10"),
    ("", "VG552", "ImportError: cannot import name 'Self' from 'typing' (/usr/lib/python3.10/typing.py)", "", "conda create -n py311 python=3.11"),
    ("", "VG552", "pkg_resources.DistributionNotFound: The 'transformers<4.45,>=4.33' distribution was not found and is required by ms-swift", "", "python -m pip install -U ms-swift"),
    ("", "VG562", "RuntimeError: CUDA error: too many resources requested for launch", 'File "/e/site-packages/torch/nn/modules/conv.py", line 720, in _conv_forward return F.conv3d(', "--bf16 false --fp16 true"),
    ("", "VG562", "RuntimeError: CUDA driver error: operation not supported", "", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"),
    ("", "VG562", "RuntimeError: Host and device pointer dont match with cudaHostRegister. Please dont use this feature", "", "python -m pip install -U --no-cache-dir unsloth unsloth_zoo"),
    ("", "VG554", "KeyError: 'messages'", FETCH, "SFTConfig(…, remove_unused_columns=False, dataset_kwargs="),
    ("", "VG556", "ValueError: The checkpoint you are trying to load has model type `qwen3_vl` but Transformers does not recognize this architecture.", "", "python -m pip install 'transformers>=4.57'"),
    (FACTORY.format("InternVL2_5-8B"), "VG556", PROCESSOR, "", "model_name_or_path: OpenGVLab/InternVL2_5-8B-MPO-hf"),
    (FACTORY.format("InternVL3-2B"), "VG556", PROCESSOR, "", "model_name_or_path: OpenGVLab/InternVL3-2B-hf"),
)  # fmt: skip


def _first(said: str, code: str, message: str, trace: str) -> str:
    facts = of_text([said]).at(message, trace, "")
    return flags.say(KNOWN[code].remedies(facts)[0], facts)


def test_a_known_remedy_comes_first():
    for said, code, message, trace, first in ROWS:
        found = _first(said, code, message, trace)
        assert found.startswith(first), (code, message, found)


def test_not_for_another_release():
    assert "vllm==0.7.1" not in _first("vllm 0.9.2\n", "VG566", "NotImplementedError: ", VLLM)
    assert "MPO" not in _first(FACTORY.format("InternVL3-8B-hf"), "VG556", PROCESSOR, "")


def test_a_file_of_accelerates_that_names_its_stage():
    assert of_text(["accelerate launch --config_file deepspeed_zero3.yaml t.py\n"]).zero == 3


# What the command line betrays of ms-swift's release → its own names of an action.
SWIFT = (
    ("--sft_type lora", "zero3", "--deepspeed default-zero3"),
    ("--sft_type lora", "halve", "half of --batch_size and twice"),
    ("--sft_type lora", "eval_all", "--dataset_test_ratio 0.001"),
    ("--preprocess_num_proc 8", "map_workers", "--preprocess_num_proc 1"),
    ("x\n[INFO:swift] args: SftArguments(sft_type='lora', batch_size=1)", "zero3", "--deepspeed default-zero3"),
    ("--tuner_type lora\n[INFO:swift] args: SftArguments(bf16=True)", "zero3", "--deepspeed zero3"),
    ("--train_type lora", "zero3", "--deepspeed zero3"),
    ("--train_type lora --dataset_num_proc 8", "map_workers", "--dataset_num_proc 1"),
)


def test_each_swift_has_its_own_names():
    for words, action, said in SWIFT:
        facts = of_text([f"swift sft {words}\n"])
        assert flags.say(Do(action, "none"), facts).startswith(said), (words, action)
