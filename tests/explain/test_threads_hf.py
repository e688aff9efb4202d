"""Shapes that threads of the Hugging Face packages taught: Trainer, accelerate, peft, TRL, datasets."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

LIB = "/env/lib/python3.11/site-packages"


def cut(*frames, rank=0, last="    return"):
    """A traceback whose end was not copied; ``frames``: (path, function)."""
    lines = [f"[rank{rank}]: Traceback (most recent call last):"]
    for path, name in frames:
        lines += [f'[rank{rank}]:   File "{path}", line 7, in {name}', f"[rank{rank}]:     x = y(z)"]
    return "\n".join([*lines, f"[rank{rank}]: {last}"]) + "\n"


# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "thuanz123/realfill#8 a wrapped model, at a checkpoint, behind a bar": (
        "Steps:  25%|██▌       | 500/2000 [34:15<1:39:43,  3.99s/it, loss=0.0361]11/09/2023 21:23:13 - INFO - accelerate.accelerator - Saving current state to out/checkpoint-500\n"
        + compose.traced("AttributeError: 'DistributedDataParallel' object has no attribute 'base_model'", 0), "VG586", (0,)),
    "ThilinaRajapakse/simpletransformers#1144 an old class of exception": (
        "torch.nn.modules.module.ModuleAttributeError: 'DataParallel' object has no attribute 'train_model'\n", "VG586", None),
    "feizc/MLE-LLaMA#2 an evaluation without a data set": (
        " 85%|████████▌ | 200/234 [31:27<05:19,  9.38s/it]" + compose.traced("ValueError: Trainer: evaluation requires an eval_dataset.", None), "VG587", None),
    "huggingface/transformers#22634 what the metric function called": (
        f'Traceback (most recent call last):\n  File "{LIB}/transformers/trainer.py", line 9, in evaluation_loop\n  File "train.py", line 9, in compute_metrics\n    tokenizer.batch_decode(preds)\nTypeError: argument of a kind to come\n', "VG587", None),
    "out of memory in the metric function is that": (
        'Traceback (most recent call last):\n  File "train.py", line 9, in compute_metrics\n    x.cuda()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n', "VG512", None),
    "huggingface/trl#663 a tensor that is not contiguous": (compose.traced("RuntimeError: Tensors must be contiguous", 1), "VG588", (1,)),
    "a tensor on the CPU": (compose.traced("RuntimeError: No backend type associated with device type cpu", 1), "VG588", (1,)),
    "unslothai/unsloth#1899 the message alone": (
        "The model did not return a loss from the inputs, only the following keys: logits. For reference, the inputs it received are input_ids,attention_mask,labels.\n", "VG589", None),
    "the model got labels and has no head": (compose.traced("TypeError: LlamaModel.forward() got an unexpected keyword argument 'labels'", 2), "VG589", (2,)),
    "OpenManus/OpenManus-RL#10 cut within datasets": (
        cut(("/job/sft.py", "main"), (f"{LIB}/datasets/load.py", "load_dataset"), (f"{LIB}/datasets/builder.py", "_prepare_split"), rank=1), "VG554", (1,)),
    "allenai/open-instruct#673 cut at the call that resumes": (
        cut(("/job/finetune.py", "main"), rank=4, last="    accelerator.load_state(last_checkpoint_path)"), "VG550", (4,)),
    "a cut forward tells nothing": (cut(("/job/train.py", "main"), (f"{LIB}/peft/peft_model.py", "forward")), "unknown", (0,)),
    "hiyouga/ChatGLM-Efficient-Tuning#136 two cut tracebacks in one another": (
        'Traceback (most recent call last):\n  File "/job/train_sft.py", line 101, in <module>\n' * 2
        + f'    main()\n  File "{LIB}/transformers/hf_argparser.py", line 341, in parse_args_into_dataclasses\n', "VG553", None),
    "huggingface/accelerate#182 spawned, cut in the source line of its message": (
        '-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File "/env/torch/multiprocessing/spawn.py", line 59, in _wrap\n    fn(i, *args)\n'
        '  File "/env/torch/cuda/__init__.py", line 161, in _lazy_init\n    "Cannot re-initialize CUDA in forked subprocess. To use CUDA w\n', "VG583", (1,)),
    "m3hrdadfi/soxan#5 a notebook, old frames, the last line is not there": (
        "0%|          | 0/1765 [00:00<?, ?ba/s]\n---------------------------------------------------------------------------\nArrowInvalid                              Traceback (most recent call last)\n"
        "/tmp/ipykernel_2/301.py in <module>\n----> 4 train_dataset = train_dataset.map(\n\n~/.pyenv/lib/python3.8/site-packages/datasets/arrow_dataset.py in map(self, function, batched)\n   1668         if num_proc is None:\n-> 1669             return self._map_single(\n", "VG554", None),
    "a notebook of today, words of a release to come": (
        "ValueError                                Traceback (most recent call last)\nCell In[17], line 1\n----> 1 trainer.train()\n\nFile /env/lib/python3.10/site-packages/transformers/training_args.py:1938, in TrainingArguments.__post_init__(self)\n   1936     x\n-> 1938     raise ValueError(\n\nValueError: words of a release to come\n", "VG553", None),
    "RLHFlow/RLHF-Reward-Modeling#6 two ranks' names in one another": (
        " 11%|█         | 125/1125 [1:04:25<8:30:35, 30.64s/it]\nTraceback (most recent call last):\n    \"input_ids\": feature[\"input_ids_j\"],\n\nKeyErrorKeyError: : 'input_ids_j'\n", "VG554", None),
    "exiawsh/StreamPETR#19 the agent's JSON of each worker": (
        '{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": {"run_id": "none", "global_rank": 3, "group_rank": 0, "state": "FAILED"}}\n', "unknown", (3,)),
    "huggingface/tokenizers#214 Rust's panic": (
        "[00:00:00] Count pairs     ██████ 11219    /    11219\nthread '<unnamed>' panicked at 'called `Option::unwrap()` on a `None` value', src/models/bpe/trainer.rs:373:34\nstack backtrace:\n   0: backtrace::trace\n", "unknown", None),
    "huggingface/peft#855 a slip of the package's own": (
        f"Traceback (most recent call last):\n  File \"{LIB}/peft/tuners/adalora.py\", line 815, in mask_using_rank_pattern\n    x\nAttributeError: 'NoneType' object has no attribute 'keys'\n", "unknown", None),
    "hiyouga/LlamaFactory#3224 a precision, not a batch size": (
        "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n- ds bf16.enabled=True vs hf bf16|bf16_full_eval=False\n", "VG575", None),
    "huggingface/diffusers#3279 a key, while it resumes": (
        f"Traceback (most recent call last):\n  File \"train.py\", line 9, in main\n  File \"{LIB}/accelerate/accelerator.py\", line 2396, in load_state\nKeyError: 'unet.down_blocks.0.processor'\n", "VG550", None),
    "Google-Health/medgemma#12 labels and logits, a notebook": (
        "ValueError                                Traceback (most recent call last)\nCell In[11], line 1\n----> 1 trainer.train()\n\nFile C:\\env\\Lib\\site-packages\\transformers\\trainer.py:2198, in Trainer.train(self)\n\nValueError: Expected input batch_size (1324) to match target batch_size (0).\n", "VG597", None),
    "hiyouga/EasyR1#338 a reward function of another signature": ("TypeError: format_reward() takes 1 positional argument but 2 were given\n", "VG581", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


def test_a_short_log_that_only_warns_is_none(tmp_path):
    log = "WARNING: TensorBoardCallback requires tensorboard\nSetting OMP_NUM_THREADS to 1\n"
    told_right(tmp_path, log, "unfinished", None)
