"""ZeRO-1/2 gets one parameter's gradient twice."""

from __future__ import annotations

from vlmguard.explain.catalogue import variants
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _do(facts: Facts) -> tuple[Do, ...]:
    tower = (
        Do("no_tower_checkpointing", "more memory in the tower"),
        Do("freeze_tower", "the tower no longer learns"),
    )
    off = Do("no_checkpointing", "more memory for activations")
    old = "oldcheckpointing" in facts.said  # the model ignores use_reentrant
    fewer = Do("zero1", "more memory for gradients; the same result")
    rest: tuple[Do, ...]
    if old:
        rest = (off, fewer, tower[1])
    else:
        rest = (tower[0], fewer, tower[1], off) if facts.vision else (off, fewer, *tower)
    if facts.use_reentrant is False:
        return (*rest, Do("one backward for each forward: call the shared module once"))
    if old:
        return (*rest, Do("non_reentrant", "a newer code of the model, which takes it"))
    first = variants.non_reentrant(facts)
    return (first, *(do for do in rest if do.action != first.action))


FAILURE = Known(
    code="VG502",
    name="explain-already-reduced",
    title="ZeRO got one parameter's gradient twice",
    zh="ZeRO 分区中同一个参数的梯度被计算了两次",
    why=(
        "a gradient was computed twice for one ZeRO partition: a module used twice under reentrant "
        "checkpointing (a tower called once per image, an image and a video in one row, two "
        "forwards before one backward)"
    ),
    do=_do,
    wrong=(
        "ZeRO-3 instead of ZeRO-2 makes the crash go away and the gradient wrong without an error "
        "(VG102). Models with the old _set_gradient_checkpointing ignore use_reentrant."
    ),
    signs=(
        Sign("has already been reduced", releases="DeepSpeed 0.3 to 0.19; a name from 0.18.1 on"),
        Sign("multiple gradient reductions are", releases="DeepSpeed ≥ 0.18.8"),
        Sign("Gradient computed twice for this partition"),
        Sign("len(set(p.ds_id for p in self.params_in_ipg_bucket))", where="trace"),
        Sign("len(set(p.ds_id for p in params_in_bucket))", where="trace"),
    ),
    examples=(
        Example(
            "AssertionError: The parameter "
            "model.vision_tower.encoder.layers.2.mlp.fc2.bias has already "
            "been reduced. Gradient computed twice for this partition. "
            "Multiple gradient reduction is "
            "currently not supported",
            "made by causing it (names and numbers changed), ms-swift 4.6.0, DeepSpeed 0.19.8",
        ),
        Example(
            "AssertionError: The parameter 323 has already been reduced.   "
            "          Gradient computed "
            "twice for this partition.             Multiple gradient "
            "reduction is currently not supported",
            "deepspeed/runtime/zero/stage_1_and_2.py, 0.14.5",
        ),
    ),
    evidence="deepspeedai/DeepSpeed#988, OpenBMB/MiniCPM-V#423; reproduced with ms-swift 4.6.0.",
    prevented=("VG102", "VG103"),
)
