"""A log that just ends: where the run stands, as far as the log shows it, and what to type next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vlmguard.explain import (
    flags,
    links,
    looks,
    meets,
    named,
    parted,
    placed,
    standing,
    watchdog,
    writing,
)
from vlmguard.explain.answer import Answer
from vlmguard.explain.catalogue import ranks_steps
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Do
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import CARDS

_JOB = re.compile(r"(?i)slurm[-_](\d{2,12})(?:_\d{1,6})?\b")
_SAID = re.compile(r"(?m)^(?:Job |SLURM_JOB_ID=|Submitted batch job )(\d{4,12})\b")
_POD = re.compile(r"^([a-z0-9][a-z0-9-]{1,60}-(?:worker|master|launcher)-\d{1,4})\b")
_FILE = re.compile(
    r"(?<![\w./:<])(/[\w.@+~-]{1,80}/[\w./@+~-]{1,200}\.[A-Za-z0-9]{2,8})(?![\w/.-])"
)
_BUILDS = re.compile(r"^Using (\S{1,200}torch_extensions\S{0,80}) as PyTorch extensions root")
_LOCKED = (
    "pgrep -u $USER -af 'nvcc|ninja' || find {folder} -name lock -print -delete: something is "
    "printed by the first: it builds, wait; by the second alone: a build that was broken off had "
    "left its lock, for which every rank waits: start again"
)
_VIDEO = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".flv")
_IMAGE = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tiff")
_SOURCES = (".py", ".cpp", ".cu", ".so", ".cc", ".h", ".yaml", ".json", ".log")
_DOWNLOAD = re.compile(
    r"(?i)^\s{0,8}(?:downloading|fetching)\b|\.(?:safetensors|bin|zip|tar\.gz): "
)
_READ = (
    "who stands where (twice, a minute apart: the same lines: it hangs there; in a container it "
    "needs SYS_PTRACE; no process: it is gone, see below)"
)
_BOTH = (
    "whether it goes on in ten minutes (it does: wait), and who stands where, if it does not (in "
    "a container it needs SYS_PTRACE; no process: it is gone, see below)"
)
_ALIVE = "nvidia-smi; ps -eo pid,etime,pcpu,rss,args | grep '[p]ython': is it alive, and at work?"
_GONE = (
    "dmesg -T | grep -i -E 'killed process|oom|xid', on each machine: gone: what killed it; under "
    "Slurm sacct -j {job} --format=JobID,State%30,ExitCode,MaxRSS,Elapsed"
)
_RECORD = (
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/SHARED/nccl_trace_ in front of the command (SHARED: a disk "
    "that all nodes see): after a time-out the flight recorder says which collective hangs"
)
_EITHER = "The run may still be going, hang, or have been killed without a word"
_FIRST = (
    "what the stacks say of a first step: all ranks in all_gather or fetch_sub_module under "
    "ZeRO-3: they gather different weights, as experts do (deepspeed.utils.set_z3_leaf_modules("
    "model, [the MoE block's class]), or ZeRO-2); all in the same all_reduce or barrier: their "
    "links{p2p}; one "
    "elsewhere: that one; inductor or triton: it compiles"
)
_P2P = " (NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1 in front of the command: it runs: keep it so)"
_MIXED = (
    ": where the stacks stand in all_gather or fetch_sub_module and the rows are mixed (with and "
    "without images): ZeRO-3 gathers the tower's weights on those ranks alone whose rows have one; "
    "or rows of one kind, or a blank image in each row of text"
)
_SINCE = "it has gone on since: it runs, wait; it stands still: the next steps"
_OTHERS = (
    "nc -vz {address} {port}, on the other {nodes} node{s}: refused or silent: a wrong address "
    "(127.0.0.1 is each node's own) or a firewall; it answers: the same command has to run there, "
    "with its own --node_rank"
)
_HELD = (
    "who holds this lock: an older process of yours: end it (kill PID); nobody: delete the file "
    "and start again"
)
_MAPPED = re.compile(
    r"(?i)work before the first step: (?:map|running tokenizer|tokeniz|process)[^(%]{0,30}"
    r"(?:\(num_proc=(?:\d|1[0-5])\))?: "
)
_FOLLOW = (
    "tail -n 3 -f {log}{more}: its last line is cut in the middle, as a copy of a log is that is "
    "still written to: it grows: the run goes on, and there is nothing to mend; it stands still: "
    "the next steps"
)
_TRY = "timeout 60 {} {}; echo $?: 124: this file hangs its reader (out of the data with it)"


def told(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """The lines of the answer behind its headline."""
    found = standing.of(digests)
    stands = _stands(answer, digests)
    ways = links.shown(digests) if found.links else ""
    said = "; ".join(found.said or [stands])
    copied = "" if placed.cut(digests) is None else " (most likely the first: its last line is cut)"
    if late := writing.unsaved(digests):
        said += f"; {watchdog.ranks(late)} began to write and did not say Saved, as the others did"
    elif writing.all_saved(digests):
        said += "; each rank that began to write said Saved: what it waits for is another rank"
    said += f"; {ways}" if ways else ""
    yield f"what it means: {said}. The log just ends there. {_EITHER}{copied}"
    yield "type next:"
    yield from (f"  - {parted.step(line)}" for line in _next(answer, digests, found))


def _nodes(answer: Answer, digests: Sequence[Digest]) -> int:
    """How many nodes were asked for, where no rank of any said a word yet."""
    said = answer.facts.said.get("nnodes", "")
    heard = any(rank is not None for d in digests for rank in d.finals)
    quiet = answer.facts.steps is None and not heard
    quiet = quiet and all(d.progress.loading is None for d in digests)
    return int(said) if quiet and said.isdecimal() and len(said) < 6 else 1


def _work(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """What tells whether a save or a download still moves."""
    saved = named.quoted(answer.facts.said.get("saved", ""))
    stands = _stands(answer, digests)
    if "writing a checkpoint" in stands and saved:
        yield (
            f"for i in 1 2; do ls -l --time-style=full-iso {saved}; df -h {saved}; sleep 60; done: "
            "it grows: its disk is slow; it does not: full, or a rank waits in a gather"
        )
    elif "in a download" in stands and "pod" in answer.facts.said:
        yield (
            "HF_HOME=/VOLUME/hf in the pod's env, /VOLUME a PersistentVolumeClaim: where it takes "
            "too long, or the pod starts anew: the next start finds what is there"
        )
    elif "in a download" in stands:
        yield (
            "d=${HF_HOME:-~/.cache/huggingface}; du -s $d; sleep 30; du -s $d; curl -sSI "
            "https://huggingface.co | head -1: it grows: it is slow; no answer: no network, or a "
            "mirror (HF_ENDPOINT)"
        )


def _ends(digest: Digest, bar: Line) -> bool:
    last = digest.finals.get(bar.rank)
    return last is not None and (last.source, last.at) == (bar.source, bar.at)


def _stands(answer: Answer, digests: Sequence[Digest]) -> str:
    """Where the last lines are, in words."""
    steps = answer.facts.steps
    if (nodes := _nodes(answer, digests)) > 1:
        return f"no rank has said anything yet: it waits until all {nodes} nodes have come"
    progress = [d.progress for d in digests]
    if steps is None:
        bar = next((p.loading for p in progress if p.loading is not None), None)
        if bar is not None and any(_ends(d, bar) for d in digests):
            what = "a download" if _DOWNLOAD.search(bar.text) else "work before the first step"
            return f"it stands in {what}: {bar.text.strip()[:80]}"
        if any(p.preparing is not None for p in progress):
            return "it stands before the first step, where data is made ready"
        return "no training step is told: it stands before the first one"
    # An evaluation has a bar of its own, of another length.
    last = max((at for p in progress for at, _, of in p.steps if of == steps[1]), default=-1)
    if last < 0:
        last = max((p.last.at for p in progress if p.last is not None), default=-1)
    for p in progress:
        start = max(p.evaluating, p.saving)
        if start > last >= 0:
            what = "an evaluation" if p.evaluating > p.saving else "writing a checkpoint"
            return f"step {steps[0]} was taken; since then it stands in {what}"
        if p.loading is not None and p.loading.at > last >= 0:
            return f"step {steps[0]} was taken; since then it is at {p.loading.text.strip()[:80]}"
    if steps[0] == 0:
        return "no step was finished: it stands in the first one"
    return f"step {steps[0]} was taken; it stands behind that"


def _next(answer: Answer, digests: Sequence[Digest], found: standing.Standing) -> Iterator[str]:
    apart = list(meets.steps(answer.facts)) if answer.facts.steps is None else []
    yield from apart
    if answer.facts.steps is None:
        yield from links.bridged(digests, answer.facts.said.get("realif", ""))
    yield from _grows(answer, digests)
    texts = [line.text for line in found.lines] or [line.text for line in answer.evidence]
    if len(found.lines) > 0 or len(answer.evidence) == 1:
        yield from _file(texts)
    if builds := next((match for text in texts if (match := _BUILDS.search(text.strip()))), None):
        rooted = builds[1].startswith(("/", "~"))
        yield _LOCKED.format(folder=builds[1] if rooted else "~/.cache/torch_extensions")
    if found.links:
        yield from links.steps(digests, found.links)
    met = any(
        "Init START" in told for told in found.said
    )  # NCCL starts where all have come to the first one's port
    if (nodes := _nodes(answer, digests)) > 1 and not met and not apart:
        yield _OTHERS.format(
            nodes=nodes - 1,
            s="s" if nodes > 2 else "",
            address=named.quoted(answer.facts.said.get("master_addr", "")) or "$MASTER_ADDR",
            port=named.quoted(answer.facts.said.get("master_port", "")) or "$MASTER_PORT",
        )
    hosts = _hosts(found)
    logs = "" if hosts or found.ranks else " and ".join(found.logs[:3])
    work = list(_work(answer, digests))
    downloads = "in a download" in _stands(answer, digests)
    later = (first := writing.unsaved(digests)) or writing.all_saved(digests) or downloads
    yield from () if later else work
    where = f"on {', '.join(hosts)} first ({_inside(hosts[0])}), " if hosts else ""
    first = found.ranks or first
    ranks = f", {watchdog.ranks(first)} first" if first and not hosts else ""
    where = f"on the machine of {logs} first, " if logs else where
    nodes_in_all = answer.facts.said.get("nnodes", "1")
    if not where and nodes_in_all not in ("0", "1") and nodes_in_all.isdecimal():
        where = f"on each of the {nodes_in_all} nodes, "
    # It may only have been read too early, where nothing tells of a rank that stands elsewhere.
    told = found.said or ranks or hosts or "writing" in _stands(answer, digests)
    plain = len(digests) == 1 and not told and placed.cut(digests) is None
    names = " ".join(q for d in digests[:4] if (q := named.quoted(_plain(d.source.name))))
    if not where and (answer.facts.world or 0) > CARDS:
        where = "on each node, "
    stuck = answer.facts.steps is not None and answer.facts.steps[0] == 0 and not found.said
    gathers = stuck and answer.facts.world != 1 and answer.facts.zero == 3 and answer.facts.vision
    before = answer.facts.steps is None and not found.links
    direct = list(links.direct(digests)) if before else []
    if names and plain and (gathers or direct) and "pod" not in answer.facts.said:
        yield f"timeout 600 tail -n 2 -f {names}; {looks.SPY}: {where}{_BOTH}"
    else:
        if names and plain:
            yield f"{_look(answer, digests, names)}: {_SINCE}"
        yield from work if downloads else ()
        yield f"{looks.SPY}: {where}{_READ}{ranks}"
    yield from direct
    yield from work if writing.unsaved(digests) or writing.all_saved(digests) else ()
    if _MAPPED.search(_stands(answer, digests)):
        yield f"{flags.say(Do('map_more'), answer.facts)}: it prepares the data, as its bar counts"
    if hosts and not found.links:
        yield from links.steps(digests, len(hosts) + 1)
    if stuck and answer.facts.world != 1:
        if gathers:
            yield flags.say(ranks_steps.stage_2(answer.facts), answer.facts) + _MIXED
        yield _FIRST.replace("{p2p}", "" if links.shared(digests) else _P2P)
    yield _ALIVE
    yield _GONE.replace("{job}", _job(digests) or "JOBID")
    yield _RECORD


def _look(answer: Answer, digests: Sequence[Digest], names: str) -> str:
    """The command that shows whether the log has gone on."""
    if "pod" in answer.facts.said:
        pod = named.quoted(answer.facts.said.get("podname", "")) or "POD"
        return f"kubectl logs -f --tail 3 {pod}"
    job = f"squeue -j {number}; " if (number := _job(digests)) else ""
    return f"{job}tail -n 2 {names}"


def _plain(name: str) -> str:
    """A log's name before it was packed; nothing where it came through a pipe."""
    return "" if name == "-" else re.sub(r"\.(?:gz|xz|bz2)$", "", name)


