"""Which wheel fits: torch's for a driver, torchvision's and flash-attn's for a torch."""

from __future__ import annotations

import re

from vlmguard.explain.logfacts import Facts

_DRIVER = re.compile(r"found version (1[0-9])0(\d)0\)")
# Folders of torch's wheels, by the CUDA that they bring, newest first.
_WHEELS = ((13, 0), (12, 8), (12, 6), (12, 4), (12, 1), (11, 8))
# Of a driver's CUDA → the first release of a driver (Linux) for the next one.
_DRIVERS = {10: "525", 11: "525", 12: "580"}


def of_driver(said: str) -> dict[str, str]:
    """The driver's CUDA, and where the newest torch for it lies."""
    match = _DRIVER.search(said)
    if match is None:
        return {}
    offers = int(match[1]), int(match[2])
    fit = next((f"cu{a}{b}" for a, b in _WHEELS if (a, b) <= offers), "")
    if not fit and offers[0] == 11:  # CUDA 11's minor releases run each other's programs
        fit = "cu118"
    where = f"https://download.pytorch.org/whl/{fit}" if fit else ""
    release = _DRIVERS.get(offers[0], "")
    return {"driver": f"{offers[0]}.{offers[1]}", "wheels": where, "newerdriver": release}


def of_card(capability: str) -> str:
    """Where the newest torch for a card lies: cu126 is built for sm_50 to sm_90, cu128 for more."""
    if not capability:
        return ""
    name = "cu128" if len(capability) > len("sm_90") else "cu126"
    return f"https://download.pytorch.org/whl/{name}"


def vision(facts: Facts) -> str:
    """The torchvision of this torch: 0.(15 + n) belongs to 2.n."""
    match = re.match(r"2\.(\d{1,2})\.", facts.releases.get("torch", ""))
    return f"torchvision==0.{15 + int(match[1])}.*" if match else ""


# flash-attn's releases that have wheels for a torch, by its workflow that builds them; 2.6 where
# several do: code that was written for older ones breaks with 2.7.
_FLASH = {
    **dict.fromkeys(("1.12", "1.13"), "2.5.8"),
    **dict.fromkeys(("2.0", "2.1", "2.2", "2.3", "2.4"), "2.6.3"),
    **dict.fromkeys(("2.5", "2.6"), "2.7.4.post1"),
    **dict.fromkeys(("2.7", "2.8"), "2.8.3"),
}
# The same, asked of the torch that is there.
FLASH = (
    '$(python -c \'import torch; v = torch.__version__.split(".")[:2]; '
    'print("2.5.8" if v[0] == "1" else {"5": "2.7.4.post1", "6": "2.7.4.post1"}.get(v[1], '
    '"2.6.3" if int(v[1]) < 5 else "2.8.3"))\')'
)


def flash(facts: Facts, cuda: str = "") -> str:
    """The flash-attn that has wheels for this torch, "" where its release is not told."""
    told = facts.releases.get("torch", "") or facts.said.get("torchrelease", "")
    minor = re.match(r"\d\.\d{1,2}", told)
    if cuda.startswith("11.") and minor and minor[0] == "2.5":
        return "2.7.3"  # the last with wheels for CUDA 11
    return _FLASH.get(minor[0], "") if minor else ""
