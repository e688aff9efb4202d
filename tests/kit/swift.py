"""Runs the real `swift` command in real torchrun ranks on CPU, and tells what became of it.

    outcome = run(["sft"], "qwen2_vl", "image", ["--tuner_type", "lora"], guard=True)
    outcome.returncode, outcome.output, outcome.hung, outcome.ranks, outcome.findings
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit import data as datasets
from tests.kit import envs, runs, warm
from tests.kit.models.families import FAMILIES, MODEL_TYPES
from tests.kit.runs import KIT, QUIET, Outcome, model_folder

OF_SWIFT = {"MAX_PIXELS": "16384", "NPROC_PER_NODE": "2"}

EVERY_RUN = shlex.split("""
    --torch_dtype float32 --fp16 false --bf16 false --use_cpu true --ddp_backend gloo
    --attn_impl eager --check_model false --use_hf true --report_to none
    --optim sgd --max_grad_norm 0 --weight_decay 0 --lora_dropout 0
    --lr_scheduler_type constant --warmup_ratio 0 --seed 42 --data_seed 42
    --split_dataset_ratio 0 --dataloader_num_workers 0
    --per_device_train_batch_size 1 --gradient_accumulation_steps 1
    --max_steps 2 --logging_steps 1
""")
"""On CPU, in float32, and so that weights say what the gradients were: plain SGD, no clipping."""
OF_RELEASE = {
    "swift": "--save_strategy no --dataset_shuffle false --train_dataloader_shuffle false",
    # 3.2.0 fails after training when it was told to save nothing.
    "swift32": "--save_strategy steps --save_steps 1000 --save_only_model true",
}
LEARNING_RATES = {"lora": "1", "full": "0.1"}
"""High enough that no update drowns in float32 rounding."""


def command(
    verb: Sequence[str],
    model: str,
    data: str,
    flags: Sequence[str],
    env: str = "swift",
    over: str = "",
) -> list[str]:
    """The whole command line after `swift`; the flags come last, so they win."""
    name = FAMILIES[model][1]
    rate = LEARNING_RATES["full" if "full" in flags else "lora"]
    places = ["--model", str(model_folder(env, model, over))]
    places += ["--dataset", f"{dataset()}/{data}.jsonl"]
    types = ["--model_type", MODEL_TYPES.get(name, name), "--template", name]
    types += ["--learning_rate", rate]
    return [*verb, *places, *types, *EVERY_RUN, *shlex.split(OF_RELEASE[env]), *flags]


def run(
    verb: Sequence[str],
    model: str,
    data: str,
    flags: Sequence[str] = (),
    *,
    guard: bool,
    world: int = 2,
    env: str = "swift",
    over: str = "",
    timeout: float = 420,
    quiet: float | None = None,
    extra: Mapping[str, str | None] | None = None,
    cold: bool = True,
) -> Outcome:
    """Run `swift …` in `world` ranks, or return what became of it earlier in this session.

    Args:
        verb: `["sft"]`, or `["rlhf", "--rlhf_type", "dpo"]`.
        model: a family of models/families.py.
        data: a data set of data.py.
        env: an environment of constraints.txt.
        over: a section of constraints.txt that is laid over it.
        quiet: seconds without a line after which it counts as hung; as `runs` or `warm` have it.
        extra: environment variables besides the usual ones; None takes one away.
        cold: by the command itself; else ranks are forked from a process that has imported
            ms-swift (`warm`), where that serves the environment.
    """
    line = command(verb, model, data, flags, env, over)
    more = {"NPROC_PER_NODE": str(world), **(extra or {})}

    direct = cold or env != "swift" or bool(over)

    def make(folder: Path) -> Outcome:
        every = runs.variables(env, folder, guard, over) | OF_SWIFT | more
        if not direct:
            script = _commands(env) / f"{line[0]}.py"
            return warm.execute(env, [str(script), *line[1:]], folder, every, world=world,
                                timeout=timeout, quiet=quiet or warm.QUIET,
                                shown=["swift", *line])  # fmt: skip
        return runs.execute([envs.program(env, "swift"), *line], folder, every, timeout,
                            quiet or QUIET)  # fmt: skip

    key = [line, env, over, guard, more, direct]
    return runs.once([*key, quiet] if quiet else key, make)


def _commands(env: str) -> Path:
    """What `swift VERB` starts in each rank lies here."""
    return next(envs.path(env).glob("lib/python*/site-packages/swift/cli"))


@functools.cache
def dataset() -> Path:
    """The folder of data sets, built when their recipe is new."""
    return runs.built("data", (KIT / "data.py").read_text(), datasets.build)
