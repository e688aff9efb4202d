"""The generation engine failed."""

from __future__ import annotations

import re

from vlmguard.explain import looks
from vlmguard.explain.catalogue import engine_limits as limits
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_HEADS = re.compile(r"heads \((\d{1,4})\) must be divisible by tensor parallel size \((\d{1,3})\)")


# An address that ends in 0 is a network's; 0.0.0.0 leads home.
_NOWHERE = re.compile(r"https?://(?!0\.0\.0\.0\b)((?:\d{1,3}\.){3}0):(\d{2,5})\b")


def _do(facts: Facts) -> tuple[Do, ...]:
    if match := _NOWHERE.search(facts.message):
        free = str(facts.world or "NUMBER")  # the first card behind those that train
        told = (("nowhere", match[1]), ("serverport", match[2]), ("free", free))
        here = Do("serve_here", "another card for the server", told)
        return (here, *(do for do in _STEPS if do.action != "serve"))
    if limits.told(facts):
        return (limits.step(facts), *(do for do in _STEPS if do.kind != "limit"))
    if (match := _HEADS.search(facts.message)) is None:
        return _STEPS
    heads, asked = int(match[1]), int(match[2])
    size = max(n for n in (1, 2, 4, 8, 16, 32, 64) if n <= max(asked, 1) and heads % n == 0)
    right = (
        f"--tensor-parallel-size {size} (tensor_parallel_size={size}, --vllm_tensor_parallel_size "
        f"{size} in TRL and ms-swift): {heads} heads cannot be shared by {asked}"
    )
    return (Do(right, "fewer cards hold the weights"), *_STEPS)


_ASKS = ("EngineArgs.__init__()", "worker_extension_cls", "got an unexpected keyword")
_STEPS = (
    looks.CHECK,
    Do(
        "curl -s http://127.0.0.1:8000/health, on the server's machine: no answer: it has "
        "died, and the last lines of its own output (trl vllm-serve, swift rollout) say "
        "why",
        "none",
        when=(
            "Connection aborted",
            "RemoteDisconnected",
            "Connection refused",
        ),
    ),
    Do(
        "engine_tokens",
        "longer rows are refused",
        when=("max_num_batched_tokens",),
        kind="short",
    ),
    Do(
        "accelerate launch --num_processes 1 … (one fewer than there are cards): the last "
        "card is left for vLLM",
        "one card less trains",
        when=(
            "requested device for vllm",
            "restricting the number of GPUs",
        ),
    ),
    Do(
        "python -m pip install {trlpin}: the vLLM that this TRL is released for; the one that is "
        "here does not know what the trainer asks of it",
        "none",
        when=_ASKS,
        kind="asks",
    ),
    Do(
        "python -m pip install -U 'vllm>=0.8.3': older ones lack worker_extension_cls (in TRL: "
        "python -m pip install -U 'trl[vllm]')",
        "none",
        when=("worker_extension_cls",),
        kind="asks",
    ),
    Do(
        "python -m pip install -U vllm: this one does not know what the trainer asks of "
        "it (in TRL: python -m pip install -U 'trl[vllm]')",
        "none",
        when=(*_ASKS, "Expected multimodal embeddings"),
        kind="asks",
    ),
    Do(
        "grep -n -m3 -E '^.{0,80}(Error|error:|Exception)' {log}: the engine's own reason "
        "stands above the line that says it failed",
        "none",
        when=(
            "See root cause above",
            "EngineCore failed to start",
            "Engine core init",
            "hit an exception",
        ),
    ),
    Do(
        "python -m pip install {package}, in the environment of the job",
        "none",
        when=("vLLM is not available", "vLLM is not installed", "pip install vllm"),
    ),
    Do(
        "an adapter on the language model alone (--freeze_vit true --freeze_aligner "
        "true), or merge "
        "it first: swift export --adapters FOLDER --merge_lora true, llamafactory-cli export",
        "none",
        when=("expected target modules",),
    ),
    Do(
        "more_engine",
        "less room for the training on the same card",
        when=("cache blocks", "KV cache", "No available memory"),
    ),
    Do(
        "short_engine",
        "longer rows are refused",
        when=(
            "cache blocks",
            "KV cache",
            "max_model_len",
            "No available memory",
            "max seq len",
        ),
        kind="short",
    ),
    Do(
        "serve",
        "another card for the server",
        when=(
            "can't be reached",
            "server",
            "Server",
        ),
    ),
    Do(
        "curl -s {server}/health, on the trainer's node: no answer: it is not up yet "
        "(vllm_server_timeout is how long the trainer waits), or listens on 127.0.0.1 "
        "alone (--host 0.0.0.0)",
        "none",
        when=(
            "can't be reached",
            "server",
            "Server",
        ),
    ),
    Do(
        "limit_mm_per_prompt of the engine at the number of images that a row has",
        "memory of the engine",
        when=("may be provided in one",),
        kind="limit",
    ),
    Do(
        "the engine's maximal LoRA rank at your rank: --vllm_max_lora_rank in ms-swift, "
        "max_lora_rank of the engine",
        "a little memory",
        when=("max_lora_rank",),
    ),
    Do(
        "short_engine",
        "more of the card for the engine: the prompts alone are longer than it takes",
        when=("max_tokens must be at least 1",),
    ),
    Do(
        "VLLM_USE_V1=0 in front of the command, or the vLLM that the program's requirements "
        "name: the newer engine has no such part",
        "none",
        when=("no attribute 'model_executor'",),
    ),
    Do(
        "enforce_eager=True for the engine (--vllm_enforce_eager true): no CUDA graphs",
        "somewhat slower",
        when=("captures_underway", "CUDA graph", "cudagraph"),
    ),
    Do(
        "python -m pip show vllm vllm-ascend | grep -E '^(Name|Version)': both must be of one "
        "release; python -m pip install vllm==N vllm-ascend==N",
        "none",
        when=("merge_by_field_config",),
    ),
    Do(
        "python -m pip show vllm transformers: the pair that the framework names "
        "(trl: python -m pip install 'trl[vllm]'); a model that this vLLM does not know "
        "needs a "
        "newer one: python -m pip install -U vllm",
        "none",
        unless=("limit-mm-per-prompt", "may be provided in one"),
    ),
    Do(
        "less_engine",
        "slower rollouts",
        when=("memory", "EngineCore", "Engine core", "EngineDead", "OOM"),
        unless=("cache blocks", "KV cache"),
    ),
)

