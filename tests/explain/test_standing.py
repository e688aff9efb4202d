"""A log that just ends says who differs, where it stands, and what to type for that."""

# ruff: noqa: E501
from __future__ import annotations

from vlmguard.explain.command import explain
from vlmguard.explain.show import text

BAR = "  {0}%|#| {0}/100 [00:0{0}<01:00, 1.0it/s]\n"
WARNED = "UserWarning: None of the inputs have requires_grad=True\n"
NCCL = "{h}:{p}:{p} [{g}] NCCL INFO comm 0x55{g}b20 rank {r} nranks 4 cudaDev {g} nvmlDev {g} busId 1a000 commId 0x7a11bb21f0c4d1e9 - Init START\n"
USED = "{h}:70:70 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{a}<0>\n"
EARLY = "pod-worker-1:70:70 [0] NCCL INFO Using non-device net plugin version 0\n"
FORWARD = (
    "".join(f"rank {{r}} step {n} loss 1.{n} data 0.4{{r}}s\n" for n in range(1, 9))
    + "rank {r} step 9 forward done\n"
)
STUCK = FORWARD.rpartition("rank {r} step 9")[0]


def each(texts):
    return {
        f"attempt_0/{r}/{name}": said
        for r, said in enumerate(texts)
        for name, said in (("stdout.log", said), ("stderr.log", WARNED))
    }


def started(host, ranks):
    return "".join(NCCL.format(h=host, p=70 + r, g=r % 2, r=r) for r in ranks)


# files → ranks, the words behind "what it means", the beginning of the first step
ROWS = {
    "one reads a video": (
        each([FORWARD.format(r=0), FORWARD.format(r=1), STUCK.format(r=2) + "decord: reading video /d/1.mp4\n"]),
        (2,), "rank 2 did not come so far as the others: its last line is “decord: reading video /d/1.mp4”; ranks 0 and 1 end with “rank 0 step 9", "timeout 60 python -c 'import sys, decord"),
    "a step behind": (
        {"a.log": "".join(f"[rank{r}]: step {n} loss 1.{n}\n" for n in range(1, 9) for r in range(4) if (n, r) != (8, 3))},
        (3,), "rank 3 told step 7 last, the others step 8", "pip install py-spy"),
    "a shard": (
        {f"rank{r}.log": f"[rank {r}] Loading /d/s-{r}.tar\n" + (f"[rank {r}] ready: 4000 rows\n" if r != 1 else "") for r in range(3)},
        (1,), "rank 1 did not come so far", "timeout 60 cat /d/s-1.tar"),
    "a pod that NCCL does not see": (
        {f"pod-worker-{h}.log": started(f"pod-worker-{h}", (2 * h, 2 * h + 1)) if h != 1 else EARLY for h in (0, 1)},
        (2, 3), "ranks 2 and 3 of 4 did not come to NCCL's “Init START”", "pip install py-spy"),
    "the links of a machine": ({"a.log": started("n1", range(4))}, (), "all 4 ranks began NCCL's start", "NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1"),
    "the links of two": (
        {f"{h}.out": USED.format(h=h, a=h[1]) + started(h, ranks) for h, ranks in (("n1", (0, 1)), ("n2", (2, 3)))}, (), "all 4 ranks began", "ping -c 2 10.0.0.1; ping -c 2 -M do -s $(($(cat /sys/class/net/eth0/mtu) - 28)) 10.0.0.1; for p in $(seq"),
    "cards that go by the host's memory": (
        {"a.log": started("n1", range(4)) + "n1:70:71 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"}, (), "all 4 ranks began", "pip install py-spy"),
    "a start that one rank alone tells the end of": (
        {"a.log": started("n1", range(4)) + NCCL.format(h="n1", p=70, g=0, r=0).replace("START", "COMPLETE") + BAR.format(0)}, (), "no step was finished", "pip install py-spy"),
    "the first rank alone has a bar": (
        {f"rank_{r}.log": WARNED + (BAR.format(1) + BAR.format(2) if r == 0 else "") for r in range(4)}, (), "step 2 was taken", "pip install py-spy"),
    "a notice that the first rank prints early": (
        {f"rank_{r}.log": "the cache is warm\n" + ("".join(f"saving shard {'abcdefgh'[n % 8]}-{n}\n" for n in range(90)) if r == 0 else "") for r in range(4)}, (), "no training step is told", "pip install py-spy"),
    "a notice that it does not": (
        {f"rank_{r}.log": "".join(BAR.format(n) for n in range(9)) if r == 0 else "using the device of this rank\n" for r in range(4)}, (), "step 8 was taken", "pip install py-spy"),
    "one that stands behind a long way": (
        {f"rank_{r}.log": "".join(f"step {n} loss 1.{n}\nforward {n} done\n" for n in range(1, 70)) + ("" if r == 2 else "step 70 loss 1.1\nforward 70 done\n") for r in range(4)},
        (2,), "rank 2 told step 69 last, the others step 70", "pip install py-spy"),
    "two jobs": ({"train.log": "step 8 loss 1.2\n", "other.log": "step 3 loss 1.2\n"}, (), "step 8 was taken", "pip install py-spy"),
    "two jobs of a scheduler": ({"slurm-7.out": "step 8 loss 1.2\n", "slurm-9.out": "step 3 loss 1.2\n"}, (), "step 8 was taken", "pip install py-spy"),
    "its bar in one log": ({"a.log": "".join(f"[rank{r}]: {WARNED}" for r in range(4)) + BAR.format(3)}, (), "step 3 was taken", "pip install py-spy"),
    "no step at all": ({"a.log": BAR.format(0)}, (), "no step was finished", "pip install py-spy"),
    "an evaluation": ({"a.log": BAR.format(9) + "***** Running Evaluation *****\n"}, (), "step 9 was taken; since then it stands in an evaluation", "pip install py-spy"),
    "the other node": (
        {"a.log": "run sh: `python -m torch.distributed.run --nnodes 2 --node_rank 0 --master_addr 10.0.0.7 --master_port 28333 x.py`\n"},
        (), "no rank has said anything yet: it waits until all 2 nodes have come", "nc -vz 10.0.0.7 28333  # on the other 1 node:"),
    "rollouts": ({"a.log": BAR.format(9) + "Processed prompts:  37%|###7      | 37/100 [01:00<01:30,  1.1s/it]\n"}, (), "step 9 was taken; since then it is at Processed prompts:  37%", "pip install py-spy"),
    "a save": ({"a.log": BAR.format(9) + "Saving model checkpoint to out/checkpoint-9\n"}, (), "step 9 was taken; since then it stands in writing", "for i in 1 2; do ls -l --time-style=full-iso out/checkpoint-9"),
    "a download": ({"a.log": "Downloading shards:  50%|#####     | 2/4 [10:00<10:00, 300.0s/it]\n"}, (), "it stands in a download", "d=${HF_HOME"),
    "a log behind": ({f"t-{h}.log": "".join(f"step {n} loss 1.{n}\n" for n in range(1, 9 - (h == 2))) for h in range(3)}, (), "t-2.log told step 7 last", "pip install py-spy"),
    "weights": ({"a.log": "Loading checkpoint shards:  33%|###  | 1/3 [00:01<00:03,  1.70s/it]\n"}, (), "it stands in work before the first step: Loading", "pip install py-spy"),
}  # fmt: skip


