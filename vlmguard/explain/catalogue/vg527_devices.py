"""Tensors on different devices."""

from __future__ import annotations

from vlmguard.explain import bits
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# Where the message says which tensor it is.
_AT_PLACE = (
    Do(
        "{place}: indices.to(x.device) for x[indices]: an index lies where the tensor does, or on "
        "the CPU",
        "none",
        when=("indices should be either on",),
    ),
    Do(
        'batch = {k: v.to("cuda") for k, v in batch.items()} before the model is called',
        "none",
        when=("input to be on cuda", "is on cpu, different from other tensors"),
    ),
)


_FULL = Do(
    "zero3 without the argument that quantises (--bits, quantization_bit, load_in_4bit)",
    "more memory for the weights, which the ranks share",
)


def _meta(facts: Facts) -> bool:
    return "meta tensor" in facts.message or "on device meta" in facts.message


def _why(facts: Facts) -> str:
    if _meta(facts):
        return (
            "weights exist in name only (the meta device): never loaded, offloaded by device_map, "
            "or still partitioned (ZeRO-3) where they are copied"
        )
    return (
        'a part of the model or a batch stayed elsewhere: device_map="auto" in a distributed '
        "run, a module added after the move, or a custom tensor in the collator"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if _meta(facts):
        if facts.zero == 3 and bits.few(facts):
            return (
                Do("zero2", "more memory: every rank holds all weights, in a few bits"),
                _FULL,
            )
        return (
            Do('leave out device_map="auto" and low_cpu_mem_usage where several ranks run', "none"),
            Do("zero2 instead of zero3, where the model is quantised (QLoRA)", "more memory"),
            Do("ls -l {modelfolder}: every shard that model.safetensors.index.json names?", "none"),
        )
    return (
        *_AT_PLACE,
        *(_LOOP if facts.framework in ("", "accelerate") else ()),
        *_where(facts),
        Do("register constants as buffers, and move the batch by the trainer"),
    )


# In a loop of one's own: the weights lie on the CPU, or the batch does.
_LOOP = (
    Do(
        '{place}: model.to("cuda") before that line: the weights are still on the CPU',
        "none",
        when=("argument mat2", "argument weight"),
        unless=("cuda:1",),
        kind="loop",
    ),
    Do(
        "{place}: batch = {k: v.to(model.device) for k, v in batch.items()} before that line: "
        "what goes in is still on the CPU",
        "none",
        when=("cpu",),
        unless=("meta", "indices should be", "input to be on cuda", "is on cpu, different"),
        kind="loop",
    ),
)
_ONE = Do(
    "CUDA_VISIBLE_DEVICES=0 in front of the command: one process, one card, nothing to split",
    "the model has to fit one card; else torchrun with ZeRO-3 or FSDP",
)
_KEPT = Do(
    '"offload_param" and "offload_optimizer" taken out of {dsfile}: what the model\'s own code '
    "takes in hand is then on the card",
    "more memory on the card",
)
_EACH = Do(
    'from_pretrained(…, device_map={"": int(os.environ.get("LOCAL_RANK", 0))}) in place of '
    'device_map="auto": the whole model on this process\'s card',
    "the model has to fit one card",
)


def _where(facts: Facts) -> tuple[Do, ...]:
    """Two cards in one process is a model that was split; a card and the CPU one that spilled."""
    if "offload" in facts.said.get("deepspeed", ""):
        return (_KEPT, _EACH)
    cards = "cuda:0 and cuda:" in facts.message or "cuda:1 and cuda:0" in facts.message
    return (_ONE, _EACH) if cards and (facts.world or 1) == 1 else (_EACH, _ONE)


FAILURE = Known(
    code="VG527",
    name="explain-devices",
    title="Tensors of one operation lie on different devices",
    zh="同一运算的张量位于不同设备",
    why=_why,
    do=_do,
    wrong="Moving the one tensor by hand mends one place; the next one follows.",
    signs=(
        Sign("tensors are not at the same device"),
        Sign("have incompatible tensor type", also=("set_data",)),
        Sign("device type for generator but found"),
        Sign("cannot pin '", also=("dense CPU tensors",)),
        Sign("Expected all tensors to be on the same device"),
        Sign("don't have any device in common"),
        Sign("tensors on the same device", also=("found at least two",)),
        Sign(
            "You can't train a model that has been loaded with "
            "`device_map='auto'` in any distributed mode"
        ),
        Sign("module must have its parameters and buffers on device"),
        Sign("is not compatible with passing a `device_map`"),
        Sign("is not on the expected device"),
        Sign("indices should be either on"),
        Sign("precision on a different device than the one"),
        Sign("is on CPU, but expected it to be on GPU"),
        Sign("is on CPU, but expected them to be on GPU"),
        Sign("Input type (torch.FloatTensor) and weight type (torch.cuda"),
        Sign("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor)"),
        Sign("Cannot copy out of meta tensor"),
        Sign("Expected object of device type cuda but got device type cpu"),
        Sign("Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"),
        Sign("offloaded to cpu or disk"),
        Sign("device_ids and output_device arguments only work"),
        Sign("weights offloaded to the disk"),
        Sign("because it was offloaded"),
        Sign("need an `offload_dir`"),
        Sign("optimizer parameters are not on the same device"),
        Sign("not contain the module"),
        Sign(
            "loaded with `device_map='auto'`",
        ),
        Sign("t.device for t in tensors", where="trace"),
        Sign("The model and the optimizer parameters are not on the same device"),
        Sign("You can't save the model since some parameters are on the meta device"),
        Sign("expected input to be on cuda"),
        Sign("Expected a cuda device, but got: cpu"),
        Sign("is on the meta device, we need a `value`"),
        Sign("does not give any device for the following"),
        Sign("please pass along an `offload_folder`"),
        Sign("Calculated loss must be on the original device"),
        Sign("doesn't have any device set"),
        Sign("indices must be on the current device"),
        Sign("must be on the current device"),
        Sign("in get_balanced_memory", where="raised"),
        Sign("device_map", where="else"),
        Sign("same device", where="else"),
        Sign("meta device", where="else"),
    ),
    examples=(
        Example(
            "RuntimeError: Expected all tensors to be on the same device, "
            "but found at least two devices, cuda:0 and cuda:1!",
            "ATen/native/TensorIterator.cpp, torch 2.4",
        ),
    ),
    evidence="torch's and accelerate's own messages.",
)
