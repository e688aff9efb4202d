"""Shapes of a second drawing of Hugging Face threads: what people copied, mostly parts of a log."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

LIB = "/env/lib/python3.11/site-packages"
TOP = "╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮"
END = "╰──────────────────────────────────────────────────────────────────────────────────────────────────╯"


def box(*frames, top=True, end=True):
    """Rich's box: ``frames`` are lines as it writes them, wrapped or not."""
    rows = [TOP] if top else []
    for frame in frames:
        rows += [*(f"│ {part:<96} │" for part in frame.split("\n")), "│" + " " * 98 + "│", "│ ❱ 130 │   x = y(z)" + " " * 80 + "│"]
    return "\n".join([*rows, END] if end else rows) + "\n"


def cut(*frames, last="    return"):
    """A traceback whose end was not copied; ``frames``: (path, function)."""
    lines = ["Traceback (most recent call last):"]
    for path, name in frames:
        lines += [f'  File "{path}", line 7, in {name}', "    x = y(z)"]
    return "\n".join([*lines, last]) + "\n"


LOAD = f"{LIB}/transformers/integrations/a_package_to_come.py"

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "CarperAI/trlx#316 a box whose frames are wrapped": (
        box("/home/env/trlx/examples/summarize_rlhf/trlx_gptj_text_summarization.py:130 in\n<module>", f"{LIB}/datasets/arrow_dataset.py:3097\nin map") + "TypeError: words of a release to come\n", "VG554", None),
    "a box without its beginning": (
        box("/job/run.py:12 in <module>", f"{LIB}/datasets/arrow_dataset.py:3097 in map", top=False) + "TypeError: words of a release to come\n", "VG554", None),
    "bmaltais/kohya_ss#1099 a box of Windows, cut": (
        box("C:\\kohya\\train_network.py:873 in <module>", end=False), "unknown", None),
    "the same, whose paths were made unreadable": (
        f"{TOP}\n│**\\train_network.py:873 in <module>              │\n│ ❱ 873 │   train(args)     │\n│**\\train_network.py:662 in train      │\n│ ❱ 662 │   │   noise_pred = unet(noisy_late\n", "unknown", None),
    "cocktailpeanut/fluxgym#340 each line behind a logger's INFO": (
        "[2025-02-18 18:14:57] [INFO] INFO     preparing accelerator         train_network.py:520\n"
        "[2025-02-18 18:14:57] [INFO] Traceback (most recent call last):\n[2025-02-18 18:14:57] [INFO] File \"C:\\fg\\flux_train_network.py\", line 588, in <module>\n"
        "[2025-02-18 18:14:57] [INFO] trainer.train(args)\n[2025-02-18 18:14:57] [INFO] torch.cuda.OutOfMemoryError: CUDA out of memory.\n", "VG512", None),
    "huggingface/accelerate#1473 torchrun's table in one line": (
        "stderr: Failures: stderr: [1]: stderr: time : 2023-06-15_01:04:01 stderr: host : node-2 stderr: rank : 1 (local_rank: 1) stderr: exitcode : 1 (pid: 261883) stderr: error_file: <N/A> stderr: Root Cause (first observed failure): stderr: [0]: stderr: time : 2023-06-15_01:04:01 stderr: host : node-2 stderr: rank : 0 (local_rank: 0) stderr: exitcode : 1 (pid: 261882) stderr: error_file: <N/A> stderr: ============\n", "unknown", (0,)),
    "fpgaminer/joycaption#52 the table's head alone": (
        "============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n", "unknown", None),
    "oliverguhr/fullstop-deep-punctuation-prediction#9 a class alone": (
        "***** Running training *****\n  Num examples = 107145\n  0%|          | 0/6698 [00:00<?, ?it/s]Unexpected error: <class 'AttributeError'>\n  0%|          | 0/6698 [00:10<?, ?it/s]\n", "unfinished", None),
    "the same on a line of its own": (
        "***** Running training *****\n  Num examples = 107145\n  0%|          | 0/6698 [00:00<?, ?it/s]\nUnexpected error: <class 'AttributeError'>\n", "unknown", None),
    "a quantizer that went on in its own process": (
        f'Traceback (most recent call last):\n  File "{LIB}/datasets/arrow_dataset.py", line 2916, in set_format\n    raise ValueError(\n'
        "ValueError: Columns ['attention_mask'] not in the dataset. Current columns in the dataset: ['text', 'input_ids']\n"
        "2026-06-22 13:23:07 WARNING calib_dataset.py L995: Subprocess dataset preprocessing failed, falling back to in-process mode.\n", "unfinished", None),
    "imports of a package, cut": (
        cut(("/job/train.py", "<module>"), (f"{LIB}/transformers/modeling_utils.py", "<module>"), (f"{LIB}/transformers/loss/loss_utils.py", "<module>"), last="    from transformers.image_transforms import cente"), "VG552", None),
    "a script's own beginning is no import of a package": (cut(("/job/train.py", "<module>"), ("/job/train.py", "main")), "unknown", None),
    "a notebook's title alone": (
        "---------------------------------------------------------------------------\nRuntimeError                              Traceback (most recent call last)\n<ipython-input-9-3435b262f1ae> in <module>\n----> 1 trainer.train()\n", "unknown", None),
    "a map of a data set's rows, that a loader asked for": (
        cut(("/job/train.py", "main"), (f"{LIB}/torch/utils/data/_utils/fetch.py", "fetch"), ("/job/data.py", "__getitem__")) + "KeyError: 'conversations'\n", "VG554", None),
    "arguments that a release to come refuses": (
        cut(("/job/train.py", "main"), (f"{LIB}/a_package/args.py", "validate_args"), last="    raise ValueError(") + "ValueError: words of a release to come\n", "VG553", None),
    "a check with a topic's words": ("ValueError: In a release to come, the chat template wants something else.\n", "VG574", None),
    "a check of a value": ("ValueError: `scale_rewards` must be one of 'group', 'batch', got 'x'.\n", "VG553", None),
    "lxuechen/private-transformers#39 a script's own check, in a quotation": (
        '`src/trainer.py", line 254, in train\n    raise ValueError("Multi-gpu and distributed training is currently not supported.")\nValueError: Multi-gpu and distributed training is currently not supported.`\n', "unknown", None),
    "a script's own assertion speaks of anything": (
        cut(("/job/train.py", "<module>"), last="    assert 0 <= reward <= 1") + "AssertionError: the reward must be between 0 and 1\n", "unknown", None),
    "a compiled operator that is not there": (compose.traced("AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'", 0), "VG538", (0,)),
    "two serialising errors of safetensors: no space": (
        "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: \"No space left on device\" })\n", "VG535", None),
    "a file that Windows holds open": (
        "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 1224, kind: Uncategorized, message: \"The requested operation cannot be performed on a file with a user-mapped section open.\" })\n", "VG580", None),
    "the hub has no such tokenizer": (
        "OSError: Can't load tokenizer for 'org/name'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory with the same name.\n", "VG539", None),
    "huggingface/peft#2653 a layer of another kind": ("ValueError: TrainableTokensLayer wraps an unknown layer type, maybe you are targeting the wrong layer?\n", "VG585", None),
    "huggingface/peft#2394 tensor parallelism of another layer": (compose.traced("NotImplementedError: ColwiseParallel currently only support nn.Linear and nn.Embedding!", 3), "VG594", (3,)),
    "huggingface/transformers#25503 a cell's own source says that it ends": (
        'IndexError                                Traceback (most recent call last)\nCell In[13], line 2\n      1 print("Start training")\n----> 2 trainer.train()\n      4 print("Done training")\n\nFile ~/lib/python3.10/site-packages/transformers/trainer.py:1662, in Trainer.train(self)\n-> 1662 return inner_training_loop(\n', "unknown", None),
    "OptimalScale/LMFlow#840 cut in a wrapper of datasets": (
        cut(("/job/train.py", "main"), (f"{LIB}/datasets/arrow_dataset.py", "wrapper"), last="    out: Union"), "VG554", None),
    "hiyouga/LlamaFactory#5784 Triton's of another release": ("AttributeError: 'tensor' object has no attribute 'cast'.\n", "VG570", None),
    "zhaochen0110/OpenThinkIMG#12 an engine that was not prepared": (
        cut(("/job/train.py", "main"), (f"{LIB}/accelerate/accelerator.py", "backward"), last="    self.deepspeed_engine_wrapped.backward(loss, **kwargs)") + "AttributeError: 'NoneType' object has no attribute 'backward'\n", "VG575", None),
    "hiyouga/LlamaFactory#7052 no processor was loaded": ("AttributeError: 'NoneType' object has no attribute 'image_processor'\n", "VG556", None),
    "hiyouga/LlamaFactory#5319 cut while the rows are made": (
        cut(("/src/llamafactory/data/loader.py", "get_dataset"), ("/src/llamafactory/data/loader.py", "_get_preprocessed_dataset"), last="    dataset = dataset.map(preprocess_func, batched=True, remove_columns=colu"), "VG554", None),
    "ftarlaci/GPT2sQA#7 the echo of Ctrl-C": (
        "12/27/2022 20:56:23 - INFO - __main__ -     Num steps = 12216\n  0% 0/4073 [00:00<?, ?it/s]\nEpoch:   0% 0/3 [00:00<?, ?it/s]^C\n", "VG569", None),
    "a mask's type": ("RuntimeError: all only supports torch.uint8 and torch bool dtypes\n", "VG526", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


def test_who_asked_for_what_is_not_there(tmp_path):
    """``__getattr__`` raises for whoever asked: a package's frame before it tells."""
    frames = ((f"{LIB}/peft/tuners/lora/model.py", "inject_adapter"), (f"{LIB}/torch/nn/modules/module.py", "__getattr__"))
    error = "AttributeError: 'ModelToCome' object has no attribute 'a_name'\n"
    told_right(tmp_path, cut(("/job/train.py", "main"), *frames) + error, "VG585", None)
