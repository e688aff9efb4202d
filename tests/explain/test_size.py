"""It stays small: lines of the engine, modules of a folder, no Python in the catalogue."""

from __future__ import annotations

from pathlib import Path

from vlmguard_explain.match.catalogue import HERE

ROOT = Path(__file__).parents[2] / "vlmguard"
MODULES = [path for path in HERE.rglob("*.py") if path.name != "__init__.py"]
# By ``wc -l``: the engine and its command; what gives the guard its rules of the catalogue; the
# command `vlmguard rows`.
ENGINE, DOOR, ROWS = 5000, 220, 180


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_engine_and_its_command():
    apart = ("bad_rows.py", "rules.py")
    own = [path for path in MODULES if path.name not in apart] + [ROOT / "cli" / "explain.py"]
    assert sum(map(lines, own)) <= ENGINE
    assert lines(HERE / "rules.py") + lines(ROOT / "rules" / "known.py") <= DOOR
    assert lines(HERE / "bad_rows.py") <= ROWS
    assert max(map(lines, own)) <= 300
    assert not [*HERE.glob("catalogue/*.py"), *HERE.glob("cases/*.py")]  # data alone
    assert sum(map(lines, Path(__file__).parent.glob("*.py"))) <= 3500
    for folder in {path.parent for path in MODULES}:
        assert sum(path.parent == folder for path in MODULES) <= 8, folder
