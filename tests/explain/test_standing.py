"""A log that just ends says who differs, where it stands, and what to type for that."""

# ruff: noqa: E501
from __future__ import annotations

from vlmguard.explain.command import explain
from vlmguard.explain.show import text

BAR = "  {0}%|#| {0}/100 [00:0{0}<01:00, 1.0it/s]\n"
WARNED = "UserWarning: None of the inputs have requires_grad=True\n"
NCCL = "{h}:{p}:{p} [{g}] NCCL INFO comm 0x55{g}b20 rank {r} nranks 4 cudaDev {g} nvmlDev {g} busId 1a000 commId 0x7a11bb21f0c4d1e9 - Init START\n"
EARLY = "pod-worker-1:70:70 [0] NCCL INFO Using non-device net plugin version 0\n"
FORWARD = "".join(f"rank {{r}} step {n} loss 1.{n} data 0.4{{r}}s\n" for n in range(1, 9)) + "rank {r} step 9 forward done\n"
STUCK = FORWARD.rpartition("rank {r} step 9")[0]


def each(texts):
    return {f"attempt_0/{r}/{name}": said for r, said in enumerate(texts) for name, said in (("stdout.log", said), ("stderr.log", WARNED))}


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
        {f"{h}.out": started(h, ranks) for h, ranks in (("n1", (0, 1)), ("n2", (2, 3)))}, (), "all 4 ranks began", "grep -h -E 'Bootstrap"),
    "the first rank alone has a bar": (
        {f"rank_{r}.log": WARNED + (BAR.format(1) + BAR.format(2) if r == 0 else "") for r in range(4)}, (), "step 2 was taken", "pip install py-spy"),
    "its bar in one log": ({"a.log": "".join(f"[rank{r}]: {WARNED}" for r in range(4)) + BAR.format(3)}, (), "step 3 was taken", "pip install py-spy"),
    "no step at all": ({"a.log": BAR.format(0)}, (), "no step was finished", "pip install py-spy"),
    "an evaluation": ({"a.log": BAR.format(9) + "***** Running Evaluation *****\n"}, (), "step 9 was taken; since then it stands in an evaluation", "pip install py-spy"),
    "weights": ({"a.log": "Loading checkpoint shards:  33%|###  | 1/3 [00:01<00:03,  1.70s/it]\n"}, (), "it stands in work before the first step: Loading", "pip install py-spy"),
}  # fmt: skip


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
        assert told.partition("type next:\n  - ")[2].startswith(first), name
    assert "stderr.log" not in text(*explain([str(tmp_path / "0")]))  # all ends are alike there
