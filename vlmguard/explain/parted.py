"""A step as it can be pasted: what is typed in front, its words behind "#", which shells, Python
and YAML leave out. A code of another failure is said as the command that shows its page."""

from __future__ import annotations

import re

# Programs that steps begin with; of words that are English, too, only with what follows here.
_PROGRAMS = frozenset(
    """
    accelerate apt-get aws cd colossalai conda cp curl deepspeed df dmesg docker du echo ffmpeg
    ffprobe fuser getent git grep hf huggingface-cli ib_write_bw ibstat ip kubectl llamafactory-cli
    ds_report id ls md5sum mkdir modelscope mv nc nohup npu-smi nvcc nvidia-smi
    perfquery pgrep ping pip ps py-spy python qstat quota ray rm sacct
    sacctmgr sbatch scontrol sed sinfo sleep squeue srun ss ssh sudo swanlab swift sysctl systemctl
    torchrun trl ulimit vlmguard wandb wc
    """.split()
)
_ENGLISH = re.compile(
    r"(?:free|head|tail|last|cut|sort|which) -|"
    r"find [^\s;]{1,240} -(?:name|type|size|path)\b|cat [/~$-]|env \||timeout \d|unset [A-Z]|"
    r"for \w{1,10} in [^\n]{1,300}; do |\w=\$"
)
_SETTING = re.compile(r"[A-Z][A-Z0-9_]{2,40}=\S* ")  # a variable in front of a command
_WORD = re.compile(r"([a-z][a-z0-9_-]*)(?= |;|$)")
_PROSE = re.compile(r"[\w-]+ (?:\d|is|has|and|or|in|of|the|a|must|does|can|config)\b")
_YAML = re.compile(
    r"[a-z][a-z0-9_]{2,40}: (?:\{[^{}]{1,200}\}|\[[^\[\]]{1,200}\]|[^\s,{\[][^\s:]*(?<![,:]))"
)
_CALL, _SET = re.compile(r"[A-Za-z_][\w.]*\("), re.compile(r"[A-Za-z_][\w.]* = ")
_BRACKETED = re.compile(r"\((VG[1-9]\d\d)\)")
_CODE = re.compile(r"(?<!vlmguard rule )\b(VG[1-9]\d\d)\b(?!=)")
_MARKS = (": ", ", ", " (", "; ")
# Words that are no command's own.
_WORDS = re.compile(
    r" (?:with (?:the(?! same)|this|another)|before|beside|on (?:each|every|the)|in the|"
    r"in (?:place|front) of|first in|behind (?:the|a)|of the|from the|for each|where|and|or) "
)
_IN_FRONT = re.compile(r" in front of the (?:same )?command(?=: | \(|; |, (?:on|as|where|then) )")


def step(said: str) -> str:
    """``said`` with its words apart from what is to be typed."""
    said, at = codes(said), -1
    if _commanded(said):
        at = _end(said, "shell")
    elif said.startswith("--"):
        at = _end(said, "flags")
    elif _CALL.match(said):
        at = _end(said, "call")
    elif _SETTING.match(said):
        match = _IN_FRONT.search(said)
        at = match.end() if match is not None else -1
    elif _SET.match(said):
        at = _end(said, "set")
    else:
        at = _pairs(said)
    if at <= 0:
        return said
    return f"{said[:at].rstrip()}  # {said[at:].lstrip(':,; ')}"


def codes(said: str) -> str:
    """``said`` with the command that shows a code's page for the bare code."""
    said = _BRACKETED.sub(r"(vlmguard rule \1)", said)
    return _CODE.sub(r"\1 (vlmguard rule \1)", said)


def _commanded(said: str) -> bool:
    """Whether a command of a shell stands there."""
    if _ENGLISH.match(said):
        return True
    while setting := _SETTING.match(said):
        said = said[setting.end() :]
    match = _WORD.match(said)
    return match is not None and match[1] in _PROGRAMS and _PROSE.match(said) is None


def _pairs(said: str) -> int:
    """Where keys and values of a YAML file end and words follow; else -1."""
    at = 0
    while match := _YAML.match(said, at):
        at = match.end()
        if said[at : at + 2] != ", " or not _YAML.match(said, at + 2):
            return at if said[at : at + 2] in _MARKS else -1
        at += 2
    return -1


def _end(said: str, kind: str) -> int:
    """Where what is typed is over, outside of quotes and brackets; -1 where the text is, too."""
    quote, depth, n = "", 0, -1
    while (n := n + 1) < len(said):
        sign, before = said[n], said[n - 1 : n]
        if quote:
            n += sign == "\\" and quote != "'"
            quote = "" if sign == quote[-1] else quote
        elif sign == "\\":
            n += 1
        elif sign in "'\"":
            quote = "$'" if before == "$" and sign == "'" else sign
        elif sign in "([{" and (depth or before == "$" or (kind in ("call", "set") and n)):
            depth += 1
        elif sign in ")]}" and depth:
            depth -= 1
        elif not depth and (said[n : n + 2] in _MARKS or (kind == "call" and sign == " ")):
            if not _goes_on(said[n], said[n + 2 :], kind):
                return n
        elif not depth and sign == " " and _WORDS.match(said, n):
            return n
    return -1


def _goes_on(sign: str, behind: str, kind: str) -> bool:
    """Whether what stands behind this mark is typed, too."""
    if sign == ";" and kind == "shell":
        return _commanded(behind) or behind.startswith(("do ", "done"))
    if sign == ";" and kind == "set":
        return _SET.match(behind) is not None
    return sign == "," and kind == "flags" and behind.startswith("--")
