"""What a run prints of its data, which may be errors: samples, completions, rows. Nobody's failure."""

# ruff: noqa: E501
from __future__ import annotations

import json

import pytest

from tests.explain import compose
from vlmguard.explain.command import explain

MEMORY = compose.traced("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", None)
KEY = 'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    print(d["x"])\nKeyError: \'x\'\n'
LOADING = "Loading checkpoint shards: 100%|██████████| 4/4 [00:05<00:00,  1.30s/it]\n"


def bars(first, last):
    return "".join(
        f"  3%|▎         | {n}/400 [00:18<09:39,  1.50s/it]\n{{'loss': 0.5, 'grad_norm': 1.2, 'epoch': 0.1}}\n"
        for n in range(first, last)
    )


def table(text):
    """TRL's table of completions, as rich draws it."""
    lines = ["╭" + "─" * 20 + " Step 12 " + "─" * 20 + "╮", "│ ┏" + "━" * 20 + "┳" + "━" * 20 + "┓ │"]
    lines += ["│ ┃ Prompt" + " " * 13 + "┃ Completion" + " " * 8 + "┃ │"]
    for line in text.splitlines():
        lines += [f"│ │ {'Why?':19}│ {line[at:at + 60]:60}│ │" for at in range(0, len(line), 60)]
    return "\n".join([*lines, "│ └" + "─" * 41 + "┘ │", "╰" + "─" * 49 + "╯"]) + "\n"


def verl(text):
    lines = ["[prompt] user", *text.splitlines(), "assistant", "[response] So:", *text.splitlines()]
    return "".join(f"(TaskRunner pid=3123) {line}\n" for line in [*lines, "[ground_truth] 42", "[score] 0.0"])


def factory(text):
    chat = f"<|im_start|>user\nWhy?\n{text}<|im_end|>\n<|im_start|>assistant\n{text}So.<|im_end|>"
    ids = "[151644, 8948, 198]"
    return (
        f"training example:\ninput_ids:\n{ids}\ninputs:\n{chat}\nlabel_ids:\n{ids}\nlabels:\n{text}So.<|im_end|>\n"
        "[INFO|configuration_utils.py:765] 2026-01-12 08:00:12,001 >> loading configuration file\n"
    )


def swift(text):
    said = f"[INFO:swift] [INPUT] <|im_start|>user\n{text}<|im_end|>\n[INFO:swift] [LABELS_IDS] [-100 * 20, 785]\n"
    return said + f"[INFO:swift] [LABELS] [-100 * 20]{text}<|im_end|>\n[INFO:swift] Start time of running main: x\n"


def fenced(text):
    return f"=== sample ===\nHere is the output:\n```\n{text}```\nA smaller batch helps.\n"


def turns(text):
    return json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n"


def repeated(text):
    return f"{[{'from': 'human', 'value': text}, {'from': 'gpt', 'value': 'So.'}]}\n"


def row(text):
    return json.dumps({"text": f"How do I mend this?\n{text}", "label": 1}) + "\n"


QUOTING = (table, verl, factory, swift, fenced, turns, repeated, row)


def judged(tmp_path, text):
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    return explain([str(path)])[0]


@pytest.mark.parametrize("said", [MEMORY, KEY], ids=["memory", "key"])
@pytest.mark.parametrize("quote", QUOTING)
def test_a_run_that_prints_errors_and_goes_on(tmp_path, quote, said):
    for log in (
        LOADING + bars(1, 12) + quote(said),  # the last thing so far
        LOADING + bars(1, 12) + quote(said) + bars(12, 13),
        LOADING + bars(1, 12) + quote(said) + bars(12, 16),
    ):
        answer = judged(tmp_path, log)
        assert (answer.verdict, answer.known) == ("unfinished", None)


@pytest.mark.parametrize("quote", [q for q in QUOTING if q is not fenced])
def test_a_run_that_prints_errors_while_it_starts(tmp_path, quote):
    assert judged(tmp_path, quote(MEMORY) + LOADING).verdict == "unfinished"


@pytest.mark.parametrize("quote", QUOTING)
def test_printed_at_the_end(tmp_path, quote):
    done = "{'train_runtime': 3601.2, 'train_samples_per_second': 1.2, 'train_loss': 0.51}\n"
    assert judged(tmp_path, LOADING + bars(1, 12) + done + quote(MEMORY)).verdict == "finished"


