"""Rules about what only ColossalAI does. They come in by the door that third parties use."""

from __future__ import annotations

from vlmguard.core.late import Page, of_batches, of_gradients, of_runs

_ONLY = ("colossalai",)
RULES: tuple[Page, ...] = (
    of_batches(f"{__name__}.vg205_text_only_gemini", "fix", FRAMEWORKS=_ONLY),
    of_gradients(f"{__name__}.vg303_untouched", "error", "untouched-gemini",
                 lambda seen: getattr(seen, "untouched", None), FRAMEWORKS=_ONLY),
    of_runs(f"{__name__}.vg304_never_used", "fix", "never-used-gemini",
            lambda run: run.strategy == "gemini"),
    of_gradients(f"{__name__}.vg305_second_backward", "error", "second-backward-gemini",
                 lambda seen: getattr(seen, "overwritten", False), FRAMEWORKS=_ONLY),
)  # fmt: skip


def register() -> None:
    """See to it that the host holds them, also where no entry point led here (`vlmguard.auto`)."""
    from vlmguard import registry

    for rule in RULES:
        if rule.CODE not in registry.get().rules:
            registry.get().add(rule)