FAILURE = Known(
    code="VG566",
    name="explain-rollout-engine",
    title="The generation engine (vLLM) failed or does not fit",
    zh="生成引擎（vLLM）启动失败或不兼容",
    why="the engine that generates rollouts did not start or died: too "
    "little of the card left for it, a release that does not know "
    "the model, or a server that is not up",
    do=_do,
    wrong="If the training ranks failed first, the engine only followed.",
    signs=(
        Sign("Please upgrade vLLM"),
        Sign("No modalities found in the mm_positions", releases="vLLM"),
        Sign("for VllmConfig", also=("validation error",)),
        Sign("for ModelConfig", also=("validation error", "pydantic")),
        Sign("for EngineArgs", also=("validation error",)),
        Sign("for ParallelConfig", also=("validation error",)),
        Sign("EngineCore"),
        Sign("Engine core initialization failed"),
        Sign("EngineDeadError"),
        Sign("AsyncEngineDeadError"),
        Sign("The vLLM server can't be reached"),
        Sign("vLLM server"),
        Sign("The requested device for vllm", releases="TRL 0.14 to 0.15"),
        Sign("is not supported for now by vLLM"),
        Sign("routed_experts must be in rollout data", releases="ms-swift 4"),
        Sign("Error during LLM evaluation: Connection error", where="line", releases="EvalScope"),
        Sign("Test connection failed", releases="EvalScope"),
        Sign("GRPO with vLLM is not compatible with", releases="ms-swift 3"),
        Sign("The current version of VLLM does not support", releases="ms-swift 2"),
        Sign("swift/llm/utils/lmdeploy_utils.py", where="raised", releases="ms-swift 2"),
        Sign("swift/llm/utils/vllm_utils.py", where="raised", releases="ms-swift 2"),
        Sign("LoRA added vocab size"),
        Sign("vllm_gpu_memory_utilization"),
        Sign(
            "vllm",
            where="trace",
            also=("RuntimeError", "engine"),
            no=("closed by peer", "reset by peer", "out of memory", "EL0004"),
        ),
        Sign("Model architectures"),
        Sign("vLLM is not", also=("installed",)),
        Sign("vLLM is not", also=("available",)),
        Sign(
            "vllm",
            also=(
                "is not installed",
                "use_vllm",
            ),
        ),
        Sign("Weight update group"),
        Sign("has no vLLM implementation"),
        Sign("divisible by tensor parallel size", no=("of the tensor",)),
        Sign("At most", also=("may be provided in one",)),
        Sign("limit-mm-per-prompt", also=("passed",), releases="vLLM's V1"),
        Sign("EngineGenerateError"),
        Sign("is not supported by vLLM"),
        Sign("tensor_parallel_size (", also=("must",)),
        Sign("vllm", also=("Request failed:",)),
        Sign("vllm_mode"),
        Sign("SGLang"),
        Sign("Failed to load NCCL library from", where="line", releases="vLLM"),
        Sign("vllm_client.py", where="raised"),
        Sign("vllm_generation.py", where="raised"),
        Sign("vllm/", where="raised"),
        Sign("sglang/", where="raised", no=("ActorDiedError", "RayActorError")),
        Sign("-packages/lmdeploy/", where="raised"),
        Sign("swift/infer_engine/", where="raised"),
        Sign("swift/pipelines/infer/rollout.py", where="raised"),
        Sign("rollout_mixin.py", where="raised"),
        Sign("swift/rollout/", where="raised"),
        Sign("swift/llm/infer/", where="raised"),
        Sign("is greater than max_lora_rank", releases="vLLM"),
        Sign("expected target modules in", also=("received",), releases="vLLM"),
        Sign("max_tokens must be at least", releases="vLLM"),
        Sign("Forward context is not set", releases="vLLM"),
        Sign("chat_template_config", releases="LMDeploy"),
        Sign("Expected a cached item for mm_hash", releases="vLLM"),
        Sign("mm_hash", also=("cache",), releases="vLLM"),
        Sign("init_communicator"),
        Sign("update_named_param"),
        Sign("update_weights_from"),
        Sign("Async rollout failed on rank", releases="ms-swift 4.6"),
        Sign("rollout_importance_sampling_mode is not supported"),
        Sign("vllm_tensor_parallel_size", also=("divide",), releases="ms-swift"),
        Sign("LMDeploy"),
        Sign("turbomind"),
        Sign("TurboMind"),
        Sign("lmdeploy/pytorch/", where="raised"),
        Sign("lmdeploy/serve/", where="raised"),
        Sign("lmdeploy/vl/", where="raised"),
        Sign("Scheduler hit an exception", where="line", releases="SGLang"),
        Sign("Engine loop failed with error", where="line", releases="LMDeploy"),
        Sign("Failed to update parameter online", where="line", releases="SGLang"),
        Sign("Invocation of collective_rpc method failed", where="line", releases="vLLM"),
        Sign("EngineCore failed to start", where="line", releases="vLLM"),
        Sign("EngineCore encountered a fatal error", where="line", releases="vLLM"),
        Sign(
            "Method execution failed:",
            where="line",
            also=("[ERROR:swift]",),
            releases="ms-swift, swift rollout",
        ),
        Sign("verl/workers/rollout/", where="raised", no=("ActorDiedError", "RayActorError")),
        Sign("vllm_engine.py", where="raised"),
        Sign("vllm_worker_wrap.py", where="raised"),
        Sign("'LLMEngine' object has no attribute"),
        Sign("Server process terminated unexpectedly"),
        Sign("Server failed to become healthy"),
        Sign("-packages/vllm/", where="within", no=("out of memory",)),
        Sign("-packages/sglang/", where="within", no=("out of memory", "ActorDiedError")),
        Sign("server launch failed", releases="AReaL"),
        Sign("Server launch failed"),
        Sign("in _wait_for_server", where="raised"),
        Sign("in wait_for_server", where="raised"),
        Sign("vllm_client.py", where="trace", also=("onnection",)),
        Sign("vllm_utils.py", where="raised"),
        Sign("full cuda graph", releases="vLLM"),
        Sign("WorkerProc hit an exception", where="line", releases="vLLM"),
        Sign("WorkerProc failed to start", where="line", releases="vLLM"),
        Sign("Sleep mode can only be used for one instance", releases="vLLM"),
        Sign("Invalid attention backend: ", releases="vLLM"),
        Sign("vllm/entrypoints/", where="within", no=("out of memory",)),
        Sign("vllm/engine/", where="within", no=("out of memory",)),
        Sign("vllm/v1/", where="within", no=("out of memory",)),
        Sign("vllm/worker/", where="within", no=("out of memory",)),
        Sign("vllm/executor/", where="within", no=("out of memory",)),
        Sign("vllm/model_executor/", where="within", no=("out of memory",)),
        Sign("vllm_client.py", where="within", no=("out of memory",)),
        Sign("sglang/srt/", where="within", no=("out of memory",)),
        Sign("vLLM", where="else"),
        Sign("vllm", where="else"),
        Sign("SGLang", where="else"),
        Sign("sglang", where="else"),
        Sign("generation backend", where="else"),
        Sign("EngineArgs.__init__() got an unexpected keyword argument"),
        Sign("Expected multimodal embeddings to be"),
        Sign("LLM.__init__() got an unexpected keyword argument"),
    ),
    examples=(
        Example(
            "RuntimeError: Engine core initialization failed. See root "
            "cause above. Failed core proc(s): {'EngineCore_0': 1}",
            "vllm/v1/engine/utils.py, 0.10",
        ),
        Example(
            "ConnectionError: The vLLM server can't be reached at "
            "http://0.0.0.0:8000 after 240.0 seconds. Make sure the server "
            "is running by running `trl vllm-serve`.",
            "trl/extras/vllm_client.py, 0.19",
        ),
    ),
    evidence="vLLM's and TRL's own messages.",
    narrow=3,
)
