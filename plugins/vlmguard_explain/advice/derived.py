"""Values of a step that take more than one pattern: look-ups, arithmetic, the user's own code."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vlmguard_explain.advice import memory, packages
from vlmguard_explain.advice.packages import numbers
from vlmguard_explain.match.catalogue import table
from vlmguard_explain.tracebacks import frames

if TYPE_CHECKING:
    from vlmguard_explain.advice.values import Values

Made = Callable[["Values"], str]


def look_up(value: str, sign: str, place: str) -> str:
    """As ``[look]`` of ``tables/values.toml`` says."""
    if sign == "like":
        match = re.search(place, value)
        return next(filter(None, match.groups()), "") if match is not None else ""
    name, *sections = place.split(".")
    known: dict[str, Any] = table(name)
    for section in sections:
        known = known.get(section, {})
    if sign == "=":
        return str(known.get(value, ""))
    if sign == "in":
        return next((key for key, words in known.items() if value in words.split()), "")
    return next((str(one) for key, one in known.items() if re.search(key, value)), "")


# Modules, packages and releases.


def _package(v: Values) -> str:
    """The package that brings the missing module, or that the message asks to install."""
    if name := v.raw("module"):
        return "" if v.raw("part") else packages.of(name)
    return next(filter(None, map(packages.listed, v.each("install"))), "")


def _owner_package(v: Values) -> str:
    """The package of what has not the attribute."""
    known = packages.of(v.raw("ownermodule")) or v.raw("brought")
    found = known or packages.asking(v.facts.trace) or v.raw("ofmodels")
    return found if v.raw("attribute") else ""


_WHEELS = "https://download.pytorch.org/whl/"


def _wheels(v: Values) -> str:
    """Where the newest torch for the driver lies."""
    offers, cudas = numbers(v.raw("driver")), table("releases").get("cudas", ())
    fit = next((f"cu{a}{b}" for a, b in cudas if (a, b) <= offers), "")
    fit = fit or ("cu118" if offers[:1] == (11,) else "")  # all releases of CUDA 11 are compatible
    return f"{_WHEELS}{fit}" if fit else ""


# Arguments, and the model.


def _swift(v: Values) -> str:
    """ms-swift's first number: its own, else that of its files and arguments."""
    told = v.facts.releases.get("ms-swift") or v.facts.releases.get("swift") or v.field("swift")
    return told.partition(".")[0] if v.facts.framework == "ms-swift" else ""


def _new_name(v: Values) -> str:
    """What this release of ms-swift calls it, or another of its package; what it is if misspelt."""
    name, now, known = v.raw("argument"), v.raw("tunertype"), table("advice")["arguments"]
    here = f"{known['transformers']} {known.get(v.facts.framework, '')}".split()
    like = difflib.get_close_matches(name, () if name in here else here, 1, 0.88)
    renamed = v.raw("renamed") or "".join(like)
    return now if now not in ("", name) and v.raw("ofswift") else renamed


def _new_flag(v: Values) -> str:
    new, given = v.raw("newname"), v.field(v.raw("argument"))
    typed = f" {given}" if re.fullmatch(r"\w[\w.-]{0,40}", given) else ""
    return f"--{new}{typed}" if new else ""


def _dropped(v: Values) -> str:
    """Why a newer release has the argument no more; not of a release that is older than that.

    Before Python 3.10, which transformers 5 needs, the message names no class.
    """
    why = v.raw("whydropped")
    release = numbers(v.facts.releases.get("transformers", ""))
    old = () < release < (5,) or "TypeError: __init__()" in v.facts.message
    return "" if old and why.startswith("transformers 5") else why


def _program(v: Values) -> str:
    """What shows the arguments: the framework's command, or what refused them."""
    if v.facts.framework == "ms-swift":
        rlhf = "rlhf_type" in v.facts.typed or "swift/llm/train/rlhf.py" in v.facts.trace
        return f"swift {v.raw('subcommand') or ('rlhf' if rlhf else 'sft')}"
    module, script = v.raw("runmodule").strip("/").replace("/", "."), v.raw("refusedby")
    started = f"python {script}" if script else f"python -m {module}" if module else ""
    return v.raw("helper") or started


_PAGES = ("docs", "models", "datasets", "spaces", "settings", "join", "blog", "api")


def _repo(v: Values) -> str:
    """A repository of a hub that the message or the code names."""
    found = (one for one in v.each("repo") if one.partition("/")[0] not in _PAGES)
    first = next(found, "").removesuffix("/resolve").rstrip(".")
    return first or "/".join(v.groups("cached")) or v.raw("loaded") or v.field("repo")


# Files and machines.

_SOURCES = (".py", ".cpp", ".cu", ".so", ".cc", ".h")  # a source file in a frame is not the file


def _path(v: Values) -> str:
    """A file that the message names; of its several forms the most telling."""
    loose = (one for one in v.each("loose") if not one.endswith(_SOURCES))
    return v.read("path") or next(loose, "")


def _place(v: Values) -> str:
    """The innermost line of the user's own code."""
    own = frames.own(v.facts.frames)
    return f"{own[0]}:{own[1]}" if own is not None else ""


def _other_port(v: Values) -> str:
    """The next one, or the usual one's next."""
    port = int(v.raw("port")) if v.raw("port").isdecimal() else 0
    return str(port + 1) if 1023 < port < 65535 else "29501" if v.raw("port") else ""


# Numbers in the message.


def _ints(v: Values, name: str) -> list[int]:
    return [int(one) for one in v.groups(name)]


def _surplus(v: Values) -> str:
    tokens, features = _ints(v, "counted") or (0, 0)
    return str(tokens - features) if tokens > features else ""