@pytest.mark.parametrize("quote", QUOTING)
def test_its_own_failure_is_told(tmp_path, quote):
    """Behind what it quotes, and before it, where nothing follows that a run would do."""
    own = compose.traced("ValueError: Image features and image tokens do not match: tokens: 14, features 17", None)
    answer = judged(tmp_path, LOADING + bars(1, 12) + quote(MEMORY) + own)
    assert answer.known.code == "VG506"
    answer = judged(tmp_path, LOADING + bars(1, 12) + own + quote(MEMORY))
    assert answer.known.code == "VG506"


def test_what_is_not_closed_is_no_quotation(tmp_path):
    """A prompt without its answer, and then the run's own traceback."""
    for begun in ("<|im_start|>assistant\n", "[prompt] user\nWhy?\n", "```\n", "[INFO:swift] [LABELS] [-100 * 20]So.\n"):
        assert judged(tmp_path, LOADING + bars(1, 12) + begun + MEMORY).known.code == "VG512"


def test_an_issue_that_quotes_a_log_is_a_log(tmp_path):
    assert judged(tmp_path, f"This is what I get:\n```\n{MEMORY}```\n").known.code == "VG512"


def test_what_torch_has_marked_is_the_runs(tmp_path):
    own = compose.traced("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", 1)
    log = f"{bars(1, 12)}<|im_start|>user\nWhy?\n{own}<|im_end|>\n"
    assert judged(tmp_path, log).known.code == "VG512"


def test_a_complaint_about_a_row_is_no_row(tmp_path):
    own = compose.traced("ValueError: Image features and image tokens do not match: tokens: 14, features 17, {'role': 'user'}", None)
    assert judged(tmp_path, own).known.code == "VG506"


@pytest.mark.parametrize(
    "entry",
    [
        {"log": MEMORY, "stream": "stderr", "time": "2026-01-12T08:00:00.000000000Z"},
        {"text": MEMORY, "record": {"level": {"name": "ERROR"}}},
        {"message": MEMORY, "levelname": "ERROR"},
    ],
)
def test_a_collectors_line_is_no_row(tmp_path, entry):
    assert judged(tmp_path, json.dumps(entry) + "\n").known.code == "VG512"


@pytest.mark.parametrize(
    "words",
    [
        "Training completed in 3 epochs", "Fine-tuning completed successfully!", "All training runs completed.",
        "TRAINING COMPLETE", "2026-06-15 17:28 INFO - 预训练完成！", "| INFO | fairseq_cli.train | done training in 123.4 seconds",
        "[after training is done] datetime: 2021-05-18 22:06:01", "`Trainer.fit` stopped: `max_epochs=3` reached.",
        "100 epochs completed in 1.234 hours.", "State: COMPLETED (exit code 0)",
        ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"status": "success"}}',
    ],
)
def test_words_for_an_end(tmp_path, words):
    assert judged(tmp_path, f"{bars(1, 12)}{words}\n").verdict == "finished"


@pytest.mark.parametrize(
    "words",
    [
        "Epoch 1 training completed", "Finished training for epoch 3", "第1轮训练完成", "Fold 3: training complete",
        "Training step completed", "Training of fold 2 finished",
    ],
)
def test_words_for_a_parts_end(tmp_path, words):
    assert judged(tmp_path, f"{bars(1, 12)}{words}\n").verdict == "unfinished"


def test_mlperf_warned_and_finished(tmp_path):
    """mlcommons/training_results_v0.7, a run on eight GPUs whose network cards have no link."""
    steps = "".join(
        f':::MLLOG {{"namespace": "", "event_type": "INTERVAL_START", "key": "epoch_start", "value": null, "metadata": {{"epoch_num": {n}}}}}\n'
        for n in range(1, 4)
    )
    warned = "k69:2848:3149 [4] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n"
    assert judged(tmp_path, warned + steps).verdict == "unfinished"


def test_a_tracker_that_tries_again(tmp_path):
    """A run of YOLO's that goes on after its page was deleted."""
    said = "wandb: ERROR Error while calling W&B API: run yolov8/hi11 not found during createRunFiles (<Response [404]>)\n"
    assert judged(tmp_path, LOADING + said * 3).verdict == "unfinished"
