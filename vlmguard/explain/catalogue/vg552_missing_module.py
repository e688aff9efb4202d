"""A module or name cannot be imported."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.moved import PYTHONS


def newer_python() -> tuple[Do, ...]:
    """For names of the standard library that came with a Python."""
    steps = []
    for since, names in PYTHONS.items():
        new = max(since, "3.10", key=lambda release: int(release[2:]))
        made = f"conda create -n py{new.replace('.', '')} python={new}, and the program's "
        said = f"requirements in it: what is asked for came with Python {since}: this one is older"
        when = tuple(f"cannot import name {name}" for name in names)
        steps.append(Do(made + said, "a new environment", when=when))
    return tuple(steps)


FAILURE = Known(
    code="VG552",
    name="explain-missing-module",
    title="A module is missing, or lacks what another expects",
    zh="缺少模块，或依赖版本不兼容（ImportError）",
    why="an import failed: a package, or a program that one calls (ffmpeg, git, gcc), is not "
    "installed in this environment, or two packages' releases do not fit each other",
    do=(
        Do(
            "python -c 'import flash_attn, deepspeed' || python -m pip install --force-reinstall "
            "--no-deps --no-build-isolation --no-cache-dir flash-attn: llava/model/__init__.py "
            "keeps the reason to itself: mostly a flash-attn that was built for another torch",
            "minutes",
            when=("from 'llava.model'",),
        ),
        Do(
            "python -c 'import llava.model.language_model.llava_llama': the reason that "
            "llava/model/__init__.py keeps to itself",
            "none",
            when=("from 'llava.model'",),
        ),
        Do(
            "python -m pip install {pin}, in the environment of the job: {name} is in no "
            "other release of it (or the newest release of the package that imports it)",
            "none",
            kind="name",
        ),
        Do(
            "python -m pip install 'ms-swift<4': swift.llm is of ms-swift 2 and 3; or the caller's "
            "newest release",
            "none",
            when=("No module named 'swift.llm", "from 'swift.llm"),
        ),
        Do(
            "an installed package hides the repository's own file of this name: cd to the "
            "repository and export PYTHONPATH=$PWD, or python -m pip uninstall it",
            "none",
            when=("-packages/utils/", "-packages/models/", "-packages/data/", "-packages/test/"),
        ),
        Do(
            "python -m pip install -U {requirer}: its newest release takes the newer package that "
            "is here",
            "other releases than those that are there",
        ),
        Do(
            "python -m pip install {clone}: what is installed of it is of another time than this "
            "clone, whose code asks for what it lacks",
            "minutes",
        ),
        *newer_python(),
        Do("python -m pip install -U 'trl>=0.14'", "none", when=("'GRPOConfig'", "'GRPOTrainer'")),
        Do("python -m pip install {wanted}, in the environment of the job", "none", kind="install"),
        Do(
            "python -m pip install {package}, in the environment of the job (which python)",
            "none",
            kind="install",
        ),
        Do(
            "{unlisted} is no package that is known here: cd to the repository that has a "
            "folder or "
            "file of this name, then python -m pip install -e . or export PYTHONPATH=$PWD; "
            "a package: what its page says to install",
            "none",
        ),
        Do(
            "python -m pip install {oldpin}, in the environment of the job: 1.3 moved what the "
            "command names; or with the release that is there: torchrun … -m {newmodule} in its "
            "place (-m {newmodule} --help: its arguments)",
            "none",
            kind="part",
        ),
        Do(
            "python -m pip install {oldpin}, in the environment of the job: 1.3 has {part} no more",
            "none",
            kind="part",
        ),
        Do(
            "python -m pip install -U {typepin}: {part} came with it (the caller's older release, "
            "where this transformers has to stay)",
            "other defaults: see vlmguard compat",
            when=("No module named 'transformers.models.",),
            kind="part",
        ),
        Do(
            "python -m pip show {partpackage}: it is there and this release has no {part}; install "
            "the release that the caller was written for (its requirements; python -m pip check)",
            "none",
            kind="part",
        ),
        Do(
            looks.SPELT_ALIKE,
            "none",
            when=("from 'transformers'",),
            kind="name",
        ),
        Do(
            "python -m pip show {sourcepackage}; python -m pip check: install the release of "
            "{sourcepackage} that has {name} (older ones lack what is new, newer ones what was "
            "taken out): the one in the requirements of the program that imports it",
            "none",
            kind="name",
        ),
        Do("python -m pip check: it names what the packages here want and do not have", "none"),
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
        Sign("requires `", also=("ImportError",)),
        Sign("is not installed"),
        Sign("registry group", also=("is not in",), releases="modelscope"),
        Sign("Cannot import available module of", releases="modelscope"),
        Sign("Please install", also=("pip install",)),
        Sign("please install", also=("pip install",)),
        Sign("attributes from module"),
        Sign("has no attribute '__version__'"),
        Sign("PackageNotFoundError"),
        Sign("is required for a normal functioning", no=("but found",)),
        Sign("DistributionNotFound"),
        Sign("partially initialized module"),
        Sign("Error while finding module specification", where="line"),
        Sign("python: No module named", where="line"),
        Sign("python3: No module named", where="line"),
        Sign("ERROR: No matching distribution found for", where="line", releases="pip"),
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
        Sign("in an import by another module", where="raised"),
        Sign("in an import by another module", where="within"),
        Sign("import_utils.py in _get_module", where="raised"),
        Sign("FileNotFoundError", also=("in _execute_child",)),
        Sign("s not installed", where="else"),
        Sign("lease install", where="else"),
        Sign("to be installed", where="else"),
        Sign("nstall it with", where="else"),
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
