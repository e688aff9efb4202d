"""What to change where vLLM finds no room for its cache: by its own account of the card."""

from __future__ import annotations

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
