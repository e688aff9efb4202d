"""``vlmguard rehearse`` on commands of TRL, LLaMA-Factory and FlagEmbedding, one warm process each.

What real gloo ranks do with each is known: tests/frameworks/trainers and …/flagembedding run them.
`make test` asks for the telling ones; the rest is marked `campaign` as well (`make frameworks`).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from tests.frameworks.rehearse.known import line, of_command, of_flagembedding
from tests.frameworks.trainers.cases import CASES, LORA
from tests.kit import envs, runs, trainers
from tests.kit.trainers import trl

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1500)]
WRONG, CRASH, HANG, RIGHT = "silently wrong", "crash", "hang", "right"
TELLING = {
    "trl": {"trl-sft-zero3-phases": WRONG, "trl-sft-zero2-mixed": HANG, "trl-sft-lora": RIGHT},
    "llamafactory": {"lf-lora-iv": WRONG, "lf-zero3-phases": RIGHT},
    "flagembedding": {"reranker-lora": CRASH, "embedder-full-zero3-silent": WRONG},
}
CAMPAIGN = {
    "trl": {
        "trl-sft-lora-reentrant": CRASH,
        "trl-sft-zero3-mixed": HANG,
        "trl-sft-zero3-phases-llava": WRONG,
        "trl-dpo-zero3-phases": WRONG,
        "trl-grpo-zero3-mixed": HANG,
        "trl-kto-zero3-mixed": HANG,
        "trl-module-zero3-phases": WRONG,
        "trl-sft-mixed": RIGHT,
        "trl-sft-zero3": RIGHT,
        "trl-sft-lora-zero3": RIGHT,
    },
    "llamafactory": {
        "lf-full-zero2-iv": CRASH,
        "lf-lora-unused": CRASH,
        "lf-lora-zero3-iv": WRONG,
        "lf-full-zero3-iv": WRONG,
        "lf-dpo-lora": RIGHT,
    },
    "flagembedding": {
        "reranker-full": CRASH,
        "embedder-full-zero2": CRASH,
        "embedder-full-zero3": CRASH,
        "embedder-lora-drift": WRONG,
        "embedder": RIGHT,
        "embedder-zero1": RIGHT,
        "embedder-zero3": RIGHT,
    },
}
WORLDS = {"trl-sft-lora": 8, "lf-zero3-phases": 64, "trl-sft-zero3": 512, "trl-sft-lora-zero3": 64}
"""Ranks of commands that are right: two are run, and one alone at that size."""
GRPO = ("--reward_funcs", "alternating.reward", "--max_completion_length", "8",
        "--log_multimodal", "False", "--per_device_train_batch_size", "4")  # fmt: skip
OWN = ("--optim", "adamw_torch", "--max_grad_norm", "1.0")
FOUR = ('{"train_batch_size": 4, "train_micro_batch_size_per_gpu": "auto", '
        '"zero_optimization": {"stage": 1}}')  # fmt: skip
SIZED = {
    "trl": {
        "grpo": (trl("grpo", "grpo_image", *GRPO, "--num_generations", "8", *OWN), 64, ""),
        "grpo-groups": (trl("grpo", "grpo_image", *GRPO, "--num_generations", "8"), 3,
                        "must be divisible by num_generations (8)"),
    },
    "flagembedding": {
        "embedder-own": (("embedder", *OWN), 64, ""),
        "embedder-batch": (("embedder-zero1", "--deepspeed", FOUR), 3, "train_batch_size"),
    },
}
"""Name → command, ranks, and what it crashes with at that number of them: checks that TRL and
DeepSpeed make of their own before anything trains. Two ranks are right with each."""
EVALUATED = ("--dataset_test_split", "train", "--eval_strategy", "steps", "--eval_steps", "1",
             "--save_strategy", "steps", "--save_steps", "1", *LORA,
             "--load_best_model_at_end", "true")  # fmt: skip
LATE = {
    "trl": {
        "metric": (trl("sft", "sft_image", *EVALUATED, "--metric_for_best_model", "nothing"),
                   "not found in the evaluation metrics"),
        "best": (trl("sft", "sft_image", *EVALUATED, "--metric_for_best_model", "loss"), ""),
    },
}  # fmt: skip
"""Name → command, and what it crashes with at its end, in real ranks too (docs/rehearsals.md)."""
KNOWN = {name: kind for table in (TELLING, CAMPAIGN) for one in table.values()
         for name, kind in one.items()}  # fmt: skip


def names():
    """(environment, name), those that are not telling with the second mark."""
    for table, marks in ((TELLING, []), (CAMPAIGN, [pytest.mark.campaign])):
        for env, cases in table.items():
            yield from (pytest.param(env, name, marks=marks, id=name) for name in cases)


def asked(env, which):
    """All commands of one script, asked once a session: answers by name, exit status, leftovers."""

    def ask():
        folder = runs.session() / f"rehearse-{env}-{which}"
        for each in ("home", "work"):
            (folder / each).mkdir(parents=True)
        table = (TELLING if which == "telling" else CAMPAIGN)[env]
        lines = []
        for name in table:
            words, files = line(env, name, WORLDS.get(name, 0))
            lines.append(words)
            for file, text in files.items():
                (folder / "work" / file).write_text(text)
        sized = SIZED.get(env, {}) if which == "telling" else {}
        for name, (command, ranks, _) in sized.items():
            words, _ = _sized(env, name, command, ranks)
            lines.append(words)
        late = LATE.get(env, {}) if which == "telling" else {}
        lines += [_sized(env, name, command, 2)[0] for name, (command, _) in late.items()]
        (folder / "work" / "train.sh").write_text("\n".join(lines) + "\n")
        before = sorted(path.name for path in (folder / "work").iterdir())
        done = run(env, folder)
        jobs = dict(zip([*table, *sized, *late], json.loads(done.stdout)["jobs"], strict=True))
        after = sorted(path.name for path in (folder / "work").iterdir())
        left = [*set(after) ^ set(before), *map(str, (folder / "home").iterdir())]
        return json.dumps({"jobs": jobs, "exit": done.returncode, "left": left})

    return json.loads(runs.told(f"rehearse-{env}-{which}", ask))


def _sized(env, name, command, ranks):
    if env != "flagembedding":
        return of_command(env, name, command, ranks)
    words, files = line(env, command[0], ranks)
    return f"{words} {shlex.join(command[1:])}", files


def run(env, folder):
    kit = [runs.KIT / "standins", trainers.PROGRAMS]
    stubs = [runs.KIT / "stubs"] if env == "llamafactory" else []
    path = [*kit, *stubs, envs.ROOT, envs.ROOT / "plugins"]
    bare = {key: value for key, value in os.environ.items() if not key.startswith("VLMGUARD")}
    around = {**bare, "PYTHONPATH": os.pathsep.join(map(str, path)), "HOME": str(folder / "home")}
    done = subprocess.run(
        [envs.program(env), "-m", "vlmguard", "rehearse", "--yes", "--format", "json", "train.sh"],
        env=around, cwd=folder / "work", text=True, capture_output=True, timeout=1400, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done


def job(env, name):
    which = "telling" if name in TELLING[env] else "campaign"
    return asked(env, which)["jobs"][name]


@pytest.mark.parametrize(("env", "name"), list(names()))
def test_it_says_what_real_ranks_do(env, name):
    found, kind = job(env, name), KNOWN[name]
    assert found["verdict"] == kind, (found["off"], found["on"])
    assert found["exit"] == ((3 if found["left_out"] else 0) if kind == RIGHT else 1)
    off, on = found["off"], found["on"]
    assert on["kind"] == "right", on
    assert on["off"] <= 2e-3
    assert on["judged"] > 3
    if kind == RIGHT:
        assert off["off"] <= 1e-4
        if name in WORLDS:
            assert (found["world"], found["alone"]["kind"]) == (WORLDS[name], RIGHT), found["alone"]
        return
    case = CASES[name] if name in CASES else of_flagembedding(name)
    fixes = {case.fixes} if isinstance(case.fixes, str) else case.fixes
    assert fixes <= set(found["mended"])
    if kind == CRASH:
        assert case.broken in off["message"]
    elif kind == HANG:
        assert len({(call, site) for _, _, call, site in off["sites"]}) == 2, "both sides differ"
    else:
        assert off["off"] > 0.05


@pytest.mark.parametrize(
    ("env", "name"), [(env, name) for env, table in SIZED.items() for name in table]
)
def test_one_rank_of_all_shows_what_depends_on_the_size(env, name):
    found = asked(env, "telling")["jobs"][name]
    _, ranks, told = SIZED[env][name]
    assert found["world"] == ranks
    assert bool(found["alone"]["unseen"]) is (env == "trl")
    if not told:
        assert (found["verdict"], found["alone"]["kind"]) == (RIGHT, RIGHT), found
        return
    assert found["verdict"] == found["alone"]["kind"] == CRASH, found
    assert found["off"]["why"] == f"rank 0 of {ranks}, with its own optimizer and dtype"
    assert told in found["off"]["message"]


@pytest.mark.parametrize("name", LATE["trl"])
def test_its_own_ending_is_rehearsed(name):
    found = asked("trl", "telling")["jobs"][name]
    told = LATE["trl"][name][1]
    if not told:
        assert found["verdict"] == RIGHT, found
        assert "saving" not in found["not_shown"]
        assert "plain cross-entropy" in found["off"]["against"]
        return
    assert (found["verdict"], found["off"]["order"]) == (CRASH, "its ending"), found
    assert told in found["off"]["message"]


@pytest.mark.parametrize("env", TELLING)
def test_nothing_is_left_and_the_worst_is_the_exit_status(env):
    told = asked(env, "telling")
    assert told["exit"] == 1
    assert told["left"] == []


@pytest.mark.parametrize(
    ("env", "words", "told"),
    [
        ("trl", ["trl", "sft", "--packing"], "--packing: rows are joined"),
        ("trl", ["trl", "rloo"], "trl rloo is not rehearsed yet"),
        ("trl", ["torchrun", "--nproc_per_node", "2", "{programs}/train.py", "--model", "m"],
         "train.py"),
        ("llamafactory", ["llamafactory-cli", "train", "--stage", "ppo", "--do_train", "true"],
         "stage ppo is not rehearsed yet"),
        ("flagembedding",
         ["torchrun", "--nproc_per_node", "2", "-m",
          "FlagEmbedding.finetune.reranker.encoder_only.base",
          "--train_data", "gone.jsonl", "--output_dir", "out"], "gone.jsonl"),
    ],
)  # fmt: skip
def test_what_is_not_rehearsed_is_told_with_its_reason(env, words, told, tmp_path):
    for each in ("home", "work"):
        (tmp_path / each).mkdir()
    model = ["--model_name_or_path", str(tmp_path), "--output_dir", "out"]
    words = [word.replace("{programs}", str(trainers.PROGRAMS)) for word in words]
    words += [] if "train.py" in told else model
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    (tmp_path / "work" / "train.sh").write_text(f"NPROC_PER_NODE=2 {shlex.join(words)}\n")
    done = run(env, tmp_path)
    answer = json.loads(done.stdout)["jobs"][0]
    assert (answer["verdict"], done.returncode) == ("cannot tell", 2), answer
    assert told in answer["why"]
