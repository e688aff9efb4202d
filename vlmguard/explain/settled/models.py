"""Models' own code and what trains them, beside releases of transformers or vLLM that differ."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

TABLE = (
    Settled(
        said=("expected scalar type Float but found BFloat16",),
        trace=("llava_arch.py", "mm_projector"),
        steps=(
            "deepspeed llava/train/train_mem.py --deepspeed ./scripts/zero2.json … (the rest as it "
            "was): DeepSpeed makes the projector bfloat16, too; under plain python: "
            "model.get_model().mm_projector.to(torch.bfloat16) in front of trainer.train()",
        ),
        more=True,
    ),
    Settled(
        said=("NotImplementedError",),
        trace=("in is_async_output_supported",),
        steps=(
            "python -m pip install 'vllm==0.7.1': 0.7.2 takes the machine for one without a GPU "
            "here; with a TRL of 0.16 or later: python -m pip install -U 'trl[vllm]'",
        ),
        mended="vllm 0.8",
        more=True,
    ),
    Settled(
        said=("too many resources requested for launch",),
        trace=("torch/nn/modules/conv.py",),
        unless=("float16", "Half"),
        steps=(
            "--bf16 false --fp16 true (torch_dtype=torch.float16): cards before Ampere (V100, T4) "
            "have no bf16 of their own, and cannot run this convolution of patches in it",
        ),
        more=True,
    ),
    Settled(
        said=("'VisionAttention' object has no attribute 'head_dim'",),
        steps=(
            "python -m pip install -U 'transformers>=4.45.1': 4.45.0.dev0 forgot it in its eager "
            "attention",
        ),
        mended="transformers 4.45.1",
    ),
    Settled(
        said=("variable 'default_config'",),
        trace=("transformers/configuration_utils.py", "/internvl/train/"),
        steps=(
            "python -m pip install 'transformers==4.44.2': 4.45 has this fault, and InternVL's own "
            "code is of before it",
        ),
        since="transformers 4.45",
        mended="transformers 4.46",
        code="VG570",
    ),
    Settled(
        said=("variable 'default_config'",),
        trace=("transformers/configuration_utils.py",),
        steps=("python -m pip install -U 'transformers>=4.46': 4.45 has this fault",),
        since="transformers 4.45",
        mended="transformers 4.46",
        code="VG570",
    ),
    Settled(
        said=("KeyError: 'architectures'",),
        trace=("configuration_internvl_chat.py",),
        steps=(
            "python -m pip install 'transformers==4.44.2': 4.45 and later make the configuration "
            "empty once, which InternVL2's own code of before 2024-12 does not take",
            "hf download {modelrepo} --include '*.py' --force-download: its code of today takes it",
        ),
        since="transformers 4.45",
        code="VG570",
    ),
    Settled(
        said=("Model' object has no attribute 'save_pretrained'",),
        trace=("FlagEmbedding",),
        steps=(
            "python -m pip install 'transformers==4.40.2': 4.41 and later ask FlagEmbedding 1.2's "
            "models for it",
        ),
        since="transformers 4.41",
        more=True,
    ),
)
