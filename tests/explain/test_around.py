"""What is shown of the log beside an answer: command, what was said before, the frames."""

# ruff: noqa: E501
from __future__ import annotations

import json

from vlmguard.explain.command import main

FRAMES = "".join(
    f'  File "/opt/conda/lib/python3.10/site-packages/{name}", line {n}, in call\n    return self.inner(*args)\n'
    for n, name in enumerate(("accelerate/data_loader.py", "torch/utils/data/dataloader.py", "torch/nn/modules/module.py"), 40)
)
LOG = f"""(rad) me@node1:~/vlm$ accelerate launch --num_processes 2 \\
    train.py --cfg stage2.yaml \\
    --hub_token hf_AbCdEfGhIjKlMnOpQrStUvWx
Setting ds_accelerator to cuda (auto detect)
[data] easy 11202 rows, mid 4410 rows, hard 0 rows
Failed to load the cached index, it is built anew
[rank1]: only this rank says so, skipped 3 rows
plan ready
  0%|          | 0/1371 [00:00<?, ?it/s]
Merging weights:   0%|          | 0/10 [00:00<?, ?it/s]
Merging weights:  10%|█         | 1/10 [00:07<01:05,  7.25s/it]
step 20 loss 2.11
step 40 loss 2.02
stage one
stage two
stage three
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/me/vlm/train.py", line 318, in <module>
[rank0]:     main(parse())
{"".join(f"[rank0]: {line}" for line in FRAMES.splitlines(True))}[rank0]:   File "/home/me/vlm/curriculum.py", line 52, in stage_of
[rank0]:     return bisect.bisect_left(self.bounds, seen / self.per_stage[0])
[rank0]: ZeroDivisionError: division by zero
"""


def explained(tmp_path, capfd, text=LOG, *words):
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    main([str(tmp_path / "train.log"), *words])
    return capfd.readouterr().out


def test_the_command_is_whole_and_without_its_secret(tmp_path, capfd):
    out = explained(tmp_path, capfd)
    assert "accelerate launch --num_processes 2 train.py --cfg stage2.yaml --hub_token █" in out
    assert "hf_AbCd" not in out


def test_what_was_said_before_is_shown_once_and_noise_is_not(tmp_path, capfd):
    shown = explained(tmp_path, capfd).partition("evidence:")[2]
    assert "hard 0 rows" in shown  # trouble, though it is far above
    assert "Failed to load the cached index" in shown
    assert "stage three" in shown
    assert "step 20" in shown
    assert "step 40" not in shown  # the same kind of line
    assert "ds_accelerator" not in shown
    assert "only this rank" not in shown  # another one
    assert shown.count("Merging weights") == 1
    assert "0/1371" not in shown


def test_the_lines_stand_in_the_order_of_the_log(tmp_path, capfd):
    shown = explained(tmp_path, capfd).partition("evidence:")[2]
    numbers = [int(line.split("|")[0].rsplit(":", 1)[1]) for line in shown.splitlines() if "train.log:" in line]
    assert numbers == sorted(numbers)
    assert len(numbers) > 6


def test_frames_are_the_users_own_and_the_innermost(tmp_path, capfd):
    shown = explained(tmp_path, capfd).partition("evidence:")[2]
    assert "/home/me/vlm/train.py:318 in <module>: main(parse())" in shown
    assert "… 1 in accelerate" in shown
    assert "torch/utils/data/dataloader.py:41 in call" in shown
    assert "curriculum.py:52 in stage_of: return bisect" in shown


def test_the_frames_of_what_it_came_from_are_shown_as_well(tmp_path, capfd):
    again = LOG + """
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/vlm/train.py", line 400, in outer
    run()
RuntimeError: the pool ended
"""
    shown = explained(tmp_path, capfd, again.replace("[rank0]: ", "")).partition("evidence:")[2]
    assert "curriculum.py:52 in stage_of" in shown
    assert "ZeroDivisionError: division by zero" in shown
    assert "train.py:400 in outer: run()" in shown


DESCRIBED = """$ kubectl describe pod train-0
Name:         train-0
State:        Waiting
Events:
  Type     Reason   Age   From     Message
  Warning  Failed   12s   kubelet  Error: failed to create containerd task: exec: "torchrun": executable file not found in $PATH
Model config Qwen2VLConfig {
  "hidden_size": 1536
}
"""


def test_what_is_indented_is_shown_where_it_is_no_dump(tmp_path, capfd):
    out = explained(tmp_path, capfd, DESCRIBED)
    assert "executable file not found" in out
    assert "hidden_size" not in out


def test_json_has_both(tmp_path, capfd):
    data = json.loads(explained(tmp_path, capfd, LOG, "--format", "json"))
    assert any("hard 0 rows" in line["text"] for line in data["context"])
    assert data["frames"][-1].startswith("/home/me/vlm/curriculum.py:52")
    assert "hf_AbCd" not in json.dumps(data)


def test_a_log_that_just_ends_shows_what_it_did_last(tmp_path, capfd):
    out = explained(tmp_path, capfd, LOG.partition("[rank0]")[0])
    assert out.startswith("unfinished")
    behind = out.partition("the log before that:")[2]
    assert "accelerate launch" in behind
    assert "stage two" in behind


def test_a_long_line_is_cut(tmp_path, capfd):
    out = explained(tmp_path, capfd, LOG.replace("stage two", "stage " + "two " * 4000))
    assert max(map(len, out.splitlines())) < 2000


RICH = """╭─────────────────────────── Traceback (most recent call last) ───────────────────────────╮
│ /home/me/vlm/train.py:7 in main                                                          │
│                                                                                          │
│    6 │   rows = load(path)                                                               │
│ ❱  7 │   │   first = rows[0] / sizes[path]                                               │
│    8 │   return first                                                                    │
╰──────────────────────────────────────────────────────────────────────────────────────────╯
ZeroDivisionError: division by zero
"""


def test_the_frames_of_a_rich_traceback_show_their_code(tmp_path, capfd):
    data = json.loads(explained(tmp_path, capfd, RICH, "--format", "json"))
    assert data["frames"][-1].startswith("/home/me/vlm/train.py:7")
    assert data["frames"][-1].endswith(": first = rows[0] / sizes[path]")
    assert "rows = load" not in "".join(data["frames"])
