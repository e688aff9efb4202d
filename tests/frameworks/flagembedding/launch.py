"""Runs the real `torchrun … -m FlagEmbedding.finetune.…` on CPU, and tells what became of it.

As tests/kit/swift.py does for the `swift` command.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit import envs, runs
from tests.kit.runs import Outcome

ENV = "flagembedding"
BUILD = Path(__file__).with_name("build.py")
LAST_TOKEN = "--sentence_pooling_method last_token --lora_dropout 0"


@dataclass(frozen=True)
class Module:
    """A module that trains: its path below FlagEmbedding.finetune, its model, its flags."""

    path: str
    model: str
    flags: str = ""


MODULES = {
    "embedder_decoder": Module("embedder.decoder_only.base", "llama", LAST_TOKEN),
    "embedder_icl": Module(
        "embedder.decoder_only.icl",
        "llama",
        f"{LAST_TOKEN} --same_dataset_within_batch True --query_max_len 64 "
        "--example_query_max_len 16 --example_passage_max_len 16",
    ),
    "embedder_encoder": Module("embedder.encoder_only.base", "xlmr"),
    "embedder_m3": Module("embedder.encoder_only.m3", "xlmr", "--unified_finetuning True"),
    "reranker_decoder": Module(
        "reranker.decoder_only.base", "llama", "--model_type decoder --lora_dropout 0"
    ),
    "reranker_layerwise": Module(
        "reranker.decoder_only.layerwise",
        "minicpm",
        "--model_type from_raw_model --start_layer 1 --trust_remote_code True --lora_dropout 0",
    ),
    "reranker_encoder": Module("reranker.encoder_only.base", "xlmr"),
}
EVERY_RUN = shlex.split("""
    --use_cpu True --ddp_backend gloo --report_to none --save_strategy no --logging_steps 1
    --optim sgd --learning_rate 1e-2 --lr_scheduler_type constant --max_grad_norm 0 --seed 42
    --per_device_train_batch_size 2 --train_group_size 3 --max_steps 3 --dataloader_num_workers 0
""")
"""On CPU, and so that weights say what the gradients were: plain SGD, no clipping."""

ABORTS = "terminate called without an active exception"
"""FlagEmbedding never ends its process group, so a rank that has done all its work may abort while
its interpreter ends: 1 run in 16 under ZeRO-3, guard off. Such a run is made again."""
ATTEMPTS = 3


def run(
    module: str,
    flags: Sequence[str] = (),
    *,
    guard: bool,
    over: str | None = None,
    ranks: int = 2,
    timeout: float = 180,
    extra: Mapping[str, str] | None = None,
) -> Outcome:
    """Run one module, or return what became of the same run earlier in this session.

    Args:
        module: a key of `MODULES`.
        flags: `{built}` in one stands for the folder of models and DeepSpeed configs.
        over: an overlay, a section of constraints.txt.
        extra: environment variables besides the usual ones.
    """
    launcher = [envs.program(ENV, "torchrun"), "--standalone", f"--nproc_per_node={ranks}"]
    line = [*launcher, *arguments(module, flags)]

    def make(folder: Path) -> Outcome:
        every = runs.variables(ENV, folder, guard, over or "") | dict(extra or {})
        for _ in range(ATTEMPTS):
            outcome = runs.execute(line, folder, every, timeout)
            if not (ABORTS in outcome.output and len(outcome.ranks) == ranks):
                break
        return outcome

    return runs.once([ENV, module, list(flags), guard, over, ranks, dict(extra or {})], make)


def arguments(module: str, flags: Sequence[str]) -> list[str]:
    """`-m FlagEmbedding.finetune.…` and its flags; the given ones come last, so they win."""
    chosen = MODULES[module]
    places = ["--model_name_or_path", f"{built()}/{chosen.model}"]
    places += ["--train_data", f"{built()}/train.jsonl", "--output_dir", "out"]
    flags = [flag.replace("{built}", str(built())) for flag in flags]
    target = ["-m", f"FlagEmbedding.finetune.{chosen.path}"]
    return [*target, *places, *EVERY_RUN, *shlex.split(chosen.flags), *flags]


@functools.cache
def built() -> Path:
    """Models, data and DeepSpeed configs, built by the environment when their recipe is new."""
    python = envs.program(ENV)

    def build(out: Path) -> None:
        variables = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "VLMGUARD": "off"}
        command = [python, str(BUILD), str(out)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"cannot build FlagEmbedding's models:\n{done.stderr[-4000:]}")

    return runs.built("flagembedding", "\n".join([BUILD.read_text(), *envs.sections()[ENV]]), build)
