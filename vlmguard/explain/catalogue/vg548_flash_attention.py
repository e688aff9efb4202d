"""Flash-attention cannot run this."""

from __future__ import annotations

import re

from vlmguard.explain import given
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_CARD = ("Ampere",)  # the card is too old, whatever the dtype
# OpenGVLab's own code sets it in the script, and in the tower wherever the package is there; its
# patches import the package, so that it cannot be left out.
_INTERNVL = Do(
    "sed -i.bak -e \"s/attn_implementation = 'flash_attention_2'/attn_implementation = 'eager'/"
    '" '
    "-e 's/has_flash_attn = True/has_flash_attn = False/' {internvl}/train/*.py "
    "{internvl}/model/internvl_chat/modeling_intern_vit.py: the language model's and the "
    "tower's; config.json alone does not reach them",
    "slower and more memory for long rows",
)

_STEPS = (
    Do(
        "mv flash_attn.py my_flash_attn.py: a file of your own hides the package",
        "none",
        when=("is not a package",),
    ),
    Do("bf16", "none on cards from Ampere on", when=("fp16 and bf16", "data type", "dtype")),
    Do(
        "python -m pip install flash-attn --no-build-isolation: the model's own code imports it",
        "time to build",
        when=("packages that were not found",),
        kind="install",
    ),
    Do("sdpa", "slower and more memory for long rows"),
    Do(
        "python -m pip uninstall -y flash-attn: where the model's own code takes it wherever "
        "it is installed",
        "slower and more memory for long rows",
        when=_CARD,
    ),
    Do(
        "bf16",
        "none on cards from Ampere on",
        unless=(
            "fp16 and bf16",
            "data type",
            "dtype",
            "not installed",
            "No module",
            "ImportError",
            *_CARD,
        ),
    ),
    Do(
        "python -m pip install flash-attn --no-build-isolation, in the release that fits this "
        "torch",
        "time to build",
        kind="install",
        when=("not installed", "No module", "ImportError", "cannot import", "requires"),
    ),
    Do(
        "python -m pip show flash-attn torch: a release built for this torch and card",
        "none",
        unless=_CARD,
    ),
)


_HALF = Do("fp16", "none: such a card has no bfloat16")
_LLAVA = Do(
    "python -m pip install xformers, and llava/train/train_xformers.py in place of "
    "llava/train/train_mem.py with --bf16 False --fp16 True: the repository's own way for cards "
    "before Ampere",
    "slower and more memory for long rows",
)
_QWEN = Do(
    'sed -i.bak \'s/"flash_attention_2"/"sdpa"/\' {main}: the script sets it in its code',
    "slower and more memory for long rows",
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Model makers' own scripts have no argument for it: each sets it in its code."""
    if _CARD[0] not in facts.message:
        return _STEPS
    if given.internvl(facts.trace):
        return (_INTERNVL, _HALF)
    if "llava/train/train_mem.py" in facts.trace:
        return (_LLAVA,)
    if re.search(r"qwenvl/train/train_qwen\.py", facts.trace) and given.script(facts.trace):
        return (_QWEN, _HALF)
    return _STEPS


FAILURE = Known(
    code="VG548",
    name="explain-flash-attention",
    title="Flash-attention is not installed, or cannot run this dtype, card or head",
    zh="FlashAttention 未安装，或不支持该数据类型/显卡",
    why="flash-attention needs its own package, float16 or bfloat16, a "
    "card from Ampere on, and a head of at most 256",
    do=_do,
    wrong="Casting to half around the call hides a model that was loaded in float32.",
    signs=(
        Sign("No available kernel. Aborting execution"),
        Sign("FlashAttention only support"),
        Sign("FlashAttention only supports"),
        Sign("FlashAttention2 has been toggled on, but it cannot be used"),
        Sign("flash_attn seems to be not installed"),
        Sign("the package flash_attn"),
        Sign("FlashAttention forward only supports"),
        Sign("FlashAttention backward for head dim"),
        Sign("Flash Attention 2.0 only supports"),
        Sign("does not support Flash Attention"),
        Sign(
            "No module named 'flash_attn",
        ),
        Sign("FlashAttention", also=("support",), no=("Target module ",)),
        Sign("Flash Attention 2 is not"),
        Sign("flash_attn", also=("packages that were not found",)),
        Sign("name 'index_first_axis' is not defined"),
        Sign("name 'flash_attn_func' is not defined"),
        Sign("name 'flash_attn_varlen_func' is not defined"),
        Sign("name '_flash_supports_window_size' is not defined"),
        Sign("name 'unpad_input' is not defined"),
        Sign("attempting to use Flash Attention"),
        Sign("unexpected behaviour for Flash Attention"),
        Sign("does not support an attention implementation through"),
        Sign("Requested Flash Attention"),
        Sign("attn_implementation=", also=("is not supported",)),
        Sign("Flash Attention is not"),
        Sign("flash_attn_interface"),
        Sign("-packages/flash_attn/", where="raised"),
        Sign("transformers/integrations/flash_attention.py", where="raised"),
        Sign("modeling_flash_attention_utils.py", where="raised"),
        Sign("in _check_and_adjust_attn_implementation", where="raised"),
        Sign("in _flash_attn", where="raised"),
        Sign("in _sdpa_can_dispatch", where="raised"),
        Sign("in get_correct_attn_implementation", where="raised"),
        Sign("in _check_and_enable_flash_attn_2", where="raised"),
        Sign("only supports head dimension"),
        Sign("fp16 and bf16 data type"),
        Sign("flash_attn_cuda", where="trace", also=("negative dimension",)),
        Sign("/flash_attn/", where="raised"),
        Sign("must be Tensor, not BlockMask"),
        Sign("attn_implementation", where="else"),
        Sign("lash attention", where="else"),
        Sign("Flash Attention", where="else"),
        Sign("flash_attn", where="else"),
        Sign("FlashAttention", where="else"),
        Sign("attention implementation", where="else"),
    ),
    examples=(
        Example(
            "RuntimeError: FlashAttention only support fp16 and bf16 data type",
            "csrc/flash_attn/flash_api.cpp, flash-attn 2.5",
        ),
        Example(
            "ImportError: FlashAttention2 has been toggled on, but it "
            "cannot be used due to the following error: the package "
            "flash_attn seems to be not installed.",
            "transformers/modeling_utils.py, 4.51.3",
        ),
    ),
    evidence="flash-attn's and transformers' own messages.",
    narrow=3,
)
