"""Start-up, in fresh interpreters: what arms, what does not, what it costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kit import envs, noise


def python(code, *path, flags=(), **env):
    path = ":".join(map(str, (*path, *envs.SOURCES)))
    environment = {**os.environ, "PYTHONPATH": path, **env}
    return subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, env=environment
    )


def ms_swift(tmp_path):
    (tmp_path / "swift" / "cli").mkdir(parents=True)
    (tmp_path / "swift" / "__init__.py").write_text("")
    (tmp_path / "swift" / "cli" / "sft.py").write_text("")
    return tmp_path


SHOW = "from vlmguard.runtime import seams; print(seams.armed)"


def test_starts_in_every_interpreter_and_imports_nothing_heavy():
    heavy = "('pluggy', 'wrapt', 'importlib.metadata', 'typing', 'torch', 'vlmguard.facts')"
    code = "import sys; print('vlmguard._bootstrap' in sys.modules, "
    code += f"[m for m in {heavy} if m in sys.modules])"
    assert python(code).stdout == "True []\n"
    assert python(code, flags=["-I"]).stdout == "True []\n"


def test_arms_on_ms_swift_and_not_on_openstack_swift(tmp_path):
    assert python("import swift; " + SHOW, ms_swift(tmp_path)).stdout == "['vlmguard_swift']\n"
    other = tmp_path / "other"
    (other / "swift").mkdir(parents=True)
    (other / "swift" / "__init__.py").write_text("")
    assert python("import swift; " + SHOW, other).stdout == "[]\n"


def test_by_hand_and_idempotent():
    code = "import sys, vlmguard.auto; from vlmguard import _bootstrap as b; b.install(); "
    code += "print(sum(f is b._watcher for f in sys.meta_path))"
    assert python(code).stdout == "1\n"


def test_a_broken_adapter_does_not_break_the_import(tmp_path):
    (tmp_path / "frame.py").write_text("x = 3")
    (tmp_path / "adapter_of_frame.py").write_text("raise OSError('boom')")
    code = "from vlmguard import _bootstrap as b; b.watch('frame', 'adapter_of_frame'); "
    code += "import frame; print(frame.x)"
    done = python(code, tmp_path)
    assert done.stdout == "3\n"
    assert "could not arm adapter_of_frame" in done.stderr


def test_a_third_party_watches_its_own_framework(tmp_path):
    (tmp_path / "frame.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "adapter_of_frame.py").write_text(
        "from vlmguard.runtime.seams import Seam\n"
        "SEAMS = (Seam('f', ('frame:f',), lambda w, i, a, k: w(*a, **k) + 1, 'why'),)\n"
    )
    code = "from vlmguard import _bootstrap as b; b.watch('frame', 'adapter_of_frame'); "
    code += "import frame; print(frame.f(1))"
    assert python(code, tmp_path).stdout == "2\n"
    assert python(code, tmp_path, VLMGUARD="off").stdout == "1\n"


def frame(tmp_path, seam="frame.inner:f"):
    """A framework with a submodule, and an adapter for it that imports the standard library only
    and names its wrapper."""
    (tmp_path / "frame").mkdir()
    (tmp_path / "frame" / "__init__.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "frame" / "inner.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "adapter_of_frame.py").write_text(
        "from vlmguard.runtime.seams import Seam\n"
        f"SEAMS = (Seam('f', ({seam!r},), 'wrappers_of_frame:f', 'why'),)\n"
    )
    (tmp_path / "wrappers_of_frame.py").write_text(
        "def f(wrapped, instance, args, kwargs):\n    return wrapped(*args, **kwargs) + 1\n"
    )
    return tmp_path


WATCH = "import sys; from vlmguard import _bootstrap as b; b.watch({0!r}, 'adapter_of_frame'); "


def test_a_submodule_is_watched_and_the_package_alone_costs_nothing(tmp_path):
    code = WATCH.format("frame.inner") + (
        "import frame; print('adapter_of_frame' in sys.modules); import frame.inner; "
        "print('adapter_of_frame' in sys.modules, 'wrappers_of_frame' in sys.modules); "
        "print(frame.inner.f(1))"
    )
    assert python(code, frame(tmp_path)).stdout == "False\nTrue False\n2\n"


OTHERS = {
    "wrapt": (
        "import wrapt; "
        "wrapt.register_post_import_hook(lambda m: print('other', m.__name__), 'frame.inner'); "
    ),
    "one that asks all others": (
        "import vlmguard_imports; "
        "vlmguard_imports.after('frame.inner', lambda m: print('other', m.__name__)); "
    ),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("watched", ["frame", "frame.inner"])
@pytest.mark.parametrize("order", ["before", "behind", "twice"])
def test_beside_a_finder_that_hooks_the_same_name(tmp_path, other, watched, order):
    """Neither recurses, both fire, whoever stands first."""
    standins = tmp_path / "standins"
    standins.mkdir()
    kit = envs.ROOT / "tests" / "kit" / "standins" / "vlmguard_imports.py"
    (standins / "vlmguard_imports.py").write_text(kit.read_text())
    behind = "sys.meta_path.insert(1, sys.meta_path.pop(0)); " if order == "behind" else ""
    twice = "sys.meta_path.append(sys.meta_path[0]); " if order == "twice" else ""
    ask = "import importlib.util as u; print(u.find_spec('frame.inner').name); "
    code = WATCH.format(watched) + OTHERS[other] + behind + twice
    code += ask + "import frame.inner; print(frame.inner.f(1), frame.inner.__loader__.__class__)"
    done = python(code, frame(tmp_path), standins)
    assert done.stderr == ""
    said = done.stdout.splitlines()
    assert said[0] == "frame.inner"
    assert said[1] == "other frame.inner"
    assert said[2].startswith("2 "), said


def test_a_blocked_import_stays_blocked_and_a_failed_one_may_come_again(tmp_path):
    frame(tmp_path)
    block = (
        "import importlib.abc\n"
        "class Block(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'frame.inner': raise ImportError('blocked')\n"
        "sys.meta_path.append(block := Block()); sys.meta_path.insert(1, sys.meta_path.pop())\n"
        "try:\n    import frame.inner\nexcept ImportError as error:\n    print(error)\n"
        "sys.meta_path.remove(block)\n"
        "import frame.inner; print(frame.inner.f(1))"
    )
    done = python(WATCH.format("frame").rstrip("; ") + "\n" + block, tmp_path)
    assert (done.stdout, done.stderr) == ("blocked\n2\n", "")


def test_a_fault_in_a_callback_does_not_break_the_import(tmp_path):
    code = "from vlmguard import _bootstrap as b; b.after('frame.inner', lambda module: 1 / 0); "
    done = python(code + "import frame.inner; print(frame.inner.f(1))", frame(tmp_path))
    assert done.stdout == "1\n"
    assert done.stderr.count("ZeroDivisionError") == 1


def test_a_seam_in_the_watched_module_itself_and_in_a_zip(tmp_path):
    import zipfile

    frame(tmp_path, "frame:f")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in [*tmp_path.glob("*.py"), *tmp_path.glob("frame/*.py")]:
            archive.write(file, file.relative_to(tmp_path))
    code = WATCH.format("frame") + "import frame; print(frame.f(1), frame.__file__)"
    assert python(code, tmp_path).stdout.startswith("2 ")
    assert "all.zip" in python(code, tmp_path / "all.zip").stdout
    assert python(code, tmp_path / "all.zip").stdout.startswith("2 ")


def test_what_an_adapter_costs_is_ours_alone_and_the_standard_librarys(tmp_path):
    """Nothing heavy until a wrapper is called: neither what we depend on nor our own upper half."""
    code = WATCH.format("frame") + (
        "import frame.inner; "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in "
        "('vlmguard', 'pluggy', 'wrapt', 'packaging', 'typer', 'rich')))"
    )
    ours = ["", "._bootstrap", ".runtime", ".runtime.seams", ".runtime.stub"]
    done = python(code, frame(tmp_path))
    assert done.stdout == str([f"vlmguard{name}" for name in ours]) + "\n"


@pytest.mark.timeout(120)
def test_start_up_costs_at_most_1_5_ms():
    """Interleaved runs with and without the bootstrap (-S reads no .pth; site has imported os by
    the time it reads them), medians of processor time: other processes' work must not count."""
    load = "import vlmguard._bootstrap as b; b.install()"
    import vlmguard

    root = vlmguard.__path__[0].rsplit("/", 1)[0]

    def run(code):
        child = subprocess.Popen([sys.executable, "-S", "-c", code], env={"PYTHONPATH": root})
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return 1000 * (used.ru_utime + used.ru_stime)

    run(load)  # writes the bytecode
    noise.at_most(1.5, "ms", lambda: [run(load) - run("import os") for _ in range(25)])
