"""What third parties import stays where it is."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.kit import envs
from tools.pages import facts_page
from vlmguard.core.settings import find_file, from_table, read_toml

SECOND = "vlmguard.toml"
"""A settings file, codes and a profile as they were written for the second edition."""
SETTINGS = """freeze = ["vision"]          # vision, aligner, llm, a module path or a glob
report = "guard.jsonl"       # JSON lines, one file a process: guard.rank0.jsonl
dry_step = false
[rules]
VG101 = "warn"
VG2 = "error"
"""
CODES = set(
    """
    VG101 VG102 VG103 VG104 VG105 VG106 VG107 VG108 VG109 VG111 VG112 VG113 VG114 VG115 VG116
    VG201 VG202 VG203 VG204 VG205 VG301 VG302 VG303 VG304 VG305 VG401 VG402 VG403 VG405 VG406
    VG408 VG901 VG902 VG903 VG904
""".split()
)
PROFILE = """from vlmguard_transformers.profile import Profile


class Fake(Profile):
    name = "fake"
    distributions = ("fake-framework",)
    owns = ("elsewhere.trainer:FakeTrainer",)
    flags = {"FindUnused": "--find-unused {value}"}

    def rows(self, trainer, dataset):
        return frozenset({"text"})
"""
ENTRY_POINTS = {
    *("rules", "swift", "trl", "llamafactory", "accelerate", "flagembedding", "colossalai"),
}


@pytest.mark.parametrize("module", facts_page.DOORS)
def test_a_door_is_where_it_was(module):
    found = importlib.import_module(module)
    assert all(hasattr(found, name) for name in facts_page.DOORS[module].split())


def test_the_entry_points_keep_their_names():
    told = read_toml(envs.ROOT / "pyproject.toml")["project"]["entry-points"]["vlmguard"]
    assert set(told) >= ENTRY_POINTS


def test_a_settings_file_of_the_second_edition_is_read(tmp_path):
    (tmp_path / SECOND).write_text(SETTINGS)
    path, table = find_file(tmp_path)
    read = from_table(table, path.name)
    assert (read.freeze, read.report, read.dry_step) == (("vision",), "guard.jsonl", False)
    assert dict(read.rules) == {"VG101": "warn", "VG2": "error"}


def test_no_rule_code_is_gone():
    pages = {page.stem for page in (envs.ROOT / "docs" / "rules").glob("VG*.md")}
    assert pages >= CODES


def test_a_profile_is_found_by_its_entry_point(tmp_path):
    (tmp_path / "mine.py").write_text(PROFILE)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "trainer.py").write_text("class FakeTrainer: pass\n")
    told = tmp_path / "mine-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[vlmguard.profiles]\nfake = mine:Fake\n")
    code = (
        "from elsewhere.trainer import FakeTrainer\n"
        "from vlmguard.core.findings import FindUnused\n"
        "from vlmguard_transformers import profiles\n"
        "found = profiles.of(FakeTrainer())\n"
        "print(found.name, found.rows(None, None), found.spell(FindUnused()))\n"
    )
    start = f"import sys; sys.path[:0] = {[str(tmp_path), *sys.path]!r}\n"
    command = [sys.executable, "-c", start + code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "fake frozenset({'text'}) --find-unused True\n", done.stderr
