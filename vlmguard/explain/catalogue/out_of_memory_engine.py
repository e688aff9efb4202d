"""What to change where vLLM finds no room for its cache: by its own account of the card."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

# What vLLM says of its own part of the card.
CACHE = ("cache blocks", "KV cache", "desired GPU memory utilization")

_ENGINE = (
    Do("short_engine", "longer rows are refused", when=("max seq len", "max_model_len")),
    Do("more_engine", "less room for the training on the same card", unless=("desired GPU",)),
    Do("less_engine", "a smaller cache", when=("desired GPU",)),
    Do("short_engine", "longer rows are refused", unless=("max seq len", "max_model_len")),
    Do("nvidia-smi: end what else runs on this card, or take another one"),
)

# vLLM's own frames, and its allocator's words where it wakes up.
_OF_ENGINE = (
    "in _allocate_kv_cache",
    "in initialize_cache",
    "in initialize_kv_cache",
    "in wake_up",
    "cumem.py",
)
_SHARE = ("vllm_gpu_memory_utilization", "gpu_memory_utilization")


def of_engine(facts: Facts) -> bool:
    """Whether it was vLLM that asked for memory beside a training that holds the card."""
    return "cumem_allocator" in facts.message or any(w in facts.trace for w in _OF_ENGINE)


def beside(facts: Facts) -> tuple[Do, ...]:
    """A smaller share for the engine: what the training holds beside it is not the engine's."""
    told = next((n for n in _SHARE if n in facts.said), "")
    share = float(facts.said[told]) if told and _NUMBER.fullmatch(facts.said[told]) else 0.0
    less = Do("less_engine", "a smaller cache")
    if told and share > 0.2:
        why = f"a smaller cache; {share:g} now"
        less = Do(f"--{told} {max(share - 0.2, 0.15):.2g}", why)
    elif "nsloth" in facts.trace:
        less = Do(
            "gpu_memory_utilization=0.4 in FastLanguageModel.from_pretrained(…) (less than what it "
            "has now), and python -m pip install -U unsloth unsloth_zoo",
            "a smaller cache",
        )
    card = Do(
        "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv: who holds the "
        "card beside the engine",
        "none",
    )
    return (
        less,
        Do("fewer_answers", "slower rollouts"),
        Do("short_engine", "longer rows are refused"),
        card,
    )


_NUMBER = re.compile(r"(?:0?\.\d{1,4}|1(?:\.0)?)")
MUCH = 8.0  # GiB that no CUDA context takes
CACHED = 2.0  # GiB of cache at least
MOST = 0.95  # of the card


def steps(facts: Facts) -> tuple[Do, ...]:
    """The share that the engine's account asks for, or who holds the card beside it."""
    numbers = [float(n) for n in facts.said.get("vllm_room", "").split()]
    if len(numbers) != 5:
        return _ENGINE
    total, share, weights, others, peak = numbers
    if others > MUCH:
        return (*_held(facts, others), _ENGINE[-1])
    asked = weights + others + peak
    wanted = min(MOST, round((asked + CACHED) / total + 0.05, 2))
    if wanted <= share:
        return _ENGINE
    why = f"{asked:.1f} GiB are taken before any cache, of {share * total:.1f} that it may have"
    return (Do("engine_share", why, (("share", f"{wanted:g}"),)), *_ENGINE)


def _held(facts: Facts, others: float) -> tuple[Do, ...]:
    held = f"{others:.0f} GiB of this card are held by something else than the engine"
    look = Do(
        "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv: "
        f"{held}: a training rank, or an engine that was left (kill PID)",
        "none",
    )
    if "grpo_trainer.py" not in facts.trace or "self.llm = LLM(" not in facts.trace:
        return (look,)
    fewer = Do(
        "accelerate launch --num_processes $(($(nvidia-smi -L | wc -l) - 1)) … (the rest as it "
        f"was): one rank fewer than cards: {held}, as a training rank, and TRL before 0.18 puts "
        "the engine on the card behind the last rank's",
        "slower",
    )
    return (fewer, look)
