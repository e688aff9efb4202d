"""Which of ms-swift's commands cannot be rehearsed, and why. Standard library only."""

from __future__ import annotations

from typing import Any

from vlmguard.check.reading.fields import Values

_TASKS = ("causal_lm", "seq_cls", "embedding", "reranker", "generative_reranker")
_SUBGROUPS = ("sequence_parallel_size", "deepspeed_autotp_size", "tensor_parallel_size",
              "context_parallel_size", "zero_hpz_partition_size")  # fmt: skip


def many(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def obstacle(values: Values, kind: str) -> str:
    """Why it cannot be rehearsed here; "" where it can."""
    for name in _SUBGROUPS:
        size = values.get(name)
        if isinstance(size, int) and size > 1:
            return f"--{name} {size}: subgroups of ranks are not rehearsed"
    if len(many(values.get("reward_model"))) > 1:
        return "--reward_model: several models, each of its own kind, are not rehearsed"
    rewards = ("reward_funcs", "reward_model", "teacher_model", "teacher_model_server")
    if kind == "grpo" and not any(values.get(name) for name in rewards):
        return "its rewards come from an environment of its own or behind a server"
    if kind == "grpo" and values.true("vllm_server_pass_dataset"):
        return "--vllm_server_pass_dataset: its rewards read what a rollout server adds to the rows"
    if values.get("truncation_strategy") == "split":
        return "--truncation_strategy split: a row becomes several, on ranks that are not known"
    if values.true("use_ray"):
        return "--use_ray: workers get their ranks from Ray"
    if values.get("tuner_backend") == "unsloth":
        return "--tuner_backend unsloth: its kernels need a GPU"
    if kind == "ppo" or values.get("task_type") not in (None, "", *_TASKS):
        return f"{kind or values.get('task_type')}: not rehearsed yet"
    return ""