def _divisors(v: Values) -> str:
    whole = next(iter(_ints(v, "divided")), 4096)
    return ", ".join(str(n) for n in range(1, whole + 1) if whole % n == 0) if whole < 4096 else ""


def _free_share(v: Values) -> str:
    """Of a card, where enough of it is free for an engine to start."""
    free = [float(one) for one in v.groups("freecard")]
    share = free[0] / max(free[1], 0.1) - 0.02 if free else 0.0
    return f"{int(share * 100) / 100:.2f}" if share >= 0.25 else ""


def _lines(line: int, before: int, after: int) -> str:
    """Lines of a file, for sed."""
    return f"{max(line - before, 1)},{line + after}p" if line else ""


def _size(name: str, least: float) -> Made:
    """A number of an out-of-memory message, where it is no less."""
    return lambda v: memory.shown(v.facts.message, name, least)


def _smaller(v: Values) -> tuple[str, str]:
    """A smaller micro-batch and more accumulation, the product the same; "" where it is 1."""
    micro, rest = v.facts.micro or 1, v.facts.accumulation or 1
    by = next((n for n in range(2, micro + 1) if micro % n == 0), 0)
    return (str(micro // by), str(rest * by)) if by else ("", "")


# The user's own code, and how the run was started.


def _engine(v: Values) -> str:
    launched = v.field("engine") or v.field("launcher") == "deepspeed"
    return "true" if v.facts.zero is not None or launched else ""


VALUES: dict[str, Made] = {
    "argument": lambda v: v.raw("flag").lstrip("-").replace("-", "_"),
    "base": lambda v: v.facts.model if v.raw("savedwidth") else "",
    "codefile": lambda v: frames.raised(v.facts.frames)[0],
    "divisors": _divisors,
    "driver": lambda v: ".".join(v.groups("drivermajor")),
    "layers": lambda v: v.raw("namedlayers") or v.raw("codedlayers"),
    "library": lambda v: next(filter(None, map(packages.of, v.each("library"))), ""),
    "log": lambda v: v.facts.log,
    "framework": lambda v: look_up(v.facts.framework, "=", "values.distributions"),
    "helper": lambda v: look_up(v.facts.framework, "=", "values.programs"),
    "longer": lambda v: str(2 * (v.facts.number("model_max_length") or 0) or ""),
    # Sources of look-ups.
    "model": lambda v: v.facts.model,
    "modelnames": lambda v: f"{v.facts.model} {v.field('architecture')}",
    "torch": lambda v: v.facts.releases.get("torch", "") or v.field("torchrelease"),
    "modelplain": lambda v: v.facts.model.lower().replace("_", "-").rstrip("/"),
    "main": lambda v: frames.main(v.facts.frames),
    "missing": lambda v: v.read("missing").replace("'", "").replace(" and ", ", "),
    "newname": _new_name,
    "numbers": lambda v: ", ".join(v.groups("divided")),
    "otherport": _other_port,
    "output": lambda v: v.read("output") or v.raw("saved").rpartition("/")[0],
    "owner": lambda v: v.read("owner") or v.raw("ownermodule"),
    "ownerpackage": _owner_package,
    "package": _package,
    "partpackage": lambda v: packages.of(v.raw("part")),
    "path": _path,
    "pin": lambda v: look_up(v.raw("name"), "in", f"releases.names.{v.raw('sourcepackage')}"),
    "place": _place,
    "repo": _repo,
    "requirer": lambda v: v.read("requirer") if "<" in v.raw("wanted") else "",
    "served": lambda v: v.raw("modelfolder") or v.raw("modelrepo"),
    "sourcepackage": lambda v: packages.of(v.raw("source")),
    "tower": lambda v: v.raw("calledtower") or v.raw("namedtower"),
    "unlisted": lambda v: "" if v.raw("part") or v.raw("package") else v.raw("module"),
    "wanted": lambda v: next((w for w in v.each("pinned") if packages.listed(w)), ""),
}
# Numbers, and words of vlmguard: these need no quotes.
PLAIN: dict[str, Made] = {
    "accumulation": lambda v: _smaller(v)[1],
    "advised": lambda v: v.read("advised"),
    "batchright": lambda v: str(math.prod(_ints(v, "batches")[1:])) if v.groups("batches") else "",
    "batchsaid": lambda v: next(iter(v.groups("batches")), ""),
    "batchsum": lambda v: " × ".join(v.groups("batches")[1:]),
    "divisor": lambda v: str(math.gcd(*_ints(v, "pair")) or ""),
    "dropped": _dropped,
    "dsconfig": lambda v: v.get("dsfile", ""),
    "engine": _engine,
    "freeshare": _free_share,
    "hub": lambda v: v.get("repo") or v.get("modelrepo", ""),
    "inphase": lambda v: look_up(v.facts.phase, "=", "values.phases"),
    "inscript": lambda v: f" in {v['main']}" if "main" in v else "",
    "micro": lambda v: _smaller(v)[0],
    "newflag": _new_flag,
    "positions": lambda v: str(int(v.raw("tablesize")) - 2) if v.raw("tablesize") else "",
    "program": _program,
    "span": lambda v: _lines(frames.raised(v.facts.frames)[1], 8, 2),
    "surplus": _surplus,
    "swiftmajor": _swift,
    "vision": lambda v: "true" if v.facts.vision else "",
    "wheels": _wheels,
    "yamlspan": lambda v: _lines(int(v.raw("yamlline") or 0), 2, 1),
    **{name: _size(name, 0.0) for name in ("asked", "free", "total")},
    **{name: _size(name, 1e-3) for name in ("fragmented", "onerow", "scattered")},
    "othermemory": _size("othermemory", 1.0),
}
OPTIONAL = ("inphase", "inscript")  # these may be empty
