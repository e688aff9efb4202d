"""Weights, adapters and the hub: what was never written, what is asked for too often."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

TABLE = (
    Settled(
        said=("Error while deserializing header",),
        trace=("load_peft_weights",),
        steps=(
            (
                "ls -l {saved}: adapter_model.safetensors of less than 1 kB was never filled: "
                "take the lines old_state_dict = model.state_dict and model.state_dict = (…) out "
                "of {main} (PEFT hands over its own weights), and train anew",
                "take the lines old_state_dict = model.state_dict and model.state_dict = (…) out "
                "of {main}: they hand the Trainer an empty adapter, which safetensors cannot "
                "read; PEFT hands over its own weights without them",
            ),
            "ls -l CHECKPOINT/adapter_model.safetensors: less than 1 kB: nothing was saved in it",
        ),
        why=(
            "the adapter's file is empty or no safetensors: alpaca-lora and its kin replace "
            "model.state_dict, and what is saved then holds no weights"
        ),
    ),
    Settled(
        said=("429 Client Error", "huggingface"),
        steps=(
            "hf auth whoami || hf auth login: (HF_TOKEN in the job's environment) a token has a "
            "quota of its own, without one all jobs behind this address share one",
            "hf download --repo-type dataset {dataset}: once, before the start, then "
            "HF_HUB_OFFLINE=1 in front of the command; no streaming with many ranks and workers",
            "HF_HUB_OFFLINE=1 in front of the command, where all files are in the cache already: "
            "no rank asks the hub any more",
        ),
        why=(
            "the hub counts requests (for each five minutes, by token or address) and refuses "
            "more: every rank and every loader's worker asks for itself"
        ),
    ),
    Settled(
        said=("cannot import name 'HybridCache' from 'transformers'",),
        trace=("peft/",),
        steps=(
            "python -m pip install -U 'peft>=0.18': transformers 5 has no HybridCache, and older "
            "peft asks for it; or python -m pip install 'transformers<5'",
        ),
        mended="peft 0.18",
    ),
    Settled(
        said=("cannot import name 'EncoderDecoderCache' from 'transformers'",),
        trace=("peft/",),
        steps=(
            "python -m pip install 'peft<0.14': newer ones ask for transformers 4.43 and later; or "
            "python -m pip install 'transformers>=4.43', where the code bears it",
        ),
    ),
    Settled(
        said=("has no attribute 'set_submodule'",),
        steps=(
            "python -m pip install 'torch>=2.5' torchvision: transformers puts the quantised "
            "layers in by Module.set_submodule, which torch has since 2.5; or the transformers "
            "that was there before",
        ),
        mended="torch 2.5",
    ),
)
