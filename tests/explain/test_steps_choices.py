"""A run's own choices decide the first step: torch's CUDA, its settings' file, its card, what it resumes."""

# ruff: noqa: E501
from __future__ import annotations

import shlex
import subprocess
import sys
import zipfile
from dataclasses import replace

from vlmguard.explain import flags, looks
from vlmguard.explain.catalogue import cut_checkpoint_steps, load
from vlmguard.explain.logfacts import of_text

KNOWN = {known.code: known for known in load()}
MINE = 'File "/w/sft.py", line 7, in <module> trainer.train() '
FACTORY = "llamafactory-cli train x.yaml\n"
CUDART = "ImportError: libcudart.so.{}: cannot open shared object file: No such file or directory"
FLASH = 'File "/w/t.py", line 7, in <module> File "/e/site-packages/flash_attn/x.py", line 8, in <module>'
DTYPES = "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.{}"
AMPERE = "RuntimeError: FlashAttention only supports Ampere GPUs or newer."
SHAPED = "CheckpointError: Recomputed values for the following tensors have different metadata than during the forward pass. saved metadata: {'shape': torch.Size([29, 1152]), 'dtype': torch.bfloat16} recomputed metadata: {'shape': torch.Size([28, 1152]), 'dtype': torch.bfloat16}"
CHOICE = """File "/w/d.py", line 50, in __getitem__ pos = random.choice(self.dataset[item]['pos']) File "/opt/lib/python3.10/random.py", line 378, in choice return seq[self._randbelow(len(seq))]"""
RESUMED = "llamafactory\nResuming training from o/checkpoint-15.\n"
LOADS = 'File "/e/site-packages/deepspeed/runtime/engine.py", line 28, in load_checkpoint'

# What the log says of the run, class, message, trace → what the first step has.
ROWS = (
    ("2.1.0\n11.8\n8700\nTrue\n", "VG538", CUDART.format(12), FLASH, "flash-attn==2.6.3: it fetches the wheel of this torch and its CUDA; the one that is there is of CUDA 12, this torch is of CUDA 11.8"),
    ("torch==2.5.1+cu118\n", "VG538", CUDART.format(12), FLASH, "flash-attn==2.7.3: "),
    ("torch 2.4.0+cu121\n", "VG538", CUDART.format("11.0"), FLASH.replace("flash_attn", "torchvision"), "--no-deps torchvision --index-url https://download.pytorch.org/whl/cu121"),
    ("torch 2.4.0+cu121\n", "VG538", CUDART.format("11.0"), FLASH.replace("flash_attn", "deep_gemm"), "--no-binary deep-gemm deep-gemm: built for this torch"),
    ("", "VG538", CUDART.format(12), FLASH, "flash-attn==$(python -c 'import torch;"),
    ("torch==2.4.0+cu121\n", "VG538", CUDART.format(12), FLASH, "find / -name libcudart.so.12"),
    ("", "VG538", CUDART.format(12), MINE, "find / -name libcudart.so.12"),
    (FACTORY + "compute dtype: torch.float16\n", "VG519", DTYPES.format("float16"), "", "sed -i.bak -E 's/^fp16: *true/bf16: true/' x.yaml: bf16: true in place of fp16: true"),
    ("accelerate launch --config_file a/fsdp.yaml src/train.py x/q.yaml\nllamafactory compute dtype: torch.float16\n", "VG519", DTYPES.format("float16"), "", "s/^(mixed_precision: *)fp16/\\1bf16/' x/q.yaml a/fsdp.yaml"),
    ("llamafactory-cli train --stage sft --fp16 true\n", "VG519", DTYPES.format("float16"), "", "--bf16 true --fp16 false"),
    ("swift sft --fp16 True\n", "VG519", DTYPES.format("float16"), "", "--torch_dtype bfloat16 --bf16 true --fp16 false"),
    (FACTORY, "VG519", DTYPES.format("float32"), "", "pure_bf16: true, bf16: false"),
    ("Tesla V100-SXM2\n" + FACTORY, "VG519", DTYPES.format("float16"), "", "from_pretrained(…, torch_dtype"),
    ("", "VG548", AMPERE, 'File "/w/InternVL/internvl_chat/internvl/train/internvl_chat_finetune.py", line 850, in main', "-e 's/has_flash_attn = True/has_flash_attn = False/' /w/InternVL/internvl_chat/internvl/train/*.py /w/InternVL/internvl_chat/internvl/model/internvl_chat/modeling_intern_vit.py"),
    ("swift sft --attn_impl flash_attn\n", "VG548", AMPERE, "", "--attn_impl sdpa"),
    ("gradient checkpointing: preserve_rng_state=False (faster)\n", "VG504", SHAPED, 'File "/w/p/train.py", line 9, in main', "--include='*.py' /w/p | xargs sed -i.bak -E 's/(preserve_rng_state *= *)False"),
    ("token dropping inside blocks 8, 14 (Bernoulli, p=0.5)\n", "VG504", SHAPED, 'File "/w/p/train.py", line 9, in main', "generator=' --include='*.py' /w/p: draw that choice in front of checkpoint(…)"),
    ("drop_path_rate=0.1, RandomSampler\n", "VG504", SHAPED, 'File "/w/p/train.py", line 9, in main', "use_cache = False"),
    ("  host      : h20-node\n", "VG558", "traceback : Signal 8 (SIGFPE) received by PID 61219", "", "nvidia-cublas-cu12==12.4.5.8"),
    ("NVIDIA H20\ntorch==2.6.0\n", "VG558", "traceback : Signal 8 (SIGFPE) received by PID 61219", "", "PYTHONFAULTHANDLER=1"),
    ("NVIDIA H200\n", "VG558", "traceback : Signal 8 (SIGFPE) received by PID 61219", "", "PYTHONFAULTHANDLER=1"),
    ("NVIDIA H20\n", "VG558", "traceback : Signal 11 (SIGSEGV) received by PID 61219", "", "PYTHONFAULTHANDLER=1"),
    ("run -m FlagEmbedding.x --train_data d/train.json\n", "VG554", "IndexError: list index out of range", CHOICE, "' d/train.json pos neg > kept.json: it names the rows in which pos is empty, kept.json has the others: then --train_data kept.json"),
    ("", "VG554", "IndexError: Cannot choose from an empty sequence", CHOICE, "' FILE.json pos > kept.json: FILE.json: the run's data"),
    ("t.py --data_path d/a.jsonl\n", "VG554", "IndexError: list index out of range", 'File "/w/d.py", line 5, in __getitem__ image = Image.open(row["images"][0])', "' d/a.jsonl images > kept.jsonl: "),
    (RESUMED, "VG541", "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", LOADS, ").rglob("),
    (RESUMED, "VG541", "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", LOADS, "o/checkpoint-15: those that it prints are cut"),
    ('File "/w/src/alignment/data.py", line 60, in apply_chat_template\nscripts/run_dpo.py r/dpo.yaml\n', "VG574", "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant", "", "json.dumps(t) + \"\\n\")' r/dpo.yaml: the template of the handbook's own SFT"),
    ("", "VG574", "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant", "", "roles as the template wants them"),
    ("torch 2.4.0+cu121\n", "VG538", "ImportError: libcublasLt.so.11: cannot open shared object file", FLASH.replace("flash_attn", "onnxruntime"), "python -m pip install nvidia-cublas-cu11, and in front of the command LD_LIBRARY_PATH=$(python -c 'import nvidia.cublas as m;"),
    ("", "VG548", AMPERE, 'File "/w/LLaVA/llava/train/train_mem.py", line 4, in <module>', "llava/train/train_xformers.py in place of llava/train/train_mem.py with --bf16 False --fp16 True"),
    ("", "VG548", AMPERE, 'File "/w/q/qwenvl/train/train_qwen.py", line 206, in <module>', "sed -i.bak 's/\"flash_attention_2\"/\"sdpa\"/' /w/q/qwenvl/train/train_qwen.py"),
    ("FlagEmbedding --train_data a.jsonl\n", "VG554", "ZeroDivisionError: division by zero", 'File "/w/d.py", line 5, in __getitem__ num = math.ceil((self.args.train_group_size - 1) / len(self.dataset[item][\'neg\']))', "' a.jsonl pos neg > kept.jsonl: it names the rows in which neg is empty"),
    ("", "VG554", "ZeroDivisionError: division by zero", 'File "/w/d.py", line 5, in main mean = total / len(losses["loss"])', "print(dataset)"),
    (RESUMED, "VG541", "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", 'File "/e/transformers/trainer.py", line 28, in _load_from_checkpoint', "for f in $(find o/checkpoint-15 -name '*.safetensors'); do"),
    ("", "VG574", "jinja2.exceptions.TemplateError: System role not supported", "", 'messages = [{**messages[1], "content": messages[0]["content"]'),
)  # fmt: skip


