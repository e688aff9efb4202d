"""Secrets that are blacked out, by their beginnings and their places; and what stays readable."""

from __future__ import annotations

import contextlib
import time

import pytest

from vlmguard.check import redact
from vlmguard.cli import check

LONG = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
HEX = "0123456789abcdef0123456789abcdef01234567"
SECRETS = {
    "Hugging Face": f"hf_{LONG}",
    "OpenAI": f"sk-proj-{LONG}",
    "ModelScope": "ms-01234567-89ab-cdef-0123-456789abcdef",
    "GitHub": f"ghp_{LONG}",
    "GitHub, fine-grained": f"github_pat_11ABCDEFG0_{LONG}",
    "GitLab": "glpat-x7Yz_1aB2cD3eF4gH5iJ",
    "Slack": "xoxb-123456789012-abcdefABCDEF",
    "Slack app": "xapp-1-A012BCDEF-1234567890-abcdef",
    "Google": f"AIza{LONG[:35]}",
    "Google OAuth": f"ya29.{LONG}",
    "npm": f"npm_{LONG}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{LONG}",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS temporary": "ASIAIOSFODNN7EXAMPLE",
    "Weights & Biases": f"wandb_v1_{LONG}",
    "Replicate": f"r8_{LONG}",
    "NVIDIA": f"nvapi-{LONG}",
    "JSON Web Token": f"eyJhbGciOiJIUzI1NiJ9.{LONG}.{LONG}",
}
PLACES = {
    "https://user:S3CRET@host/repository.git": "https://***@host/repository.git",
    "mysql://root:S3CRET@db/runs": "mysql://***@db/runs",
    "mysql -u root -pS3CRET runs": "mysql -u root -p*** runs",
    "sshpass -p S3CRET ssh node1": "sshpass -p *** ssh node1",
    "docker login -u me -p S3CRET": "docker login -u me -p ***",
    "swanlab login -k S3CRET": "swanlab login -k ***",
    "SWANLAB_API_KEY=S3CRET": "SWANLAB_API_KEY=***",
    f"wandb login {HEX}": "wandb login ***",
    "Cookie: session=S3CRET; id=S3CRET": "Cookie: ***",
    "https://hooks.slack.com/services/T0/B0/S3CRET": "https://hooks.slack.com/services/***",
    "https://open.feishu.cn/open-apis/bot/v2/hook/S3CRET":
        "https://open.feishu.cn/open-apis/bot/v2/hook/***",
    "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=S3CRET":
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=***",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nS3CRET\nS3CRET\n-----END OPENSSH PRIVATE KEY-----":
        "-----BEGIN OPENSSH PRIVATE KEY-----***-----END OPENSSH PRIVATE KEY-----",
}  # fmt: skip
READABLE = (
    f"at commit {HEX}", f"--model_revision={HEX}", "--pad_token=<|endoftext|>",
    "pad_token: <pad>", "eos_token_id=151645", "--image_token=<image>", "max_new_tokens=128",
    "docker run -p 8080:80 image", "mkdir -p out/run", "torchrun -m train", "?version=2",
)  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_known_beginning_is_enough(secret):
    assert redact.text(f"a line with {secret} in it") == "a line with *** in it"


@pytest.mark.parametrize(("line", "shown"), PLACES.items())
def test_a_place_is_enough(line, shown):
    assert redact.text(line) == shown
    if "\n" not in line and "Cookie" not in line:
        assert redact.words(line.split()) == shown.split()


@pytest.mark.parametrize("line", READABLE)
def test_what_is_no_secret_stays_readable(line):
    assert redact.text(line) == line
    assert redact.words(line.split()) == line.split()


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
@pytest.mark.parametrize(
    "command",
    [f"curl https://me:{'s3cr3t' * 8}@host/x", "mylauncher train --password s3cr3t-value",
     "swift sft --model x --my_token s3cr3tAAAA"],
)  # fmt: skip
def test_no_format_shows_a_secret(command, form, tmp_path, capsys):
    (tmp_path / "x.sh").write_text(command + "\n")
    with contextlib.suppress(SystemExit):
        check.main(["--format", form, str(tmp_path / "x.sh")])
    assert "s3cr3t" not in capsys.readouterr().out


def test_thousands_of_words_take_seconds_and_a_password_is_known_by_what_is_far_before_it():
    many = [f"--flag_{number}" for number in range(5000)]
    started = time.process_time()
    assert redact.words(many) == many
    assert time.process_time() - started < 5
    near = ["mysql", *["--verbose"] * 100, "-psecret"]
    assert redact.words(near)[-1] == "-p***"
