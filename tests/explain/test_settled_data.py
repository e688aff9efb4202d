"""Data, templates and scripts of vision-language models: the first step is what mended it."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain.test_settled import log
from vlmguard.explain import show
from vlmguard.explain.command import explain

FACTORY = 'File "/app/LLaMA-Factory/src/llamafactory/launcher.py", line 23, in <module>\n    launch()\n'
CONVERTED = ("llamafactory/data/converter.py", "__call__", "{}")
IMAGES = ("llamafactory/data/mm_plugin.py", "_regularize_images", "image = Image.open(image)")
CHECKED = ("llamafactory/data/mm_plugin.py", "_validate_input", "raise ValueError(")
LLAVA = 'File "/a/LLaVA/llava/model/llava_arch.py", line 231, in initialize_vision_tokenizer\n    {}\n'
INTERNVL = 'File "/home/u/.cache/huggingface/modules/transformers_modules/InternVL3-8B/modeling_internvl_chat.py", line 119, in forward\n    {}\n'
MINICPM = 'File "/m/MiniCPM-V/finetune/dataset.py", line 184, in conversation_to_ids\n    {}\n'


def converted(key, code):
    return log(f"KeyError: {key}", (*CONVERTED[:2], code), first=FACTORY)


# log → the beginning of the first step
ROWS = (
    (converted("'from'", "and messages[0][self.dataset_attr.role_tag] == self.dataset_attr.system_tag"), '"tags": {"role_tag": "role", "content_tag": "content"'),
    (converted("'content'", '"content": message[self.dataset_attr.content_tag],'), '"tags": {"role_tag": "from", "content_tag": "value"'),
    (converted("'user'", '"role": tag_mapping[message[dataset_attr.role_tag]], "content": message[dataset_attr.content_tag]'), '"tags": {"user_tag": "user"'),
    ("dataset: mine\n" + converted("'conversations'", "messages = example[self.dataset_attr.messages]"), '"formatting": "sharegpt", "columns": {"messages": "messages"} in the entry mine'),
    (converted("'instruction'", "if self.dataset_attr.prompt and example[self.dataset_attr.prompt]:"), '"formatting": "sharegpt"'),
    (converted("None", "for i in range(len(examples[dataset_attr.prompt])):"), '"columns": {"prompt": "…"'),
    (log("FileNotFoundError: [Errno 2] No such file or directory: 'demo/1.jpg'", IMAGES, ("PIL/Image.py", "open", "fp = builtins.open(filename, 'rb')"), first=FACTORY), 'find / -path "*/"demo/1.jpg'),
    (log("FileNotFoundError: [Errno 2] No such file or directory: '/data/demo/1.jpg'", IMAGES, ("PIL/Image.py", "open", "fp = builtins.open(filename, 'rb')"), first=FACTORY), "ls -l /data/demo/1.jpg"),
    ("model_name_or_path: openbmb/MiniCPM-V-2_6\n" + log("ValueError: This model does not support image input.", CHECKED, first=FACTORY), "template: minicpm_v "),
    (log("ValueError: This model does not support video input. Please check whether the correct `template` is used.", CHECKED, first=FACTORY), "template: NAME"),
    (log("AssertionError", first=LLAVA.format("assert num_new_tokens == 2")), "--mm_use_im_start_end False --mm_use_im_patch_token False "),
    (log("KeyError: 'model.embed_tokens.weight'", first=LLAVA.format("embed_tokens_weight = mm_projector_weights['model.embed_tokens.weight']")), "--mm_use_im_start_end False --mm_use_im_patch_token False "),
    (log("RuntimeError: Error(s) in loading state_dict for LlavaLlamaForCausalLM:\n\tsize mismatch for model.mm_projector.0.weight: copying a param with shape torch.Size([4096, 1024]) from checkpoint, the shape in current model is torch.Size([2097152, 1])."), "the same command without --load-4bit"),
    (log("AssertionError", first=INTERNVL.format("assert self.img_context_token_id is not None")), 'model.img_context_token_id = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")'),
    (log("AttributeError: 'bool' object has no attribute 'sum'", first=INTERNVL.format("n_token = selected.sum()")), "model.img_context_token_id"),
    (log("AttributeError: 'list' object has no attribute 'shape'", first=MINICPM.format("if input_ids.shape[-1] > max_length:")), "--llm_type qwen"),
    ("torchrun finetune.py --model_max_length 4096 --bf16 true\n" + log("RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 9 but got size 7 for tensor number 1 in the list.", first=MINICPM.format("image_bound = torch.hstack(")), "--model_max_length 8192"),
    (log("TypeError: process_vision_info() got an unexpected keyword argument 'image_patch_size'"), "python -m pip install -U 'qwen-vl-utils>=0.0.14'"),
    (log("TypeError: Union[arg, ...]: each arg must be a type. Got Ellipsis."), "/app/train.py:88: Tuple["),
    (log("RuntimeError: Cannot find valid samples, check `data/README.md` for the data format.", first='File "/w/LLaMA-Factory/src/llmtuner/train/dpo/workflow.py", line 32, in run_dpo\n    x\n'), '"output": ["BETTER ANSWER"'),
    (log("RuntimeError: Cannot find valid samples, check `data/README.md` for the data format.", first='File "/w/LLaMA-Factory/src/llamafactory/train/dpo/workflow.py", line 32, in run_dpo\n    x\n'), '"ranking": true'),
    (log("ValueError: Mismatch in `image` token count between text and `input_ids`. Got ids=[9] and text=[4096]. Likely due to `truncation='max_length'`.", ("unsloth_zoo/vision_utils.py", "__call__", "x")), "UnslothVisionDataCollator(model, tokenizer, max_seq_length=8192)"),
    (log("TypeError: pad_sequence(): argument 'padding_value' (position 3) must be float, not NoneType", ("trl/trainer/utils.py", "__call__", "x"), ("torch/nn/utils/rnn.py", "pad_sequence", "y")), "tokenizer.pad_token = tokenizer.eos_token"),
    (log("TypeError: unsupported operand type(s) for //: 'int' and 'NoneType'", ("transformers/models/llava_next/processing_llava_next.py", "_get_number_of_features", "patches_height = height // self.patch_size")), "processor.patch_size = model.config.vision_config.patch_size"),
    (log("AttributeError: 'QWenTokenizer' object has no attribute 'IMAGE_ST'", ("transformers/tokenization_utils.py", "__init__", "self._add_tokens("), first='File "/m/tokenization_qwen.py", line 114, in __init__\n    super().__init__(**kwargs)\n'), "python -m pip install 'transformers==4.33.3'"),
    (log("KeyError: 'language_model.embed_tokens.weight'", ("vllm/model_executor/models/qwen2.py", "load_weights", "param = params_dict[name]")), "python -m pip install -U 'vllm>=0.9.1'"),
    (log("ValueError: Unrecognized image processor in /m/Qwen2.5-VL-7B-Instruct. Should have a `image_processor_type` key in its preprocessor_config.json of config.json", ("transformers/models/auto/image_processing_auto.py", "from_pretrained", "raise ValueError(")), "sed -i 's/Qwen2_5_VLImageProcessor/Qwen2VLImageProcessor/' /m/Qwen2.5-VL-7B-Instruct/preprocessor_config.json"),
    (log("ValueError: The model class you are passing has a `config_class` attribute that is not consistent with the config class you passed (model has <class 'transformers_modules.A.config_molmo.MolmoConfig'> and you passed <class 'transformers_modules.b.config_molmo.MolmoConfig'>.", ("transformers/models/auto/auto_factory.py", "register", "raise ValueError(")), "/app/train.py:88: config=AutoConfig.from_pretrained(MODEL"),
    (log("ValueError: The features should include `input_ids_chosen`, `attention_mask_chosen`, `input_ids_rejected` and `attention_mask_rejected`", ("trl/trainer/utils.py", "__call__", "raise ValueError(")), "python -m pip install -U 'trl>=0.12'"),
    (log("ValueError: test_size=1 should be either positive and smaller than the number of samples 1 or a float in the (0, 1) range", ("swift/llm/dataset/loader.py", "post_preprocess", "x"), ("datasets/arrow_dataset.py", "train_test_split", "raise ValueError(")), "--split_dataset_ratio 0"),
    (log("ValueError: The number of videos does not match the number of <video> tokens in [{'content': '<video>', 'role': 'user'}].", CHECKED, first=FACTORY), '"columns": {"messages": "messages", "videos": "videos"}'),
    ("swift rlhf --rlhf_type dpo\n" + log("KeyError: 'prompt_input_ids'", ("swift/trainers/mixin.py", "train", "x"), ("trl/trainer/dpo_trainer.py", "concatenated_inputs", "y")), "python -m pip install 'trl<0.12' 'transformers<4.46'"),
    (log("KeyError: 'input_ids'", ("swift/trainers/trainers.py", "compute_loss", "x"), ("liger_kernel/transformers/model/qwen2_5_vl.py", "lce_forward", "y"), ("swift/llm/template/template/qwen.py", "_post_encode", "z")), "--use_liger_kernel false"),
    (log("ValueError: Input must be string or dict[str, str], got <class 'list'>", ("llmtuner/data/template.py", "_convert_inputs_to_ids", "raise ValueError("), first=FACTORY), '"output": "ONE ANSWER"'),
    # in a class's own steps
    ("swift sft --dataset d.jsonl\n" + log("KeyError: 'input_ids'", ("swift/llm/template/base.py", "pre_forward_hook", "z"), first='File "/e/lib/python3.10/site-packages/swift/cli/sft.py", line 7, in <module>\n    sft_main()\n'), "python -m pip install -U ms-swift"),
    (log("ModuleNotFoundError: No module named 'dskernels'", first='File "/tmp/pip-install-x/deepspeed/op_builder/inference_cutlass_builder.py", line 72, in get_prefix\n    import dskernels\n'), "python -m pip install deepspeed-kernels"),
    (log("ValueError: nframes should in interval [2, 9], but got 16.", ("qwen_vl_utils/vision_process.py", "smart_nframes", "raise ValueError(")), "8 as nframes"),
    (log("OSError: /m/merged does not appear to have a file named configuration_baichuan.py. Checkout 'https://huggingface.co//m/merged/None' for available files.", ("transformers/utils/hub.py", "cached_file", "raise EnvironmentError(")), "hf download BASE_MODEL --include '*.py' --local-dir /m/merged"),
    (log("ModuleNotFoundError: No module named 'transformers.models.mllama'", ("lmdeploy/pytorch/models/mllama.py", "<module>", "x")), "python -m pip install -U 'transformers>=4.45'"),
    (log("AttributeError: 'InternLMXComposerForCausalLM' object has no attribute 'vit'", ("torch/nn/modules/module.py", "__getattr__", "raise AttributeError("), first='File "/x/finetune.py", line 251, in train\n    model.vit.resize_pos()\n'), "print(type(model), [n for n, _ in model.named_children()])"),
    ("swift sft --truncation_strategy right --max_length 4096 --model Qwen/Qwen2.5-VL-3B-Instruct\n" + log("IndexError: index 4247 is out of bounds for dimension 0 with size 4247", ("swift/llm/train/sft.py", "train", "trainer.train()"), ("transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py", "get_rope_index", "x")), "--truncation_strategy delete"),
    ("megatron sft --cached_dataset ./cache --model Qwen/Qwen3-VL-4B\n" + log("RuntimeError: shape '[1, 1, 2, 3, 10, 2, 16, 15, 2, 16]' is invalid for input of size 999000", ("swift/llm/template/base.py", "x", "y"), ("transformers/models/qwen2_vl/image_processing_qwen2_vl_fast.py", "_preprocess", "patches = patches.view(")), "MAX_PIXELS=N in front of the training command"),
    (log("RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.", first='File "/q/modeling_qwen.py", line 657, in forward\n    hidden_states[i][a + 1 : b] = images[idx]\n'), "hidden_states = hidden_states.clone()"),
    (log("ValueError: No modules were targeted for adaptation. This might be caused by a combination of mismatched target modules and excluded modules.", ("llamafactory/model/adapter.py", "_setup_lora_tuning", "model = get_peft_model(model, peft_config)"), first=FACTORY), "freeze_language_model: false"),
    ("deepspeed src/train/train_sft.py --use_liger True\n" + log("ValueError: Liger is not supported for Qwen3 model."), "--use_liger False"),
)


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_the_first_step_is_what_mended_it(row, tmp_path):
    text, begins = ROWS[row]
    (tmp_path / "train.log").write_text(text)
    said = show.text(*explain([str(tmp_path / "train.log")]))
    steps = [line.strip() for line in said.split("\n") if line.startswith(("  1. ", "  - "))]
    assert steps[0].removeprefix("1. ").removeprefix("- ").startswith(begins), steps
