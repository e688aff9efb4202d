"""Shapes and messages that threads on DeepSpeed, torch's ranks, NCCL, Ray, verl and vLLM taught."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right


def frames(*places: str) -> str:
    """A quotation from the middle of a traceback: no head, no exception."""
    return "".join(f'  File "{place}", line 7, in {name}\n    x = f(x)\n' for place, _, name in (p.partition("#") for p in places))


# thread → (log, class or verdict, starting ranks or None)
SHAPES = {
    "verl-project/verl#595 Ray has no place for the workers": (compose.traced("AssertionError: failed to get register_center_actor: zL5aNK_register_center in [{'name': 'x'}]", None), "VG591", None),
    "verl-project/verl#3972 a worker that Ray does not register": (
        "[2025-10-31 11:59:10,379 E 90821 90821] core_worker.cc:513: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file worker_id=01ff\n", "VG591", None),
    "hpcaitech/ColossalAI#6202 parallel sizes": (compose.traced("AssertionError: World size 8 is not divisible by tp_size 1 * pp_size 3", 5), "VG594", (5,)),
    "hiyouga/EasyR1#44 rows and ranks": (compose.traced("AssertionError: only support equal chunk. Got size of DataProto 512 and chunk 6.", None), "VG594", None),
    "facebookresearch/FAMBench#103 experts and ranks": (
        'Traceback (most recent call last):\n  File "/env/deepspeed/utils/groups.py", line 54, in _ensure_divisibility\n    assert numerator % denominator == 0, \'{} is not divisible by {}\'.format(\nAssertionError: 4 is not divisible by 8\n', "VG594", None),
    "WM-PO/WMPO#3 Ray ended workers for memory": (
        "(raylet) [2025-12-07 09:57:19,206 E 393463 393463] (raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 8289)\n", "VG532", None),
    "verl-project/verl#2380 Ray's own check": (
        "(TaskRunner pid=29157) [2025-07-06 07:14:27,052 C 29157 29157] task_receiver.cc:219:  Check failed: objects_valid \n(TaskRunner pid=29157) *** StackTrace Information ***\n(TaskRunner pid=29157) /env/ray/_raylet.so(+0x13ddb7a) [0x73] ray::operator<<()\n", "VG558", None),
    "vllm-project/vllm#2682 what a watchdog's thread threw": (
        "(RayWorkerVllm pid=5304) [E ProcessGroupNCCL.cpp:916] [Rank 7] NCCL watchdog thread terminated with exception: CUDA error: unknown error\n"
        "(RayWorkerVllm pid=5304) Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:44 (most recent call first):\n", "VG562", (7,)),
    "pytorch/pytorch#105287 one that the catalogue lacks": (
        "[E ProcessGroupNCCL.cpp:868] NCCL watchdog thread terminated with exception: traceMap[thisSeq][myRank].second == kEventStart INTERNAL ASSERT FAILED\n", "unknown", None),
    "huggingface/diffusers#12422 a blocking wait": (
        "[rank3]:[E1002 18:16:40.711756918 ProcessGroupNCCL.cpp:756] [Rank 3] Work WorkNCCL(SeqNum=2521, OpType=ALLREDUCE, NumelIn=160, NumelOut=160, Timeout(ms)=600000) timed out in blocking wait.\n", "VG505", None),
    "jpata/particleflow#390 the watchdog's frames alone": (
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x15 in /env/libc10.so)\nframe #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 (0x15 in /env/libtorch_cuda.so)\n", "VG505", None),
    "NVIDIA/nccl#849 a barrier names who is missing": ("RuntimeError: [Rank 0]: Ranks 4, 5, 6, 7 failed to pass monitoredBarrier in 2000000 ms\n", "VG505", (4, 5, 6, 7)),
    "InternLM/xtuner#792 NCCL tells how many ranks there are": (
        "[rank1]:[E ProcessGroupNCCL.cpp:523] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800013 milliseconds before timing out.\n"
        "pod:228:280 [0] NCCL INFO comm 0x55e5 rank 1 nranks 2 cudaDev 1 busId 1a000 - Abort COMPLETE\n", "VG505", (0,)),
    "horovod/horovod#3929 two ranks on one card": (
        "[1,2]<stdout>:smc-gpu-03:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000\n[1,2]<stdout>:smc-gpu-03:29880:30398 [0] NCCL INFO init.cc:867 -> 5\n", "VG559", None),
    "OpenRLHF/OpenRLHF#621 the fabric, after a bar is full": (
        "Train epoch [1/1]: 100%|██████████| 128/128 [23:32<00:00, 26.11s/it]\n(LLMRayActor pid=90738, ip=172.19.24.110) mlx5: host_unknown: got completion with error:\n", "VG536", None),
    "bghira/SimpleTuner#1880 a rank's lines in a logger's, several on one": (
        "2025-10-31 03:11:02,475 - SimpleTuner - INFO - [rank7]: Traceback (most recent call last): (RANK 7)      2025-10-31 03:11:02,475 - SimpleTuner - INFO - [rank7]:   File \"/env/torch/distributed/checkpoint/state_dict_loader.py\", line 250, in local_step   2025-10-31 03:11:02,475 - SimpleTuner - INFO - [rank7]:     assert metadata is not None      2025-10-31 03:11:02,475 - SimpleTuner - INFO - [rank7]: AssertionError     \n", "VG550", (7,)),
    "deepspeedai/DeepSpeed#6549 a clock in other brackets": (
        "【2024-10-25 13:03:33】[rank0]: Traceback (most recent call last):\n【2024-10-25 13:03:33】[rank0]: RuntimeError: CUDA error: no kernel image is available for execution on the device\n", "VG537", (0,)),
    "vllm-project/vllm#11792 vLLM's older prefix": (
        "(VllmWorkerProcess pid=8989) ERROR 01-07 13:38:08 multiproc_worker_utils.py:236] ValueError: Error in model execution: Attempted to assign 1 x 2074 = 2074 multimodal tokens to 2040 placeholders\n", "VG506", None),
    "RAIVNLab/MatFormer-OLMo#2 a logger's word for what nobody caught": (
        "[2024-04-18 09:09:04] CRITICAL [root, rank=0] Uncaught ValueError: Must flatten tensors on the same device but got both cuda:0 and meta\n", "VG519", (0,)),
    "OpenRLHF/OpenRLHF#313 a cut traceback in an engine": (frames("/env/site-packages/vllm/worker/worker_base.py#execute_method", "/env/site-packages/vllm/worker/worker.py#start_worker_execution_loop"), "VG566", None),
    "a cut traceback at a call of the model tells nothing": (frames("/env/site-packages/torch/distributed/fsdp/api.py#forward", "/env/site-packages/torch/_dynamo/eval_frame.py#_fn"), "unknown", None),
    "what a destructor says at a healthy end": (
        "Saved the model.\nException ignored in: <function Tracker.__del__ at 0x7f>\n" + 'Traceback (most recent call last):\n  File "/env/tracker.py", line 7, in __del__\nImportError: sys.meta_path is None, Python is likely shutting down\n', "unfinished", None),
    "none of Ray's workers was ended for memory": (
        "(raylet) [2025-12-07 09:57:19,206 E 393463 393463] (raylet) node_manager.cc:3277: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed due to other reasons at node (ID: 8289)\n", "unfinished", None),
    "a stack in the middle of a run is no failure": ("world_size: 2\n" + frames("/job/a.py#f", "/job/b.py#g") + "{'loss': 2.0, 'epoch': 0.1}\n" * 4, "unfinished", None),
    "verl-project/verl#705 torch, called by an engine": (
        'Traceback (most recent call last):\n  File "/env/site-packages/sglang/srt/model_loader/weight_utils.py", line 482, in pt_weights_iterator\n  File "/env/site-packages/torch/cuda/memory.py", line 192, in empty_cache\nRuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED\n', "VG566", None),
    "facebookresearch/fairchem#134 a loader's side thread": (
        "Exception in thread Thread-1:\n" + compose.traced("RuntimeError: received 0 items of ancdata", None) + "\n" + compose.traced("RuntimeError: Pin memory thread exited unexpectedly", None), "VG543", None),
    "deepspeedai/DeepSpeed#1627 swap to NVMe": (
        "/nvme/rank1/14_gradient_98_75.tensor.swp: buffer nbytes != file bytes 301989888 != 0\npython: deepspeed_py_aio_handle.cpp:223: Assertion `static_cast<long long int>(buffer.nbytes()) == num_file_bytes' failed.\n", "VG580", None),
    "qwopqwop200/GPTQ-for-LLaMa#142 Triton's compiler aborts": (
        "python: /project/lib/Analysis/Utility.cpp:136: bool mlir::supportMMA(mlir::Value, int): Assertion `(version == 1 || version == 2) && \"Unexpected MMA layout version found\"' failed.\nAborted\n", "VG578", None),
    "deepspeedai/DeepSpeed#3528 ZeRO-3's record of what is gathered": (
        "RuntimeError: {'id': 1, 'status': 'INFLIGHT', 'numel': 10} already in registry\n", "VG523", None),
    "fla-org/flash-linear-attention#728 a cut traceback in Triton": (frames("/env/site-packages/triton/runtime/autotuner.py#_bench", "/env/site-packages/triton/testing.py#do_bench"), "VG578", None),
    "TideDra/lmm-r1#43 vLLM's allocator": (
        "Train epoch [1/1]: 100%|██████████| 8/8 [02:00<00:00, 15.12s/it]\n(LLMRayActor pid=347862) CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n"
        "Traceback (most recent call last):\n  File \"/job/train_ppo_ray.py\", line 478, in <module>\n    train(args)\n", "VG512", None),
    "HuangLK/transpeeder#37 a cut traceback in the loading of a checkpoint": (frames("/env/deepspeed/runtime/engine.py#load_checkpoint", "/env/torch/serialization.py#_open_file_like"), "VG550", None),
    "haotian-liu/LLaVA#1583 the same, ranks in one another, cut": (
        '  File "/env/deepspeed/runtime/zero/partition_parameters.py", line 1275, in partition\n    free_param(param)\n'
        '  File "/env/deepspeed/runtime/zero/partition_parameters.py", line 285, in free_param\n    self._partition(param_list)\n    assert not param.ds_active_sub_modules, param.ds_summary()\n  File "/env/llava_\n', "VG523", None),
    "deepspeedai/DeepSpeed#4907 a node without ssh": (
        compose.traced("subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no 10.0.0.3 hostname' returned non-zero exit status 255.", None)
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + compose.traced("RuntimeError: Using hostfile at hostfile but host=10.0.0.3 was not reachable via ssh. If you are running with a single node please remove hostfile or setup passwordless ssh.", None), "VG536", None),
    "deepspeedai/DeepSpeed#5709 pdsh says so": ("localhost: me@localhost: Permission denied (publickey,password).\npdsh@tower: localhost: ssh exited with exit code 255\n", "VG536", None),
    "Ariostgx/ript-vla#14 Hydra without a traceback": (
        "Error executing job with overrides: ['exp_name=x']\nError locating target 'ript.utils.build_dataset', set env var HYDRA_FULL_ERROR=1 to see chained exception.\nfull_key: task.dataset\n", "VG552", None),
    "conda-forge/pytorch-cpu-feedstock#363 a notebook's traceback, cut at both ends": (
        "File ~/env/site-packages/triton/compiler/compiler.py:370, in CompiledKernel._init_handles(self)\n    369 # create launcher\n--> 370 self.run = driver.active.launcher_cls(self.src)\n\n"
        "File ~/env/site-packages/triton/backends/nvidia/driver.py:57, in compile_module_from_src(src, name)\n     55 with x:\n     56     f.write(src)\n---> 57 so = _build(name, src_path, tmpdir, library_dirs(),\n", "VG578", None),
    "modelscope/ms-swift#64 torch's older words for a closed terminal": (
        " 16%|█▌        | 4084/25120 [3:02:22<16:20:02,  2.80s/it]WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers\n"
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2973583 closing signal SIGHUP\n", "VG569", None),
}


@pytest.mark.parametrize("thread", SHAPES)
def test_shape(tmp_path, thread):
    told_right(tmp_path, *SHAPES[thread])


# The innermost frame, the message of a release that nobody has read → class.
PLACES = {
    ("/env/lib/python3.12/site-packages/deepspeed/runtime/zero/partitioned_param_coordinator.py", "release_and_reset_all"): "VG523",
    ("/env/lib/python3.12/site-packages/deepspeed/module_inject/auto_tp.py", "tp_parser"): "VG575",
    ("/env/lib/python3.12/site-packages/deepspeed/checkpoint/ds_to_universal.py", "merge_tp_slices"): "VG550",
    ("/env/lib/python3.12/site-packages/colossalai/checkpoint_io/utils.py", "shard"): "VG550",
    ("/env/lib/python3.12/site-packages/ray/_private/services.py", "start_raylet"): "VG591",
    ("/opt/verl/workers/rollout/vllm_rollout/spmd.py", "__init__"): "VG566",
    ("/opt/verl/utils/dataset/rl_dataset.py", "__getitem__"): "VG554",
    ("/opt/verl/utils/reward_score/math.py", "compute_score"): "VG581",
    ("/env/lib/python3.12/site-packages/megatron/core/utils.py", "ensure_divisibility"): "VG594",
    ("/env/lib/python3.12/site-packages/ray/_private/worker.py", "get_objects"): "unknown",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_place_tells(tmp_path, place):
    path, name = place
    log = compose.traced("ValueError: words of a release to come", 1).splitlines(keepends=True)
    log.insert(-1, f'[rank1]:   File "{path}", line 7, in {name}\n')
    told_right(tmp_path, "".join(log), PLACES[place], (1,))
