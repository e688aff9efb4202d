"""Files to which several jobs were appended, and lines that lost their ends."""

# ruff: noqa: E501
from __future__ import annotations

import json

import pytest

from tests.explain import compose
from tests.explain.test_shapes import told_right
from vlmguard.explain.command import explain
from vlmguard.explain.formats import as_json
from vlmguard.explain.show import text

BAR = "  3%|▎         | {k}/400 [00:18<09:39,  1.50s/it]\n"
ERROR = "ValueError: Image features and image tokens do not match: tokens: 2456, features 3360"
FULL = "OSError: [Errno 28] No space left on device: '/out/checkpoint-10/optimizer.pt'"


def report(job: int, code: int) -> str:
    done = "Successfully completed." if code == 0 else f"Exited with exit code {code}."
    return (
        "Sender: LSF System <lsfadmin@node-17>\n"
        f"Subject: Job {job}: <train> in cluster <blue> {'Done' if code == 0 else 'Exited'}\n\n"
        "Your job looked like:\n\n------------------------------------------------------------\n# LSBATCH: User input\nbash train.sh\n"
        f"------------------------------------------------------------\n\n{done}\n\nResource usage summary:\n\n    CPU time :   7081.00 sec.\n\n"
    )


def before(job: int, code: int, output: str) -> str:
    """LSF's usual file: the report, then the output."""
    return report(job, code) + "The output (if any) follows:\n\n" + output + "\n\nPS:\n\nRead file <err> for stderr output of this job.\n\n"


def behind(job: int, code: int, output: str) -> str:
    """LSF with LSB_STDOUT_DIRECT: the output, then the report."""
    return output + "\n" + report(job, code) + "The output (if any) is above this job summary.\n\n"


def steps(until: int) -> str:
    return "".join(BAR.format(k=k) for k in range(1, until))


@pytest.mark.parametrize("layout", [before, behind])
def test_of_lsf_jobs_the_last(tmp_path, layout):
    failed = layout(1, 1, steps(9) + compose.traced(ERROR, 0))
    full = layout(2, 1, steps(20) + compose.traced(FULL, 1))
    done = layout(3, 0, steps(9) + compose.DONE["TRL"].format(steps=9))
    told_right(tmp_path, failed + full, "VG535", (1,))
    told_right(tmp_path, failed + full + done, "finished", ())
    told_right(tmp_path, done + failed, "VG506", (0,))
    told_right(tmp_path, done + layout(4, 137, steps(30)), "VG532", None)


def test_that_the_last_is_told_is_said(tmp_path):
    path = tmp_path / "job.log"
    path.write_text(before(1, 1, compose.traced(ERROR, 0)) + before(2, 1, compose.traced(FULL, 1)), encoding="utf-8")
    answer, digests = explain([str(path)])
    assert digests[0].before == 1
    assert "holds 1 earlier run; told is the last, from line" in text(answer, digests)
    assert json.loads(as_json(answer, digests))["earlier_runs"] == 1


def test_facts_are_the_last_run_s(tmp_path):
    end = compose.DEEPSPEED.format(code=1)
    first = compose.preamble("ms-swift", 8) + compose.traced(ERROR, 0) + end
    second = compose.preamble("LLaMA-Factory", 2, micro=3) + compose.traced(FULL, 1) + end
    path = tmp_path / "train.log"
    path.write_text(first + second, encoding="utf-8")
    answer, digests = explain([str(path)])
    assert (answer.known.code, answer.facts.micro, digests[0].before) == ("VG535", 3, 1)
    assert answer.facts.framework == "LLaMA-Factory"


def test_slurm_appends(tmp_path):
    cancelled = "slurmstepd: error: *** JOB 42 ON gpu-node-17 CANCELLED AT 2026-01-12T08:00:21 DUE TO TIME LIMIT ***\n"
    began = "SLURM_JOB_ID=43\n"
    told_right(tmp_path, steps(30) + cancelled + began + steps(9) + compose.traced(ERROR, 1), "VG506", (1,))
    told_right(tmp_path, steps(30) + cancelled + began + steps(9), "unfinished", None)


JOINED = {
    "a clock": f"2026-01-12 08:14:07{ERROR}\n",
    "a bar": f"  3%|▎         | 12/400 [00:18<09:39,  1.50s/it]{ERROR}\n",
    "a dictionary": f"{{'loss': 0.5, 'epoch': 0.1}}{ERROR}\n",
    "with its module": "  3%|▎         | 12/400 [00:18<09:39,  1.50s/it]torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
}


@pytest.mark.parametrize("what", JOINED)
def test_glued(tmp_path, what):
    code = "VG512" if "module" in what else "VG506"
    told_right(tmp_path, compose.preamble("TRL", 2) + steps(12) + JOINED[what] + compose.DEEPSPEED.format(code=1), code, None)


def test_a_warning_in_json_stays_one(tmp_path):
    """What a logger wrote as a warning was caught, though it holds a traceback."""
    caught = json.dumps({"levelname": "WARNING", "message": "retrying", "exc_info": compose.traced(ERROR, None)})
    told_right(tmp_path, steps(5) + caught + "\n" + steps(4), "unfinished", None)


def test_json_that_is_no_log(tmp_path):
    """Metrics in JSON are lines as they are."""
    lines = "".join(json.dumps({"step": k, "loss": 1 / k, "text": None}) + "\n" for k in range(1, 30))
    told_right(tmp_path, lines + compose.traced(ERROR, 1), "VG506", (1,))


@pytest.mark.parametrize("line", ["{" * 200000 + "}", '{"log": "' + "x" * 200000 + '"}', '{"log": 5}', "{}", '{"log": "\\ud800"}'])
def test_hostile_json(tmp_path, line):
    told_right(tmp_path, line + "\n" + compose.traced(ERROR, 1), "VG506", (1,))
