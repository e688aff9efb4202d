"""The GPU's memory, where one call of a library asks for too much of it."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

TABLE = (
    Settled(
        said=("out of memory",),
        trace=("in _cuda_deserialize", "torch/serialization.py"),
        unless=("transformers/trainer.py", "deepspeed/"),
        steps=(
            (
                'torch.load(…, map_location="cpu") at {place}: without it a checkpoint is read '
                "onto the card that it was saved from, by every rank",
                'torch.load(…, map_location="cpu"): without it a checkpoint is read onto the card '
                "that it was saved from, by every rank",
            ),
            "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv: ranks on "
            "card 0 beside its own: torch.cuda.set_device(local_rank) in front of everything else",
        ),
        why=(
            "torch.load puts each tensor onto the card from which it was saved, mostly card 0: all "
            "ranks of a machine do it there at once"
        ),
    ),
    Settled(
        said=("more than 1EB memory",),
        trace=("in all_gather_object", "state_dict"),
        steps=(
            (
                "grep -nE 'is_main_process|rank *== *0' {main}: what saves at {place} has to be "
                "called by all ranks, outside of it",
                "grep -rnE 'is_main_process|rank *== *0' --include='*.py' . : what saves has to be "
                "called by all ranks, outside of it",
            ),
        ),
        why=(
            "one rank gathers the sizes of all while the others do something else: it reads a size "
            "that nobody sent (1EB), no card is full"
        ),
        code="VG551",
    ),
    Settled(
        said=("out of memory",),
        trace=("in load_peft_weights", "device=torch_device"),
        steps=(
            (
                'PeftModel.from_pretrained(…, torch_device="cpu") at {place}: each process puts '
                "the adapters onto card 0 first, where nobody says otherwise",
                'PeftModel.from_pretrained(…, torch_device="cpu"): each process puts the adapters '
                "onto card 0 first, where nobody says otherwise",
            ),
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) in front of the model, in place '
            "of it: each process then takes its own card for card 0",
        ),
        why=(
            "PEFT reads adapters onto the process's first card, and all processes have card 0 for "
            "that: it is filled by the others"
        ),
    ),
    Settled(
        said=("out of memory",),
        trace=("in _save_to_state_dict", "in undo_layout"),
        steps=(
            "python -m pip install bitsandbytes==0.39.1: from it on a model of 8 bits is saved as "
            "it lies; 0.38 to 0.39.0 unpack each layer on the card for it and keep that",
            "model.save_pretrained(…) of the PEFT model alone, after the training (--save_strategy "
            "no): adapters are saved without the weights of 8 bits",
        ),
        why=(
            "bitsandbytes 0.38 to 0.39.0 unpack each layer of 8 bits on the card where a "
            "checkpoint is written: the training had room, the copy has not"
        ),
        mended="bitsandbytes 0.39.1",
    ),
)
