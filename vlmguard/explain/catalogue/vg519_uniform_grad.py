"""FSDP1 flattens frozen and trainable parameters together."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_WRAP = Do(
    "wrap frozen and trainable modules apart: peft.utils.other.fsdp_auto_wrap_policy(model)", "none"
)
_STORED = Do(
    "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage=torch.bfloat16), and "
    "torch_dtype=torch.bfloat16 in from_pretrained: weights of 4 bits are then kept as bfloat16",
    "none",
)
_FSDP2 = Do("FSDP2 (fsdp_version: 2): it shards each parameter by itself", "none")


_CHOOSES = ("LLaMA-Factory", "ms-swift", "TRL", "transformers", "axolotl")
_HALF = "none: the checkpoint's own weights are bfloat16, fp16 made float16 of the others"
_IN_FILE = tuple(
    Do(
        f"sed -i.bak -E 's/^fp16: *true/bf16: true/{more}: bf16: true in place of fp16: true: the "
        "checkpoint's own weights are bfloat16, fp16 made the others (4-bit storage, LoRA) float16",
        "none",
        kind="file",
    )
    for more in ("; s/^(mixed_precision: *)fp16/\\1bf16/' {settings} {config}", "' {settings}")
)
_PURE = "bfloat16 as LoRA's dtype, too: LLaMA-Factory makes it float32 otherwise"


def _why(facts: Facts) -> str:
    if "integer dtype" in facts.message:
        return (
            "FSDP1 flattens a block's parameters into one; integer weights (8-bit, or 4-bit "
            "stored as uint8) cannot be flattened"
        )
    if "on the same device" in facts.message:
        return (
            "some of a block's weights are on a device and others on meta: not loaded on this rank"
        )
    if "uniform dtype" in facts.message or "the same dtype" in facts.message:
        return "FSDP1 flattens a block's parameters into one; here they have several dtypes"
    return (
        "FSDP1 without use_orig_params flattens a block's parameters into one; here some of them "
        "are frozen and some train (LoRA, a frozen tower)"
    )


def _of_arguments(facts: Facts) -> tuple[Do, ...]:
    """The run's own precision, where a framework's arguments choose what the weights become."""
    if facts.framework not in _CHOOSES or "oldcard" in facts.said:
        return ()
    halves = "bfloat16" in facts.message and "torch.float16" in facts.message
    factory = facts.framework == "LLaMA-Factory"
    if halves and factory and "settings" in facts.said and "fp16" not in facts.typed:
        return _IN_FILE
    if halves and facts.said.get("fp16", "").lower() == "true":
        return (Do("bf16", _HALF),)
    if "bfloat16" in facts.message and "float32" in facts.message and factory:
        pure = "--pure_bf16 true --bf16 false" if "bf16" in facts.typed else "pure_bf16: true"
        return (Do(f"{pure}: {_PURE}" if "-" in pure else f"{pure}, bf16: false: {_PURE}", "none"),)
    return ()


_INTEGERS = {
    "axolotl": Do(
        "load_in_8bit: false (adapter: lora); or adapter: qlora, load_in_4bit: true, "
        "load_in_8bit: false: axolotl then keeps the 4 bits as bfloat16, which FSDP can flatten",
        "more memory without 8 bits",
    ),
    "LLaMA-Factory": Do(
        "quantization_bit: 4 (not 8) with bf16: true, which it keeps as bfloat16 under FSDP; or "
        "without quantization_bit",
        "more memory without it",
    ),
}


def _do(facts: Facts) -> tuple[Do, ...]:
    if "integer dtype" in facts.message:
        spelt = _INTEGERS.get(facts.framework)
        return (
            *((spelt,) if spelt is not None else ()),
            _STORED,
            Do("no load_in_8bit under FSDP", "more memory"),
        )
    if "on the same device" in facts.message:
        return (
            Do(
                "FullyShardedDataParallel(…, sync_module_states=True, param_init_fn=lambda m: "
                "m.to_empty(device=torch.cuda.current_device(), recurse=False)): weights on meta "
                "are filled from rank 0",
                "none",
            ),
            Do("from_pretrained without device_map and low_cpu_mem_usage, on every rank", "memory"),
        )
    if "uniform dtype" in facts.message or "the same dtype" in facts.message:
        if "int8" in facts.message:  # 4-bit weights are stored as uint8
            return (_STORED, Do("no load_in_8bit under FSDP", "more memory"))
        return (
            *_of_arguments(facts),
            Do(
                "from_pretrained(…, torch_dtype=torch.bfloat16), and model.to(torch.bfloat16) "
                "after PEFT: one dtype, LoRA's weights too",
                "none",
            ),
            _FSDP2,
        )
    here = Do("{place}: FullyShardedDataParallel(…, use_orig_params=True)", "none", kind="here")
    given = Do("use_orig_params", "none", kind="here")
    first = (here, given) if not facts.framework else (given,)
    return (*first, _WRAP, _FSDP2)


FAILURE = Known(
    code="VG519",
    name="explain-uniform-grad",
    title="FSDP cannot flatten these parameters together",
    zh="FSDP 不能把这些参数展平在一起（冻结与可训练混合、数据类型不一致或量化整数）",
    why=_why,
    do=_do,
    wrong="Unfreezing everything makes it run and trains what was to stay.",
    signs=(
        Sign("Must flatten tensors with uniform"),
        Sign("FSDP with use_orig_params=False", also=("requires_grad",)),
        Sign("Cannot flatten integer dtype tensors"),
        Sign("`FlatParameter` requires uniform"),
        Sign("Must flatten tensors with the same dtype"),
        Sign("use_orig_params=False"),
        Sign("Must flatten tensors on the same device"),
    ),
    examples=(
        Example(
            "ValueError: Must flatten tensors with uniform `requires_grad` "
            "when `use_orig_params=False`",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="huggingface/peft#1702; row 19.",
)
