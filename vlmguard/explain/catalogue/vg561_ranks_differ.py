"""The ranks built different models."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG561",
    name="explain-ranks-differ",
    title="The ranks built different models",
    zh="各 rank 构建的模型不一致",
    why="before training DDP compares the parameters of all ranks; "
    "here their number or shapes differ: different checkpoints, "
    "releases, freezing or adapters per rank or node",
    do=(
        Do(
            "md5sum {starter}; git rev-parse HEAD; python -m pip freeze | md5sum, on each node, in "
            "the run's folder: the ranks print other numbers of trainable parameters "
            "({trainables}), so another freezing, lora_r or target_modules: what differs is to be "
            "the same (on one node: no `if rank == 0` round it)",
            "none",
            kind="print",
        ),
        Do(
            "grep -rnE 'add_(special_)?tokens|resize_token_embeddings' --include='*.py' "
            "{codefolder}: on every rank alike, no `if rank == 0` round it: the ranks' embeddings "
            "have other numbers of rows ({embedding} on one)",
            "none",
            kind="print",
        ),
        Do(
            'print(os.environ["RANK"], len(tokenizer), sum(p.numel() for p in '
            "model.parameters()), sum(p.requires_grad for p in model.parameters()), flush=True) "
            "right before the model is wrapped: which number differs, on which rank?",
            "none",
            kind="print",
        ),
        Do(
            "python -m pip freeze | md5sum; md5sum MODEL/config.json; ls -l MODEL, on every "
            "node: they "
            "must be the same (MODEL: the model's folder)",
            "none",
        ),
        Do("no `if rank == 0` round what adds, freezes or resizes parameters", "none"),
    ),
    wrong="On one node it is nearly always code that depends on the rank.",
    signs=(
        Sign("DDP expects same model across all ranks"),
        Sign("appears not to match sizes of the same param"),
        Sign("appears not to match strides of the same param"),
        Sign("params in this process", also=("verif",)),
        Sign("parameter shapes mismatch across ranks"),
    ),
    examples=(
        Example(
            "RuntimeError: DDP expects same model across all ranks, but "
            "Rank 0 has 4 params, while rank 1 has inconsistent 2 params.",
            "made by causing it, torch 2.13.0, two gloo ranks",
        ),
    ),
    evidence="torch/csrc/distributed/c10d/reducer.cpp, 2.13.0.",
    narrow=3,
)
