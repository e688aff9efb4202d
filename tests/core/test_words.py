"""What is typed behind ``vlmguard NAME`` and is not understood."""

from __future__ import annotations

import pytest

from vlmguard.cli import check, explain, rehearse, rows


@pytest.mark.parametrize(("main", "words", "told"), [
    (explain.main, "--formt=json train.log", "--formt=json (did you mean --format?)"),
    (explain.main, "--al train.log", "--al (did you mean --all?)"),
    (explain.main, "--model train.log", "--model"),
    (rows.main, "--imges data.jsonl", "--imges (did you mean --images?)"),
    (rehearse.main, "--formt json train.sh", "--formt (did you mean --format?)"),
    (check.main, "train.sh --model a", "--model a. If they are the script's: "
                                       "vlmguard check -- bash train.sh --model a"),
])  # fmt: skip
def test_a_flag_that_is_not_known_is_told_with_the_one_that_is_meant(main, words, told, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f": unrecognized arguments: {told}")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        rows.main([str(tmp_path / "none.jsonl")])
    said = f"vlmguard rows: {tmp_path}/none.jsonl: No such file or directory\n"
    assert capsys.readouterr().err == said
