"""A known pin, a task's wrapper and a checkpoint's other form come before any inquiry."""

# ruff: noqa: E501
from __future__ import annotations

from vlmguard.explain import flags
from vlmguard.explain.catalogue import load
from vlmguard.explain.logfacts import of_text
from vlmguard.explain.released import number

KNOWN = {known.code: known for known in load()}
VLLM = 'File "/e/site-packages/vllm/platforms/interface.py", line 183, in is_async_output_supported raise NotImplementedError'
PEFT = 'File "/e/site-packages/peft/peft_model.py", line 2037, in forward'
LLAVA = 'File "/w/LLaVA/llava/train/train.py", line 932, in train'
FETCH = 'File "/e/site-packages/transformers/trainer.py", line 5122, in get_batch_samples File "/w/t.py", line 41, in collate_fn texts = [p(e["messages"]) for e in examples] File "/w/t.py", line 41, in <listcomp>'
FACTORY = "llamafactory-cli train x.yaml\nloading configuration file /m/{}/config.json\n"
PROCESSOR = "ValueError: Processor was not found, please check and update your processor config."

# What the log says of the run, class, message, trace → how the first step begins.
ROWS = (
    ("", "VG566", "NotImplementedError: ", VLLM, "python -m pip install 'vllm==0.7.1'"),
    ("vllm  0.7.2\ntrl                                      0.17.0\n", "VG566", "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'", "", "python -m pip install 'trl[vllm]==0.17.0'"),
    ("", "VG566", "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_extension_cls'", "", "python -m pip install -U 'vllm>=0.8'"),
    ("", "VG570", "TypeError: Qwen2_5_VLForConditionalGeneration.forward() got an unexpected keyword argument 'decoder_input_ids'", PEFT, 'LoraConfig(…, task_type="CAUSAL_LM")'),
    ("", "VG570", "TypeError: ViTModel.forward() got an unexpected keyword argument 'inputs_embeds'", PEFT, "LoraConfig(…, task_type=None)"),
    ("", "VG570", "RuntimeError: Unsloth: Could not find an embedding module", "", "python -m pip install --upgrade --force-reinstall --no-cache-dir --no-deps unsloth unsloth_zoo"),
    ("", "VG570", "TypeError: forward() got an unexpected keyword argument 'padding_mask'", LLAVA, "python -m pip install 'transformers==4.31.0'"),
    ("", "VG570", "TypeError: forward() got an unexpected keyword argument 'padding_mask'", "", "python -m pip install 'transformers<4.34'"),
    ("", "VG570", "AttributeError: module 'transformers.models.llama.modeling_llama' has no attribute 'LLAMA_ATTENTION_CLASSES'", "", "python -m pip install 'transformers<4.48'"),
    ("", "VG552", "ImportError: cannot import name 'LlavaLlamaForCausalLM' from 'llava.model' (/w/LLaVA/llava/model/__init__.py)", "", "python -c 'import flash_attn, deepspeed' || python -m pip install --force-reinstall"),
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
    assert number("4.57.1") > number("4.9")
    assert not number("")
