"""The loss is 0.0 from the first step on: no token of any row is trained on."""

from __future__ import annotations

import re

from vlmguard.explain import limits, pins
from vlmguard.explain.failure import Do, Example, Known
from vlmguard.explain.logfacts import Facts

# Bunny's templates, by the class of its language model (bunny/conversation.py).
_BUNNY = {"Llama": "llama", "MiniCPM": "minicpm", "Phi3": "phi3"}
_DECODED = (
    "print(tokenizer.decode([t for t in b['labels'][0].tolist() if t != -100])) behind b = "
    "next(iter(trainer.get_train_dataloader())), in front of trainer.train(): the answer must "
    "stand there; nothing does, where every token is masked"
)
_TOKENIZER = (
    "python -c 'import sys; from transformers import AutoTokenizer as A; t = A.from_pretrained("
    "sys.argv[1]); print(repr(t.eos_token), t(\"a b\").input_ids)' {model}: {more}the template's "
    "sep2 must be this eos_token; else the tokenizer files (tokenizer.json, tokenizer_config.json, "
    "special_tokens_map.json) anew from the page of the base model"
)
# What v1 is the template of, and language models that have others.
_VICUNA = re.compile(r"(?i)vicuna|llava-(?:v1|1)\.5|llama-2")
_OTHERS = re.compile(r"(?i)llama[-_]?3|qwen|phi|gemma|mistral|mixtral|mpt|\byi-|v1\.6-34b|minicpm")
_CHATML = re.compile(r"(?i)llava-v1\.6-34b|nous-hermes-2-yi")
_INSTALL = (
    "python -m pip install {pins}: stop the run, it learns nothing; LLaVA's own pins: other "
    "tokenizers count a token more or less in each turn (python -m pip show transformers "
    "tokenizers: these already? next step); of a fork or a later checkout: python -m pip install "
    "-e . in its folder takes those that it pins"
)
# Templates that LLaVA itself has not: a fork's, with a count of its own.
_OWN = re.compile(r"(?i)llama_?3|qwen|phi|gemma")
_COUNTS = (
    "git pull, in the project's folder: its count for the template {version} (grep -n 'def "
    "preprocess' llava/train/train.py) is {apart} off in each row; not mended there: by hand, the "
    "tokens of the header or of <|begin_of_text|> that it counts twice or not at all"
)
_PINNED = (
    "python -m pip install -e . in the project's folder: the transformers and tokenizers that it "
    "pins; newer ones count the separator's tokens otherwise"
)
_LOOKS = {
    "ms-swift": "grep -n -m1 -A3 'LABELS' {log}: the answer must stand there; [-100 * n] alone is "
    "a row without one: no assistant's turn in the rows (messages, or response), or it was cut",
    "LLaMA-Factory": "grep -n -m1 -A3 '^labels:' {log}: the answer must stand there; nothing does, "
    "where every token is masked: no assistant's turn in the rows, or it was cut",
}


def _template(facts: Facts) -> Do:
    """The conversation that this language model's tokenizer is counted by."""
    now = facts.said.get("version", "")
    was = f", not {now}" if now else ""
    if bunny := facts.said.get("bunny"):
        name = _BUNNY.get(bunny, "bunny")
        if name != now:
            return Do(f"--version {name}: the template of Bunny's {bunny} models{was}", "none")
    if _CHATML.search(facts.model) and now != "mpt":
        ends = f"--version mpt: the turns of this one's language model end with <|im_end|>{was}"
        return Do(
            ends + " (chatml_direct, where conversation.py has it, is another of them)", "none"
        )
    return Do(
        "grep -n ': conv_' $(find . -name conversation.py): the names that --version takes; the "
        f"one of this language model's family{was} (its sep2 is the tokenizer's eos_token): "
        "--version NAME",
        "none",
    )


SHORT = 256  # tokens: less than many a prompt has, behind which the answer stands
_HALF = Do("bf16", "none on cards from Ampere on; older ones: float32")


def _filtered(facts: Facts) -> bool:
    """Whether it may be a nan: in float16, where no norm of the gradient is printed beside it, the
    Trainer leaves losses that are no number out of the mean (logging_nan_inf_filter)."""
    half = facts.said.get("fp16") == "true"
    return half and "grad_norm" not in facts.message and "mismatch" not in facts.said


def _why(facts: Facts) -> str:
    first = (
        "the loss is no number, most likely: float16 overflows, and the Trainer leaves such losses "
        "out of the mean that it prints (logging_nan_inf_filter). Or "
        if _filtered(facts)
        else ""
    )
    return first + _MASKED


_MASKED = (
    "every label is masked: the conversation template counts other tokens than the tokenizer "
    "makes (LLaVA says 'tokenization mismatch' of each such row and masks all of it), the "
    "answer was cut away by the limit of a row's length, or only the prompt is in the data. "
    "The run goes on and learns nothing"
)


def _do(facts: Facts) -> tuple[Do, ...]:
    decoded = Do(_DECODED, "a minute")
    if counts := facts.said.get("mismatch"):
        first, second = (int(n) for n in counts.split(" vs. "))
        apart = abs(first - second)
        more = f"{apart} token{'s' if apart > 1 else ''} apart ({counts}): "
        version = facts.said.get("version", "")
        pinned = "" if _OTHERS.search(f"{facts.model} {version}") else pins.llava(facts)
        own = (Do(_COUNTS.format(version=version, apart=apart)),) if _OWN.match(version) else ()
        fits = facts.said.get("version") in ("v1", "vicuna_v1") and _VICUNA.search(facts.model)
        dear = "other releases than those that are there"
        return (
            *((Do(_INSTALL.format(pins=pinned), dear),) if pinned else ()),
            *own,
            *(() if pinned and fits else (_template(facts),)),
            *(
                Do(_TOKENIZER.format(model=model, more=more), "a minute", kind="tokenizer")
                for model in ("{modelfolder}", "{modelrepo}", "MODEL")
            ),
            *(() if pinned else (Do(_PINNED, dear),)),
            decoded,
        )
    look = _LOOKS.get(facts.framework, "") if facts.log else ""
    looks = (Do(look, "a minute"),) if look else (decoded,)
    length = Do("max_length", "more memory for long rows", limits.longer(facts))
    told = facts.number("max_length", "cutoff_len", "max_seq_length", "model_max_length")
    if told is not None and told <= SHORT:
        longer = Do("max_length", f"more memory for long rows; {told} now", (("length", "2048"),))
        return (longer, *looks, Do("template", "none"))
    if _filtered(facts):
        return (_HALF, *looks, Do("template", "none"), length)
    return (*looks, Do("template", "none"), length)


FAILURE = Known(
    code="VG593",
    name="explain-zero-loss",
    title="The loss is 0.0 from the first step on: no row has a label",
    zh="损失从第一步起恒为 0.0：所有样本的标签都被屏蔽（模板与分词器不匹配）",
    why=_why,
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
