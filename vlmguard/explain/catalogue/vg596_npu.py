"""A call to an Ascend NPU failed."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_HELD = ("EJ0001", "Failed to initialize the HCCP")  # says itself that another run is there
_NO_BF16 = ("not implemented for DT_BFLOAT16",)

# What another class says more exactly: memory, a port in use, ranks that wait for one another.
_ELSE = ("out of memory", "EL0004", "EJ0003", "EI0002", "EI0004", "EI0006", "EI0015")
# CANN's, before the date: HCCL's (EI, EJ), the runtime's (EE), operators' (EZ), compiler's (E4).
_CODES = (
    "EI0001",
    "EI0003",
    "EI0005",
    "EI0007",
    "EI0012",
    "EJ0001",
    "EJ0002",
    "EJ0004",
    "EE1001",
    "EE1003",
    "EE4001",
    "EZ1001",
    "EZ1009",
    "EZ3002",
    "EZ3003",
    "E30003",
    "E40001",
    "E40021",
    "E19014",
    "EK0001",
)

_STEPS = (
    Do(
        "npu-smi info; pgrep -u $USER -af '[p]ython': the processes of an earlier run still "
        "hold these cards: kill PID (-9 where it stays) for each of them, wait ten seconds, "
        "and the same command again; foreign ones: ASCEND_RT_VISIBLE_DEVICES with the cards "
        "that are free",
        "none",
        when=_HELD,
        kind="log",
    ),
    Do(
        "cat /usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info; pip show "
        "torch_npu | grep ^Version: this CANN lacks a function that torch_npu calls: install "
        "the newer CANN (toolkit and kernels) that Ascend's table names for this torch_npu, "
        "or the torch_npu of the one that is here",
        "an installation",
        when=("Failed to find function",),
        kind="log",
    ),
    Do("fp16", "watch for overflow", when=_NO_BF16),
    Do(
        "cp -rL MODEL MODEL-fp16; python -c 'import sys, glob; from safetensors.torch "
        "import load_file, save_file; [save_file({k: v.half() if "
        "v.is_floating_point() else v for k, v in "
        'load_file(f).items()}, f, {"format": "pt"}) for f in '
        'glob.glob(sys.argv[1] + "/*.safetensors")]\' MODEL-fp16: where the cast fails with '
        "fp16 too, the checkpoint itself is bfloat16: a copy made float16 on the CPU; in its "
        'config.json "torch_dtype": "float16"; the run with that folder',
        "a copy of the model",
        when=_NO_BF16,
        kind="log",
    ),
    Do(
        "npu-smi info: Name 910A, 910B, 910ProA, 910ProB (the first 910) or 310: no bfloat16; "
        "910B1 to 910B4: they have it, there CANN or its kernels package is too old",
        "none",
        when=_NO_BF16,
    ),
    Do(
        "ls $ASCEND_OPP_PATH/built-in/op_impl/ai_core/tbe/kernel: the kernels package of "
        "this card (Ascend-cann-kernels-910b for an A2) is not installed beside the "
        "toolkit, or of another release: install it",
        "an installation",
        when=(
            "does not has any binary",
            "does not have any binary",
        ),
        kind="log",
    ),
    Do(
        "npu-smi info: processes of an earlier run that still hold these cards, or a card "
        "that is not healthy; end what is yours, wait ten seconds, start again",
        "none",
        when=(
            "HcclCommInitRootInfo",
            "error code is 7",
        ),
        kind="log",
    ),
    Do(
        "grep -rh ERROR ~/ascend/log/debug/plog | tail -n 40, and the lines under the "
        "error: the code (EZ: operator, EE and E3: runtime and "
        "driver, EI and EJ: HCCL), Possible Cause and Solution",
        "none",
        unless=_NO_BF16,
    ),
    Do(
        "ASCEND_LAUNCH_BLOCKING=1 in front of the command: calls are asynchronous, the "
        "traceback "
        "then names the line",
        "slow",
        unless=(*_HELD, *_NO_BF16),
    ),
    Do(
        "driver, CANN toolkit, kernels package (the one for this card) and torch_npu of "
        "one row of Ascend's table of versions; source set_env.sh before the run",
        "an installation",
    ),
    Do(
        "npu-smi info: health, memory and processes of each card; end what an earlier run "
        "left there and wait ten seconds",
        "none",
        unless=(*_HELD, *_NO_BF16),
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """The kernel that failed, where CANN names it: attention can be had without its fused one."""
    kernel = facts.said.get("npukernel", "")
    if not kernel:
        return _STEPS
    named = Do(
        "cat /usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info; pip show "
        f"torch_npu | grep ^Version: {kernel} is the operator that failed: the CANN and kernels "
        "package that belong to this torch_npu; they do: the same run with a micro-batch of 1",
        "none",
    )
    if "Attention" not in kernel:
        return (named, *_STEPS)
    return (Do("sdpa", f"slower; tells whether {kernel}, which failed, is at fault"), *_STEPS)


FAILURE = Known(
    code="VG596",
    name="explain-npu",
    title="A call to the Ascend NPU failed (ACL, an operator or HCCL)",
    zh="昇腾 NPU 调用失败（ACL、算子或 HCCL）",
    why=(
        "torch_npu called CANN and got an error: an operator that this CANN, its kernels "
        "package or this card does not have, a device that another process holds or that is "
        "unhealthy, or releases of driver, CANN and torch_npu that do not belong together. "
        "ERR99999 at the end says nothing of its own: it follows every exception"
    ),
    do=_do,
    wrong=(
        "Where one rank alone failed before it with an exception of its own, the NPU's errors "
        "of the others only follow."
    ),
    signs=(
        *(Sign(f"{code}: 2", where="line", no=("arning",)) for code in _CODES),
        Sign("Failed to find function Hccl", releases="torch_npu"),
        Sign("Failed to find function acl", releases="torch_npu"),
        Sign("NPU function error", no=_ELSE, releases="torch_npu ≥ 2.1"),
        Sign("NPU error", also=("error code is",), no=_ELSE, releases="torch_npu ≤ 2.1"),
        Sign("HCCL function error", no=_ELSE),
        Sign("HCCL error in", no=_ELSE),
        Sign("call acl api failed", no=_ELSE),
        Sign("call hccl api failed", no=_ELSE),
        Sign("call ge api failed", no=_ELSE),
        Sign("OPS function error", no=_ELSE),
        Sign("call aclnn", also=("failed",), no=_ELSE),
        Sign("swift/model/npu_patch/", where="raised", releases="ms-swift 4"),
        Sign("vLLM-Ascend", releases="ms-swift 4"),
        Sign("call aclnn", where="line", also=("failed",), no=("Warning", "WARNING", *_ELSE)),
        Sign("EZ9999: Inner Error", no=_ELSE),
        Sign("EZ9999", also=("rror",), no=_ELSE),
        Sign("EE9999: Inner Error", no=_ELSE),
        Sign("EH9999: Inner Error", no=_ELSE),
        Sign("E19999: Inner Error", no=_ELSE),
        Sign("EH9999: Inner Error", where="line", no=("arning",)),
        Sign("EE9999: Inner Error", where="line", no=("arning",)),
        Sign("EZ9999: Inner Error", where="line", no=("arning",)),
        Sign("ACL stream synchronize failed"),
        Sign("OPS internal error", also=("ERR01",), no=_ELSE),
        Sign("feature not supported", also=("ERR0",)),
        Sign("PTA internal error", no=_ELSE),
        Sign("PTA resource", also=("ERR000",)),
        Sign("OPS invalid", also=("ERR010",)),
        Sign("PTA invalid", also=("ERR000",)),
        Sign("DIST invalid", also=("ERR020",)),
        Sign("aclrt", also=("error code is",), no=_ELSE),
        Sign("AclSetCompileopt"),
        Sign("rtGetDeviceCount"),
        Sign("rtSetDevice"),
        Sign("is not currently supported on the NPU backend", also=("NotImplementedError",)),
        Sign("mki_log", also=("setup failed",)),
        Sign("npu_fusion_attention", also=("Error",), no=_ELSE),
        Sign("-packages/torch_npu/", where="raised"),
        Sign("vllm_ascend/", where="raised"),
        Sign("-packages/mindspeed/", where="raised"),
        Sign("Ascend Error"),
        Sign("AclNN_"),
        Sign("aclnn"),
    ),
    examples=(
        Example(
            "RuntimeError: npuSynchronizeDevice:build/CMakeFiles/torch_npu.dir/compiler_depend.ts"
            ":479 NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507048\n"
            "[ERROR] 2025-06-25-09:00:00 (PID:1443, Device:0, RankID:0) ERR00100 PTA call acl "
            "api failed",
            "torch_npu/csrc/core/npu/NPUException.h, 2.5; the words of its table of errors",
        ),
        Example(
            "RuntimeError: call aclnnCast failed, detail:EZ9999: Inner Error!\nEZ9999: "
            "2024-06-28-13:05:55.631.066  Op Cast does not has any binary.",
            "torch_npu/csrc/framework/OpParamMaker.cpp, 2.1",
        ),
        Example(
            "RuntimeError: create:torch_npu/csrc/distributed/HCCLUtils.cpp:89 HCCL function "
            "error: HcclCommInitRootInfo(numRanks, &rootInfo, rank, &(comm->hcclComm_)), error "
            "code is 7",
            "torch_npu/csrc/distributed/HCCLUtils.hpp, 2.5",
        ),
    ),
    evidence="torch_npu's own texts; users' logs.",
    narrow=1,
)
