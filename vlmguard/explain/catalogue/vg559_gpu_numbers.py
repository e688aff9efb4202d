"""More ranks than GPUs."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _one_only(facts: Facts) -> bool:
    return "multi GPU setups" in facts.message


def _why(facts: Facts) -> str:
    if _one_only(facts):
        return "this release of unsloth trains on one card only, and it sees several"
    return "a rank asks for a card that is not visible, or two ranks took the same one"


def _do(facts: Facts) -> tuple[Do, ...]:
    fewer = (
        Do("CUDA_VISIBLE_DEVICES=0 in front of the command", "one card trains"),
        Do("without unsloth (use_unsloth: false), on all cards", "slower, more memory"),
        Do("pip install -U unsloth unsloth_zoo: newer releases train on several", "none"),
    )
    return fewer if _one_only(facts) else _NUMBERS


_NUMBERS = (
    Do(
        "ranks_as_cards",
        "fewer ranks: raise the accumulation as much",
        when=("invalid device ordinal",),
    ),
    Do(
        "nvidia-smi --query-compute-apps=pid,name --format=csv; nvidia-smi -q -d COMPUTE "
        "| grep -i 'compute mode': Exclusive_Process takes one process for each card: end "
        "what is left of an earlier run, or nvidia-smi -c DEFAULT (as root)",
        "none",
        when=("busy or unavailable",),
    ),
    Do(
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first in the script, before "
        "init_process_group: two ranks took the same card",
        "none",
        when=("Duplicate GPU",),
    ),
    Do(
        "deepspeed --include localhost:0,1 with numbers that nvidia-smi -L lists, from 0",
        "none",
        when=("No slot",),
    ),
    Do(
        "Trainer(devices=-1) (gpus=-1 before Lightning 1.7): all cards that there are, which the "
        "message lists",
        "fewer ranks: raise the accumulation as much",
        when=("your machine only has", "only has: ["),
    ),
    Do(
        "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES, in the job: how many cards does it see?", "none"
    ),
    Do(
        "as many processes per node as nvidia-smi -L lists "
        "(NPROC_PER_NODE, --nproc_per_node, --num_processes)",
        "none",
    ),
    Do(
        "CUDA_VISIBLE_DEVICES left out, or with every card of the run: ranks count from 0 anew",
        "none",
    ),
    Do(
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before "
        "anything else, in a script of your own",
        "none",
    ),
)

FAILURE = Known(
    code="VG559",
    name="explain-gpu-numbers",
    title="Ranks and GPUs do not fit: too many ranks, or two on one card",
    zh="进程数与 GPU 数不符（设备序号无效或重复）",
    why=_why,
    do=_do,
    wrong="On nodes with different numbers of cards one number per node does not fit all.",
    signs=(
        Sign("invalid device count (", where="line", also=("NCCL WARN",)),
        Sign("invalid device ordinal"),
        Sign("Duplicate GPU detected"),
        Sign("CUDA error: invalid device", no=("invalid device function",)),
        Sign("device >= 0 && device < num_gpus"),
        Sign("Invalid device id"),
        Sign("Attempting to deserialize object on CUDA device"),
        Sign("CUDA-capable device(s) is/are busy or unavailable"),
        Sign("CUDA-capable devices are busy or unavailable", releases="CUDA ≤ 11"),
        Sign(
            "mapping to an unavailable GPU",
        ),
        Sign("n_gpu: ", also=("local_world_size:",), releases="ms-swift"),
        Sign(
            "is setting its default device",
        ),
        Sign("invalid usage (run with"),
        Sign("No slot '", also=("specified on host",), releases="DeepSpeed's launcher"),
        Sign("ncclInvalidUsage"),
        Sign("torch/cuda/__init__.py in set_device", where="raised"),
        Sign("NCCL error in", also=("invalid argument",)),
        Sign("Duplicate GPU detected", where="line"),
        Sign("Multiple Ranks are using the same GPU", where="line", releases="NCCL ≥ 2.28"),
        Sign("'invalid device ordinal'", where="line", also=("NCCL WARN",)),
        Sign("Multiple Ranks are using the same GPU"),
        Sign("But your machine only has"),
        Sign("You requested gpu", also=("MisconfigurationException",)),
        Sign("You requested GPUs"),
        Sign("in root_device", where="raised", releases="Lightning"),
        Sign("utilities/device_parser.py", where="raised", releases="Lightning"),
        Sign("lightning/fabric/utilities/device_parser.py", where="raised"),
        Sign("support multi GPU setups", releases="unsloth"),
        Sign("work on multi GPU setups", releases="unsloth"),
    ),
    examples=(
        Example(
            "RuntimeError: CUDA error: invalid device ordinal",
            "c10/cuda/CUDAFunctions.cpp, torch 2.4",
        ),
        Example(
            "torch.distributed.DistBackendError: NCCL error in: "
            "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
            "invalid usage (run with NCCL_DEBUG=WARN for details), NCCL "
            "version 2.21.5\nncclInvalidUsage: This usually reflects "
            "invalid usage of NCCL library. Last error: Duplicate GPU "
            "detected : rank 1 and rank 0 both on CUDA device 3b000",
            "nccl/src/init.cc, 2.18",
        ),
    ),
    evidence="torch's and NCCL's own messages.",
    narrow=4,
)
