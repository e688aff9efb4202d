"""First steps by what a log tells of its situation: what a run has by default, waits for, resumes."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from vlmguard.explain import flags
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.logfacts import of_text
from vlmguard.explain.show import text

KNOWN = {known.code: known for known in load()}
PEFT = "trainable params: 408 || all params: 513,458 || trainable%: 0.07\n"
PLAIN = "TrainingArguments(gradient_checkpointing_kwargs={'use_reentrant': False}, ddp_find_unused_parameters=None)\n"
TWICE = "Expected to mark a variable ready only once"
GAVE_UP = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)={})"
SAVING = "Saving model checkpoint to /out/v0/checkpoint-200\n"
ZERO = "swift sft --deepspeed zero3\n"
MISFIT = "WARNING: tokenization mismatch: 100 vs. 101. (ignored)\n"
FEWER = "The checkpoint being loaded used a DP world size of 8 but the current world size is 4."
RESUMED = "Resuming training from /o/sft/checkpoint-1200.\nzero_optimization: {'stage': 2}\ngradient_accumulation_steps: 8\n"

# What the log says, class, message, phase → the beginnings of the steps.
ROWS = {
    "the Trainer's default inside PEFT": (PEFT + PLAIN, "VG501", TWICE, "backward", ("--ddp_find_unused_parameters false", "--gradient_checkpointing false", "accelerate launch --use_deepspeed", "grep -rnE 'checkpoint")),
    "a model that is not in PEFT": (PLAIN + "transformers==5.6.0\n", "VG501", TWICE, "backward", ("--ddp_static_graph true", "--ddp_find_unused_parameters false", "--gradient_checkpointing false")),
    "no flag of an older release": (PLAIN + "transformers==4.51.3\n", "VG501", TWICE, "backward", ("--ddp_find_unused_parameters false", "--gradient_checkpointing false")),
    "reentrant, inside PEFT": (PEFT + "TrainingArguments()\n", "VG501", TWICE, "backward", ("--gradient_checkpointing_kwargs '{\"use_reentrant\": false}'", "--ddp_find_unused_parameters false")),
    "a time-out that is not the framework's": (ZERO + SAVING, "VG551", GAVE_UP.format(600000), "save", ("ls -l --time-style=full-iso /out/v0/checkpoint-200; df -hT /out/v0/checkpoint-200: ", "--save_only_model true, and --output_dir", "no collective", "torch.distributed.distributed_c10d.default_pg_nccl_timeout = timedelta(hours=2), on a line")),
    "one rank generates answers alone": ("python train.py --deepspeed zero2.json --bf16 True\n[cb] step 5: generating answers for vqa_val (rank 0 only)\nvqa_val:   7%|▋| 381/5349 [02:00<26:04,  3.18it/s]\n", "VG551", GAVE_UP.format(600000), "evaluation", ("vqa_val = vqa_val.select(range(500)), in the callback that prints 'generating answers for' (grep -rn 'generating answers for' --include='*.py' . finds it)", "torch.distributed.distributed_c10d.default_pg_nccl_timeout", "--eval_strategy no")),
    "the Trainer saves on its main process": ("TrainingArguments()\nlogging is on the main process only\n", "VG551", GAVE_UP.format(1800000), "evaluation", ("--ddp_timeout 7200", "eval_dataset.select")),
    "a card of a pod": ("+ kubectl apply -f x.yaml\n  host      : sft-worker-1\n", "VG534", "RuntimeError: CUDA error: uncorrectable ECC error encountered", "", ("kubectl cordon $(kubectl get pod sft-worker-1 -o jsonpath='{.spec.nodeName}')", "ls -td", "nvidia-smi -q -d ECC")),
    "LLaVA's first stage as the model": ("llava/train/train_mem.py --image_folder ./d --bf16 True\n", "VG541", "OSError: Error no file named pytorch_model.bin found in directory ./c/llava-v1.5-mlp2x-336px-pretrain-vicuna-7b-v1.5.", "load", ("--model_name_or_path lmsys/vicuna-7b-v1.5 --pretrain_mm_mlp_adapter ./c/llava-v1.5-mlp2x-336px-pretrain-vicuna-7b-v1.5/mm_projector.bin: ", "ls -l")),
    "LLaVA's whole model, broken off": ("llava/train/train_mem.py --image_folder ./d --bf16 True\n", "VG541", "OSError: Error no file named pytorch_model.bin found in directory ./pretrained/llava-7b.", "load", ("ls -l ./pretrained/llava-7b",)),
    "a time-out that is the Trainer's": ("TrainingArguments()\n" + SAVING, "VG551", GAVE_UP.format(1800000), "save", ("--ddp_timeout 7200", "ls -l --time-style")),
    "a time-out that was given": (ZERO + "--ddp_timeout 600\n", "VG551", GAVE_UP.format(600000), "save", ("--ddp_timeout 7200",)),
    "Accelerate evaluates": ("accelerate launch x.py\n", "VG551", GAVE_UP.format(1800000), "evaluation", ("Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=2))]), in place", "evaluate on every rank: accelerator.prepare")),
    "Bunny's own template": (MISFIT + "Some weights of BunnyLlamaForCausalLM were not initialized\n", "VG593", "", "", ("--version llama: ", "python -c 'import sys; from transformers import AutoTokenizer", "python -m pip install -e .", "print(tokenizer.decode(")),
    "the right one already": (MISFIT + "train.py --version llama --model_name_or_path /m/llama BunnyLlamaForCausalLM\n", "VG593", "", "", ("grep -n ': conv_'", "python -c 'import sys; from transformers import AutoTokenizer as A; t = A.from_pretrained(sys.argv[1]); print(repr(t.eos_token), t(\"a b\").input_ids)' /m/llama: 1 token apart")),
    "LLaVA's own template, of its time": (MISFIT.replace("W", "[2023-10-25 11:40:03] train.py --version v1 --model_name_or_path /m/llava-v1.5-7b\nW", 1), "VG593", "", "", ("python -m pip install 'transformers==4.31.0' 'tokenizers>=0.12.1,<0.14'", "python -c 'import sys; from transformers import AutoTokenizer")),
    "LLaVA's later pins": ("[2024-03-05 11:40:03] x\n" + MISFIT, "VG593", "", "", ("python -m pip install 'transformers==4.37.2' 'tokenizers==0.15.1'", "grep -n ': conv_'")),
    "of another family": ("train.py --model_name_or_path /m/Meta-Llama-3-8B\n" + MISFIT, "VG593", "", "", ("grep -n ': conv_'", "python -c", "python -m pip install -e .")),
    "no word of a mismatch": ("TrainingArguments()\n", "VG593", "", "", ("print(tokenizer.decode(",)),
    "fewer ranks than saved it": ("llamafactory-cli train x.yaml\n" + RESUMED, "VG550", FEWER, "load", ("model_name_or_path: /o/sft/checkpoint-1200, output_dir: ANOTHER", "python -m deepspeed.checkpoint.ds_to_universal --input_folder /o/sft/checkpoint-1200/global_step1200 --output_folder /o/sft/checkpoint-1200/global_step1200_universal", "NPROC_PER_NODE=8")),
    "fewer ranks than saved it, LoRA": ("llamafactory-cli train x.yaml\nfinetuning_type: lora\n" + RESUMED, "VG550", FEWER, "load", ("adapter_name_or_path: /o/sft/checkpoint-1200",)),
    "fewer ranks than saved it, full": ("llamafactory-cli train x.yaml\nFine-tuning method: Full\ntrainable params: 7,615,616,512 || all params: 8,291,375,616 || trainable%: 91.8498\n" + RESUMED, "VG550", FEWER, "load", ("model_name_or_path: /o/sft/checkpoint-1200, output_dir: ANOTHER",)),
    "parts of weights": ("TrainingArguments()\nResuming training from out/checkpoint-5\nzero_optimization: {'stage': 3}\n", "VG550", FEWER, "load", ("--model_name_or_path out/checkpoint-5", "python -m deepspeed", "cd out/checkpoint-5 && python zero_to_fp32.py . OUT && cp *.json OUT/")),
    "a file of the hub's folder": ("", "VG541", "SafetensorError: Error while deserializing header: MetadataIncompleteBuffer /c/hub/models--Qwen--Qwen2-VL-7B/snapshots/a1/model-00001-of-00005.safetensors", "load", ("ls -lL /c/hub/models--Qwen", "hf download Qwen/Qwen2-VL-7B --force-download")),
    "a file that nothing names": ("", "VG541", "SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "load", ("for f in $(find \"${HF_HOME:-$HOME/.cache/huggingface}\"/hub -path '*/snapshots/*' -name '*.safetensors'); do ", "hf download NAME --force-download: NAME is what from_pretrained gets; ")),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_situation_decides(name):
    words, code, message, phase, first = ROWS[name]
    facts = of_text([words]).at(message, "", phase)
    said = [flags.say(do, facts) for do in KNOWN[code].remedies(facts)]
    assert len(said) >= len(first), said
    for step, begins in zip(said, first, strict=False):
        assert step.startswith(begins), said


SRUN = "+ export MASTER_ADDR=localhost\n+ srun --nodes=4 --ntasks-per-node=1 python train.py\n"


def test_localhost_is_no_address_for_several_nodes(tmp_path):
    log = tmp_path / "train.log"
    for words, asked in ((SRUN, True), (SRUN.replace("--nodes=4", "--nodes=1"), False)):
        log.write_text(words + "node01 rank 0: init_process_group(backend=nccl)\n")
        said = text(*explain([str(log)]))
        assert ("export MASTER_ADDR=$(scontrol show hostnames" in said) is asked, said


def test_direct_ways_that_hang_are_forbidden(tmp_path):
    log = tmp_path / "train.log"
    line = "gpu4x:220{0}:226{0} [{0}] NCCL INFO Channel 00 : {0}[21000] -> 1[22000] via {1}\ngpu4x:220{0}:226{0} [{0}] NCCL INFO comm 0x7f rank {0} nranks 2 cudaDev {0} busId 1 - Init COMPLETE\n"
    for way, asked in (("P2P/IPC", True), ("SHM/direct", False)):
        log.write_text(line.format(0, way) + line.format(1, way))
        said = text(*explain([str(log)]))
        assert ("grep ACSCtl" in said) is asked, said


def test_a_bar_tells_how_long_a_wait_must_be():
    facts = of_text(["accelerate launch x.py\n"]).at(GAVE_UP.format(1800000), "", "evaluation")
    facts.said["needs"] = "4385"
    assert "hours=3" in flags.say(KNOWN["VG551"].remedies(facts)[0], facts)
    assert "takes 73 minutes in all" in KNOWN["VG551"].told(facts)