SINCE = "tail -n 2 a.log  # it has gone on since: it runs, wait; it stands still: the next steps\n  - "


def test_who_stands_where(tmp_path, monkeypatch):
    for number, (name, (files, ranks, means, first)) in enumerate(ROWS.items()):
        folder = tmp_path / str(number)
        for path, said in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(said)
        monkeypatch.chdir(folder)
        answer, digests = explain(["."])
        told = text(answer, digests)
        assert answer.ranks == ranks, name
        assert f"what it means: {means}" in told, name
        assert told.partition("type next:\n  - ")[2].removeprefix(SINCE).startswith(first), name
    assert "stderr.log" not in text(*explain([str(tmp_path / "0")]))  # all ends are alike there


WAIT = "[rank{r}]:[E ProcessGroupNCCL.cpp:563] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType={op}, NumelIn={numel}, NumelOut=9, Timeout(ms)=1800000) ran for 1800063 milliseconds before timing out.\n"
ENQUEUED = "[rank{r}]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank {r}] Timeout at NCCL work: {n}, last enqueued NCCL work: {n}, last completed NCCL work: 1.\n"
ZERO3 = "process 1 spawned with command: ['python', 'train.py', '--deepspeed', 'z/zero3.json', '--data_path', '/d/m.json', '--model_id', 'Qwen/Qwen2-VL-7B']\n  zero_optimization_stage ....... 3\n  world_size ........... 4\n"
ALONE = """[rank{r}]: Traceback (most recent call last):
[rank{r}]:   File "/w/pt.py", line 7, in main
[rank{r}]:     with training_args.main_process_first(desc="x"):
[rank{r}]:   File "/e/site-packages/transformers/training_args.py", line 2410, in main_process_first
[rank{r}]:     dist.barrier()
[rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms
"""
NEARLY = "Running tokenizer (num_proc=10): 100%|█████████▉| 1368806/1370895 [29:46<01:07, 30.89 examples/s]"


