"""The files that a command names: those of its script's own making first, then the disk's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlmguard.check.shell.state import known, read_file


class Unreadable(Exception):
    """A file that a verdict needs and that cannot be read; says which and why."""


@dataclass(frozen=True)
class Files:
    """A view from one folder.

    Attributes:
        made: path → text of files that the script would have written.
    """

    folder: str
    made: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.folder, os.path.expanduser(name)))

    def there(self, name: str) -> bool:
        """Whether there is such a file or folder, or the script would have made one."""
        if not known(name):
            return False
        path = self.path(name)
        return os.path.exists(path) or any(
            made == path or made.startswith(path + "/") for made in self.made
        )

    def text(self, name: str) -> str:
        """A file's text. Raises `Unreadable`."""
        if not known(name):
            raise Unreadable("a file whose name is not known")
        path = self.path(name)
        if path in self.made:
            return self.made[path]
        text = read_file(path)
        if text is None:
            why = "there is none" if not os.path.exists(path) else "it cannot be read"
            raise Unreadable(f"{name}: {why}")
        return text

    def data(self, name: str) -> Any:
        """A YAML or JSON file's data. Raises `Unreadable`."""
        text = self.text(name)
        try:
            data = _yaml(text) if name.endswith((".yaml", ".yml")) else json.loads(text)
            if _more(data, MOST) < 0:
                raise ValueError(f"more than {MOST} values, those behind anchors included")
            return data
        except ValueError as error:
            raise Unreadable(f"{name}: {str(error).splitlines()[0]}") from None
        except RecursionError:
            raise Unreadable(f"{name}: nested too deeply") from None


MOST = 100_000
"""Values of a config: one that has more, through its anchors, is no config."""


DEEPEST = 100


def _more(data: Any, left: int) -> int:
    """How many values are left of ``left``, each counted as often as it is met; < 0: too many."""
    left -= 1
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for value in inner:
        if left < 0:
            break
        left = _more(value, left)
    return left


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise Unreadable("a YAML file, and PyYAML is not installed here") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    try:
        for event in yaml.parse(text, loader):  # the loader itself would overflow its stack
            depth += {"MappingStartEvent": 1, "SequenceStartEvent": 1, "MappingEndEvent": -1,
                      "SequenceEndEvent": -1}.get(type(event).__name__, 0)  # fmt: skip
            if depth > DEEPEST:
                raise ValueError(f"nested more than {DEEPEST} deep")
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from None
