"""Findings and settings → one plan: what to change, what to say, whether to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vlmguard.core.facts import Run
from vlmguard.core.findings import (
    Choose,
    DummyImage,
    Finding,
    Freeze,
    MeanLoss,
    PadWithBlank,
    Remedy,
    Variant,
)
from vlmguard.core.settings import Settings


@dataclass(frozen=True)
class Plan:
    """What is to happen.

    Attributes:
        remedies: to be applied, one value per key.
        fixes: findings that the remedies answer.
        warns: findings only to be said.
        stops: findings for which training must not go on.
    """

    remedies: tuple[Remedy, ...] = ()
    fixes: tuple[Finding, ...] = ()
    warns: tuple[Finding, ...] = ()
    stops: tuple[Finding, ...] = ()

    @property
    def variant(self) -> Variant | None:
        return next((r for r in self.remedies if isinstance(r, Variant)), None)

    @property
    def freeze(self) -> tuple[str, ...]:
        return tuple(w for r in self.remedies if isinstance(r, Freeze) for w in r.what)

    @property
    def pad(self) -> bool:
        """Whether forwards without media are to run the towers on a blank input."""
        return any(isinstance(r, PadWithBlank) for r in self.remedies)

    @property
    def mean_loss(self) -> bool:
        """Whether the trainer is to average the model's loss as it is."""
        return any(isinstance(r, MeanLoss) for r in self.remedies)

    @property
    def dummy_image(self) -> bool:
        return any(isinstance(r, DummyImage) for r in self.remedies)


def must_stop(finding: Finding, policy: str, settings: Settings) -> bool:
    """A finding that says "will go wrong" stops, under `fix` without a remedy too; a lesser one
    only where the user asked for `error`."""
    if finding.level == "error":
        return policy in ("fix", "error")
    return settings.policy(finding.code, "") == "error"


def keys(remedy: Remedy) -> dict[str, object]:
    """What a remedy sets, key by key: two remedies contradict where a key differs."""
    if isinstance(remedy, Variant):
        return {k: v for k, v in vars(remedy).items() if v is not None}
    if isinstance(remedy, Freeze):
        return {f"freeze {what}": True for what in remedy.what}
    return {_NAMES[type(remedy)]: True}


_NAMES: dict[type, str] = {PadWithBlank: "blank", MeanLoss: "loss", DummyImage: "dummy_image"}
_KINDS: dict[type, str] = {
    Variant: "variant",
    Choose: "variant",
    Freeze: "freeze",
    MeanLoss: "loss",
}


def kinds(finding: Finding) -> tuple[str, ...]:
    """What its remedies change: "variant", "freeze", "loss", "blank"."""
    return tuple(dict.fromkeys(_KINDS.get(type(remedy), "blank") for remedy in finding.remedies))


def make(
    findings: Iterable[Finding],
    settings: Settings,
    default: Callable[[str], str],
    run: Run,
    choose: Callable[[Run], tuple[Variant | None, Finding | None]],
) -> Plan:
    """Merge findings into one plan.

    Args:
        default: code → the rule's own policy.
        choose: the one place that names a wrap variant; its finding says that nothing works.
    """
    remedies: dict[Remedy, None] = {}
    fixes: list[Finding] = []
    warns: list[Finding] = []
    stops: list[Finding] = []
    for finding in findings:
        policy = settings.policy(finding.code, default(finding.code))
        wishes = finding.remedies if policy == "fix" else ()
        resolved: list[Remedy] = []
        for wish in wishes:
            if not isinstance(wish, Choose):
                resolved.append(wish)
                continue
            variant, nothing = choose(run)
            if variant is not None:
                resolved.append(variant)
            elif nothing is not None and finding.level == "error":
                finding = nothing
                policy = settings.policy(finding.code, default(finding.code))
        if resolved:
            remedies.update(dict.fromkeys(resolved))
            fixes.append(finding)
        elif policy != "off":
            said = stops if must_stop(finding, policy, settings) is True else warns
            if finding not in said:  # "nothing works" may be the answer to several rules
                said.append(finding)
    clash = _clash(remedies)
    if clash:
        contradiction = Finding(
            "VG901",
            "error" if any(f.level == "error" for f in fixes) else "warning",
            f"two remedies contradict each other over {clash}; nothing is applied "
            f"({', '.join(sorted({f.code for f in fixes}))})",
            advice="switch one of the rules off",
        )
        policy = settings.policy("VG901", default("VG901"))
        if must_stop(contradiction, policy, settings) is True:
            stops.append(contradiction)
        elif policy != "off":
            warns.append(contradiction)
        return Plan((), (), (*warns, *fixes), tuple(stops))
    return Plan(_merged(remedies), tuple(fixes), tuple(warns), tuple(stops))


def _clash(remedies: Iterable[Remedy]) -> str:
    seen: dict[str, object] = {}
    for remedy in remedies:
        for key, value in keys(remedy).items():
            if seen.setdefault(key, value) != value:
                return f"{key} ({seen[key]} and {value})"
    return ""


def _merged(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """One `Variant` out of several that agree."""
    remedies = list(remedies)
    variants = [r for r in remedies if isinstance(r, Variant)]
    values = {k: v for variant in variants for k, v in keys(variant).items()}
    rest: list[Remedy] = [r for r in remedies if not isinstance(r, Variant)]
    return (*([Variant(**values)] if values else []), *rest)  # type: ignore[arg-type]
