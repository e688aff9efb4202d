"""Secrets of many kinds, Chinese of a Windows console, files that go away, packs that stay packed."""

# ruff: noqa: E501
from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path

import pytest

from tests.explain import compose
from vlmguard_explain.command import explain, main
from vlmguard_explain.lines import lines
from vlmguard_explain.run import watchdog
from vlmguard_explain.show import show
from vlmguard_explain.source import clean, log_reader, sources

LOG = compose.traced("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", None)
WORD = "Re9n2qp4mXqilNTR2c57qk3culBfUZfhfq16"
HEX = "e9a5b5ab89c3049787a5d33aa7e52a6e87316a58"
SECRETS = {
    f"wandb login --relogin --host=https://api.example.org {HEX}": HEX,
    "AccountName=a;AccountKey=whbcG77+odfW6wl9b4ok2XLaQg6mv4Y+7T/AN6M0A==;EndpointSuffix=core": "whbcG77",
    f'{{"username":"bob","key":"{HEX[:32]}"}}': HEX[:32],
    f"KAGGLE_KEY={HEX[:32]}": HEX[:32],
    "密码：mima123456Q": "mima",
    "数据库密码为mima123456Q，请检查": "mima",
    f"访问令牌：{WORD}": WORD,
    f"密钥: {WORD}": WORD,
    f"swanlab login -k {WORD[:21]}": WORD[:21],
    f"https://hooks.slack.com/services/TJBLOSXVK/BAAKKNMPC/{WORD[:24]}": WORD[:24],
    f"https://open.feishu.cn/open-apis/bot/v2/hook/{WORD}": WORD,
    f"access ya29.{WORD}": WORD,
    f"accessKeySecret: {WORD}": WORD,
    f'"accessKeySecret":"{WORD}"': WORD,
    f"nvapi-{WORD}{WORD}": WORD,
    f"databricks dapi{HEX[:32]}": HEX[:32],
    f"https://api.telegram.org/bot123456789:AA{WORD[:33]}/sendMessage": WORD[:33],
    f"xai-{WORD}": WORD,
    f"gsk_{WORD}": WORD,
    f"sk_live_{WORD}": WORD,
    f"hf_jwt_{WORD}": WORD,
    f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}{WORD[:28]}\n-----END RSA PRIVATE KEY-----": WORD,
    f'"private_key": "-----BEGIN PRIVATE KEY-----\\n{WORD}\\n-----END PRIVATE KEY-----\\n"': WORD,
    f"{WORD}{WORD[:28]}": WORD,
    "curl -u bob:hunter2Xyz https://x": "hunter2",
    "sshpass -p hunter2Xyz ssh a": "hunter2",
    "mysql -ubob -phunter2Xyz db": "hunter2",
    "echo hunter2Xyz | sudo -S ls": "hunter2",
    f"app_key: {WORD}": WORD,
}
HARMLESS = (
    "pad_token: <|endoftext|>", "image_token_id: 151655", "password authentication failed for user",
    "Missing key(s) in state_dict: 'model.embed_tokens.weight'", "KeyError: 'image_grid_thw'",
    "unexpected key: visual.blocks.0.attn.qkv.weight", "num_key_value_heads=8", "密码学数据集",
    "Image features and image tokens do not match, tokens: 3, features: 4",
    "image_token: 151655, pad_token: <|endoftext|>, eos_token='<|im_end|>'",
    "--max_length 4096", "tokenizer: Qwen2TokenizerFast, num_tokens=12345678",
    "docker run -u 1000:1000 image", f"commit {HEX}", "echo training | tee log", "{'key': 'value'}",
)  # fmt: skip


@pytest.mark.parametrize("line", SECRETS)
def test_secret(line):
    for text in (line, f"ValueError: it was {line}"):
        if not line.startswith(WORD) or text is line:
            assert SECRETS[line] not in clean.shown(text)


@pytest.mark.parametrize("line", HARMLESS)
def test_no_secret(line):
    assert clean.shown(line) == line


def test_what_is_not_seen_is_not_shown():
    assert clean.shown("a\u061c\xad\u180e\u2028\U000e0041b") == "ab"