def _grows(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """Whether it is still written to, where its last line is cut."""
    line = placed.cut(digests)
    if line is None:
        return
    log = named.quoted(digests[line.source].source.name) or "LOG"
    job = _job(digests)
    if "pod" in answer.facts.said or placed.stamped(line):
        yield _FOLLOW.format(log="", more="").replace(
            "tail -n 3 -f ", "kubectl logs -f --tail 3 POD"
        )
    elif "slurm" in answer.facts.said or job:
        more = f"; squeue -j {job}" if job else "; squeue --me"
        yield _FOLLOW.format(log=log.removesuffix(".gz"), more=more)
    else:
        yield _FOLLOW.format(log=log.removesuffix(".gz"), more="")


def _file(texts: Sequence[str]) -> Iterator[str]:
    """The file that the last line reads, read by itself."""
    for text in texts:
        match = _FILE.search(text)
        path = named.quoted(match[1]) if match else ""
        if match is None or not path or match[1].lower().endswith(_SOURCES):
            continue
        name = match[1].lower()
        if name.endswith(".lock"):
            yield f"fuser -v {path}: {_HELD}"
            return
        if name.endswith(_VIDEO) and "decord" in text.lower():
            code = "import sys, decord; v = decord.VideoReader(sys.argv[1]); "
            code += "v.get_batch(range(0, len(v), max(len(v) // 64, 1)))"
            yield _TRY.format(f"python -c '{code}'", path)
        elif name.endswith(_VIDEO):
            yield _TRY.format("ffmpeg -v error -f null - -i", path)
        elif name.endswith(_IMAGE):
            code = "import sys; from PIL import Image; Image.open(sys.argv[1]).load()"
            yield _TRY.format(f"python -c '{code}'", path)
        else:
            yield f"timeout 60 cat {path} > /dev/null; echo $?: 124: its disk does not answer"
        return


def _hosts(found: standing.Standing) -> list[str]:
    """Machines or pods whose logs end earlier, by NCCL's lines or the logs' names."""
    names = []
    for line in found.lines:
        match = re.match(r"([A-Za-z][\w.-]{1,60}):\d{1,9}:\d{1,9} \[\d", line.raw)
        if match and line.rank is None:
            names.append(match[1])
    for log in () if names else found.logs:
        match = _POD.match(log.replace("\\", "/").rpartition("/")[2])
        names += [match[1]] if match else []
    return list(dict.fromkeys(names))[:4]


def _inside(host: str) -> str:
    if _POD.match(host):
        return f"kubectl exec -it {host} -- bash"
    return f"ssh {host}"


def _job(digests: Sequence[Digest]) -> str:
    """Slurm's number of the job, from a log's name: slurm-%j.out, slurm-%A_%a.out."""
    found = [_JOB.search(digest.source.name) for digest in digests]
    found += [_SAID.search(digest.text) for digest in digests]
    return next((match[1] for match in found if match is not None), "")