def test_ranks_that_went_different_ways_are_alive(tmp_path):
    """The same place, other sizes; one's share says how many ranks there are."""
    (tmp_path / "a.log").write_text(
        "llamafactory-cli train x.yaml\n"
        + "".join(
            WAIT.format(r=r, n=3129, op="_ALLGATHER_BASE", numel=n).replace("=9,", f"={8 * n},")
            for r, n in enumerate((1310720, 1310720, 8355840, 8355840, 1310720, 1310720))
        )
    )
    said = text(*explain([str(tmp_path / "a.log")]))
    assert "different ways through the model, nobody was killed" in said
    assert "1. python -m pip install -U 'llamafactory>=0.9.2'" in said
    assert "dmesg" not in said
    assert "writes with_blank.json" in said


def test_a_bar_that_still_moved(tmp_path):
    bar = "Running tokenizer on dataset (num_proc=32):  {}%|#| {}/96804 [14:02<4:02:17,  6.29 examples/s]\n"
    late = [WAIT.format(r=r, n=2, op="ALLREDUCE", numel=1) for r in (1, 2, 3)]
    (tmp_path / "a.log").write_text(
        "llamafactory-cli train x.yaml\n" + bar.format(6, 5344) + bar.format(12, 11264) + "".join(late)
    )
    said = text(*explain([str(tmp_path / "a.log")]))
    assert "its bar still moved at the end (11264 of 96804)" in said
    assert "1. ddp_timeout: 180000000" in said
    assert "preprocessing_num_workers" not in said  # it has more than the step would ask for


def waits(*numbers, op="_ALLGATHER_BASE", numel=3211264):
    return "".join(
        f.format(r=r, n=n, op=op, numel=numel + n)
        for r, n in enumerate(numbers)
        if n
        for f in (WAIT, ENQUEUED)
    )


UNUSED = '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/w/t.py", line 7, in main\n[rank{r}]:     f()\n[rank{r}]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\n'
VISION = "train.py --freeze_vision_tower False\nworld_size: 4\n"
SAVING = "step 479 loss 1\nstep 480 loss 1\n[Torch] Saving /ckpt/a/global_step480/x.pt...\nsaving to /ckpt/a/global_step480 ...\n"

# a log → its class, its ranks, words of it, the beginning of the first step, what is not said
HANGS = {
    "all of them wait": (ZERO3 + waits(81, 74, 81, 81), "VG505", (1,), ("every rank is alive", "behind: rank 1, by 7", '"stage": 2 under "zero_optimization" in z/zero3.json', " /d/m.json  # writes with_blank.json"), '"stage": 2 under', "LOGS"),
    "one of them is gone": (ZERO3 + waits(81, 0, 81, 81), "VG505", (1,), ("never came: rank 1", "with_blank.json"), "dmesg -T", "alive and waits"),
    "nothing sees": (waits(81, 81, 74), "VG505", (2,), ("behind: rank 2, by 7",), "TORCH_NCCL_TRACE_BUFFER_SIZE", "LOGS"),
    "one of them saves": (SAVING + waits(0, 81, 81, op="ALLREDUCE", numel=-80), "VG551", (0,), ("still writing /ckpt/a/global_step480 when the others gave up after 30 minutes", "ls -l --time-style=full-iso /ckpt/a/global_step480", "x.log:4 | saving to"), "Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=2))])  # or init_process_group(timeout=", "metric"),
    "one of them prepares": (NEARLY + ALONE.format(r=1) + ALONE.format(r=2), "VG517", (0,), ("the main process prepares the data alone", "python /w/pt.py with the same arguments"), "--ddp_timeout 18000", "getent"),
    "no bar tells it": (ALONE.format(r=1), "VG517", (0,), ("prepares the data alone",), "--ddp_timeout 18000", "getent"),
    "unused on every rank": (VISION + "".join(UNUSED.format(r=r) for r in range(4)), "VG503", None, ("on every rank alike",), "DistributedDataParallel(…, find_unused", "usual cause"),
    "unused on one": (VISION + UNUSED.format(r=2), "VG503", (2,), ("usual cause is a batch without an image",), "freeze", "alike"),
    "each in another collective": (ALONE.partition("[rank{r}]: torch")[0].replace("{r}", "0") + "[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: ALLREDUCE, but Rank 1 is running collective: BROADCAST\n", "VG505", None, (), "grep -nE 'File .*, line", "LOGS"),
    "a job's step is none of the training": ("  3%|#| 430/9000 [48:46<23:10:29,  6.81s/it]\nslurmstepd: error: *** STEP 14099231.0 ON lrdn0721 CANCELLED AT 2025-10-12T23:58:11 DUE TO TIME LIMIT ***\n", "VG530", None, ("at step 430 of 9000",), "ls -td", "at step 14099231"),
}  # fmt: skip


