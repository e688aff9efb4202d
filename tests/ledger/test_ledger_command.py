"""``vlmguard ledger``: a report in a terminal, as JSON, as a page; and what is no report."""

from __future__ import annotations

import html.parser
import json
import re

import pytest
from typer.testing import CliRunner

from tests.ledger.runs import BAD, PIECES, RUN, record, station, write
from vlmguard.cli.app import app
from vlmguard.ledger.report import found, page, read, summary


def ledger(*words):
    return CliRunner().invoke(app, ["ledger", *map(str, words)], env={"COLUMNS": "100"})


@pytest.fixture
def report(tmp_path):
    return write(tmp_path / "run.rank0.json")


def test_the_terminal_tells_station_size_step_and_cause(report):
    told = ledger(report).stdout
    assert told.startswith("Does not balance: reduce (first at step 2)\n2 ranks · zero3 · 3 ")
    flat = " ".join(told.split())
    assert "VG640 warning: 31 of 57 vision tensors: another gradient (off by 100 %, since step 2)" in flat  # noqa: E501
    assert "the other checkpointing variant" in flat
    assert "reduce ✓ ✗ ✗" in flat
    assert "? targets: the head is fused away" in flat
    assert "vision 671M 668M 57/57 57/57 0.021 1.1e-5 2e-6" in flat
    assert "<image>×6 <b>a & b</b>[A cup][�[31m!·0.5][no·-0.25][?]" in flat
    assert "\x1b" not in told


def test_what_was_not_read_is_not_0(report):
    write(report, [record(1, update=station("update", "cannot tell", shown={}))])
    told = " ".join(ledger(report).stdout.split())
    assert "vision 671M 668M 57/57 – 0.021 – –" in told


def test_the_name_of_the_setting_will_do(report):
    assert ledger(report.with_name("run.json")).stdout.startswith("Does not balance")


def test_json_is_the_records(report):
    assert json.loads(ledger(report, "--json").stdout) == RUN


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no such file; VLMGUARD_REPORT=run.json in front of the training command"),
        ("", "empty; VLMGUARD_REPORT=run.json"),
        ('{"kind": "header"}\n', "the ledger wrote nothing into this report"),
        ("step 1\n", "not a report: line 1 is no JSON"),
        ('{"kind": "header"}\nstep 1\n', "not a report: line 2 is no JSON"),
        ("[1]\n", "not a report: line 1 is no JSON object"),
        (b"\xff\xfe\x00", "not a report: line 1 is no text"),
        ("[" * 10**5, "not a report: line 1 is no JSON"),
    ],
)
def test_what_is_no_report_is_named(tmp_path, text, told):
    file = tmp_path / "x.json"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = ledger(file)
    assert done.exit_code == 2
    assert f"vlmguard: {file}: {told}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_is_no_report(tmp_path):
    assert "not a file" in ledger(tmp_path).stderr


def test_the_last_line_of_a_killed_run_is_left_out(report):
    with report.open("a") as file:
        file.write('{"kind": "led')
    assert json.loads(ledger(report, "--json").stdout) == RUN


def test_a_report_of_several_runs(report):
    write(report, [*RUN, record(1), record(2, reduce=BAD)])
    assert [len(run) for run in read.runs(report)] == [3, 2]
    last, first = ledger(report), ledger(report, "--run", 1)
    assert "run 2 of 2" in last.stderr
    assert "first at step 2" in last.stdout
    assert "3 watched steps" in first.stdout
    assert "no run 3: there are 2" in ledger(report, "--run", 3).stderr


