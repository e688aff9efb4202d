"""A module or name cannot be imported."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG552",
    name="explain-missing-module",
    title="A module is missing, or lacks what another expects",
    zh="缺少模块，或依赖版本不兼容（ImportError）",
    why="an import failed: a package is not installed in this "
    "environment, or two packages' releases do not fit each other",
    do=(
        Do("pip install the package that the message names, in the environment of the job", "none"),
        Do(
            "cannot import name …: install the release that the framework "
            "pins (pip check; its requirements)",
            "none",
        ),
        Do("which python, in the job script: is it the environment that you think it is?", "none"),
    ),
    wrong="A file of yours with the package's name (datasets.py, trl.py) hides the package.",
    signs=(
        Sign("ModuleNotFoundError"),
        Sign("No module named"),
        Sign("cannot import name"),
        Sign("ImportError"),
        Sign("requires the following packages that were not found"),
        Sign("is required but not installed"),
        Sign("requires `"),
        Sign("is not installed"),
        Sign("registry group", also=("is not in",), releases="modelscope"),
        Sign("Cannot import available module of", releases="modelscope"),
        Sign("Please install", also=("pip install",)),
        Sign("please install", also=("pip install",)),
        Sign("attributes from module"),
        Sign("has no attribute '__version__'"),
        Sign("PackageNotFoundError"),
        Sign("is required for a normal functioning"),
        Sign("DistributionNotFound"),
        Sign("partially initialized module"),
        Sign("Error while finding module specification", where="line"),
        Sign("python: No module named", where="line"),
        Sign("python3: No module named", where="line"),
        Sign("Could not import module"),
        Sign("Failed to import"),
        Sign("PEFT backend is required"),
        Sign("You need to install `"),
        Sign("Install it with `pip install"),
        Sign("to be installed. Run `pip install"),
        Sign("requires `accelerate"),
        Sign("needs", also=("installed: `pip install",)),
        Sign("distribution was not found and is required by", releases="pkg_resources"),
        Sign("VersionConflict", releases="pkg_resources"),
        Sign("Error locating target '", where="line", releases="Hydra"),
        Sign("Error locating target '"),
        Sign("make sure to install `peft`"),
        Sign("bitsandbytes is not available, please install"),
        Sign("Kernels are not available. Please install"),
        Sign("requires the `kernels` package"),
    ),
    examples=(
        Example(
            "ModuleNotFoundError: No module named 'qwen_vl_utils'",
            "made by causing it (names and numbers changed), Python 3.11",
        ),
        Example(
            "ImportError: cannot import name 'shard_checkpoint' from 'transformers.modeling_utils'",
            "made by causing it (names and numbers changed), transformers 5.19.0",
        ),
    ),
    evidence="Python's own messages.",
    narrow=-1,
)
