"""Releases that model makers' own code is written for, as their projects pin them."""

from __future__ import annotations

import re

from vlmguard.explain.logfacts import Facts

# haotian-liu/LLaVA: pyproject.toml of 1.0.1 to 1.1.3, and of its main branch since 2024-02 (the
# tags from 1.2.0 on: 4.36.2); forks that kept its classes kept these, too.
_OLDER = "'transformers==4.31.0' 'tokenizers>=0.12.1,<0.14'"
_NEWER = "'transformers==4.37.2' 'tokenizers==0.15.1'"
_CLASS = re.compile(r"\bLlava(?:Llama|Mistral|Mpt|MPT)(?:ForCausalLM|Model)\b")
_TAKEN = "'llava' is already used by a Transformers config"  # from 4.36 on
_SINCE = "2024-02"  # 1.2


_CONFIG = re.compile(r"'Llava\w{0,20}Config' object has no attribute")
_ROOT = re.compile(r'File "([^"\n]{1,160}?/(?:LLaVA[\w.-]{0,20}))/llava/')


def checkout(facts: Facts) -> str:
    """A clone of LLaVA or of its kind, whose own pins of transformers are to be installed; ""."""
    match = _ROOT.search(facts.trace)
    return match[1] if match is not None and _CONFIG.search(facts.message) else ""


def llava(facts: Facts) -> str:
    """The releases that LLaVA's own classes or templates want, "" of other code, or where they are
    there already."""
    said, masked = facts.message, "mismatch" in facts.said
    masks = "'padding_mask'" in said and "/llava/" in facts.trace  # of 4.34 and 4.35
    own = (
        masked or masks or _TAKEN in said or ("unexpected keyword" in said and _CLASS.search(said))
    )
    if not own or "bunny" in facts.said:
        return ""
    late = facts.said.get("day", "") >= _SINCE if masked else not masks and _TAKEN not in said
    pinned = _NEWER if late else _OLDER
    return "" if f"=={facts.releases.get('transformers', '?')}'" in pinned else pinned