class Page(html.parser.HTMLParser):
    """Its tags, attributes and texts; a tag that is closed wrongly is an error."""

    VOID = ("meta", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes, self.text = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in self.VOID else [tag]
        self.attributes += [(tag, *each) for each in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += [] if self.open and self.open[-1] == "style" else [data]


def test_the_page_fetches_nothing_and_is_whole(report, tmp_path):
    made = tmp_path / "page.html"
    assert f"{made}: one page" in ledger(report, "--html", made).stdout
    text = made.read_text("utf-8")
    seen = Page(text)
    assert {name: value for _, name, value in seen.attributes if name in ("href", "src")} == {
        "href": "data:,"
    }
    assert not re.search(r"url\(|@import|<script|http", text)
    assert "prefers-color-scheme: dark" in text
    told = " ".join("".join(seen.text).split())
    for part in ("Does not balance: reduce", "the other checkpointing variant", "57/57", "zero3",
                 "the head is fused away", "<b>a & b</b>"):  # fmt: skip
        assert part in told


def test_a_page_that_cannot_be_written(report, tmp_path):
    done = ledger(report, "--html", tmp_path / "no" / "page.html")
    assert "cannot be written: No such file" in done.stderr
    assert done.exit_code == 2


EVIL = '"><script>alert(1)</script>\ud800'


def test_nothing_in_a_report_becomes_html(tmp_path):
    """Whatever a text in it is: every key and value is hostile in turn."""
    entry = dict.fromkeys(("code", "level", "why", "what", "advice"), EVIL)
    rows = [{"rank": 1, "kind": EVIL, "why": EVIL, "pieces": [[EVIL, 1.0], [EVIL, None]]}]
    shown = {EVIL: EVIL, "rows": rows, "towers": {EVIL: {"gradient": 1.0}}}
    bad = station("rows", "cannot tell", reason=EVIL, shown=shown, entries=[entry])
    evil = record(1, rows=bad) | {"strategy": EVIL, "kinds": [EVIL], "towers": {EVIL: {}}}
    file = write(tmp_path / "run.json", [evil])
    assert ledger(file, "--html", tmp_path / "page.html").exit_code == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "<script" not in text
    assert not [name for _, name, _ in Page(text).attributes if name.startswith("on")]
    assert ledger(file).exit_code == 0


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, [[]], {"a": 1}, [None, 1], float("nan")])
def test_keys_of_another_release_are_passed_by(odd):
    """Each part of a record in turn is something else, or missing."""
    keys = ("step", "ranks", "heard", "kinds", "strategy", "towers", "stations")
    records = [{**RUN[1], key: odd} for key in keys]
    records += [{**RUN[1], "towers": {"vision": odd}}]
    records += [record(1, **{name: odd}) for name in RUN[1]["stations"]]
    for part in ("state", "reason", "shown", "entries"):
        records += [record(1, rows=station("rows", **{part: odd}))]
    records += [record(1, update=station("update", shown={k: odd})) for k in ("groups", "towers")]
    records += [record(1, rows=station("rows", shown={"rows": [{"pieces": odd, "rank": odd}]}))]
    records += [record(1, rows=station("rows", entries=[{**BAD["entries"][0], "size": odd}]))]
    for each in [*records, {}]:
        Page(page.page([each], "x"))
        summary.verdict([each])


def test_a_note_that_became_a_warning_is_told_once():
    note = {**BAD["entries"][0], "level": "note"}
    noted = record(1, reduce=station("reduce", entries=[note]))
    (only,) = found.all_of([noted, RUN[1]])
    assert (only.level, only.steps) == ("warning", (2,))


IDLE = station("ranks", "idle")
NO_HEAD = station("targets", "cannot tell")


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([record(1)], "Step 1 balances"),
        ([record(1, ranks=IDLE), record(2)], "Steps 1 and 2 balance"),
        ([record(1, ranks=IDLE, targets=NO_HEAD)], "Step 1 balances at 4 of 5 stations"),
        ([{**record(1), "stations": {"targets": NO_HEAD}}], "Cannot tell whether step 1 balances"),
        ([record(n) for n in range(1, 10)], "9 steps balance"),
    ],
)
def test_the_verdict_counts_what_there_was_to_read(records, told):
    assert summary.verdict(records) == told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "All of 2 ranks were heard. Their weights are the same."),
        ({"heard": 1}, "1 of 2 ranks were heard. Their weights are the same."),
        ({"heard": None}, "Their weights are the same."),
        ({"ranks": 1}, "One rank: there is nothing to compare."),
    ],
)
def test_ranks_that_were_heard(changed, told):
    assert " ".join(summary.ranks([{**record(1), **changed}])) == told


def test_a_model_without_towers_is_called_one():
    told = record(1, reach=station("reach", shown={"trained": {"other": 57}}))
    told = {**told, "towers": {"other": told["towers"]["vision"]}}
    told["stations"] |= {name: station(name, shown={}) for name in ("reduce", "update")}
    assert [cells[0] for cells in summary.tower_cells(told)] == ["model"]


def test_pieces_of_one_weight_are_one():
    (row,) = summary.rows(RUN[:1])
    assert row.title == "step 1, rank 1, row 3, image"
    assert row.pieces == (
        ("<|im_start|>user\n<image>×6 <b>a & b</b>", None),
        ("A cup", 1.0), ("\x1b[31m!", 0.5), ("no", -0.25), ("?", True),
    )  # fmt: skip
    assert sum(weight is not None for _, weight in PIECES) == 5
