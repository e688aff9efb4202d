"""Start-up, in fresh interpreters: what arms, what does not, what it costs."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import pytest


def python(code, *path, flags=(), **env):
    import os

    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, path)), **env}
    return subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, env=environment
    )


def ms_swift(tmp_path):
    (tmp_path / "swift" / "cli").mkdir(parents=True)
    (tmp_path / "swift" / "__init__.py").write_text("")
    (tmp_path / "swift" / "cli" / "sft.py").write_text("")
    return tmp_path


SHOW = "from vlmguard.runtime import arming; print(arming.armed)"


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


@pytest.mark.timeout(60)
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
        return used.ru_utime + used.ru_stime

    pairs = [(run(load), run("import os")) for _ in range(25)]
    extra = statistics.median(a for a, _ in pairs) - statistics.median(b for _, b in pairs)
    assert extra < 0.0015, f"{extra * 1000:.2f} ms"
