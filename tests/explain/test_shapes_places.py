"""Shapes that a fourth set of threads taught, and what the frame that raised an exception tells."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain.catalogue import load

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "unslothai/unsloth#1441 a notebook, the template's own frame": (
        "TypeError                                 Traceback (most recent call last)\n[/usr/local/lib/python3.10/dist-packages/jinja2/environment.py](https://localhost:8080/#) in handle_exception(self, source)\n--> 939         raise rewrite_traceback_stack(source=source)\n\n<template> in top-level template code()\n\nTypeError: can only concatenate list (not \"str\") to list\n", "VG574", None),
    "hiyouga/EasyR1#324 Ray's word for a node that is gone": (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\nWorker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.\n", "VG533", None),
    "meta-pytorch/torchtune#1702 a key of another format, the chain is cut": (
        compose.traced("KeyError: 'vision_model.vision_encoder.class_embedding'", 1)
        + "\n[rank1]: The above exception was the direct cause of the following exception:\n\n" + compose.traced("x", 1).rpartition("[rank1]: x")[0], "VG522", (1,)),
    "modelscope/ms-swift#5160 a subcommand that there is not": (
        'Traceback (most recent call last):\n  File "/env/lib/python3.10/site-packages/swift/cli/main.py", line 62, in cli_main\n    file_path = importlib.util.find_spec(route_mapping[method_name]).origin\nKeyError: \'grpo\'\n', "VG553", None),
    "deepspeedai/DeepSpeed#3771 an assertion without a message": (
        'Traceback (most recent call last):\n  File "/env/deepspeed/runtime/zero/stage3.py", line 9, in cat\n    assert len(set(t.device for t in tensors)) == 1\nAssertionError\n', "VG527", None),
    "deepspeedai/DeepSpeed#3377 another": (
        'Traceback (most recent call last):\n  File "/env/deepspeed/runtime/state_dict_factory.py", line 9, in __init__\n    assert len(self.ckpt_list) > 0\nAssertionError\n', "VG550", None),
    "ruoqianguo/DetNet_pytorch#16 a line, no exception": (
        "cuda runtime error (38) : no CUDA-capable device is detected at /pytorch/torch/lib/THC/THCGeneral.c:70\n", "VG537", None),
    "dmlc/decord#327 CUDA in a forked worker": (
        compose.traced("decord._ffi.base.DECORDError: cuda_stream.cc:20: Check failed: e == cudaSuccess || e == cudaErrorCudartUnloading CUDA: initialization error at line: 20", 0), "VG583", (0,)),
    "open-mmlab/mmdetection#6934 torch 1.9's words for a child's end": (
        "CHILD PROCESS FAILED WITH NO ERROR_FILE\nChild process 2814 (local_rank 2) FAILED (exitcode -9)\nError msg: Process failed with exitcode -9\n", "VG532", (2,)),
    "bitsandbytes-foundation/bitsandbytes#782 the launcher's rank, where that is all": (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 3777589) of binary: /env/bin/python3.10\n", "unknown", (3,)),
    "Mikubill/naifu#35 a traceback behind a bar": (
        "Epoch 0:  16%|█▌        | 7395/45743 [13:13:43<68:36:00,  6.44s/it, avg_loss: 0.080]" + compose.traced("OSError: [Errno 5] Input/output error: '/app/out'", 3), "VG580", (3,)),
    "a class in an unusual spelling, with its module": (compose.traced("pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.", 1), "VG537", (1,)),
    "OpenCV's": (compose.traced("cv2.error: OpenCV(4.9.0) /x/resize.cpp:4152: error: (-215:Assertion failed) !ssize.empty() in function 'resize'", 1), "VG555", (1,)),
    "torchrun got a signal, ranks lost their connection": (
        compose.traced("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4242", 1)
        + compose.traced("torch.distributed.elastic.multiprocessing.api.SignalException: Process 2084 got signal: 15", None), "VG569", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


# The innermost frame, the message (of a release that nobody has read) → class.
PLACES = {
    ("/env/lib/python3.12/site-packages/transformers/training_args.py", "__post_init__"): "VG553",
    ("/opt/LLaMA-Factory/src/llamafactory/hparams/parser.py", "get_train_args"): "VG553",
    ("C:\\env\\Lib\\site-packages\\accelerate\\utils\\dataclasses.py", "__post_init__"): "VG575",
    ("/env/lib/python3.12/site-packages/deepspeed/runtime/config_utils.py", "_process"): "VG575",
    ("/env/lib/python3.12/site-packages/torch/distributed/fsdp/_flat_param.py", "flatten"): "VG576",
    ("/env/lib/python3.12/site-packages/bitsandbytes/functional.py", "quantize_4bit"): "VG577",
    ("/env/lib/python3.12/site-packages/triton/compiler/code_generator.py", "visit_Call"): "VG578",
    ("/env/lib/python3.12/site-packages/jinja2/sandbox.py", "call"): "VG574",
    ("/env/lib/python3.12/site-packages/PIL/ImageFile.py", "load"): "VG555",
    ("/env/lib/python3.12/site-packages/datasets/features/features.py", "encode"): "VG554",
    ("/env/lib/python3.12/site-packages/wandb/sdk/lib/config.py", "load"): "VG565",
    ("/env/lib/python3.12/site-packages/vllm/config/model.py", "verify"): "VG566",
    ("/env/lib/python3.12/site-packages/peft/tuners/tuners_utils.py", "inject_adapter"): "VG585",
    ("/job/train.py", "compute_loss"): "unknown",
    ("/job/datasets/mine.py", "__getitem__"): "unknown",
    ("/env/lib/python3.12/site-packages/torch/nn/modules/linear.py", "forward"): "unknown",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_place_tells(tmp_path, place):
    path, name = place
    log = compose.traced("ValueError: words of a release to come", 1).splitlines(keepends=True)
    log.insert(-1, f'[rank1]:   File "{path}", line 7, in {name}\n')
    told_right(tmp_path, "".join(log), PLACES[place], (1,))


def test_a_known_message_goes_before_the_place(tmp_path):
    log = compose.traced("OSError: [Errno 28] No space left on device", 1).splitlines(keepends=True)
    log.insert(-1, '[rank1]:   File "/env/site-packages/datasets/arrow_writer.py", line 7, in write\n')
    told_right(tmp_path, "".join(log), "VG535", (1,))


def test_every_place_names_a_path_or_function():
    """A place that is one word would be found in any path."""
    raised = [sign.text for known in load() for sign in known.signs if sign.where == "raised"]
    assert len(raised) > 150
    assert [text for text in raised if not any(mark in text for mark in ("/", ".py", "in ", "-packages"))] == []
