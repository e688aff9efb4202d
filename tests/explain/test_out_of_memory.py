"""Out of memory: the first steps follow the phase, the sizes and what the run has already."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from vlmguard.explain import flags, phases
from vlmguard.explain.catalogue import load
from vlmguard.explain.command import explain
from vlmguard.explain.event import Event
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import of_text

VG512 = next(known for known in load() if known.code == "VG512")


def full(asked, total, free, allocated, idle=0.2):
    return f"CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a total capacity of {total} GiB of which {free} GiB is free. Including non-PyTorch memory, this process has {total - free:.2f} GiB memory in use. Of the allocated memory {allocated} GiB is allocated by PyTorch, and {idle} GiB is reserved by PyTorch but unallocated."


MOVED = 'File "ft.py", line 51, in main trainer = Trainer( File "/e/site-packages/transformers/trainer.py", line 741, in _move_model_to_device '
OWN = 'File "/w/train.py", line 9, in main '
TOWER = "image_hidden_states = self.vision_model( "
LATE = "  3%|▎         | 41/1318 [03:16<1:41:51,  4.79s/it]\n"
DEEPSPEED = "[launch.py:321:sigkill_handler] ['/e/bin/python', '-u', 'ft.py', '--local_rank=3', '--deepspeed', 'ds_z2.json'] exits with return code = 1\n"
SWIFT = "swift sft --model Qwen/Qwen2.5-VL-7B-Instruct {}\n"
ASKED = full(1.0, 79.0, 0.5, 60.0)

ROOM = "the current vLLM instance can use total_gpu_memory (79.10GiB) x gpu_memory_utilization (0.20) = 15.82GiB\nmodel weights take 14.27GiB; non_torch_memory takes {}GiB; PyTorch activation peak memory takes 4.35GiB; the rest\n"

# What the log says, message, trace, phase, steps → the beginnings of the first steps.
ROWS = (
    (DEEPSPEED, full(0.17, 22.2, 0.06, 21.4), MOVED, "load", None, ('TrainingArguments(deepspeed="ds_z2.json") made in front of from_pretrained(…) in ft.py, and "stage": 3', "from_pretrained(…, torch_dtype=torch.bfloat16) in ft.py")),
    (SWIFT.format("--deepspeed zero2"), ASKED, "", "load", None, ("--deepspeed zero3", "--quant_method bnb --quant_bits 4", "--deepspeed zero3_offload")),
    (SWIFT.format("--deepspeed zero3"), ASKED, "", "load", None, ("--deepspeed zero3_offload",)),
    (SWIFT.format("--tuner_type lora"), ASKED, "", "load", None, ("--quant_method bnb --quant_bits 4",)),
    ("", ASKED, OWN, "load", None, ("from_pretrained(…, torch_dtype=torch.bfloat16) in /w/train.py", "from_pretrained(…, quantization_config=")),
    (SWIFT.format("--deepspeed zero2"), full(7.0, 40, 5.0, 33), "", "step", (0, 9), ("--deepspeed zero3", "--deepspeed zero3_offload", "--tuner_type lora")),
    ("torchrun\n", full(3.7, 24, 2.7, 15.6, 3.5), 'File "/w/qwenvl/train/train_qwen.py", line 1, in train', "step", (0, 9), ("--deepspeed scripts/zero3_offload.json",)),
    ("", full(3.7, 24, 2.7, 15.6), OWN, "step", (0, 9), ("bitsandbytes.optim.PagedAdamW8bit",)),
    ("Time to load fused_adam op: 0.3 seconds\n", full(1.2, 31.7, 0.3, 29.5, 1.24), f'File "/d/MiniCPM-V/finetune/finetune.py", line 1, in train {TOWER}', "forward", (0, 9), ('--deepspeed ds_config_zero3.json, and in it "device": "cpu"', "--max_slice_nums 4", "--model_max_length 1024", "--tune_vision false")),
    ("x transformers/trainer.py x\n", full(1.5, 22, 1.1, 20.3), f'File "/w/train_video.py", line 9, in main {TOWER}', "forward", (41, 99), ("grep -nE 'num_frames|max_frames|fps' /w/train_video.py", "AutoProcessor.from_pretrained")),
    ("llamafactory-cli train x.yaml\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 2\n", full(9.4, 79, 4.1, 70.7), "hidden_states = hidden_states + self.attn( ", "backward", (418, 999), ("image_max_pixels: 294912", "per_device_train_batch_size: 1, gradient_accumulation_steps: 4")),
    (SWIFT.format("--per_device_train_batch_size 1 --deepspeed zero3"), full(9.4, 79, 4.1, 60), "", "forward", (418, 999), ("--max_pixels", "--max_length", "--deepspeed zero3_offload")),
    ("Parameter Offload - Persistent parameters statistics: 686\nswift rlhf --model x-vl\n", full(2.6, 79, 2.6, 48, 3.5), "shift_logits = logits[..., :-1, :]", "forward", (0, 9), ("--max_length 4096", "half of --per_device_train_batch_size", "--use_liger_kernel true", "--deepspeed zero3_offload")),
    ("x\n", full(0.04, 79.3, 0.02, 76.8, 1.2), "src/open_r1/trainer/grpo_trainer.py --num_generations 8", "generation", (2, 99), ("--num_generations 4: 8 by default",)),
    ("grpo.py --num_generations 8 --max_completion_length 700\n", ASKED, "trainer/grpo_trainer.py", "generation", (2, 99), ("--num_generations 4: 8 now; the global batch must stay a multiple of it; or --max_completion_length 350",)),
    ("llamafactory-cli train x.yaml\n", full(9.3, 79, 6.8, 53, 18.1), "", "backward", (9, 99), ("PYTORCH_CUDA_ALLOC_CONF",)),
    ("llamafactory-cli train x.yaml\n", full(18.5, 79, 12.3, 47.9, 17.8), "", "evaluation", (9, 99), ("per_device_eval_batch_size: 1", "prediction_loss_only: true", "PYTORCH_CUDA_ALLOC_CONF")),
    (SWIFT.format("--tuner_type lora --per_device_train_batch_size 1 --max_length 8192"), full(1.2, 24, 0.4, 22), "", "backward", (0, 9), ("--max_length 4096", "--max_pixels", "--deepspeed zero3", "--quant_method bnb --quant_bits 4")),
    ("torchrun --nproc_per_node 4 train.py\n", full(0.1, 79, 0.1, 26).replace(" Including", " Process 7 has 26.30 GiB memory in use. Process 8 has 26.30 GiB memory in use. Including"), OWN, "load", None, ('torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) in /w/train.py',)),
    ("torchrun --nproc_per_node 4 train.py\n", "CUDA error: out of memory", OWN + 'File "/e/torch/cuda/__init__.py", line 4, in set_device x', "", None, ("nvidia-smi --query-compute-apps",)),
    ("deepspeed ft.py --model_name Qwen/Qwen2.5-14B\ndist_world_size=4\nCPU Offload: True\nzero_optimization: {'stage': 2}\n", full(0.03, 39.4, 0.01, 38.5), OWN, "forward", (0, 9), ('"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}', "model.gradient_checkpointing_enable()")),
    (SWIFT.format("--tuner_type lora --deepspeed zero2 --num_processes 4").replace("7B", "32B"), full(0.03, 47, 0.01, 46), "", "forward", (0, 9), ("--deepspeed zero3",)),
    (SWIFT.format("--deepspeed zero3 --num_processes 8"), full(0.03, 79, 0.01, 76), "", "forward", (0, 9), ("half of --per_device_train_batch_size",)),
    ("x transformers/trainer.py x\n", full(12.9, 39.6, 12.3, 18.3), 'File "/e/site-packages/transformers/trainer.py", line 9, in nested_concat ', "evaluation", (30, 99), ("Trainer(…, preprocess_logits_for_metrics=lambda logits",)),
    ("fsdp x\n", "UserWarning: /e/torch/distributed/fsdp/_state_dict_utils.py: Failed to clone() tensor with name m.w on rank 0. " + ASKED, "", "", (99, 99), ("with FSDP.state_dict_type(trainer.model, StateDictType.FULL_STATE_DICT",)),
    ("x\n", full(272.0, 79.2, 60.5, 18.0), 'File "/w/unsloth_compiled_cache/unsloth_compiled_module_qwen2_vl.py", line 393, in f', "forward", (0, 9), ("UnslothVisionDataCollator(model, tokenizer, resize=512)",)),
    ("", ASKED, 'File "/w/sft.py", line 9, in main trainer.train(resume_from_checkpoint="out/checkpoint-12") File "/e/site-packages/transformers/trainer.py", line 9, in _load_optimizer_and_scheduler', "load", None, ("mv CHECKPOINT/optimizer.pt CHECKPOINT/optimizer.pt.aside, then the same command",)),
    (ROOM.format(54.2), "ValueError: No available memory for the cache blocks.", 'File "/e/site-packages/trl/trainer/grpo_trainer.py", line 404, in __init__ self.llm = LLM( ', "", None, ("accelerate launch --num_processes $(($(nvidia-smi -L | wc -l) - 1))", "nvidia-smi --query-compute-apps")),
    (ROOM.format(0.2) + "trl grpo --x\n", "ValueError: No available memory for the cache blocks.", "", "", None, ("--vllm_gpu_memory_utilization 0.31",)),
    ("FullyShardedDataParallel\n", ASKED, OWN, "save", (9, 99), ("FSDP_STATE_DICT_TYPE=SHARDED_STATE_DICT",)),
    ("deepspeed t.py --deepspeed z3.json --output_dir o\nzero_optimization: {'stage': 3}\n", ASKED, OWN, "save", (9, 99), ('"stage3_gather_16bit_weights_on_model_save": false in z3.json',)),
    ("accelerate launch train.py\n", ASKED, OWN, "backward", (0, 9), ("model.gradient_checkpointing_enable()", "grep -n 'batch_size' /w/train.py", "accelerate launch --use_deepspeed --zero_stage 2 … (the rest as it was)")),
    ("train.py --output_dir o --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --gradient_checkpointing True --model_max_length 4096\n", ASKED, OWN, "forward", (61, 99), ("--per_device_train_batch_size 2", "--model_max_length 2048")),
    (SWIFT.format(""), ASKED, "x in evaluation_loop trl/trainer/grpo_trainer.py", "generation", (400, 999), ("--eval_strategy no", "--max_pixels 602112", "--num_generations 4")),
    ("train.py --model_name_or_path org/Qwen2-VL-7B --per_device_train_batch_size 1\n", ASKED, OWN, "forward", (0, 9), ("--gradient_checkpointing true", "--optim paged_adamw_8bit", "model.visual.gradient_checkpointing = True, where")),
    ("x\n", ASKED, 'File "/w/verl/trainer/main_ppo.py", line 9, in main', "backward", (0, 9), ("actor_rollout_ref.model.enable_gradient_checkpointing=True", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1", "actor_rollout_ref.actor.fsdp_config.param_offload=True")),
    ("x colossalai x\n", ASKED, OWN, "step", (0, 9), ("LowLevelZeroPlugin(stage=2)", "GeminiPlugin(shard_param_frac=1.0) ", "GeminiPlugin(shard_param_frac=1.0, offload_optim_frac=1.0)")),
    ("x transformers/trainer.py\n", full(40, 79, 4.5, 60), 'File "/w/qwenvl/train/train_qwen.py", line 1, in train', "forward", (0, 9), ("--max_pixels 225792", "the rows of more than 4096 tokens out of the annotation file")),
    (DEEPSPEED, full(1.2, 79, 0.5, 70), OWN.replace("/w/train.py", "ft.py"), "forward", (0, 9), ("model.gradient_checkpointing_enable() in ft.py, behind from_pretrained(…)",)),
)  # fmt: skip


def test_the_phase_and_the_sizes_decide():
    for words, message, trace, phase, steps, first in ROWS:
        facts = of_text([words]).at(message, trace, phase)
        facts = facts if steps is None else facts.__class__(**{**vars(facts), "steps": steps})
        said = [flags.say(do, facts) for do in VG512.remedies(facts)]
        assert len(said) <= 6, (words, said)
        for step, begins in zip(said, first, strict=False):
            assert step.startswith(begins), (words, phase, said)


PHASES = (
    (("train", "_move_model_to_device", "to", "_apply", "convert"), "load"),
    (("train", "training_step", "backward", "step", "_take_model_step", "_init_group"), "step"),
    (("fit", "optimizer_step", "closure", "training_step", "forward"), "forward"),  # Lightning
    (("fit", "optimizer_step", "closure", "training_step", "backward"), "backward"),
    (("train", "training_step", "compute_loss", "forward"), "forward"),
)


@pytest.mark.parametrize(("names", "phase"), PHASES)
def test_phases(names, phase):
    line = Line(0, 1, 0, None, "", None, "", "x", "x")
    event = Event(line, "OutOfMemoryError", "x", frames=[("/w/t.py", 1, name) for name in names])
    assert phases.of(event) == phase


def test_what_a_log_tells_of_the_card(tmp_path):
    path = tmp_path / "train.log"
    held = full(1.0, 79.0, 0.5, 20.0).replace("78.50 GiB memory in use", "21.00 GiB memory in use")
    path.write_text(compose.failing(3, compose.traced(f"torch.OutOfMemoryError: {held}", 1)))
    answer, _ = explain([str(path)])
    assert "other processes hold 57.5 GiB of this card" in VG512.told(answer.facts)
    assert flags.say(VG512.remedies(answer.facts)[0], answer.facts).startswith("nvidia-smi --query-compute-apps")


NCCL = "NCCL error in: ProcessGroupNCCL.cpp:1691, unhandled cuda error, NCCL version 2.19.3 ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'"
ALMOST_NONE = "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 47.54 GiB total capacity; 194.45 MiB already allocated; 4.88 MiB free; 686.00 MiB reserved in total by PyTorch)"


@pytest.mark.parametrize(
    ("words", "first", "count"),
    [
        (NCCL, "torch.cuda.set_per_process_memory_fraction(0.9)", 6),
        (ALMOST_NONE, "nvidia-smi --query-compute-apps", 1),
    ],
)
def test_memory_that_is_not_of_pytorch(tmp_path, words, first, count):
    path = tmp_path / "train.log"
    path.write_text(compose.failing(2, compose.traced(f"RuntimeError: {words}", 1)))
    answer, _ = explain([str(path)])
    said = [flags.say(do, answer.facts) for do in VG512.remedies(answer.facts)]
    assert said[0].startswith(first)
    assert len(said) <= count
