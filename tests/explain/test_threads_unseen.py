"""Shapes that a fifth, a sixth and a seventh set of logs taught, which nobody who wrote the patterns had seen."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain import logfacts

WAITS = "[rank{0}]:[E1118 10:02:41.3 ProcessGroupNCCL.cpp:685] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=30771, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600018 milliseconds before timing out.\n"
BAR = " {0}%|██   | {1}/900 [08:47<37:43,  3.10s/it]\n"
NAN = " iteration     54{0}/  250000 | consumed samples:        434{0} | consumed tokens:     888995{0} | elapsed time per iteration (ms): 4247.9 | learning rate: 2.999E-04 | global batch size:     8 | loss scale: 1.0 | grad norm: nan | actual seqlen:  2048 | number of skipped iterations:   0 |\n"

# log → (text, class or verdict, starting ranks or None)
SHAPES = {
    "huggingface/trainer#2374 back-ticks that a page has eaten": (compose.traced("ValueError: Please specify target_modules in peft_config", 0), "VG525", (0,)),
    "a line's back-ticks, too": ("indexSelectLargeIndex: block: [213,0,0], thread: [63,0,0] Assertion srcIndex < srcSelectDimSize failed.\n", "VG545", None),
    "the arguments were refused, then it was started again and ended": (
        'usage: train.py [-h]\ntrain.py: error: argument --num_worker: expected one argument\nTraceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n    import torch\n  File "/env/site-packages/torch/onnx/symbolic_opset9.py", line 1603, in <module>\n    @_beartype.beartype\nKeyboardInterrupt\n', "VG569", None),
    "the arguments were refused, and the launcher says so": (
        "train.py: error: argument --num_worker: expected one argument\n" + 'Traceback (most recent call last):\n  File "/env/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n  File "/env/site-packages/torch/distributed/run.py", line 879, in main\n    run(args)\nKeyboardInterrupt\n', "VG553", None),
    "a script that could not be read, then it was started again": (
        '  File "/job/train.py", line 7\n    x = 1\nIndentationError: unindent does not match any outer indentation level\nTraceback (most recent call last):\n  File "/job/train.py", line 80, in <module>\n    torch.save(state, path)\n  File "/env/site-packages/torch/serialization.py", line 835, in __exit__\n    self.file_like.write_end_of_file()\nRuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 228062784 vs 228062672\n', "VG535", None),
    "huggingface/trl#2879 torchrun's word, cut": (
        "  0%|          | 0/9 [00:00<?, ?it/s]W0217 07:42:20.851000 470998 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 471406 closing signal SIGTERM\nE0217 07:42:21.080000 470998 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 3\n", "VG532", (3,)),
    "a result that has no folder": (
        'Traceback (most recent call last):\n  File "/job/train.py", line 20, in save\n    pkl_file = open(name, \'wb\')\nFileNotFoundError: [Errno 2] No such file or directory: \'output/history.pkl\'\n', "VG580", None),
    "a slip in a user's own call": (
        'Traceback (most recent call last):\n  File "/job/train.py", line 437, in main\n    means.update(features, device)\nTypeError: KMeans.update() missing 2 required positional arguments: \'a\' and \'b\'\n', "unknown", None),
    "hiyouga/LLaMA-Factory#3406 a web page's thread that trains, cut": (
        'Generating train split: 0 examples [00:00, ? examples/s]\nException in thread Thread-6 (run_exp):\nTraceback (most recent call last):\n  File "/env/site-packages/datasets/arrow_writer.py", line 611, in finalize\n    raise SchemaInferenceError("Please pass `features` or at least one example when writing data")\ndatasets.arrow_writer.SchemaInferenceError: Please pass `features` or at least one example when writing data\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n    self.run()\n', "VG554", None),
    "an old torch's name for tensors": (compose.traced("RuntimeError: element 0 of variables does not require grad and does not have a grad_fn", 0), "VG507", (0,)),
    "a model parallel library before its groups are made": (compose.traced("AssertionError: model parallel group is not initialized", 1), "VG584", (1,)),
    "mistral-finetune#85 a class of arguments": (compose.traced("TypeError: DataArgs.__init__() got an unexpected keyword argument 'no_eval'", 0), "VG553", (0,)),
    "unslothai/unsloth#1130 a template without a prompt's end": (compose.traced("RuntimeError: Unsloth: The tokenizer `./t` does not have a {% if add_generation_prompt %} for generation purposes.", 0), "VG574", (0,)),
    "a driver's Xid before the CUDA call that failed": (
        "[Tue Nov 18 10:01:55 2026] NVRM: Xid (PCI:0000:c6:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        + compose.traced("torch.AcceleratorError: CUDA error: unspecified launch failure", 6), "VG534", None),
    "rank 0 evaluates on, the others wait; no line tells the world size": (
        BAR.format(21, 190) + BAR.format(22, 200) + "***** Running Evaluation *****\nGenerating predictions on rank 0 …\n 41%|████      | 820/2000 [09:58<14:21,  1.37it/s]\n"
        + "".join(WAITS.format(rank) for rank in (1, 2, 3)), "VG551", (0,)),
    "meta-pytorch/torchtune#2676 a barrier while one rank saves": (
        'Traceback (most recent call last):\n  File "/env/recipes/lora.py", line 745, in save_checkpoint\n    torch.distributed.barrier()\n  File "/env/torch/distributed/distributed_c10d.py", line 4556, in barrier\n    work.wait()\nRuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n', "VG551", None),
    "datawhalechina/unlock-deepseek#42 an environment named after an engine": (
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/home/u/miniconda/envs/vl_vllm/lib/python3.10/site-packages/trl/trainer/grpo_trainer.py", line 495, in compute_loss\n[rank3]:     rewards_per_func[:, i] = torch.tensor(output_reward_func, dtype=torch.float32)\n[rank3]: RuntimeError: The expanded size of the tensor (10) must match the existing size (11) at non-singleton dimension 0.\n', "VG581", (3,)),
    "hiyouga/LLaMA-Factory#3230 the kernel's table of processes": (
        "[17798674.374495] [ 202779]  1000 202779 274650088 243385180 1957441536     7930          -998 python\n[17798674.377396] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=38e6\n", "VG532", None),
    "bigscience/Megatron-DeepSpeed#396 records of one width are no wrapped lines": (
        "".join(NAN.format(number) for number in range(26, 30)), "VG515", None),
    "hpcaitech/ColossalAI#2834 a step that fails is no configuration": (
        'Traceback (most recent call last):\n  File "/env/lib/python3.8/site-packages/colossalai/zero/sharded_optim/low_level_optim.py", line 466, in step\n    assert param_shape == flat_fp32_avg_grads.shape, \\\nAssertionError: fp32 param and grad have different shape torch.Size([279245825]) vs torch.Size([1025])\n', "unknown", None),
    "isl-org/ZoeDepth#112 a cut traceback after the tracker's word": (
        "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])\n"
        'torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 0 terminated with the following error:\nTraceback (most recent call last):\n  File "/content/train.py", line 104, in main_worker\n    trainer.train()\n', "VG565", None),
    "facebookresearch/SlowFast#558": (
        "Failed to decode video idx 154000 from /data/k.avi; trial 0\nRuntimeError: Failed to fetch video idx 168596 from /data/s.avi; after 99 trials\n", "VG555", None),
}  # fmt: skip


@pytest.mark.parametrize("log", SHAPES)
def test_shape(tmp_path, log):
    told_right(tmp_path, *SHAPES[log])


def test_a_release_that_is_only_spoken_of_is_none_of_the_run():
    told = logfacts.of_text([
        "`use_reentrant` is deprecated and will be removed in Transformers v5.10\n",
        "vllm 0.11.0 requires torch==2.8.0, but you have torch 2.13.0 which is incompatible.\n",
        "[INFO:swift] swift.__version__: 4.6.0\n",
    ])  # fmt: skip
    assert told.releases == {"vllm": "0.11.0", "torch": "2.13.0", "swift": "4.6.0"}
