"""An index is out of range on the GPU."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG545",
    name="explain-device-assert",
    title="An index went out of range on the GPU (device-side assert)",
    zh="GPU 上索引越界（device-side assert）",
    why="a kernel read outside a table: nearly always a token id "
    "beyond the vocabulary (an image token that was added without "
    "resizing the embeddings, a padding of -100 in input_ids) or a "
    "label beyond the classes",
    do=(
        Do(
            "{place}: print the index and the size of what it reads from, in front of this "
            "line: the index must be smaller",
            "none",
            when=("is out of bounds for dimension",),
        ),
        Do(
            "num_labels=N in from_pretrained, with N one more than the highest label: the "
            "class that 'Target' names has no place",
            "none",
            when=("Target ",),
        ),
        Do(
            "CUDA_LAUNCH_BLOCKING=1 in front of the command: the traceback then names the line",
            "slow",
            unless=("n_classes", "IndexError", "indexSelect", "srcSelectDimSize", "Embedding"),
        ),
        Do(
            "print(labels.min(), labels.max()): labels must lie between 0 and num_labels - 1, "
            "or be "
            "-100",
            "none",
            when=("n_classes", "Loss.cu", "NLL", "CrossEntropy", "Target "),
        ),
        Do(
            "print(input_ids.max(), model.get_input_embeddings().num_embeddings) before the model "
            "is called: if the first is not smaller: model.resize_token_embeddings(len(tokenizer)) "
            "before training; else labels or positions: one batch on the CPU names the line",
            "none",
            unless=("Target ", "n_classes"),
        ),
        Do(
            "model.resize_token_embeddings(len(tokenizer)) before "
            "training, where tokens were added",
            "new rows learn",
            unless=("Target ", "n_classes"),
        ),
        Do("one batch on the CPU: it names the line and the index", "slow"),
    ),
    wrong="The traceback's line is wrong without CUDA_LAUNCH_BLOCKING=1: "
    "kernels run later than they are called.",
    signs=(
        Sign("device-side assert triggered"),
        Sign("srcIndex < srcSelectDimSize"),
        Sign("index out of range in self"),
        Sign("is out of bounds.", also=("IndexError: Target",)),
        Sign("index out of bounds", also=("Assertion",)),
        Sign("index out of bounds", where="line", also=("Assertion",)),
        Sign("Assertion `t >= 0 && t < n_classes` failed"),
        Sign("Assertion `ind >=0 && ind < ind_dim_size"),
        Sign("index out of bounds: 0 <="),
        Sign("vectorized_gather_kernel"),
        Sign("Assertion `index >= -sizes[i]"),
        Sign("Assertion `srcIndex < srcSelectDimSize` failed", where="line"),
        Sign("Assertion `t >= 0 && t < n_classes` failed", where="line"),
        Sign("vectorized gather kernel index out of bounds", where="line"),
        Sign(
            "native/cuda/",
            where="line",
            also=(
                "Assertion",
                "thread: [",
            ),
            no=("probability tensor",),
        ),
        Sign(
            "is out of bounds for dimension",
            no=(
                "get_rope_index",
                "_grid_thw[",
                "/processing_",
                "cur_image_idx",
                "_for_multimodal",
            ),
        ),
        Sign("IndexError: Target", also=("is out of bounds",)),
    ),
    examples=(
        Example(
            "RuntimeError: CUDA error: device-side assert triggered",
            "c10/cuda/CUDAException.cpp, torch 2.4",
        ),
        Example(
            "IndexError: index out of range in self", "made by causing it, torch 2.13.0 on the CPU"
        ),
    ),
    evidence="torch's own message.",
    narrow=2,
)