def test_who_waits_for_whom(tmp_path):
    for name, (log, code, ranks, words, first, never) in HANGS.items():
        (tmp_path / "x.log").write_text(log)
        answer, digests = explain([str(tmp_path / "x.log")])
        told = text(answer, digests)
        assert answer.known is not None, name
        assert answer.known.code == code, name
        assert ranks is None or answer.ranks == ranks, name
        assert all(word in told for word in words), (name, told)
        assert told.partition("  1. ")[2].startswith(first), (name, told)
        assert never not in told, (name, told)


def test_the_own_log_of_the_rank_that_never_came(tmp_path):
    """Each rank has a file: how that of the late one ends is told, and no rank's log is asked for."""
    bomb = "/e/PIL/Image.py:3402: DecompressionBombWarning: Image size (132710400 pixels) exceeds limit\n  warnings.warn(\n"
    for own, words in ((bomb, "ends with: "), ("", "is empty")):
        for rank in range(4):
            said = waits(*(81 if r == rank else 0 for r in range(4)))
            (tmp_path / f"rank_{rank}.log").write_text(own if rank == 2 else ZERO3 + said)
        told = text(*explain([str(tmp_path)]))
        assert f"rank 2's own log {words}" in told
        assert "PET_LOG_DIR" not in told
        assert ("50 million pixels" in told) == bool(own)


def test_who_still_writes(tmp_path):
    """DeepSpeed names each rank's file twice: begun, and saved."""
    part = "[Torch] Sav{} out/checkpoint-9/global_step9/zero_pp_rank_{}_mp_rank_00_optim_states.pt{}\n"
    begun = "step 8 loss 1\nstep 9 loss 1\n" + "".join(part.format("ing", r, "...") for r in range(3))
    for saved, words, first in (((0, 2), "rank 1 began to write and did not say Saved", "pip install py-spy"), ((0, 1, 2), "each rank that began to write said Saved", "pip install py-spy"), ((), "", "for i in 1 2; do ls -l")):
        (tmp_path / "x.log").write_text(begun + "".join(part.format("ed", r, ".") for r in saved))
        told = text(*explain([str(tmp_path / "x.log")]))
        assert words in told
        assert told.partition("type next:\n  - ")[2].startswith(first), told


def test_a_pod_that_downloads(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        "$ kubectl logs -f vl-ft-master-0\nloading configuration\n"
        + "".join(f"model-0000{n}-of-00016.safetensors:  11%|#         | 0.55G/4.99G [00:07<01:02, 68MB/s]\n" for n in range(4))
    )
    said = text(*explain([str(path)]))
    assert "it stands in a download: model-00003-of-00016.safetensors" in said
    assert "type next:\n  - kubectl logs -f --tail 3 vl-ft-master-0  # it has gone on since: it runs, wait" in said
    assert "HF_HOME=/VOLUME/hf in the pod's env" in said


def test_a_first_step_under_zero3_is_watched_and_asked_at_once(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --deepspeed zero3\n[INFO:swift] world_size: 4\nTrain:   0%|          | 0/99 [00:00<?, ?it/s]\n")
    first, second = text(*explain([str(path)])).partition("type next:\n  - ")[2].split("\n  - ")[:2]
    assert first.startswith(f"timeout 600 tail -n 2 -f {path}; pip install py-spy; for p in ")
    assert second.startswith("--deepspeed zero2  # where the stacks stand in all_gather")
    path.write_text(path.read_text().replace(" --deepspeed", " --freeze_vit false --deepspeed", 1))
    assert "  - --deepspeed zero2 --freeze_vit true  # where the stacks" in text(*explain([str(path)]))
