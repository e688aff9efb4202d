"""How many images or videos of one prompt the generation engine takes: by its message's numbers."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

# Of images or videos in one prompt: vLLM's V1 engine names both numbers, others its own alone.
_LIMIT, _AT_MOST = "--limit-mm-per-prompt", "may be provided in one"
_PASSED = re.compile(r"passed (\d{1,4}) (image|video|audio) items? in the same prompt")
_ALLOWED = re.compile(r"At most (\d{1,4}) (image|video|audio)\(?s?\)? may be provided")
_MANY = 10  # where the row's own number is not told


def told(facts: Facts) -> bool:
    return _LIMIT in facts.message or _AT_MOST in facts.message


def step(facts: Facts) -> Do:
    """As many as the message counts, by the argument of who starts the engine."""
    passed, allowed = _PASSED.search(facts.message), _ALLOWED.search(facts.message)
    many = int(passed[1]) if passed else max(_MANY, 2 * int(allowed[1]) if allowed else 0)
    found = passed or allowed
    kind = found[2] if found else "image"
    columns = facts.said.get("columns", "")
    alone = kind == "video" and "videos" in columns and "images" not in columns
    words = f'{{"image": 0, "{kind}": {many}}}' if alone else f'{{"{kind}": {many}}}'
    cost = "memory of the engine"
    rows = "as many as that prompt has" if passed else "as many as the row with the most has"
    if facts.framework == "ms-swift":
        where = "to swift rollout: " if "vllm_server_host" in facts.typed else ""
        said = f"--vllm_limit_mm_per_prompt '{words}': {where}{rows} (swift infer and deploy "
        return Do(f"{said}before 3.7: --limit_mm_per_prompt)", cost)
    if "vllm/entrypoints/openai/" in facts.trace:
        return Do(f"--limit-mm-per-prompt '{words}' behind vllm serve …: {rows}", cost)
    return Do(f"LLM(…, limit_mm_per_prompt={words}), where the engine is made: {rows}", cost)
