"""A compiled extension was built for another torch."""

from __future__ import annotations

from vlmguard.explain import wheels
from vlmguard.explain.catalogue import other_cuda_steps
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# Libraries of the system → Debian's and Ubuntu's package.
_SYSTEM = {
    "libSM.so": "libsm6 libxext6 libxrender1",
    "libXext.so": "libsm6 libxext6 libxrender1",
    "libXrender.so": "libsm6 libxext6 libxrender1",
    "libaio.so": "libaio1",
    "libibverbs.so": "libibverbs1",
    "libmpi.so": "libopenmpi-dev",
    "libopenblas.so": "libopenblas0",
    "libsndfile.so": "libsndfile1",
    "libavutil.so": "ffmpeg",
    "libavcodec.so": "ffmpeg",
    "libnuma.so": "libnuma1",
    "libtcmalloc": "google-perftools",
}


def _system_package(said: str) -> str:
    return next((package for library, package in _SYSTEM.items() if library in said), "")


def _missing(facts: Facts) -> bool:
    return "cannot open shared object" in facts.message


def _why(facts: Facts) -> str:
    if _missing(facts):
        return (
            "a library that a package needs is not on this machine, or not where it is looked "
            "for: a system package (libGL, libglib), a part of CUDA, or the driver (libcuda)"
        )
    return (
        "flash-attn, bitsandbytes, DeepSpeed's or torchvision's binary was built against another "
        "torch, CUDA or C++ ABI than is installed"
    )


def _asked(facts: Facts) -> bool:
    """Whether the run's own arguments ask for flash-attention: without it they would fail."""
    told = (facts.said.get(name, "") for name in ("attn_impl", "attn_implementation", "flash_attn"))
    on = facts.said.get("disable_flash_attn2", "").lower() == "false"
    return on or any(value.startswith(("flash", "fa2")) for value in told)


def _do(facts: Facts) -> tuple[Do, ...]:
    if not _missing(facts):
        imported = "Failed to import" in facts.message or "Could not import" in facts.message
        needless = imported and "flash_attn" in facts.message and not _asked(facts)
        return (_WITHOUT, *_BUILT) if needless else _BUILT
    if "libGL" in facts.message or "libgthread" in facts.message:
        return (
            Do("pip install opencv-python-headless in place of opencv-python", "no windows"),
            Do("apt-get install libgl1 libglib2.0-0 in the image", "none"),
        )
    if package := _system_package(facts.message):
        return (
            Do(f"apt-get install {package}, in the image of the job (as root)", "none"),
            Do("conda install -c conda-forge the same, where you are not root", "none"),
        )
    if "libcuda.so" in facts.message or "libnvidia-ml" in facts.message:
        return (
            Do(
                "nvidia-smi, in the job or container: the driver's own library is not there", "none"
            ),
            Do("docker run --gpus all …; apptainer exec --nv …", "none"),
        )
    other = other_cuda_steps.steps(facts)
    if other_cuda_steps.differs(facts) and other:
        return other
    ahead = other_cuda_steps.first(facts)
    return (
        *(other if ahead else ()),
        Do(
            "find / -name {lib} 2>/dev/null: put the folder that it finds into LD_LIBRARY_PATH, in "
            "the job too; nothing found: the package that brings it is not installed",
            "none",
            kind="find",
        ),
        Do(
            "find / -name the library that the message names: put its folder into "
            "LD_LIBRARY_PATH, in the job too",
            "none",
            kind="find",
        ),
        *(() if ahead else other),
        *_BUILT,
    )


