"""Shapes that threads of ms-swift, modelscope, EvalScope and their engines taught: Ascend, rollouts, hubs."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right

NPU = "[rank1]: [ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:1, RankID:1) ERR01100 OPS call acl api failed.\n"
FRAMES = '  File "/env/lib/python3.10/site-packages/{}", line 17, in {}\n    x()\n'

# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "Ascend/pytorch#66 an operator": (
        compose.traced("RuntimeError: operator():build/CMakeFiles/torch_npu.dir/compiler_depend.ts:25 NPU function error: c10_npu::acl::AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 507035", 1) + NPU, "VG596", (1,)),
    "vllm-project/vllm-ascend#486 the message goes on behind torch_npu's own [ERROR]": (
        compose.traced("RuntimeError: InnerRunOpApi:torch_npu/csrc/framework/OpParamMaker.cpp:281 OPS function error: HcclAllreduce, error code is 6", 1) + NPU
        + "[rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send the data in time.\n", "VG517", None),
    "PKU-YuanGroup/Helios#62 memory, in CANN's words": (
        compose.traced("RuntimeError: Dummy run failed: The Inner error is reported as above.", 0) + "[rank0]: " + NPU[9:].replace("01100 OPS", "00100 PTA")
        + "[rank0]: [PID: 210907] 2026-04-09-21:56:40.384.694 Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.\n", "VG512", (0,)),
    "hiyouga/LlamaFactory#3839 an exception that looks like a host": (
        compose.traced("RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64", None), "VG596", ()),
    "hiyouga/LlamaFactory#6028 torch_npu's last words alone": (
        "[ERROR] 2024-11-14-15:58:45 (PID:2590239, Device:0, RankID:-1) ERR99999 UNKNOWN application exception\n", "unknown", None),
    "modelscope/modelscope#1365 a download that is broken": (
        "Mismatched real-time digest found, falling back to lump-sum hash computation\n"
        "2025-06-10 11:48:17,107 - modelscope - ERROR - File /c/model-00001-of-00004.safetensors integrity check failed, expected sha256 signature is 6ffce2, actual is e3b0c4, the download may be incomplete, please try again.\n", "VG541", None),
    "01-ai/Yi-1.5#15 a model that needs a login": (
        "2024-05-17 23:15:33,005 - modelscope - ERROR - Authentication token does not exist, failed to access model a/b which may not exist or may be                 private. Please login first.\nTraceback (most recent call last):\n"
        + FRAMES.format("modelscope/hub/errors.py", "handle_http_response"), "VG539", None),
    "modelscope/ms-swift#2318 an editor's line numbers": (
        "AWQ:  99%|█████████▉| 79/80 [3:05:39<02:21, 141.00s/it]\n"
        + "".join(f" {71 + n} {line}\n" for n, line in enumerate(compose.traced("ValueError: The model is quantized with x", None).splitlines())), "VG577", None),
    "huggingface/trl#5271 a log viewer's table": (
        "".join(f"  |   | 2026-03-11 16:42:19.489 | {line} |  \n" for line in compose.traced("ModuleNotFoundError: No module named 'vllm_ascend'", 3).splitlines()), "VG552", (3,)),
    "modelscope/ms-swift#1122 a traceback that a quotation joined": (
        'Train: 4%|██▌ | 80/2010 [01:46<41:02, 1.28s/it]Traceback (most recent call last): File "/data/swift/swift/cli/sft.py", line 5, in sft_main() '
        'File "/data/swift/swift/llm/sft.py", line 301, in llm_sft trainer.train(x) File "/env/transformers/trainer.py", line 9, in train loss torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.15 GiB.\n', "VG512", None),
    "modelscope/ms-swift#5894 the engine's last words, then why": (
        "ERROR 09-20 19:54:33 [core.py:398] EngineCore encountered a fatal error.\n"
        + "".join(f"ERROR 09-20 19:54:33 [core.py:398] {line}\n" for line in compose.traced("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.22 GiB.", None).splitlines()), "VG512", None),
    "vllm-project/vllm#26612 the engine's last words, the rest is cut": (
        "(EngineCore_DP0 pid=19) ERROR 10-11 10:42:14 [core.py:708] EngineCore failed to start.\n(EngineCore_DP0 pid=19) ERROR 10-11 10:42:14 [core.py:708] Traceback (most recent call last):\n"
        "(EngineCore_DP0 pid=19) ERROR 10-11 10:42:14 [core.py:708]   File \"/home/u/.venv/lib/python3.12/site-packages/vllm/v1/engine/core.py\", line 699, in run_engine_core\n", "VG566", None),
    "jingyaogong/minimind#714 SGLang's": (
        "[2026-03-29 18:06:26] Scheduler hit an exception: Traceback (most recent call last):\n" + FRAMES.format("sglang/srt/model_executor/model_runner.py", "update_weights_from_disk"), "VG566", None),
    "modelscope/ms-swift#2955 the rank stands in a traceback that is cut": (
        "swift.llm.template.base.MaxLengthError: Current length of row(11961) is larger than the max_length(10000).\n\n[rank7]: Traceback (most recent call last):\n"
        "[rank7]:   File \"/env/swift/cli/sft.py\", line 5, in <module>\n[rank7]:     sft_main()\n", "VG511", (7,)),
    "modelscope/ms-swift#4044 frames alone": (
        "".join(f"[rank1]: {line}\n" for line in (FRAMES.format("transformers/modeling_utils.py", "from_pretrained") + FRAMES.format("transformers/modeling_utils.py", "warmup")).splitlines()), "unknown", (1,)),
    "a logger's own stack is no failure": (
        "[WARNING] slow rows\nStack (most recent call last):\n" + FRAMES.format("a.py", "f") + FRAMES.format("b.py", "g"), "unfinished", None),
    "QwenLM/Qwen3-VL#84 a class that is called NotFound": (
        "pkg_resources.DistributionNotFound: The 'transformers<4.45,>=4.33' distribution was not found and is required by ms-swift\n", "VG552", None),
    "modelscope/ms-swift#3223 what the assertion on the device says": (
        "/pytorch/aten/src/ATen/native/cuda/TensorCompare.cu:110: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor contains either `inf`, `nan` or element < 0` failed.\n"
        + compose.traced("RuntimeError: CUDA error: device-side assert triggered", 2), "VG515", None),
    "modelscope/ms-swift#7069 a reward's signature": (
        compose.traced("TypeError: KeyInfoReward.__call__() missing 2 required positional arguments: 'clean_response' and 'key_response'", 3), "VG581", (3,)),
    "modelscope/ms-swift#2407 ms-swift 2's rows": (
        "Traceback (most recent call last):\n" + FRAMES.format("swift/llm/utils/template.py", "encode") + "KeyError: 'label'\n", "VG554", None),
    "modelscope/ms-swift#2949 a quantised model": (compose.traced("AssertionError: args.quant_method: gptq, quantized model and does not support merge-lora.", None), "VG577", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


# What raised it in releases of ms-swift, and of what class that is.
PLACES = {
    ("swift/llm/utils/argument.py", "__post_init__"): "VG553",
    ("swift/trainers/arguments.py", "__post_init__"): "VG553",
    ("swift/llm/utils/dataset.py", "get_dataset"): "VG554",
    ("swift/llm/utils/vllm_utils.py", "get_vllm_engine"): "VG566",
    ("swift/pipelines/export/quant.py", "quantize"): "VG577",
    ("torch_npu/npu/__init__.py", "_lazy_init"): "VG596",
    ("lmdeploy/pytorch/engine/engine.py", "_async_loop"): "VG566",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_place_tells(tmp_path, place):
    log = "Traceback (most recent call last):\n" + FRAMES.format(*place) + "ValueError: words of a release to come\n"
    told_right(tmp_path, log, PLACES[place], None)
