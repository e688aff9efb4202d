"""What a run was at: before its first step, in a hang that somebody ended, at losses of nan."""

from __future__ import annotations

import pytest

from tests.explain.test_shapes import told_right

WAIT = "[rank{0}]:[E304 11:02:17.11{0}433211 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600074 milliseconds before timing out.\n"  # noqa: E501
WAITS = "".join(WAIT.format(rank) for rank in (1, 2, 3))
STEPS = "".join(f" {n}%|x| {n}/100 [00:0{n % 10}<01:00, 1.00it/s]\n" for n in range(1, 40))
TOKENIZING = (
    "Running tokenizer on dataset (num_proc=16):  31%|##  | 311/1001 [29:58<1:06, 0.17/s]\n"
)
SHARDS = "Loading checkpoint shards: 100%|####| 15/15 [00:58<00:00,  3.50s/it]\n"
MEETING = (
    "{0}Traceback (most recent call last):\n"
    '{0}  File "/w/train.py", line 20, in main\n{0}    dist.init_process_group("nccl")\n'
    '{0}  File "/x/site-packages/torch/distributed/rendezvous.py", line 185, in '
    "_create_c10d_store\n{0}    tcp_store = TCPStore(hostname, port, world_size, False, timeout)\n"
    "{0}KeyboardInterrupt\n"
)
FIRST = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/w/data/loader.py", line 310, in get_dataset\n'
    "[rank1]:     with training_args.main_process_first(desc='pre-process dataset'):\n"
    '[rank1]:   File "/x/site-packages/transformers/training_args.py", line 2551, in '
    "main_process_first\n[rank1]:     dist.barrier()\n"
    "[rank1]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.\n"
)
PROXY = (
    "Traceback (most recent call last):\n"
    '  File "/x/site-packages/requests/adapters.py", line 694, in send\n'
    "    raise ProxyError(e, request=request)\n"
    "requests.exceptions.ProxyError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', "
    "port=443): Max retries exceeded with url: /a/b/resolve/main/config.json (Caused by "
    "ProxyError('Unable to connect to proxy', OSError('Tunnel connection failed: 403 Forbidden')))"
    "\"), '(Request ID: 1)')\n"
)
LOST = "".join(f"epoch {n} | loss nan | acc 0.1\n" for n in range(1, 9))
BARS = "".join(
    f"1|{n}|Loss: 1.{n}: {n}%|##  | {n}/{{0}} [01:01<02:00, 1.02s/it]\n" for n in range(61)
)
KERAS = "".join(
    f"Epoch {n}/3\n500/500 [==============================] - 300s 60{n}ms/step - loss: 0.9{n} - "
    "val_loss: 1.08\n"
    for n in range(1, 4)
)