_WITHOUT = Do(
    "python -m pip uninstall -y flash-attn, and in a notebook restart the runtime: transformers "
    "imports it wherever it is installed, and runs without it",
    "slower than flash-attention; where the script asks for flash_attention_2 the last step, too",
)
_FLASH = (
    "python -m pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps "
    "flash-attn=="
)
_BUILT = (
    Do(
        "LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH in front of the command: "
        "conda's own libstdc++ is newer than the system's; where it is not: conda install "
        "-c conda-forge libstdcxx-ng",
        "none",
        when=(
            "GLIBCXX",
            "CXXABI",
        ),
        kind="again",
    ),
    Do(
        "LD_LIBRARY_PATH= in front of the command: an older CUDA that stands in it is "
        "loaded before torch's own; still so: python -m pip install -U "
        "nvidia-nvjitlink-cu12",
        "none",
        when=(
            "nvJitLink",
            "nvjitlink",
        ),
        kind="again",
    ),
    Do(
        "python -m pip install 'mkl<2024.1' (conda install 'mkl<2024.1'): a newer MKL "
        "lacks what this torch asks for",
        "none",
        when=("iJIT_NotifyEvent",),
        kind="again",
    ),
    Do(
        "python -m pip install -U --force-reinstall --no-deps bitsandbytes; python -m "
        "bitsandbytes: it says what it still lacks",
        "none",
        when=(
            "CUDA Setup failed",
            "CUDA SETUP",
            "bitsandbytes",
            "cget_managed_ptr",
            "cadam",
            "cdequantize",
            "cquantize",
            "was compiled without GPU support",
        ),
        kind="again",
    ),
    Do(
        "python -m pip uninstall -y apex: built without its CUDA part it is of no use, "
        "and torch's own is taken where it is missing",
        "none",
        when=(
            "amp_C",
            "fused_layer_norm_cuda",
        ),
        kind="again",
    ),
    Do(
        "python -m pip install --force-reinstall vllm: its compiled part is of another "
        "torch than the one that is here",
        "none",
        when=(
            "'_OpNamespace' '_C'",
            "vllm._C",
            "vllm/_C",
        ),
        kind="again",
    ),
    Do(
        "python -m xformers.info: which kernels are there; python -m pip install -U "
        "xformers: it brings those of the newest torch",
        "none",
        when=(
            "memory_efficient",
            "No operator found for this attention",
        ),
        kind="again",
    ),
    Do(
        "python -m pip install --force-reinstall --no-deps {vision}: the one that belongs to this "
        "torch",
        "none",
        when=("torchvision",),
        kind="again",
    ),
    Do(
        "python -m pip install --force-reinstall --no-deps 'torchvision==0.N.*', N = 15 + the "
        "minor release of torch 2 (pip show torch)",
        "none",
        when=("torchvision",),
        kind="again",
    ),
    Do(
        "python -m pip install 'numpy<2'",
        "none",
        when=("numpy", "_ARRAY_API", "NumPy"),
        kind="again",
    ),
    Do(
        "FLASH_ATTENTION_FORCE_BUILD=TRUE MAX_JOBS=4 python -m pip install --no-build-isolation "
        "--no-cache-dir --force-reinstall --no-deps flash-attn: built on this system, whose "
        "libc is "
        "older than the wheel's",
        "an hour to build",
        when=("GLIBC_",),
        kind="again",
    ),
    Do(
        _FLASH + "{flash}: the release that has wheels for this torch",
        "time to build, where Python or CUDA has no wheel",
        when=("flash_attn", "flash-attn"),
        kind="again",
    ),
    Do(
        _FLASH + wheels.FLASH + ": the release that has wheels for the torch that is there",
        "time to build, where Python or CUDA has no wheel",
        when=("flash_attn", "flash-attn"),
        kind="again",
    ),
    Do(
        "python -m pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps "
        "{library}: built anew for this torch",
        "time to build",
        kind="again",
    ),
    Do(
        "reinstall that package for this torch: pip install "
        "--no-build-isolation --no-cache-dir --force-reinstall "
        "--no-deps PACKAGE",
        "time to build",
        kind="again",
    ),
    Do(
        "take its wheel that names this torch, CUDA, Python and cxx11abi in its file name",
        "none",
    ),
    Do("sdpa", "slower and more memory than flash-attention"),
)


FAILURE = Known(
    code="VG538",
    name="explain-undefined-symbol",
    title="A compiled extension was built for another torch or CUDA, or its library is missing",
    zh="编译扩展与当前 torch / CUDA 不匹配（undefined symbol），或缺少动态库",
    why=_why,
    do=_do,
    wrong="Where the library file itself is missing (cannot open shared "
    "object file), LD_LIBRARY_PATH or the CUDA package is what "
    "lacks.",
    signs=(
        Sign("name '_C' is not defined"),
        Sign("undefined symbol"),
        Sign("cannot open shared object file", no=("torch_extensions",)),
        Sign("version `GLIBC"),
        Sign("version `GLIBCXX"),
        Sign("version `CXXABI"),
        Sign("operator torchvision::nms does not exist"),
        Sign("CUDA Setup failed despite GPU being available"),
        Sign("libcudart"),
        Sign("libbitsandbytes"),
        Sign("CUDA VERSION MISMATCH", releases="bitsandbytes ≥ 0.45"),
        Sign("symbol not found in flat namespace"),
        Sign("DLL load failed"),
        Sign("compiled with a different version of"),
        Sign("CUDA Setup failed"),
        Sign("libnvJitLink"),
        Sign("invalid device function", no=("HIP",)),
        Sign("Detected that PyTorch and TorchAudio"),
        Sign("Detected that PyTorch and torchvision were compiled with different CUDA"),
        Sign("was compiled without GPU support"),
        Sign("undefined reference to"),
        Sign("numpy.dtype size changed"),
        Sign("numpy.core.multiarray failed to import"),
        Sign("_ARRAY_API not found"),
        Sign("compiled using NumPy 1"),
        Sign("name 'amp_C' is not defined"),
        Sign("wasn't built with CUDA support"),
        Sign("No operator found for `memory_efficient", no=("bf16 is only supported on A100+",)),
        Sign("cget_managed_ptr"),
        Sign("may indicate binary incompatibility"),
        Sign("cadam32bit_grad_fp32"),
        Sign("has no attribute 'cadam"),
        Sign("has no attribute 'cdequantize"),
        Sign("has no attribute 'cquantize"),
        Sign("compiled against a newer"),
        Sign("incompatible function arguments"),
        Sign("requires numpy<2"),
        Sign("undefined reference"),
        Sign(
            "_C' has no attribute",
            no=("_cuda_",),
        ),
        Sign("flash_attn_2_cuda", also=("ImportError",)),
        Sign("No operator found for this attention"),
        Sign("xformers/ops/fmha/dispatch.py", where="raised"),
        Sign("xformers/ops/fmha/", where="within", no=("out of memory",)),
        Sign("WinError 126]", releases="Windows: a DLL is missing"),
        Sign("WinError 127]", releases="Windows"),
        Sign("WinError 1114]", releases="Windows"),
        Sign("with arguments from the '", also=("Could not run '",), no=("aten::", "'Meta'")),
        Sign("'_OpNamespace'"),
        Sign("bitsandbytes/cextension.py", where="within"),
        Sign("bitsandbytes/cuda_setup/", where="within"),
    ),
    examples=(
        Example(
            "ImportError: "
            "/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: "
            "undefined symbol: _ZN3c104cuda9SetDeviceEi",
            "the dynamic loader's text; flash-attn issue threads",
        ),
        Example(
            "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
            "made by causing it, ctypes",
        ),
    ),
    evidence="The dynamic loader's own messages.",
    narrow=4,
)
