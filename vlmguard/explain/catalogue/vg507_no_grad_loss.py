"""A loss without a gradient."""

from __future__ import annotations

from vlmguard.explain.catalogue import variants
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if facts.use_reentrant is False:
        return (
            "nothing that the loss depends on is trainable: everything is "
            "frozen, or the output is detached"
        )
    return (
        "nothing that trains is connected to the loss: reentrant "
        "checkpointing over blocks whose input "
        "needs no gradient (a LoRA over a frozen embedding), or everything is frozen"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    look = Do(
        "print([n for n, p in model.named_parameters() if p.requires_grad][:9]) before training: "
        "[] is a wrong freeze or target_modules; names, and a loss without a gradient: a detach(), "
        ".item() or no_grad() on the way to it",
        "none",
    )
    if any(words in facts.message for words in ("empty parameter list", "have any parameter")):
        some = {"ms-swift": "--freeze_llm false", "LLaMA-Factory": "freeze_language_model: false"}
        more = Do(some.get(facts.framework, ""), "the language model trains: nothing else does")
        return (more, look) if more.action else (look,)
    if facts.use_reentrant is False:
        return (look,)
    inputs = Do(
        "model.enable_input_require_grads(), in front of get_peft_model or the trainer", "none"
    )
    if "grad_checkpoint" in facts.typed:  # InternVL's: it checkpoints by itself
        own = Do(
            "model.language_model.enable_input_require_grads() in {main}, in front of the trainer",
            "none",
        )
        off = Do("--grad_checkpoint False", "more memory")
        return (own, off, look)
    if facts.use_reentrant and facts.framework == "":  # checkpoint() in code of its own
        return (*_OWN, look)
    steps = (variants.non_reentrant(facts), inputs)
    if facts.checkpointing is False or (facts.checkpointing is None and facts.framework in _BARE):
        return (look, *steps)  # nothing says that anything is checkpointed
    return (*steps, look)


_BARE = ("", "accelerate")
_ALSO = "(a model of transformers: model.enable_input_require_grads())"
_OWN = (
    Do(
        "grep -rnE '\\bcheckpoint\\(' --include='*.py' {codefolder}: use_reentrant=False in these "
        "calls of torch's checkpoint (a model of transformers: model.gradient_checkpointing_enable("
        'gradient_checkpointing_kwargs={"use_reentrant": False}))',
        "none: the same numbers",
        kind="call",
    ),
    Do(
        "use_reentrant=False in each call of torch.utils.checkpoint.checkpoint",
        "none: the same numbers",
        kind="call",
    ),
    Do("x.requires_grad_(True) of what goes into the first checkpointed block " + _ALSO, "none"),
)


FAILURE = Known(
    code="VG507",
    name="explain-no-grad-loss",
    title="The loss has no gradient",
    zh="损失没有梯度：没有任何可训练参数与损失相连",
    why=_why,
    do=_do,
    wrong="loss.requires_grad_(True) silences the error and trains nothing.",
    signs=(
        Sign("One of the differentiated Tensors appears to not have been used"),
        Sign("of tensors does not require grad", releases="torch 1.x to 2.15"),
        Sign("element 0 of variables does not require grad", releases="torch 0.4"),
        Sign("optimizer got an empty parameter list"),
        Sign("differentiated Tensors does not require grad"),
        Sign("loss must be a scalar tensor", releases="DeepSpeed 0.19"),
        Sign("must be a scalar tensor", also=("requires_grad",)),
        Sign("is not needed when a module doesn't have any parameter"),
        Sign(
            "No inf checks were recorded for this optimizer",
            releases="torch.amp: no gradient at all",
        ),
        Sign("cannot register a hook on a tensor that doesn't require gradient"),
    ),
    examples=(
        Example(
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="hiyouga/LlamaFactory#4905; row 14.",
    prevented=("VG104",),
)
