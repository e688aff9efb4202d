"""The number of ranks, heads or rows does not divide by a parallel size."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG594",
    name="explain-parallel-sizes",
    title="Ranks, heads, layers or rows do not divide by a parallel size",
    zh="进程数、注意力头数、层数或批大小不能被并行度整除",
    why=(
        "tensor, pipeline, sequence or expert parallelism (tp, pp, sp, cp, ep) splits the ranks, "
        "the attention's heads, the layers or the rows of a batch into equal parts, and here one "
        "of them does not divide; or the group of such a size was never made"
    ),
    do=(
        Do(
            "tensor_parallel_size=1, or as many visible cards as a multiple of it "
            "(CUDA_VISIBLE_DEVICES=0,1 for 2)",
            "fewer cards",
            when=("number of GPUs per node is not divisible",),
            kind="ranks",
        ),
        Do(
            "sequence_parallel=False "
            "(actor_rollout_ref.actor.megatron.sequence_parallel=False in verl, "
            "--sequence_parallel false in ms-swift's Megatron): it cuts the tokens of a batch "
            "into as many parts as tp",
            "memory of the activations",
            when=("irst dimension of the tensor",),
            kind="ranks",
        ),
        Do(
            "without tensor parallelism (tp 1, tensor_parallel_size=1, no tp_plan): it splits "
            "plain Linear and Embedding layers, not adapters and quantised ones",
            "more memory on each card",
            when=(
                "ColwiseParallel currently",
                "RowwiseParallel currently",
            ),
        ),
        Do(
            "tp × pp × cp must be one of {divisors}: what the number of ranks divides by "
            "({numbers} in the message)",
            "none",
            when=("orld size", "orld_size", "world", "ranks", "GPUs"),
            kind="ranks",
        ),
        Do(
            "ranks = dp × tp × pp × cp: choose the parallel sizes so that their product divides "
            "the number of ranks ({numbers})",
            "none",
            when=("orld size", "orld_size", "world", "ranks", "GPUs"),
            kind="ranks",
        ),
        Do(
            "grep -E 'num_(attention|key_value)_heads' {modelfolder}/config.json: tp and sp must "
            "divide both "
            "(under text_config in a vision-language model)",
            "none",
            when=("head",),
            kind="heads",
        ),
        Do(
            "the rows of a step (train_batch_size × samples per prompt; the last batch of a "
            "validation as well) must divide by the number of ranks that share them: another "
            "batch size, drop_last, or a number of cards that divides ({numbers})",
            "the global batch changes, unless the accumulation makes up for it",
            when=("chunk", "batch", "DataProto", "generations"),
            kind="rows",
        ),
        Do(
            "ranks = dp × tp × pp × cp: choose the parallel sizes so that their product divides "
            "the number of ranks",
            "none",
            kind="ranks",
        ),
        Do(
            "tp and sp must divide the number of attention heads (of key-value heads too): "
            "num_attention_heads and num_key_value_heads of config.json, under text_config "
            "in a vision-language model",
            "none",
            kind="heads",
        ),
        Do(
            "the rows of a step (train_batch_size × samples per prompt; the last batch of a "
            "validation as well) must divide by the number of ranks that share them: another "
            "batch size, drop_last, or a number of cards that divides",
            "the global batch changes, unless the accumulation makes up for it",
            kind="rows",
        ),
    ),
    wrong="A size of 1 always divides: as a test it shows which of the sizes is at fault.",
    signs=(
        Sign("World size", also=("is not divisible by",)),
        Sign("world_size", also=("divisible by",)),
        Sign("world size", also=("divisible",)),
        Sign("is not divisible by", also=("ensure_divisibility",)),
        Sign("is not divisible by", also=("parallel",)),
        Sign("must be divisible by", also=("parallel",)),
        Sign("should be divisible by", also=("parallel",)),
        Sign("n_gpus (", also=("must be divisible by",), releases="verl"),
        Sign("linear attention sequence parallel", releases="ms-swift 4"),
        Sign("must be divisible by ulysses_sp_size", releases="verl"),
        Sign("must be divisible by tp_size"),
        Sign("is not divisible by dp size", releases="verl"),
        Sign("must be divisible by minimal possible batch size", releases="verl"),
        Sign("only support equal chunk", releases="verl, EasyR1"),
        Sign("num_heads", also=("divisible", "sp")),
        Sign("is not divisible by total_model_size", releases="Megatron"),
        Sign("is not divisible by (tensor_model_parallel_size", releases="Megatron"),
        Sign("split_size must be a divisor of world_size", releases="verl"),
        Sign("number of experts", also=("divisible",)),
        Sign("Number of experts", also=("divisible",)),
        Sign("expert parallel group is not initialized", releases="DeepSpeed"),
        Sign("expert data parallel group is not initialized", releases="DeepSpeed"),
        Sign("sequence parallel group is not initialized"),
        Sign("Mesh should not be bigger than default world size"),
        Sign("Mesh should not be bigger than default group size"),
        Sign("ParallelismConfig total_size"),
        Sign("parallel_state.py in initialize_model_parallel", where="raised"),
        Sign("in ensure_divisibility", where="raised"),
        Sign("in _ensure_divisibility", where="raised"),
        Sign("in initialize_model_parallel()", where="within"),
        Sign("swift/sequence_parallel/", where="raised"),
        Sign("torch/distributed/device_mesh.py", where="within"),
        Sign("torch/distributed/_mesh_layout.py", where="within"),
        Sign("torch/distributed/_pycute/", where="raised"),
        Sign("cannot be split by sp world size", releases="ms-swift"),
        Sign("is not a multiple of tensor parallel size"),
        Sign("of the tensor should be divisible by tensor parallel size", releases="Megatron"),
        Sign("isn't evenly distributed among tensor parallel group"),
        Sign("Batch size should divided by"),
        Sign("should be an integer multiple of number of pipeline"),
        Sign("must be divisible by ulysses sequence size"),
        Sign("deepspeed", where="trace", also=("cannot be divided by world size",)),
        Sign("ipeline parallel size should be smaller than", releases="LLaMA-Factory"),
        Sign(
            "cannot reshape tensor of 0 elements into shape [-1, 0]",
            releases="a device mesh of 0 ranks",
        ),
        Sign("is not divisible by", no=("generation", "patch", "pixel", "height", "width")),
        Sign("parallelism", where="else"),
        Sign("parallel_size", where="else"),
        Sign("tp_size", where="else"),
        Sign("cp_size", where="else"),
        Sign("sp_size", where="else"),
        Sign("world size", where="else"),
        Sign("world_size", where="else"),
        Sign("ensor parallel", where="else"),
        Sign("ontext parallel", where="else"),
        Sign("equence parallel", where="else"),
        Sign("ColwiseParallel"),
        Sign("RowwiseParallel"),
    ),
    examples=(
        Example(
            "AssertionError: World size 8 is not divisible by tp_size 1 * pp_size 3",
            "colossalai/booster/plugin/moe_hybrid_parallel_plugin.py, 0.4",
        ),
        Example(
            "AssertionError: only support equal chunk. Got size of DataProto 512 and chunk 6.",
            "verl/protocol.py, 0.2",
        ),
    ),
    evidence="hpcaitech/ColossalAI#6202, hiyouga/EasyR1#44, facebookresearch/FAMBench#103.",
    narrow=2,
)