SHAPES = {
    "the others wait while one tokenizes": (TOKENIZING + WAITS, "VG517", (0,)),
    "they wait where one goes first": (FIRST + WAITS, "VG517", (0,)),
    "all was loaded": (SHARDS + WAITS, "VG505", (0,)),
    "after steps a bar of loading tells nothing": (TOKENIZING + STEPS + WAITS, "VG505", None),
    "Ctrl-C, all in the first meeting": (
        MEETING.format("[rank0]: ") + MEETING.format("[rank1]: "),
        "VG517",
        (),
    ),
    "Ctrl-C there, of a second run in the file": (
        STEPS + MEETING.format(""),
        "VG569",
        None,
    ),
    "a proxy that forbids, no hub": (PROXY, "VG540", None),
    "no number, by a blank": (LOST + "Training complete in 3m\n", "VG515", None),
    "a validation's without a number": (
        LOST.replace("loss nan", "loss 1.2 | val loss nan") + "Training complete in 3m\n",
        "finished",
        None,
    ),
    "no number, and the program ends itself": (
        "Epoch: [3]  [ 10/500]  eta: 0:10:01  lr: 0.0001  loss: 4.1 (5.2)  time: 0.6\n"
        "Loss is nan, stopping training\n",
        "VG515",
        None,
    ),
    "a bar with a loss is the training's": (BARS.format(60), "finished", None),
    "and not at its end": (BARS.format(90), "unfinished", None),
    "records of one width are no broken lines": (KERAS + "Training complete.\n", "finished", None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_told(tmp_path, name):
    told_right(tmp_path, *SHAPES[name])


@pytest.mark.parametrize(
    "end",
    [
        "学習が完了しました",
        "학습이 완료되었습니다.",
        "Entraînement terminé en 3 min.",
        "Entrenamiento completado",
        "Обучение завершено за 3 мин",
    ],
)
def test_an_end_in_another_language(tmp_path, end):
    told_right(tmp_path, f"epoch 1 loss 2.1\nepoch 2 loss 2.0\n{end}\n", "finished", None)


def test_mmengine_counts_all_iterations(tmp_path):
    line = "03/04 11:00:01 - mmengine - INFO - Iter(train) [{:3d}/100]  lr: 1.0e-04  loss: 1.2\n"
    steps = "".join(line.format(n) for n in range(10, 101, 10))
    told_right(tmp_path, steps, "finished", None)
    told_right(tmp_path, steps[: len(steps) // 2], "unfinished", None)


LOGGED = "".join(
    f"2025-03-04 10:{n:02d}:12,123 INFO step {n}/500 loss 1.{n} lr 1e-5\n" for n in range(1, 30)
)
SAYS = "2025-03-04 10:29:30,123 INFO {}\n"
DEATH = "W0304 {}.121000 4120 torch/distributed/elastic/agent/server/api.py:704] Received 2 death signal, shutting down workers\n"  # noqa: E501
INSIDE = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/w/train.py", line 90, in main\n[rank{0}]:     dist.all_reduce(loss)\n'
    '[rank{0}]:   File "/x/site-packages/torch/distributed/distributed_c10d.py", line 2501, in '
    "all_reduce\n[rank{0}]:     work.wait()\n[rank{0}]: KeyboardInterrupt\n"
)
LOADER = INSIDE.replace("torch/distributed/distributed_c10d.py", "torch/utils/data/dataloader.py")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("rank 0: generating 512 samples for the validation set ...", "VG551"),
        ("consolidating fp32 weights ...", "VG551"),
        ("正在保存检查点到 /nfs/out/step-29", "VG551"),
        ("开始验证 ...", "VG551"),
        ("all is well", "VG505"),
    ],
)
def test_what_a_script_says_that_it_began(tmp_path, said, code):
    told_right(tmp_path, LOGGED + SAYS.format(said) + WAITS, code, (0,))


def test_what_it_began_and_ended_is_not_what_they_wait_for(tmp_path):
    half = len(LOGGED) // 2 // len(LOGGED.splitlines(True)[0]) * len(LOGGED.splitlines(True)[0])
    said = SAYS.format("consolidating fp32 weights ...")
    told_right(tmp_path, LOGGED[:half] + said + LOGGED[half:] + WAITS, "VG505", (0,))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("> building dataset index ...\n", "VG517"),
        ("Generating train split: 3112 examples [29:50, 1.1 examples/s]\n", "VG517"),
        ("> building dataset index ...\n" + "[INFO] a later line\n" * 9, "VG505"),
    ],
)
def test_data_is_made_ready_right_before_they_wait(tmp_path, said, code):
    told_right(tmp_path, said + WAITS, code, (0,))


@pytest.mark.parametrize(
    ("clock", "there", "code"),
    [
        ("12:41:11", INSIDE, "VG505"),
        ("10:29:41", INSIDE, "VG569"),
        ("12:41:11", LOADER, "VG569"),
    ],
)
def test_ctrl_c_long_after_the_last_step(tmp_path, clock, there, code):
    ended = DEATH.format(clock) + "".join(there.format(rank) for rank in (0, 1, 2))
    told_right(tmp_path, LOGGED + ended, code, None)


YOLO = "      {0}/100      2.3G        {1}      {1}      {1}       31      640: 100%|##| 9/9 [00:10<00:00, 9.1it/s]\n"  # noqa: E501


@pytest.mark.parametrize(
    "line",
    [
        "第 {0} 步, 损失: {1}, 学习率 1e-5\n",
        "스텝 {0}/40 손실 {1}\n",
        "step {0} loss tensor({1}, device='cuda:0', grad_fn=<NllLossBackward0>)\n",
        YOLO,
    ],
)
def test_losses_as_others_print_them(tmp_path, line):
    lost = "".join(line.format(n, "nan") for n in range(1, 9))
    told_right(tmp_path, lost, "VG515", None)
    told_right(tmp_path, lost + line.format(9, "1.21"), "unfinished", None)


def test_a_validation_loss_in_chinese_is_not_the_trainings(tmp_path):
    told_right(tmp_path, "第 1 轮, 训练损失 1.2, 验证损失: nan\n" * 5, "unfinished", None)
    told_right(tmp_path, "第 1 轮 验证损失: nan\n" * 5, "unfinished", None)


@pytest.mark.parametrize(
    "line",
    [
        "step {0} train/loss 1.2 val/loss nan\n",
        "step {0} loss: 1.2 eval/loss: nan test_loss=nan dev loss: nan\n",
        "Epoch {0} best loss: inf\n",
        "{0} init best loss = inf, stop if loss = inf\n",
        "Epoch {0} Train Loss: 1.1 Val Loss: nan\n",
        "step {0} loss 1.1 aux_loss nan\n",
    ],
)
def test_no_number_that_is_no_loss_of_the_training(tmp_path, line):
    told_right(tmp_path, "".join(line.format(n) for n in range(1, 9)), "unfinished", None)
