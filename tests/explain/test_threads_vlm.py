"""Shapes that threads of vision-language models' own repositories taught, each named by its thread."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import BAR, told_right


def trace(*frames, last=""):
    """The end of a traceback: frames of (path, function, source line), and what stands below them."""
    lines = [f'  File "{path}", line 7, in {name}\n    {source}\n' for path, name, source in frames]
    return "".join(lines) + last


GENERATION = "/env/lib/python3.10/site-packages/transformers/generation/configuration_utils.py"
LOGGED = "{{'loss': {loss}, 'grad_norm': 0.0, 'learning_rate': 1e-05, 'epoch': 0.0{more}}}\n"
MASKED = "WARNING: tokenization mismatch: 47 vs. 48. (ignored)\n"

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "haotian-liu/LLaVA#1635 saving is refused, and the quotation ends with raise": (
        trace(("/env/transformers/modeling_utils.py", "save_pretrained", "model_to_save.generation_config.save_pretrained(save_directory)"),
              (GENERATION, "save_pretrained" + " " * 90, "raise ValueError(\n\n")), "VG592", None),
    "HKUDS/UrbanGPT#21 the same, then the rest of the chain is cut": (
        f"{BAR}\nTraceback (most recent call last):\n" + trace((GENERATION, "save_pretrained", "raise ValueError(str([w.message for w in caught_warnings]))"))
        + "ValueError: [UserWarning('`do_sample` is set to `False`. However, `temperature` is set to `0.9` -- this flag is only used in sample-based generation modes.')]\n\n"
        "During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/apps/da\n", "VG592", None),
    "haotian-liu/LLaVA#1153 losses of 0.0 beside LLaVA's warning": (LOGGED.format(loss="0.0", more="") + BAR + MASKED + 3 * MASKED, "VG593", None),
    "haotian-liu/LLaVA#375 losses of 0.0 and no warning": (8 * LOGGED.format(loss="0.0", more=""), "VG593", None),
    "mbzuai-oryx/LLaVA-pp#14 the warning beside a sound loss": (3 * MASKED + LOGGED.format(loss="2.8514", more="") + 3 * MASKED, "unfinished", None),
    "a policy's loss of 0.0 with a reward": (8 * LOGGED.format(loss="0.0", more=", 'reward': 0.5, 'kl': 0.0"), "unfinished", None),
    "open-mmlab/mmdetection#2153 a message that is cut": ("RuntimeError: Expected to have finished reduc\n", "VG503", None),
    "maybeLx/MVSFormerPlusPlus#7 a spawned rank's traceback that is cut": (
        "Traceback (most recent call last):\n" + trace(("/env/torch/multiprocessing/spawn.py", "join", "raise ProcessRaisedException(msg, error_index, failed_process.pid)"))
        + "torch.multiprocessing.spawn.ProcessRaisedException:\n\n-- Process 2 terminated with the following error:\nTraceback (most recent call last):\n"
        + trace(("/env/torch/multiprocessing/spawn.py", "_wrap", "fn(i, *args)"), ("/env/torch/nn/parallel/distributed.py", "forward", "if torch.is_grad_enabled() and self\n")), "VG503", (2,)),
    "2U1/Qwen-VL-Series-Finetune#134 no frame, only the line that failed": (
        '[rank3]:     "<|placeholder|>" * (image_grid_thw[index].prod() // merge_length),\n[rank3]:                          ~~~~~~~~~~~~~~^^^^^^^\n'
        "[rank3]: IndexError: index 1 is out of bounds for dimension 0 with size 1\n", "VG510", (3,)),
    "QwenLM/Qwen3-VL#967 more placeholders than images": (
        compose.traced("IndexError: index 0 is out of bounds for dimension 0 with size 0", 3).replace("[rank3]: IndexError", '[rank3]:   File "/env/transformers/models/qwen2_vl/processing_qwen2_vl.py", line 139, in __call__\n[rank3]: IndexError'), "VG510", (3,)),
    "an index out of range elsewhere": (compose.traced("IndexError: index 7 is out of bounds for dimension 0 with size 7", 1), "VG545", (1,)),
    "Liuziyu77/Visual-RFT#201 a mask and its tokens": (
        compose.traced("IndexError: The shape of the mask [198] at index 0 does not match the shape of the indexed tensor [197] at index 0", 5).replace("[rank5]: IndexError", '[rank5]:   File "/env/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py", line 1589, in get_rope_index\n[rank5]: IndexError'), "unknown", (5,)),
    "2U1/Qwen-VL-Series-Finetune#17 a watchdog's frames alone": (
        "Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:565 (most recent call first):\nframe #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 (0x7f in libtorch_cuda.so)\n", "VG505", None),
    "huggingface/lerobot#1350 an unknown policy": ("draccus.utils.DecodingError: Couldn't find a choice class for 'smolvla' in <class 'lerobot.configs.policies.PreTrainedCon\n", "VG553", None),
    "huggingface/lerobot#2595 a camera without statistics": (
        "Traceback (most recent call last):\n" + trace(("/w/lerobot/src/lerobot/datasets/factory.py", "make_dataset", "dataset.meta.stats[key][stats_type] = torch.tensor(stats)"), last="KeyError: 'observation.images.left_wrist'\n"), "VG554", None),
    "moojink/openvla-oft#87 tensorflow's class is cut": (
        trace(("/w/prismatic/vla/datasets/rlds/dataset.py", "make_dataset_from_rlds", "for sample in ds.take(1):"),
              ("/env/tensorflow/python/framework/ops.py", "raise_from_not_ok_status", "raise core._status_to_exception(e) from None"), last="tensorflow.python.fr\n"), "VG554", None),
    "moojink/openvla-oft#3 a pointer of git-lfs instead of a record": ("tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 0 (Is this even a TFRecord file?)\n", "VG541", None),
    "haotian-liu/LLaVA#1150 no vision tower was given": (compose.traced("AttributeError: 'DataArguments' object has no attribute 'image_processor'", 0), "VG553", (0,)),
    "OpenGVLab/InternVL#879 a data set without a length": (compose.traced("ValueError: The train_dataset does not implement __len__, max_steps has to be specified.", 0), "VG553", (0,)),
    "haotian-liu/LLaVA#732 more <image> than images in LLaVA": ("    cur_image_features = image_features[cur_image_idx]\nIndexError: index 2 is out of bounds for dimension 0 with size 2\n", "VG510", None),
    "starVLA/starVLA#92 the terminal was closed, the launcher's traceback is cut": (
        "W1225 20:25:58.69 1514 site-packages/torch/distributed/elastic/multiprocessing/api.py:897] Sending process 41 closing signal SIGHUP\nTraceback (most recent call last):\n"
        + trace(("/env/accelerate/commands/launch.py", "deepspeed_launcher", "distrib_run.run(args)"), ("/env/torch/distributed/launcher/api.py", "__call__", "return launch_agent(self._config)")), "VG569", None),
    "shihao1895/MemoryVLA#20 other words for a rank that was killed": (
        "[job-master-0] [2026-03-30 19:24:42,731] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) for binary located at /env/bin/python3.10 with local_rank: 0 (process ID: 71) [job-master-0] Traceback (\n", "VG532", (0,)),
    "a rank's own exception, and Python's log format behind it": (
        compose.traced("IndexError: list index out of range", None) + "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 41 closing signal SIGTERM\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 4 (pid: 24321) of binary: /env/bin/python\n", "unknown", (4,)),
    "starVLA/starVLA#328 a data set's class, cut": (
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/starVLA/dataloader/lerobot_datasets.py\", line 87, in get_vla_dataset\n[rank0]:     mixture.append((make_LeRobotSingleDataset(Path(root), name, data_cfg=dat\n", "VG554", (0,)),
    "open-mmlab's registry": (compose.traced("KeyError: 'MyHead is not in the mmengine::model registry. Please check whether the value of `MyHead` is correct or it was registered as expected.'", 1), "VG553", (1,)),
    "LLaVA's own check of a conversation": (
        "Traceback (most recent call last):\n" + trace(("/w/llava/train/train.py", "preprocess_llama_2", "assert role == conv.roles[j % 2], f\"{i}\""), last="AssertionError: 0\n"), "VG554", None),
    "apple/corenet another job's taken port, written into the log of one that goes on": (
        "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:30001 (errno: 98 - Address already in use).\n[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.\n"
        + "".join(f"2024-08-04 05:11:0{n} - LOGS    - Epoch:   {n} [    {n}051/10000000], loss: {{'total_loss': 3.7}}, LR: [4.1e-05]\n" for n in range(1, 6)), "unfinished", None),
    "the same port, and nothing after it": ("[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.\n", "VG542", None),
    "DETR's and LAVIS's steps after an exception that was printed": (
        compose.traced("OSError: image file is truncated (3 bytes not processed)", None) + "".join(f"Train: data epoch: [0]  [  {n}0/5000]  eta: 1:36:50  lr: 0.000001  loss: {1.3 * n}  max mem: {n * 777}\n" for n in range(1, 6)), "unfinished", None),
    "a Ctrl-C that the script went on from": (
        compose.traced("KeyboardInterrupt", None) + "".join(f"Inference:  {n}%|▏         | {n}/43 [00:19<13:33, 19.36s/it]\n" for n in range(1, 20)), "unfinished", None),
    "a Ctrl-C": (compose.traced("KeyboardInterrupt", None), "VG569", None),
    "a worker's parent is gone": (
        "Traceback (most recent call last):\n" + trace(("/env/lib/python3.10/multiprocessing/spawn.py", "_main", "self = reduction.pickle.load(from_parent)"), last="_pickle.UnpicklingError: pickle data was truncated\n"), "VG583", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])
