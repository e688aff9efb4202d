"""The repositories' page and verdicts; what is committed holds."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.kit import oracle
from tests.kit.runs import Outcome
from tools.pages import repositories_page
from tools.repositories import campaign, judge, recipe
from tools.repositories.recipes import every


def outcome(tmp_path, side, update, ranks=2, codes=(), lines=(), returncode=0):
    """A run whose ranks moved one weight by ``update``; none trained where ``ranks`` is 0."""
    torch = pytest.importorskip("torch")
    from tests.kit.standins.vlmguard_capture import Rank, write

    folder = tmp_path / side
    for number in range(ranks):
        begun = {"w": torch.ones(4)}
        moved = {"w": torch.ones(4) + torch.tensor(update)}
        wrapped = "none" if ranks == 1 else "DistributedDataParallel"
        made = Rank(number, ranks, wrapped, begun, moved, [1.0], {"w": str(update)})
        write(folder / "capture", made)
    (folder / "report").mkdir(parents=True, exist_ok=True)
    told = [{"kind": "finding", "time": 0, **code} for code in codes]
    text = "\n".join(map(json.dumps, told))
    (folder / "report" / "findings.jsonl").write_text(text)
    said = [(0.0, line) for line in lines]
    return Outcome(["python"], str(folder), returncode, 1.0, False, [], said)


RIGHT, WRONG = [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.1]
NOTED = {"code": "VG106", "outcome": "noted", "why": "ranks would hang", "level": "note"}
WARNED = {"code": "VG660", "outcome": "warned", "why": "ranks differ", "level": "warning"}
STOPPED = {"code": "VG202", "outcome": "stopped", "why": "a rank has no image", "level": "error"}


@pytest.mark.parametrize(
    ("off", "on", "verdict"),
    [
        ({"update": RIGHT}, {"update": RIGHT}, "healthy and bitwise equal"),
        ({"update": RIGHT}, {"update": [0.1, 0.2, 0.3, 0.4 + 1e-6]}, "healthy, and changed"),
        ({"update": RIGHT}, {"update": RIGHT, "ranks": 0}, "healthy run broken: crash"),
        ({"update": RIGHT, "ranks": 0}, {"update": RIGHT}, "crash → right"),
        ({"update": WRONG}, {"update": RIGHT}, "wrong → right"),
        ({"update": WRONG}, {"update": RIGHT, "ranks": 0, "codes": [STOPPED]},
         "wrong → stopped (VG202)"),
        ({"update": WRONG}, {"update": WRONG}, "wrong, and wrong with it"),
        ({"update": WRONG}, {"update": WRONG, "codes": [WARNED, NOTED]},
         "wrong, and wrong with it (warned: VG660)"),
        ({"update": WRONG, "ranks": 0}, {"update": WRONG, "ranks": 0, "codes": [WARNED, NOTED]},
         "crash, and crash with it (told before: VG106)"),
    ],
)  # fmt: skip
def test_what_became_of_a_cell(tmp_path, off, on, verdict):
    ended = {
        "reference": outcome(tmp_path, "reference", RIGHT, ranks=1),
        "off": outcome(tmp_path, "off", **off),
        "on": outcome(tmp_path, "on", **on),
    }
    assert judge.record(ended, "ddp")["verdict"] == verdict
    if any(ended[side].ranks for side in ("off", "on")):
        with pytest.raises(oracle.Vacuous, match="not DeepSpeedEngine/zero3"):
            judge.record(ended, "zero3")


def test_a_reference_that_did_not_train_is_no_comparison(tmp_path):
    lines = ["[rank0]: KeyError: 'text'", "torch.distributed…ChildFailedError: "]
    alone = outcome(tmp_path, "reference", RIGHT, ranks=0, lines=lines)
    with pytest.raises(oracle.Vacuous, match="KeyError: 'text'"):
        judge.ran(alone)


def test_the_rank_that_failed_is_told_not_the_one_that_was_left():
    lines = [(0.0, "[rank0]: ValueError: no"), (1.0, "[rank1]: RuntimeError: Connection closed")]
    run = Outcome(["python"], "", 1, 1.0, False, [], lines)
    assert judge._last(run) == "[rank0]: ValueError: no"


def test_every_change_that_a_recipe_names_is_described_and_made():
    folder = campaign.HERE / "inside"
    made = (folder / "repository_changes.py").read_text("utf-8")
    for each in every():
        assert set(each.changes) <= repositories_page.CHANGES.keys(), each.name
    assert all(f"def _{name}(" in made for name in repositories_page.CHANGES)


def test_every_recipe_has_packages_or_a_reason():
    names = [each.name for each in every()]
    assert len(names) == len(set(names))
    for each in every():
        assert bool(each.refused) != bool(each.cells), each.name
        assert each.refused or campaign.packages(each)["torch"]


def test_every_cell_of_a_recipe_has_a_run_or_a_reason():
    named = {f"{each.name} {cell.key}" for each in every() for cell in each.cells}
    assert named - campaign.load().keys() == repositories_page.LEFT.keys()


def test_rows_differ_between_ranks_in_the_first_step(tmp_path):
    place = recipe.Place(tmp_path, tmp_path, tmp_path, alone=False)
    rows = json.loads(recipe.conversations(place).read_text())
    assert len(rows) == recipe.STEPS * recipe.WORLD
    assert ["image" in row for row in rows[:2]] == [False, True]
    assert all((tmp_path / row["image"]).exists() for row in rows if "image" in row)
    assert len({row["conversations"][1]["value"] for row in rows}) == 1


def test_the_reference_has_no_deepspeed(tmp_path):
    file = tmp_path / "zero3.json"
    file.write_text(json.dumps({"optimizer": {}, "zero_optimization": {"offload_param": {}}}))
    assert recipe.deepspeed(recipe.Place(tmp_path, tmp_path, tmp_path, True), file.name) == []
    words = recipe.deepspeed(recipe.Place(tmp_path, tmp_path, tmp_path, False), file.name)
    told = json.loads((tmp_path / "deepspeed.json").read_text())
    assert words == ["--deepspeed", str(tmp_path / "deepspeed.json")]
    assert told["gradient_clipping"] == 0
    assert "optimizer" not in told
    assert told["zero_optimization"] == {"overlap_comm": False}


def test_a_commit_is_named_by_git_or_a_file(tmp_path):
    (tmp_path / "COMMIT").write_text("0123456789abcdef\n")
    assert campaign.commit(tmp_path) == "0123456789ab"
    if shutil.which("git"):
        asked = ["git", "-C", str(campaign.ROOT), "rev-parse", "--short=12", "HEAD"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        assert campaign.commit(campaign.ROOT) == said


def test_the_page_tells_each_record(monkeypatch, tmp_path):
    side = {"ended": "crash", "message": "Key|Error", "seconds": 1}
    told = {
        "repository": "a/b", "commit": "0123456789ab", "script": "train.py",
        "cell": "m/zero3/x/full",
        "packages": {"torch": "2"}, "guard": "1", "changes": ["order"], "altered": "a rate",
        "off": side, "on": {"ended": "right", "error": 2e-5, "said": ["VG106 set"], "seconds": 1},
        "verdict": "crash → right",
    }  # fmt: skip
    none = {"repository": "c/d", "cell": "", "script": "", "verdict": "refused: needs CUDA"}
    monkeypatch.setattr(repositories_page, "DATA", tmp_path / "repositories.jsonl")
    monkeypatch.setattr(campaign, "RECORDS", tmp_path / "repositories.jsonl")
    campaign.save({campaign._key(each): each for each in (told, none)})
    page = repositories_page.text()
    assert "**1 repositories ran in 1 cells: 1 crash → right.**" in page
    assert "| a/b (0123456) | m/zero3/x/full | crash (Key\\|Error) | right | 2e-05 |" in page
    assert "| c/d | needs CUDA |" in page
    assert "| of a/b | a rate | a/b |" in page
    assert campaign.load().keys() == {"a/b m/zero3/x/full", "c/d "}


def test_no_committed_run_that_was_healthy_is_changed_or_broken():
    found = {key: told["verdict"] for key, told in campaign.load().items()}
    assert found
    assert [key for key, verdict in found.items() if verdict.startswith("healthy run")] == []
    assert [key for key, verdict in found.items() if verdict == "healthy, and changed"] == []
