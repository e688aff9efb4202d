"""This Python is too old or too new."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG579",
    name="explain-python",
    title="This Python does not fit the packages",
    zh="Python 版本与软件包不符",
    why=(
        "a package uses what this Python does not have: it is older than the "
        "package wants (or newer than the package knows), or another Python than "
        "the environment's runs the script"
    ),
    do=(
        Do(
            "conda create -n py312 python=3.12 (or uv venv --python 3.12): what is asked for "
            "came with Python 3.12",
            "the packages are installed again",
            when=(
                "'override' from 'typing'",
                "'batched' from 'itertools'",
            ),
            kind="python",
        ),
        Do(
            "conda create -n py311 python=3.11 (or uv venv --python 3.11): what is asked for "
            "came with Python 3.11",
            "the packages are installed again",
            when=(
                "'StrEnum'",
                "'tomllib'",
                "'Self' from 'typing'",
                "'Never' from",
                "'assert_never'",
                "'NotRequired' from 'typing'",
                "'ExceptionGroup'",
                "except*",
                "'UTC' from 'datetime'",
                "ReprEnum",
            ),
            kind="python",
        ),
        Do(
            "conda create -n py310 python=3.10 (or uv venv --python 3.10): X | None and match "
            "came with Python 3.10",
            "the packages are installed again",
            when=(
                "operand type(s) for |",
                "'type' object is not subscriptable",
                "match ",
                "'TypeAlias'",
                "'ParamSpec'",
                "slots",
            ),
            kind="python",
        ),
        Do(
            "python -m pip install setuptools: Python 3.12 has no distutils of its own",
            "none",
            when=(
                "'distutils'",
                "'pkg_resources'",
            ),
            kind="python",
        ),
        Do(
            "which python; python --version, in the job script, beside what the "
            "package requires (pip show; its page)",
            "none",
        ),
        Do(
            "conda create -n py311 python=3.11 (or uv venv --python 3.11): 3.10 to 3.12 fit most",
            "the packages are installed again",
            kind="python",
        ),
        Do(
            "call the environment's Python by its path, or activate it in the "
            "script: sudo, cron and srun start with another PATH",
            "none",
        ),
    ),
    wrong="A SyntaxError in a file of your own is only that.",
    signs=(
        Sign("SyntaxError: invalid syntax", also=("-packages",)),
        Sign("future feature annotations is not defined"),
        Sign(
            "unsupported operand type(s) for |",
        ),
        Sign("'type' object is not subscriptable"),
        Sign("'ABCMeta' object is not subscriptable"),
        Sign("requires a different Python"),
        Sign("cannot import name 'StrEnum'"),
        Sign("No module named 'tomllib'"),
        Sign("requires Python >="),
        Sign("requires Python 3"),
        Sign("Python >= 3"),
        Sign("No module named 'distutils'"),
        Sign("No module named 'imp'"),
        Sign("No module named 'pkg_resources'"),
        Sign("cannot import name 'Mapping' from 'collections'"),
        Sign("cannot import name 'Iterable' from 'collections'"),
        Sign("cannot import name 'NotRequired' from 'typing'"),
        Sign("cannot import name 'ParamSpec' from 'typing'"),
        Sign("cannot import name 'TypeAlias' from 'typing'"),
        Sign("cannot import name 'Self' from 'typing'"),
        Sign("module 'pkgutil' has no attribute 'ImpImporter'"),
        Sign("dataclass() got an unexpected keyword argument"),
        Sign("mutable default <class"),
        Sign("requires a different Python", where="line"),
        Sign("is not supported on this version of Python", where="line"),
    ),
    examples=(
        Example(
            "TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'",
            "Python 3.9's own text, of an annotation int | None",
        ),
        Example(
            "ImportError: cannot import name 'StrEnum' from 'enum' (/usr/lib/python3.10/enum.py)",
            "Python 3.10's own text",
        ),
        Example("ModuleNotFoundError: No module named 'distutils'", "Python 3.12's own text"),
    ),
    evidence="Python's own messages.",
    narrow=2,
)
