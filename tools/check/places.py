"""The repositories whose scripts are checked, and where one stands to start them."""

from __future__ import annotations

import os
from dataclasses import dataclass

SHELL = ("**/*.sh", "**/*.slurm", "**/*.sbatch")


FACTORY = "llamafactory-cli train"
LLAVA = ("transformers==4.37.2",)


@dataclass(frozen=True)
class Place:
    """One repository, or a part of one.

    Attributes:
        env: an environment of ``constraints.txt``, for what ``releases`` leaves open.
        releases: what it asks for instead of that environment's.
        folders: where its README says to stand, by the beginning of a script's name; "." is the
            script's own folder.
        trains: what a Python script or a config has in it that trains.
        commands: what a config is given to, by the beginning of its name.
    """

    name: str
    env: str = "flagembedding"
    releases: tuple[str, ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    globs: tuple[str, ...] = SHELL
    trains: str = r"\.train\(|do_train: true|train_dataset:"
    commands: tuple[tuple[str, str], ...] = ()

    def folder(self, script: str) -> str:
        """Where one stands, from the repository's root."""
        found = next((to for start, to in self.folders if script.startswith(start)), "")
        return os.path.dirname(script) if found == "." else found


def _same(*folders: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{folder}/", folder) for folder in folders)


def every() -> tuple[Place, ...]:
    """All of them; the frameworks' own examples first."""
    return (
        Place("FlagOpen/FlagEmbedding", folders=(("", "."),),
              trains=r"torchrun[\s\S]*-m FlagEmbedding\.",
              globs=("examples/finetune/**/*.sh", "**/*.md", "research/**/*.sh")),
        Place("hiyouga/LLaMA-Factory", "llamafactory", globs=("examples/**/*.yaml", "**/*.sh"),
              commands=(("examples/megatron_bridge", f"USE_MEGATRON_BRIDGE=1 {FACTORY}"),
                        ("examples/megatron", f"USE_MCA=1 {FACTORY}"),
                        ("examples/v1", f"USE_V1=1 {FACTORY}"), ("", FACTORY))),
        Place("huggingface/trl", "trl", globs=("examples/scripts/**/*.py", "trl/scripts/*.py")),
        Place("modelscope/ms-swift", "swift", globs=("examples/**/*.sh",)),
        Place("2U1/Qwen-VL-Series-Finetune", "llamafactory", ("transformers==4.57.0",)),
        Place("baaivision/EVE", releases=LLAVA, folders=_same("EVEv1"), globs=("EVEv1/**/*.sh",)),
        Place("baaivision/EVE", releases=("transformers==4.46.0",), folders=_same("EVEv2"),
              globs=("EVEv2/**/*.sh",)),
        Place("cambrian-mllm/cambrian", releases=LLAVA),
        Place("DAMO-NLP-SG/VideoLLaMA2", releases=("transformers==4.40.0",)),
        Place("Deep-Agent/R1-V", releases=("transformers==4.49.0", "trl==0.14.0"),
              folders=(("src/", "src/r1-v"),)),
        Place("haotian-liu/LLaVA", releases=LLAVA),
        Place("hiyouga/EasyR1", releases=("transformers==4.57.0",)),
        Place("illuin-tech/colpali", "trl", globs=("scripts/**/*.py",)),
        Place("InternLM/InternLM-XComposer", releases=LLAVA, folders=_same(
            "finetune", "InternLM-XComposer-1.0/finetune", "InternLM-XComposer-2.0/finetune",
            "InternLM-XComposer-2.5-Reward/training", "projects/ShareGPT4V")),
        Place("LLaVA-VL/LLaVA-NeXT", releases=("transformers==4.40.0",),
              folders=_same("llava-critic-r1/EasyR1")),
        Place("NVlabs/VILA", releases=("transformers==4.46.0",)),
        Place("om-ai-lab/VLM-R1", releases=("transformers==4.49.0", "trl==0.17.0")),
        Place("OpenBMB/MiniCPM-V", releases=("transformers==4.44.2",), folders=_same("finetune")),
        Place("OpenGVLab/InternVL", releases=(*LLAVA, "trl==0.10.1"), folders=_same(
            "classification", "internvl_chat", "internvl_chat_llava", "internvl_g", "segmentation"),
            globs=tuple(f"{name}/**/*.sh" for name in ("[!i]*", "internvl_g", "internvl_chat",
                                                       "internvl_chat_llava"))),
        Place("OpenGVLab/InternVL", releases=("transformers==4.55.0", "trl==0.21.0"),
              folders=_same("internvl_chat_gpt_oss"), globs=("internvl_chat_gpt_oss/**/*.sh",)),
        Place("PKU-YuanGroup/Video-LLaVA", releases=("transformers==4.31.0",)),
        Place("QwenLM/Qwen3-VL", releases=("transformers==4.57.0",),
              folders=_same("qwen-vl-finetune")),
        Place("TIGER-AI-Lab/VLM2Vec", releases=("transformers==4.52.3",)),
        Place("TinyLLaVA/TinyLLaVA_Factory", releases=("transformers==4.40.0",)),
        Place("X-PLUG/mPLUG-Owl", releases=("transformers==4.31.0",),
              folders=_same("mPLUG-Owl", "mPLUG-Owl2")),
        Place("zjysteven/lmms-finetune", releases=("transformers==4.45.2",)),
    )  # fmt: skip
