"""The seed of drawn runs: the same for one state of the sources, and one's own if asked for."""

from __future__ import annotations

from tests.kit import seeds


def test_a_change_of_the_sources_draws_other_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(seeds, "ROOT", tmp_path)
    monkeypatch.delenv("VLMGUARD_DRAW", raising=False)
    (tmp_path / "vlmguard").mkdir()
    file = tmp_path / "vlmguard" / "a.py"
    drawn = []
    for text in ("x = 1\n", "x = 2\n", "x = 1\n"):
        file.write_text(text)
        seeds.sources.cache_clear()
        drawn.append(seeds.seed("VLMGUARD_DRAW"))
    seeds.sources.cache_clear()
    assert drawn[0] == drawn[2] != drawn[1]


def test_the_environment_decides_if_it_names_one(monkeypatch):
    monkeypatch.setenv("VLMGUARD_DRAW", "41")
    assert seeds.seed("VLMGUARD_DRAW") == 41