def test_chinese_of_a_windows_console(tmp_path):
    path = tmp_path / "train.log"
    frame = 'Traceback (most recent call last):\n  File "D:\\训练\\微调.py", line 3, in 训练\n    x()\n'
    path.write_bytes(f"开始训练，加载模型\n{frame}ValueError: 样本数量不足\n".encode("gbk"))
    answer, _ = explain([str(path)])
    assert answer.pick.event.message.strip() == "样本数量不足"
    assert answer.pick.event.where[0] == "D:\\训练\\微调.py"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_other_languages_stay(encoding):
    text = "début de l'entraînement à l'étape\n" * 20
    decoded = clean.text(text.encode(encoding))
    assert decoded == text if encoding == "utf-8" else decoded.count("d\ufffdbut") == 20


def test_one_of_several_goes_away(tmp_path, monkeypatch):
    for rank in range(3):
        (tmp_path / f"rank_{rank}.log").write_text(LOG if rank == 1 else "step 1\n")
    opened = Path.open

    def gone(path, *words, **named):
        if path.name == "rank_2.log":
            raise FileNotFoundError(2, "No such file or directory")
        return opened(path, *words, **named)

    monkeypatch.setattr(Path, "open", gone)
    answer, _ = explain([str(tmp_path)])
    assert (answer.known.code, answer.ranks) == ("VG512", (1,))
    with pytest.raises(sources.Unreadable):
        explain([str(tmp_path / "rank_2.log")])


def test_a_zip_is_no_log(tmp_path, capfd):
    with zipfile.ZipFile(tmp_path / "logs.log", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("train.log", LOG * 50)
    assert main([str(tmp_path / "logs.log")]) == 2
    assert "not a log" in capfd.readouterr().err


def test_a_traceback_without_its_end(tmp_path, capfd):
    path = tmp_path / "train.log"
    path.write_text('  File "a.py", line 3, in f\n    x()\n' * 9)
    assert main([str(path), "--format", "json"]) == 3
    assert "a traceback whose last line is not in this log" in json.loads(capfd.readouterr().out)["headline"]


def test_many_launchers_last_words(tmp_path):
    """Each of them is weighed against all: 8,000 took 200 seconds."""
    path = tmp_path / "train.log"
    said = "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 3)\n"
    path.write_text(said * 3000)
    start = time.process_time()
    answer, digests = explain([str(path)])
    assert (answer.verdict, answer.ranks) == ("unknown", (0,))
    assert time.process_time() - start < 8
    said = show.text(answer, digests)
    assert "  1. PET_LOG_DIR=LOGS PET_REDIRECTS=3 in front of the same command\n     # (torchrun" in said
    assert "  2. CUDA_VISIBLE_DEVICES=0 in front of the same command  # as one process (" in said


def test_a_thousand_ranks_are_not_all_shown(tmp_path, capfd):
    path = tmp_path / "train.log"
    path.write_text(
        "".join(
            f"[rank{r}]:[E816 00:34:01.33 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=3, NumelOut=3, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
            for r in range(1000)
        )
    )
    for words, left in (([], 996), (["--all"], 936)):
        assert main([str(path), *words]) == 1
        out = capfd.readouterr().out
        assert f"… and {left} more (--format json has all)" in out
        assert "rank 0 waits in ALLREDUCE #9" in out
        assert "rank 999 waits in ALLREDUCE #9" in out
    assert main([str(path), "--format", "json"]) == 1
    assert len(json.loads(capfd.readouterr().out)["ranks_side_by_side"]) == 1000


NUMBERS = {
    "machines": "torchrun --nproc_per_node 99999 --nnodes 9999 train.py\n" + LOG,
    "no number": "torchrun --nproc_per_node 8 --nnodes ² train.py\nready\n",
    "rows": "--per_device_train_batch_size 999999999989 --gradient_accumulation_steps 999999999989\n" + LOG,
    "port": "torchrun --master_port $MASTER_PORT train.py\n"
    + compose.traced("RuntimeError: The server socket has failed to listen on any local network address. port: $MASTER_PORT, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use", None),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_none_or_beyond_all_bounds(tmp_path, name):
    path = tmp_path / "train.log"
    path.write_text(NUMBERS[name], encoding="utf-8")
    started = time.process_time()
    assert show.text(*explain([str(path)]))
    assert time.process_time() - started < 5


def test_a_watchdog_table_of_more_ranks_than_there_are():
    raw = "[rank{0}]: [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600003 milliseconds"
    two = list(lines.lines([log_reader.Piece(0, 1, "\n".join(raw.format(n) for n in (0, 1)).encode())]))
    assert watchdog.table(two, 3).late == (2,)
    assert watchdog.table(two, 10**9).late == ()
