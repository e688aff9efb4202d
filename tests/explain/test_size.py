"""It stays small: lines of the engine, modules of a folder, no Python in the catalogue."""

from __future__ import annotations

from pathlib import Path

from vlmguard_explain.match.catalogue import HERE

ROOT = Path(__file__).parents[2] / "vlmguard"
MODULES = [path for path in HERE.rglob("*.py") if path.name != "__init__.py"]
CODE, ALL = 3747, 5336  # lines of code; all by ``wc -l`` (to be 5,000), the command's too


def lines(path: Path, bare: bool = False) -> int:
    """All, or those that are no comment, no docstring, and not blank."""
    inside, count = False, 0
    for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()):
        count += not bare or bool(not inside and line and not line.startswith(("#", '"""')))
        inside = inside != (line.count('"""') == 1)
    return count


def test_the_engine_and_its_command():
    own = [path for path in MODULES if path.name != "rows.py"]  # a command of its own
    own += [ROOT / name for name in ("cli/explain.py", "rules/known.py")]
    assert sum(lines(path, bare=True) for path in own) <= CODE
    assert sum(map(lines, own)) <= ALL
    assert max(map(lines, own)) <= 300
    assert not [*HERE.glob("catalogue/*.py"), *HERE.glob("cases/*.py")]  # data alone
    assert sum(map(lines, Path(__file__).parent.glob("*.py"))) <= 3500
    for folder in {path.parent for path in MODULES}:
        assert sum(path.parent == folder for path in MODULES) <= 8, folder
