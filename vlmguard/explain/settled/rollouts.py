"""Rollouts: vLLM within GRPO and its kin."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_WEIGHTS = "VLLM_ENABLE_V1_MULTIPROCESSING=0 in front of the command"
_RENAMED = (
    "python -m pip install -U 'vllm>=0.9.1': which knows the names that transformers 4.52 and "
    "later give the weights of Qwen2-VL and Qwen2.5-VL (model.language_model., model.visual.)",
    "python -m pip install 'transformers<4.52', and the model saved again with it (for a training "
    "that hands its weights to vLLM: the same training), where this vLLM has to stay",
)
TABLE = (
    Settled(
        said=("Failed to load NCCL library from",),
        steps=(
            "unset VLLM_NCCL_SO_PATH, in front of the engine's command (trl vllm-serve, swift "
            "rollout), and start it and the trainer anew: vLLM then loads the NCCL that pip "
            "installed beside torch",
            "ls -l {path}: it is not there, or of another machine: its right place in "
            "VLLM_NCCL_SO_PATH",
        ),
        why="the engine could not load NCCL; the trainer waited for it to join, and timed out",
        code="VG566",
    ),
    Settled(
        said=("already in registry",),
        trace=("step3_rlhf_finetuning",),
        steps=(
            "python -m pip install -U 'deepspeed>=0.9.3': older ones fetch a weight twice there; "
            "still so: the same command without --enable_hybrid_engine, or with zero stage 2 for "
            "the actor",
        ),
        more=True,
    ),
    *(
        Settled(
            said=(f"KeyError: '{name}",),
            trace=("vllm/model_executor/models/",),
            steps=_RENAMED,
            why="the weights have the names of a newer transformers than this vLLM knows",
            mended="vllm 0.9.1",
            code="VG522",
        )
        for name in ("language_model.embed_tokens.", "language_model.layers.", "visual.patch_emb")
    ),
    Settled(
        said=("KeyError: '", ".weight'"),
        trace=("vllm/model_executor/models/", "load_weights"),
        steps=(
            "python -m pip install -U vllm trl transformers: the trainer hands weights over under "
            "names that this vLLM's class of the model does not have",
            "print(type(model)) where the model is loaded: it must be the class that the page of "
            "the model names (…ForConditionalGeneration), not one of text or of a kin",
            "use_vllm=False (--use_vllm false): the rollouts by the trainer itself, more slowly",
        ),
        why="vLLM was handed weights by names that its own class of this model does not have",
        code="VG566",
    ),
    Settled(
        said=("has no attribute 'vllm_engine'",),
        steps=(
            (
                "fast_inference=True in FastLanguageModel.from_pretrained(…) of {main}: only that "
                "starts vLLM, which use_vllm=True asks for; or use_vllm=False in GRPOConfig",
                "fast_inference=True in FastLanguageModel.from_pretrained(…): only that starts "
                "vLLM, which use_vllm=True asks for; or use_vllm=False in GRPOConfig",
            ),
        ),
        why=(
            "GRPOConfig(use_vllm=True) wants unsloth's engine, and the model was loaded without "
            "one: from_pretrained starts it for fast_inference=True alone"
        ),
        code="VG566",
    ),
    Settled(
        said=("'LLMEngine' object has no attribute 'model_executor'",),
        steps=(
            f"{_WEIGHTS}: vLLM's engine then lives in this process, where the weights can be "
            "reached; else it has no model_executor here",
            "python -m pip install -U 'trl[vllm]': a newer one, and the vLLM that it goes with",
        ),
        why=(
            "the trainer hands its weights to vLLM's model directly, and this vLLM (V1) runs that "
            "in a process of its own, where they cannot be reached"
        ),
    ),
    Settled(
        said=("cannot import name 'GuidedDecodingParams'",),
        steps=(
            "python -m pip install 'vllm<0.12': 0.12 calls it StructuredOutputsParams, and the "
            "code that imports it is older",
            "python -m pip install -U 'trl>=0.27': where TRL asks for it, which knows vLLM 0.12 "
            "since then",
        ),
        mended="trl 0.27",
    ),
    Settled(
        said=("is less than desired GPU memory utilization",),
        steps=(
            (
                "--vllm_gpu_memory_utilization {freeshare}: what of this card is free (vLLM's own: "
                "--gpu-memory-utilization, gpu_memory_utilization=)",
                "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv: who holds the "
                "card: only {heldcard} of it would be left for vLLM; kill that pid, or another "
                "card (a vllm-serve that runs there already is not started twice)",
            ),
            "CUDA_VISIBLE_DEVICES=LAST trl vllm-serve --model MODEL: cards of its own for the "
            "engine (--vllm_mode server for the trainer, CUDA_VISIBLE_DEVICES without them)",
        ),
    ),
    Settled(
        said=("estimated maximum model length is",),
        steps=(
            "--vllm_max_model_length {fitlength}: the longest that its cache holds here "
            "(vLLM's own: --max-model-len, max_model_len=; ms-swift: --vllm_max_model_len)",
            "--vllm_gpu_memory_utilization 0.7, where rows are longer than that",
        ),
    ),
    Settled(
        said=("NCCL error: invalid usage",),
        trace=("vllm_client.py",),
        steps=(
            "--vllm_mode colocate --vllm_gpu_memory_utilization 0.3: (in code: "
            'GRPOConfig(vllm_mode="colocate")) without the server, where there is one card',
            "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model MODEL, and CUDA_VISIBLE_DEVICES=1 (and "
            "the others) in front of the trainer's command: no card for both",
        ),
        why=(
            "the trainer and vLLM's server meet in one NCCL group to hand over the weights, and "
            "both are on the same card, which NCCL refuses"
        ),
    ),
    Settled(
        said=("Cannot re-initialize CUDA in forked subprocess",),
        trace=("/vllm/",),
        steps=(
            "VLLM_WORKER_MULTIPROCESSING_METHOD=spawn in front of the command: vLLM's workers are "
            "forked otherwise, after CUDA was used here",
        ),
        code="VG583",
    ),
    Settled(
        said=("Attempted to assign", "multimodal tokens to", "placeholders"),
        steps=(
            (
                '{"prompt": processor.apply_chat_template(messages, tokenize=False, '
                'add_generation_prompt=True), "multi_modal_data": {"image": images}} for '
                "llm.generate(…): vLLM expands the placeholders itself, and got them expanded "
                "already (tokens, features: {expanded})",
                "--max_prompt_length 8192 (None in code): the prompt was cut within its image "
                "tokens (tokens, features: {cutprompt})",
            ),
            "the same max_pixels for the trainer's processor and the engine "
            '(mm_processor_kwargs={"max_pixels": …} of LLM(…))',
        ),
    ),
    Settled(
        said=("tensor_parallel_size (", "must divide world size ("),
        steps=("--vllm_tensor_parallel_size {tensorranks}: the ranks must divide by it",),
    ),
    Settled(
        said=("Request failed: 404",),
        trace=("vllm_client.py",),
        steps=(
            "trl vllm-serve --model MODEL in place of vllm serve: only TRL's own server takes "
            "weights (/init_communicator/, /update_named_param/)",
        ),
    ),
)
