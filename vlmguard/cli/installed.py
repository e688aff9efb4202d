"""How a package came onto this Python: which release, from where, in which form of installation.

Asked in a child of ``vlmguard doctor``, in the environment that is looked at. Metadata is believed
only of the copy that would be imported: a checkout on PYTHONPATH may hide an installed release.
"""

from __future__ import annotations

import functools
import json
import os
import site
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.machinery import ModuleSpec
from urllib.parse import unquote, urlparse


def of(name: str, spec: ModuleSpec) -> dict[str, str]:
    """What is known of the top-level package ``name`` that ``spec`` was found for.

    Returns:
        ``name`` of its distribution (the package's own where there is none); ``release`` ("" where
        no metadata tell it); ``place``, the folder or zip that holds the package; ``how``, a few
        words, "" for a plain installation in this environment.
    """
    place = _place(name, spec)
    hidden = ""
    for dist in _distributions(name, place):
        title, release = str(dist.metadata["Name"]).replace("_", "-"), dist.version
        source = _source(dist)
        if source and _within(place, source):
            return {"name": title, "release": release, "place": place, "how": "editable"}
        if not source and _within(place, str(dist.locate_file(""))):
            return {"name": title, "release": release, "place": place, "how": _plain(place)}
        hidden = f"; it hides {title} {release}, which is installed too"
    how = (_plain(place) or "without metadata") + hidden
    return {"name": name, "release": "", "place": place, "how": how}


def _place(name: str, spec: ModuleSpec) -> str:
    folders = list(spec.submodule_search_locations or ())
    folder = os.path.dirname(folders[0] if folders else spec.origin or "")
    return os.path.realpath(folder)


def _distributions(name: str, place: str) -> Iterator[metadata.Distribution]:
    """Those that say that they hold the package, then the one of the same name, then checkouts that
    hold its folder: hatchling's editable installations name no package."""
    for each in dict.fromkeys([*_owners().get(name, []), name]):
        yield from metadata.distributions(name=each)
    for dist in metadata.distributions():
        source = _source(dist)
        if source and _within(place, source):
            yield dist


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _source(dist: metadata.Distribution) -> str:
    """The checkout of an editable installation; "" for any other."""
    told = json.loads(dist.read_text("direct_url.json") or "{}")
    if told.get("dir_info", {}).get("editable"):
        return unquote(urlparse(told["url"]).path)
    return ""


def _within(place: str, folder: str) -> bool:
    folder = os.path.realpath(folder)
    return place == folder or place.startswith(folder + os.sep)


def _plain(place: str) -> str:
    """Words for a place that is not this environment's own."""
    if not os.path.isdir(place):
        return "in a zip"
    sites = [os.path.realpath(folder) for folder in site.getsitepackages()]
    if place in sites:
        return "" if _within(place, sys.prefix) else "in the Python below this environment"
    if place == os.path.realpath(site.getusersitepackages()):
        return "in the user's own packages"
    return "on PYTHONPATH or --target"
