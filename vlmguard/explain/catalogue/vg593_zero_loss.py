"""The loss is 0.0 from the first step on: no token of any row is trained on."""

from __future__ import annotations

from vlmguard.explain import limits
from vlmguard.explain.failure import Do, Example, Known
from vlmguard.explain.logfacts import Facts


def _do(facts: Facts) -> tuple[Do, ...]:
    return (
        Do(
            "print(tokenizer.decode([t for t in batch['labels'][0].tolist() if t != -100])), of "
            "one batch: the answer must stand there; nothing does, where every token is masked",
            "a minute",
        ),
        Do(
            "the template of this very model: --version in LLaVA and its kin, --template elsewhere",
            "none",
        ),
        Do(
            "the releases of tokenizers and transformers that the project pins: a newer one "
            "counts the separator's tokens otherwise",
            "none",
        ),
        Do("print one row's labels: at least the answer's tokens must not be -100", "a minute"),
        Do("max_length", "more memory for long rows", limits.longer(facts)),
    )


FAILURE = Known(
    code="VG593",
    name="explain-zero-loss",
    title="The loss is 0.0 from the first step on: no row has a label",
    zh="损失从第一步起恒为 0.0：所有样本的标签都被屏蔽（模板与分词器不匹配）",
    why=(
        "every label is masked: the conversation template counts other tokens than the tokenizer "
        "makes (LLaVA says 'tokenization mismatch' of each such row and masks all of it), the "
        "answer was cut away by the limit of a row's length, or only the prompt is in the data. "
        "The run goes on and learns nothing"
    ),
    do=_do,
    wrong=(
        "In reinforcement learning a loss of 0.0 is normal in the first steps: look at the reward "
        "there. A model that has learnt its rows by heart may come near to 0.0, but not at once."
    ),
    signs=(),
    examples=(
        Example(
            "{'loss': 0.0, 'learning_rate': 0.00015267175572519084, 'epoch': 0.0}",
            "transformers/trainer.py, 4.37, under LLaVA 1.5",
        ),
        Example(
            "WARNING: tokenization mismatch: 47 vs. 48. (ignored)",
            "llava/train/train.py, 1.2",
        ),
    ),
    evidence="haotian-liu/LLaVA#1153, haotian-liu/LLaVA#1166, Victorwz/LLaVA-Llama-3#1.",
)
