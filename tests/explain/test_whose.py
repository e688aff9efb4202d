"""Which rank a failure's own words name, and what was begun when the others waited."""

from __future__ import annotations

import pytest

from tests.explain.test_shapes import told_right
from vlmguard.explain import frames
from vlmguard.explain.command import explain

ASKED = (
    "torch.distributed.DistBackendError: [{}] is setting up NCCL communicator and retrieving "
    "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: "
    "Socket Timeout\n"
)
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in main\n    {}\n'
PRINT = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/w/train.py", line 9, in main\n[rank{0}]:     loss.backward()\n'
    "[rank{0}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {0} is running "
    "collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[{1}], "
    "TensorDtypes=Float), but Rank {2} is running collective: CollectiveFingerPrint("
    "SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[{3}], TensorDtypes=Float).\n"
)
FULL = TRACE.format("out = model(x)") + (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.27 GiB. GPU 5 has a "
    "total capacty of 79.15 GiB of which 1.61 GiB is free.\n"
)
OF_8 = "[2024-03-20 16:20:16,947] [INFO] [launch.py:163:main] dist_world_size=8\n"
KILLED = "[2023-04-07 14:19:33,420] [ERROR] [launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', 'run.py', '--local_rank=0'] exits with return code = -9\n"  # noqa: E501
NCCL = "srv4:41:42 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {} nranks 4 cudaDev {} nvmlDev {} busId {} commId 0xd - Init COMPLETE\n"  # noqa: E501
CARDS = "".join(NCCL.format(r, r, r, bus) for r, bus in enumerate(("a3000", "9b000", "1c000")))
XID = "[Sat May  3 11:20:09 2025] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
STEPS = "".join(f" {n}%|x| {n}/100 [00:0{n % 10}<01:00, 1.00it/s]\n" for n in range(1, 40))
WAIT = "[E ProcessGroupNCCL.cpp:523] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3011, OpType=_ALLGATHER_BASE, NumelIn=1310, NumelOut=10480, Timeout(ms)=1800000) ran for 1800060 milliseconds before timing out.\n"  # noqa: E501
WAITS = WAIT.format(1) + WAIT.format(4) + WAIT.format(7)
SAVES = "[2024-06-14 22:10:01] rank0: saving full state dict (36.1 GB) to /s3fuse/step39.ckpt\n"

SHAPES = {
    "an id that rank 0 did not give": (
        TRACE.format("dist.barrier()") + ASKED.format(2) + ASKED.format(3),
        "VG517",
        (0,),
    ),
    "one rank of three in another collective": (
        PRINT.format(0, 12, 1, 8) + PRINT.format(1, 8, 0, 12) + PRINT.format(2, 12, 1, 8),
        "VG505",
        (1,),
    ),
    "one of two: either": (PRINT.format(0, 12, 1, 8) + PRINT.format(1, 8, 0, 12), "VG505", (0, 1)),
    "the card that is full": (OF_8 + FULL, "VG512", (5,)),
    "a card, and nobody says how many ranks": (FULL, "VG512", ()),
    "one rank, and nothing else to tell it": (
        "Rank: 0 partition count [1] and sizes[(6050882784, False)] \n" + KILLED,
        "VG532",
        (0,),
    ),
    "the card that fell, by its place on the bus": (CARDS + STEPS + XID, "VG534", (1,)),
    "a card that is no rank's": (CARDS.replace("9b000", "9c000") + STEPS + XID, "VG534", ()),
    "who saves while others wait": (STEPS + SAVES + WAITS, "VG551", (0,)),
    "who evaluates": (
        STEPS + "Val:  19%|█▉        | 367/1893 [30:01<2:04:48,  4.91s/it]\n" + WAITS,
        "VG551",
        (),
    ),
    "some wait, of the others nothing is told": (STEPS + WAITS, "VG505", ()),
    "it saved before, and went on": (STEPS[:800] + SAVES + STEPS[800:] + WAITS, "VG505", ()),
}


@pytest.mark.parametrize("name", SHAPES)
def test_rank(tmp_path, name):
    told_right(tmp_path, *SHAPES[name])


LOST = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 9.7e-06, 'epoch': 0.07}\n" * 4
CTRL_C = TRACE.format("time.sleep(1)") + "KeyboardInterrupt\n"
SOUND = "{'loss': 1.5, 'grad_norm': 1.1, 'learning_rate': 9.7e-06, 'epoch': 0.07}\n"


@pytest.mark.parametrize(("losses", "code"), [(LOST, "VG515"), (SOUND, "VG569")])
def test_who_ends_a_run_whose_loss_is_no_number_had_a_reason(tmp_path, losses, code):
    told_right(tmp_path, STEPS + losses + CTRL_C, code, None)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("loss is nan for 50 batches in a row, stopping", "VG515"),
        ("Minimum loss scale reached (0.0001). Your loss is probably exploding.", "VG560"),
    ],
)
def test_a_floating_point_error_by_its_words(tmp_path, message, code):
    told_right(tmp_path, TRACE.format("check()") + f"FloatingPointError: {message}\n", code, None)


def test_steps_in_brackets_and_an_end_in_a_word(tmp_path):
    path = tmp_path / "train.log"
    steps = "".join(f"[  {n}/90] loss 1.{n}  img/s 230\n" for n in range(1, 60))
    path.write_text(steps, encoding="utf-8")
    answer, _ = explain([str(path)])
    assert (answer.verdict, answer.facts.steps) == ("unfinished", (59, 90))
    path.write_text(steps + "finished: 90 steps, best val 1.11\n", encoding="utf-8")
    assert explain([str(path)])[0].verdict == "finished"


@pytest.mark.parametrize(
    ("path", "foreign", "users"),
    [
        ("/opt/conda/lib/python3.11/site-packages/trl/trainer/sft_trainer.py", True, False),
        (r"D:\envs\vlm\lib\site-packages\torch\nn\modules\module.py", True, False),
        ("/usr/lib64/python3.9/runpy.py", True, False),
        ("<string>", True, False),  # a dataclass's __init__
        ("/home/me/ms-swift/swift/llm/base.py", False, False),
        ("/home/me/libs/python_tools/train.py", False, True),
        ("train.py", False, True),
    ],
)
def test_whose_file_it_is(path, foreign, users):
    assert (frames.foreign(path), frames.users(path)) == (foreign, users)
