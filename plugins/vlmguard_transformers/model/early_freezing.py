"""A freeze policy, checked before weights are loaded: on a model without any, from its config."""

from __future__ import annotations

from typing import Any

from vlmguard_torch.layout import freezing, towers
from vlmguard_transformers import profiles
from vlmguard_transformers.profile import Profile


def check(parsed: Any) -> None:
    """Raise `SettingsError` for a word that names nothing in the model of the parsed arguments.

    Says nothing where they name no model, or one that only its trainer can tell apart: then the
    policy is checked when there is a trainer.
    """
    groups = parsed if isinstance(parsed, tuple) else (parsed,)
    profile = _profile(groups)
    model = None if _own_words(profile) else _without_weights(_named(groups))
    if model is not None:
        freezing.check(model, profile.policy(), towers.by_name(model))


def _profile(groups: tuple[Any, ...]) -> Profile:
    """The profile of the framework that one of the dataclasses belongs to."""
    tops = {_top(type(group).__module__) for group in groups}
    known = (each for each in profiles.candidates() if each is not profiles.PLAIN)
    owned = (each for each in known if tops & {_top(pattern) for pattern in each.owns})
    return next(owned, profiles.PLAIN)


def _top(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


def _own_words(profile: Profile) -> bool:
    kind = type(profile)
    return kind.parts is not Profile.parts or kind.towers is not Profile.towers


def _named(groups: tuple[Any, ...]) -> str:
    found = (getattr(group, "model_name_or_path", None) for group in groups)
    return next((path for path in found if isinstance(path, str) and path), "")


def _without_weights(path: str) -> Any:
    """The model of a checkpoint on the meta device; None if transformers has no code for it."""
    if not path:
        return None
    import torch
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
        kind = getattr(transformers, (config.architectures or [""])[0], None)
        if kind is None:
            return None
        with torch.device("meta"):
            return kind(config)
    except Exception:  # the framework will report it better
        return None
