"""torch.compile or Triton failed."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# unsloth writes the model's code anew, and compiles that.
_UNSLOTH = (
    Do("UNSLOTH_COMPILE_DISABLE=1 in front of the command", "slower steps, unsloth's loss too"),
    Do(
        "python -m pip install -U unsloth unsloth_zoo; rm -rf unsloth_compiled_cache: the code "
        "that it wrote is of a release that does not fit this torch or transformers",
        "none, where nothing pins it",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    told = f"{facts.trace} {facts.message} {' '.join(facts.releases)}"
    own = "unsloth" in told.lower()
    at = next(n for n, do in enumerate(_STEPS) if do.action == "no_compile")
    return (*_STEPS[:at], *_UNSLOTH, *_STEPS[at:]) if own else _STEPS


_STEPS = (
    Do(
        "CPATH=/usr/local/cuda/include in front of the command (ls "
        "/usr/local/cuda*/include/cuda.h): the compiler does not find CUDA's headers",
        "none",
        when=("cuda.h: No such file",),
        kind="gcc",
    ),
    Do(
        "TORCHDYNAMO_DISABLE=1 in front of the command; or "
        "LIBRARY_PATH=/usr/local/cuda/lib64/stubs, with which the linker finds libcuda",
        "slower steps",
        when=(
            "'-lcuda'",
            "cannot find -lcuda",
        ),
        kind="gcc",
    ),
    Do(
        "python -m pip list | grep -i triton: one of them only; pip uninstall the other",
        "none",
        when=("backends for target", "active drivers", "triton.language"),
    ),
    Do(
        "apt-get install gcc python3-dev (module load gcc), in the image of the job",
        "none",
        when=("Failed to find C compiler", "Python.h", "gcc: not found", "directory: 'gcc'"),
        kind="gcc",
    ),
    Do(
        "python -m pip install --force-reinstall --no-deps \"$(python -c 'import "
        'importlib.metadata as m; print(next(r for r in m.requires("torch") if "triton" in '
        'r).split(";")[0].strip())\')": the triton that this torch asks for: another one, or '
        "none, is here",
        "none",
        when=("triton_key", "working triton installation", "No module named 'triton"),
        unless=("AttrsDescriptor",),
    ),
    Do("no_compile", "slower steps"),
    Do(
        "a triton that belongs to this torch (pip show torch names it); "
        "gcc and Python's headers in the image",
        "none",
    ),
    Do(
        "rm -rf ~/.triton ~/.cache/torchinductor "
        "/tmp/torchinductor_$USER; on a shared home a "
        "TRITON_CACHE_DIR for each node",
        "kernels are compiled again",
    ),
    Do("use_liger_kernel false", "more memory", when=("liger",)),
)


FAILURE = Known(
    code="VG578",
    name="explain-compile",
    title="torch.compile or a Triton kernel failed to compile",
    zh="torch.compile 或 Triton 内核编译失败",
    why=(
        "a part of the model was to be compiled (torch.compile, flex attention, a "
        "Triton kernel of liger or fla), and the compiler could not follow it, "
        "lacks its tools (gcc, ptxas, Python.h), or does not know this card"
    ),
    do=_do,
    wrong=(
        "Suppressing the error (torch._dynamo.config.suppress_errors) leaves an "
        "eager run that is slower than without compile."
    ),
    signs=(
        Sign("torch._inductor"),
        Sign("BackendCompilerFailed"),
        Sign("InductorError"),
        Sign("triton.compiler"),
        Sign("CompilationError"),
        Sign("PassManager::run failed"),
        Sign("Cannot find a working triton installation"),
        Sign("TorchRuntimeError"),
        Sign("Dynamo failed to run"),
        Sign("symbolically trace a dynamo-optimized function"),
        Sign("triton.runtime", no=("OutOfResources",)),
        Sign("Failed to find C compiler"),
        Sign("ptxas"),
        Sign("TritonGPU"),
        Sign("LoweringException"),
        Sign("recompile_limit"),
        Sign("cache_size_limit"),
        Sign("Unsupported conversion from f"),
        Sign("NoTritonConfigsError"),
        Sign("SingletonIntNode"),
        Sign("CppCompileError"),
        Sign("PTXASError"),
        Sign("InternalTorchDynamoError"),
        Sign("0 active drivers"),
        Sign("torch._subclasses"),
        Sign("fake tensor"),
        Sign("FakeTensor"),
        Sign("torch/_dynamo/", where="raised"),
        Sign("torch/_inductor/", where="raised"),
        Sign("-packages/triton/", where="raised"),
        Sign("torch/_functorch/", where="raised"),
        Sign("torch/_subclasses/", where="raised"),
        Sign("-packages/liger_kernel/", where="raised"),
        Sign("mlir::", where="line", also=("Assertion",)),
        Sign("llvm::", where="line", also=("Assertion",)),
        Sign("LLVM ERROR:", where="line"),
        Sign("MMA layout", where="line", also=("Assertion",)),
        Sign("Triton Error [CUDA]: device kernel image is invalid"),
        Sign("LLVM ERROR:"),
        Sign("operation not permitted when stream is capturing"),
        Sign("operation failed due to a previous error during capture"),
        Sign("out of resource: shared memory"),
        Sign("torch/_dynamo/convert_frame.py", where="within", no=("out of memory",)),
        Sign("torch/_inductor/", where="within", no=("out of memory",)),
        Sign("-packages/triton/", where="within", no=("out of memory",)),
        Sign("module 'triton.language' has no attribute"),
        Sign("data type is not supported on CUDA arch"),
        Sign("torch._dynamo", no=("must be a `LightningModule`",)),
        Sign("triton/compiler/", where="within", no=("out of memory",)),
        Sign("triton/runtime/", where="within", no=("out of memory",)),
        Sign("torch/_functorch/", where="within", no=("out of memory",)),
        Sign("torch.compile", where="else"),
        Sign("Triton", where="else"),
        Sign("inductor", where="else"),
        Sign("dynamo", where="else"),
    ),
    examples=(
        Example(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' "
            "raised:\nRuntimeError: Cannot find a working triton installation.",
            "torch/_inductor/scheduler.py, 2.4",
        ),
        Example("RuntimeError: PassManager::run failed", "triton 3.1"),
        Example(
            "torch._dynamo.exc.InternalTorchDynamoError: AttributeError: "
            "'NoneType' object has no attribute 'is_contiguous'",
            "torch/_dynamo/exc.py, 2.13",
        ),
    ),
    evidence="torch's and triton's own messages.",
    narrow=1,
)
