"""Rehearsing ``-m FlagEmbedding.finetune.…``: its own modules, in a rank.

Which negatives a row comes with is drawn on each rank, so the reference has as many ranks.
Top-level imports are light: `describe` runs in the command line's process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmguard.check import hf
from vlmguard.check.reading.fields import Values
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.framework import Commands, Described
from vlmguard.rehearse.request import Request
from vlmguard_transformers.rehearsal import cpu_flags, harmless
from vlmguard_transformers.rehearsal.shrunk import make as make
from vlmguard_transformers.rehearsal.shrunk import ready as ready
from vlmguard_transformers.rehearsal.shrunk import remote as remote

NAME = "FlagEmbedding"
ENDING = True
HARMLESS, REASONS = harmless.HARMLESS, harmless.REASONS
_DROPPED = (
    (("from_peft", "raw_peft"), "the adapter begins anew"),
    (("use_flash_attn",), "no flash attention"),
    (("config_name", "tokenizer_name", "cache_dir", "cache_path", "token", "save_lora_every_epoch",
      "only_merge_lora_model", "save_merged_lora_model"), ""),
    # these suit a data set as large as the user's; here there are few rows
    (("small_threshold", "drop_threshold", "max_example_num_per_dataset"), ""),
)  # fmt: skip
MOST_SCORES = 32 << 20
"""Entries of float32 that a rank may hold some copies of here."""
NEGATIVES = "negatives of other ranks: one rank's own stand for them"


def describe(values: Values, entry: str, files: Files) -> Described:
    """What the command says of its model, data and loop."""
    batch = values.get("per_device_train_batch_size", 8)
    obstacle = ""
    if values.true("only_merge_lora_model"):
        obstacle = "--only_merge_lora_model: this does not train"
    return Described(
        model=str(values.get("model_name_or_path") or ""),
        data=tuple(hf.datasets(values, "train_data")),
        batch=batch if isinstance(batch, int) else 1,
        shuffled=values.get("train_sampling_strategy") != "sequential",
        blocks=True,
        paired=True,
        row="query",
        obstacle=obstacle,
    )


def shaped(request: Request, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stand-in rows: a query, what answers it and what does not."""
    texts = [f"what is number {number}? it is {number}" for number in range(len(rows))]
    return [{"query": text, "pos": [text], "neg": texts[:number] + texts[number + 1 :],
             "prompt": "Does it answer?", "type": "normal"}
            for number, text in enumerate(texts)]  # fmt: skip


def load() -> None:
    """All that ranks need, imported once before they are forked."""
    from vlmguard_transformers.rehearsal import in_rank

    in_rank.load("FlagEmbedding", "FlagEmbedding.abc.finetune.embedder",
                   "FlagEmbedding.abc.finetune.reranker", "vlmguard_flagembedding.profile",
                   "transformers.models.llama.modeling_llama",
                   "transformers.models.xlm_roberta.modeling_xlm_roberta")  # fmt: skip


def commands(
    request: Request, made: Mapping[str, Any], rows: Path, single: Path, steps: int
) -> Commands:
    """The command as it is run here: itself, and its reference, which reads the same rows."""
    argv = Argv(list(request.argv), frozenset(request.known))
    for names, why in _DROPPED:
        argv.replace(names, why)
    rate = 0.1 if ".reranker." in request.entry else 0.01
    wrapper = cpu_flags.settle(argv, request, made, steps, rate)
    argv.set("train_data", single)
    return Commands(tuple(argv.words), tuple(cpu_flags.reference(argv, request).words),
                    {}, tuple(argv.notes), wrapper)  # fmt: skip


def own(request: Request, made: Mapping[str, Any], rows: Path, steps: int) -> Commands | str:
    """The command with its own optimizer, dtype, clipping and accumulation."""
    argv = Argv(list(request.argv), frozenset(request.known))
    across = argv.true("negatives_cross_device") and ".embedder." in request.entry
    if across and (many := _scores(argv, request)) > MOST_SCORES:
        return (f"--negatives_cross_device: each rank scores all ranks' queries against all "
                f"their passages, {many * 4 / 1e9:.1f} GB in float32")  # fmt: skip
    for names, why in _DROPPED:
        argv.replace(names, why)
    env = cpu_flags.settle(argv, request, made, steps, None)
    argv.set("train_data", rows)
    unseen = (NEGATIVES,) if across else ()
    return Commands(tuple(argv.words), (), env, unseen=unseen)


def _scores(argv: Argv, request: Request) -> int:
    """Entries of the table of scores that each rank makes [read]."""
    given = argv.get("train_group_size") or ""
    queries = request.world * request.batch
    return queries * queries * (int(given) if given.isdigit() else 8)


def act(scene: Scene) -> dict[str, Any]:
    """One rank's part of one pass."""
    import runpy

    from vlmguard_transformers.rehearsal import in_rank

    return in_rank.run(
        scene, "FlagEmbedding/__main__.py", lambda _: {},
        lambda: runpy.run_module(scene.entry, run_name="__main__"),
    )  # fmt: skip