def test_the_first_step_has_what_the_run_chose():
    for words, code, message, trace, part in ROWS:
        facts = of_text([words]).at(message, trace, "")
        said = flags.say(KNOWN[code].remedies(facts)[0], facts)
        assert part in said, (words, said)


def test_the_file_that_the_failing_rank_was_reading_is_named():
    words = "".join(f"[Torch] Loading checkpoint from o/checkpoint-15/global_step15/zero_pp_rank_{n}_optim_states.pt...\n" for n in (2, 5))
    facts = of_text([RESUMED + words + "[Torch] Loaded checkpoint from o/checkpoint-15/global_step15/zero_pp_rank_2_optim_states.pt.\n"])
    assert facts.said["unread"] == "zero_pp_rank_5_optim_states.pt"
    facts = replace(facts, said={**facts.said, "startrank": "5"}).at("EOFError: Ran out of input", LOADS, "load")
    said = [flags.say(do, facts) for do in KNOWN["VG541"].remedies(facts)]
    assert "(rank 5 was at zero_pp_rank_5_optim_states.pt)" in said[0]
    assert said[1] == "ls -d o/checkpoint-* | sort -V: resume_from_checkpoint: the one before checkpoint-15"


def here(command: str) -> str:
    """With this Python."""
    return command.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)


def test_rows_whose_list_is_empty_are_left_out(tmp_path):
    rows = tmp_path / "a.jsonl"
    rows.write_text('{"pos": ["x"], "neg": ["y"]}\n{"pos": [], "neg": ["y"]}\n')
    done = subprocess.run(["bash", "-c", f"{here(looks.WITHOUT_EMPTY)}{rows} pos neg"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ('{"pos": ["x"], "neg": ["y"]}\n', "row 2 left out\n")


def test_cut_files_are_found_in_any_depth(tmp_path):
    (tmp_path / "global_step1").mkdir()
    (tmp_path / "global_step1" / "rank_5.pt").write_bytes(b"PK cut")
    with zipfile.ZipFile(tmp_path / "rng_state_0.pth", "w") as file:
        file.writestr("a", "b")
    done = subprocess.run(["bash", "-c", f"{here(cut_checkpoint_steps.CUT)}{tmp_path}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/global_step1/rank_5.pt\n"
