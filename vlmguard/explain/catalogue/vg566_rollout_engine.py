"""The generation engine failed."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG566",
    name="explain-rollout-engine",
    title="The generation engine (vLLM) failed or does not fit",
    zh="生成引擎（vLLM）启动失败或不兼容",
    why="the engine that generates rollouts did not start or died: too "
    "little of the card left for it, a release that does not know "
    "the model, or a server that is not up",
    do=(
        Do(
            "a smaller --vllm_gpu_memory_utilization or "
            "vllm_max_model_len, or server mode on a card of its own",
            "slower rollouts",
        ),
        Do("the release of vLLM that the framework names for this transformers", "none"),
        Do("start the server first and wait for it (vllm_server_timeout)", "none"),
    ),
    wrong="If the training ranks failed first, the engine only followed.",
    signs=(
        Sign("EngineCore"),
        Sign("Engine core initialization failed"),
        Sign("EngineDeadError"),
        Sign("AsyncEngineDeadError"),
        Sign("The vLLM server can't be reached"),
        Sign("vLLM server"),
        Sign("The requested device for vllm", releases="TRL 0.14 to 0.15"),
        Sign("is not supported for now by vLLM"),
        Sign("vllm_gpu_memory_utilization"),
        Sign(
            "vllm",
            where="trace",
            also=("RuntimeError", "engine"),
            no=("closed by peer", "reset by peer", "out of memory", "EL0004"),
        ),
        Sign("Model architectures"),
        Sign("The decoder prompt (length"),
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
        Sign("divisible by tensor parallel size"),
        Sign("At most", also=("may be provided in one",)),
        Sign("EngineGenerateError"),
        Sign("is not supported by vLLM"),
        Sign("tensor_parallel_size (", also=("must",)),
        Sign("vllm", also=("Request failed:",)),
        Sign("vllm_mode"),
        Sign("SGLang"),
        Sign("vllm_client.py", where="raised"),
        Sign("vllm_generation.py", where="raised"),
        Sign("vllm/", where="raised"),
        Sign("sglang/", where="raised"),
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
