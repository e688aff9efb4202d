"""`vlmguard check` says beforehand what the guard says in the real run of the same command.

The commands, and the codes that a real two-rank run reports as fixed, are those of
tests/frameworks/swift. Fields and defaults are compared with the real classes.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess

import pytest

from tests.frameworks.swift.cases import CASES, HEALTHY
from tests.kit import envs

pytestmark = pytest.mark.frameworks

CONFIGS = {
    "qwen2_vl": ("qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl"),
    "qwen3_vl": ("qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl"),
    "llava": ("llava", "LlavaForConditionalGeneration", "llava1_5_hf"),
}
TEXT = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
IMAGE = {**TEXT, "images": ["a.png"]}
ROWS = {"mixed": [IMAGE, TEXT], "phases": [IMAGE, TEXT], "text": [TEXT, TEXT]}
CHECK = """
import contextlib, io, json, sys
from vlmguard.cli import check
answers = []
for words in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = check.main(["--format", "json", "--", *words])
    answers.append({**json.loads(said.getvalue()), "exit": code})
json.dump({"answers": answers, "loaded": [m for m in ("torch", "swift", "transformers")
                                           if m in sys.modules]}, sys.stdout)
"""


def ask(env: str, commands: list[list[str]], folder) -> dict:
    """`check` each command in one process of an environment."""
    done = subprocess.run(
        [envs.program(env), "-c", CHECK], input=json.dumps(commands), text=True, cwd=folder,
        capture_output=True, timeout=120, env=processes_env(folder), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def processes_env(folder) -> dict[str, str]:
    import os

    kept = {k: v for k, v in os.environ.items() if not k.startswith("VLMGUARD")}
    return {**kept, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(envs.SOURCES)}


def command(case, folder) -> list[str]:
    """The case's words, with a config and data files that need no framework to be made."""
    kind, architecture, named = CONFIGS[case.model]
    model = folder / case.model
    model.mkdir(exist_ok=True)
    told = {"model_type": kind, "architectures": [architecture], "vision_config": {}}
    (model / "config.json").write_text(json.dumps(told))
    for name in (case.data, "image"):
        rows = ROWS.get(name, [IMAGE, IMAGE])
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = [word.replace("{data}", str(folder)) for word in case.flags]
    return ["NPROC_PER_NODE=2", "swift", *case.verb, "--model", str(model), "--model_type", named,
            "--dataset", str(folder / f"{case.data}.jsonl"), *flags,
            "--gradient_accumulation_steps", "1"]  # fmt: skip


@pytest.mark.parametrize("env", ["swift", "swift32"])
def test_what_the_guard_will_fix_is_said_before(env, tmp_path):
    cases = [case for case in CASES if case.env == env and not case.over]
    answers = ask(env, [command(case, tmp_path) for case in cases], tmp_path)["answers"]
    for case, answer in zip(cases, answers, strict=True):
        (job,) = answer["jobs"]
        assert job["state"] == "judged", (case.name, job["reason"])
        found = {finding["code"] for finding in job["findings"]}
        if "no_embeddings" not in " ".join(case.flags):  # only the plug-in's own code tells
            assert case.fixes <= found, (case.name, job)


def test_healthy_commands_are_left_alone(tmp_path):
    told = ask("swift", [command(case, tmp_path) for case in HEALTHY], tmp_path)
    for case, answer in zip(HEALTHY, told["answers"], strict=True):
        (job,) = answer["jobs"]
        levels = {finding["level"] for finding in job["findings"]}
        assert answer["exit"] == 0, (case.name, job)
        assert levels <= {"note"}, (case.name, job)
    assert told["loaded"] == []  # neither torch nor the framework was imported


def test_a_command_with_its_edits_is_clean(tmp_path):
    cases = [case for case in CASES if case.env == "swift" and not case.over]
    before = ask("swift", [command(case, tmp_path) for case in cases], tmp_path)["answers"]
    mended = [answer["jobs"][0]["mended"] for answer in before]
    import shlex

    again = [shlex.split(words) for words in mended if words]
    after = ask("swift", again, tmp_path)["answers"]
    assert again
    for words, answer in zip(again, after, strict=True):
        codes = {f["code"] for f in answer["jobs"][0]["findings"] if f["outcome"] == "fixed"}
        assert not answer["jobs"][0]["edits"], (words, codes)


def test_another_release_is_asked_for(tmp_path):
    """3.2.0 has another name for the tuner, and its default variant is reentrant (VG101)."""
    (case,) = [healthy for healthy in HEALTHY if healthy.name == "lora"]
    said = subprocess.run(
        [envs.program("swift"), "-c", "import sys; from vlmguard.cli import check; "
         "sys.exit(check.main(sys.argv[1:]))", "--releases", "swift=3.2.0", "--format", "json",
         "--", *command(case, tmp_path)],
        cwd=tmp_path, env=processes_env(tmp_path), timeout=200, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert said.returncode == 1, said.stdout + said.stderr
    (job,) = json.loads(said.stdout)["jobs"]
    assert job["releases"]["ms-swift"] == "3.2.0"
    assert "--tuner_type is --train_type" in job["renamed"][0]
    assert "VG101" in {finding["code"] for finding in job["findings"]}


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is the auditor")
def test_the_kernel_saw_nothing(tmp_path):
    """Judged in full, nothing is started, written or connected, and no CUDA library is opened."""
    words = command(HEALTHY[2], tmp_path)
    log = tmp_path / "log"
    trace = "execve,fork,vfork,socket,connect,unlink,unlinkat,rename,renameat2,mkdir,openat,open"
    code = "import sys; from vlmguard.cli.main import main; sys.exit(main())"
    env = {**processes_env(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["strace", "-f", "-o", str(log), "-e", f"trace={trace}", envs.program("swift"), "-c", code,
         "check", "--", *words],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "1 judged" in done.stdout, done.stdout + done.stderr
    lines = log.read_text().splitlines()
    assert any("rlhf_args" in x or "sft_args" in x for x in lines)  # the sources were read
    acts = [x for x in lines if "open" not in x and "+++" not in x and "---" not in x]
    writes = [x for x in lines if re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", x)]
    assert [x for x in acts if "execve" not in x] == []
    assert len([x for x in acts if "execve" in x]) == 1
    assert writes == []
    assert not [x for x in lines if re.search(r"libcuda|/dev/nvidia|libtorch", x)]


def test_it_takes_a_second(tmp_path):
    words = command(HEALTHY[0], tmp_path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [envs.program("swift"), "-c", "import sys; from vlmguard.cli.main import main; "
         "sys.exit(main())", "check", "--", *words],
        cwd=tmp_path, env=processes_env(tmp_path), check=True, timeout=180, capture_output=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 6  # 0.6 s of processor time on an idle machine
