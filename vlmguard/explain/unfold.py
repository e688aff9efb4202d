"""One line of a file that holds several of a log: JSON lines, flattened tracebacks, glued ones."""

from __future__ import annotations

import json
import re

LONGEST = 1 << 17  # characters of a JSON line that are read
# Where containers' and clusters' collectors and Python's JSON formatters keep the text, and after
# it what its exception printed.
_TEXTS = ("log", "message", "msg", "textPayload", "text", "line", "event", "body")
_RAISED = ("exc_info", "exc_text", "exception", "traceback", "stack_trace", "stacktrace", "stack")
_TIMES = ("time", "timestamp", "@timestamp", "asctime", "ts")
_LEVELS = ("levelname", "level", "severity")
_LOGGERS = (*_TIMES, *_LEVELS, "record", "stream", "kubernetes", "logger", "pod", "container")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_HEAD = "Traceback (most recent call last)"
_FLAT = re.compile(r"Traceback \(most recent call last\):(?:\\r)?\\n")
# A traceback whose lines a quotation or a chat joined by spaces.
_SPACED = re.compile(r' File "([^"\n]{1,400})", line (\d{1,7}), in ([\w<>.]{1,80})(?= |\(|$)')
_ENDED = re.compile(r" (?=(?:[a-z_]\w{0,40}\.){0,6}[A-Z][A-Za-z]{1,40}(?:Error|Exception): )")
# "14:07ValueError: …", "1.50s/it]RuntimeError: …": a bar or a clock without a line's end.
_GLUED = re.compile(
    r"(?:(?<=[\])%}])|(?<=it/s)|(?<=s/it)|(?<=\d)(?<![A-Za-z_.]\d)(?<![A-Za-z_.]\d\d))"
    r"(?=(?:[a-z_]\w{0,40}\.){0,6}[A-Z][A-Za-z]{1,40}(?:Error|Exception): )"
)
# A line of source and its exception, which a title or a chat put into one line.
_SOURCED = re.compile(
    r"^(\s{0,12}(?:assert |[\w, .\[\]]{1,80} = )\S[^:\n]{0,300}[\w)\]]) "
    r"((?:Attribute|Type|Value|Index|Key|Runtime|ZeroDivision|UnboundLocal)Error: .{1,2000})$"
)
# torchrun's agent's own report of a worker's or its own exception.
_REPORTED = re.compile(
    r'^\s{2,8}"message": "((?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{1,60}(?:Error|Exception)): '
    r'(.{0,4000}?)",?$'
)
_COMMAND = re.compile(r"WARNING: command error: '(.{1,2000})'!$")  # xtuner's, of any exception
# torchrun's last words in one line, as a parent that relays or a chat wrote them.
_ROOT = "Root Cause (first observed failure)"
_ROWS = re.compile(
    r"\s(?:stderr: )?(?=(?:\[\d{1,5}\]:|(?:time|host|rank|exitcode|error_file|traceback) {1,9}: "
    r"|Root Cause|Traceback \(|-{20}|={20}))"
)
# Ranks that write one exception at once: "ImportErrorImportError: : no xno x".
_DOUBLED = re.compile(
    r"\b((?:[a-z_]\w{0,40}\.){0,6}[A-Z][A-Za-z]{1,40}?(?:Error|Exception))\1{1,15}(?:: ?){1,16}"
)
# A row of a data set: a conversation, an instruction, a completion. What it says is nobody's error.
_ROW = re.compile(
    r"""['"](?:role|from)['"]: ?['"](?:user|assistant|system|human|gpt|tool|observation)['"]"""
    r"""|^\{['"](?:instruction|conversations|messages|prompt|completion|chosen|rejected|question"""
    r"""|response|text)['"]: ?['"\[{]"""
)
_BREAK = re.compile(r"<br ?/?>")  # of a page that a log was pasted into
_BREAK_LAST = re.compile(r"<br ?/?>\s*$")
# Markdown's bold; not "f(**a, **b)", "x ** 2", "***** Running training *****".
_BOLD = re.compile(r"(?:^|(?<=\s))\*\*(?=[^\s*])([^*\n]{1,2000})(?<=[^\s*,(])\*\*(?=[\s.;]|$)")
_SAID = re.compile(r"Traceback|Error\b|Exception\b|ERROR|WARN")


def is_row(raw: str) -> bool:
    """Whether ``raw`` is a row that a run prints, and no complaint about one."""
    if "'" not in raw and '"' not in raw:
        return False
    match = _ROW.search(raw, 0, LONGEST)
    if match is None or _SAID.search(raw, 0, match.start()):
        return False
    return '"text"' not in match[0] or not (raw.startswith("{") and _object(raw))


def parts(raw: str) -> list[str]:
    """The lines that ``raw`` holds; itself alone, where it is one."""
    if _HEAD in raw and is_row(raw):
        return [raw]
    if "<br" in raw and (_HEAD in raw or 'File "' in raw or raw.rstrip().endswith(">")):
        raw = _BREAK_LAST.sub("", raw)
        if _BREAK.search(raw) and (_HEAD in raw or _SAID.search(raw)):
            return [part for row in _BREAK.split(raw) for part in parts(row)]
    if "**" in raw:
        raw = _BOLD.sub(r"\1", raw)
    if raw.startswith("{") and raw.rstrip().endswith("}") and len(raw) <= LONGEST:
        found = _object(raw)
        if found:
            return found
    if _ROOT in raw and "exitcode" in raw and len(rows := _ROWS.split(raw)) > 1:
        return [part for row in rows for part in parts(row)]
    if _HEAD in raw and _FLAT.search(raw):
        raw = raw.replace("\\r", "").replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
        return raw.rstrip("\n").split("\n")
    if _HEAD in raw and len(_SPACED.findall(raw[: 1 << 15])) > 1:
        return _spaced(raw)
    if '"message": "' in raw and (match := _REPORTED.match(raw)):
        return [f"{match[1]}: {match[2].strip() or '(no message)'}"]
    if "command error: '" in raw and (match := _COMMAND.search(raw)):
        return [f"CommandError: {match[1]}"]
    if ": : " in raw and (match := _DOUBLED.search(raw)):
        said = _once(raw[match.end() :], match[0].count(match[1]))
        raw = f"{raw[: match.start()]}{match[1]}: {said}"
    if "Error: " in raw or "Exception: " in raw:
        if " = " in raw or "assert " in raw:
            raw = _SOURCED.sub(r"\1\n\2", raw)
        return _GLUED.sub("\n", raw).split("\n")
    return [raw]


def _spaced(raw: str) -> list[str]:
    """A traceback in one line, its frames apart by spaces."""
    before, head, after = raw.partition(_HEAD)
    text = _SPACED.sub(r'\n  File "\1", line \2, in \3\n    ', after)
    return [*before.split("\n"), *(head + _ENDED.sub("\n", text)).split("\n")]


def _once(text: str, times: int) -> str:
    """``text``, or what it says ``times`` times without a space between."""
    size, rest = divmod(len(text), times)
    return text[:size] if not rest and text == text[:size] * times else text


def _object(raw: str) -> list[str]:
    """The text of a JSON object that a collector or a formatter wrote, time and pod in front."""
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return []
    if not isinstance(entry, dict):
        return []
    payload = entry.get("jsonPayload")
    inner = {**entry, **payload} if isinstance(payload, dict) else entry
    told = [inner[key] for key in _TEXTS if isinstance(inner.get(key), str)][:1]
    if told and told[0] is inner.get("text") and not any(key in inner for key in _LOGGERS):
        return []  # a row
    told += [inner[key] for key in _RAISED if isinstance(inner.get(key), str)][:1]
    if not told:
        return []
    text = "\n".join(one.rstrip("\r\n") for one in told).replace("\r\n", "\n").replace("\r", "\n")
    front = _time(inner) + _pod(entry) + _rank(inner)
    quiet = _quiet(inner) if _HEAD in text else ""
    lines = [quiet + line if _HEAD in line else line for line in text.split("\n")]
    return [front + line for line in lines]


def _time(entry: dict[str, object]) -> str:
    value = next((str(entry[key]) for key in _TIMES if key in entry), "")
    return f"{value} " if _ISO.match(value) and len(value) <= 40 else ""


def _rank(entry: dict[str, object]) -> str:
    value = next((entry[key] for key in ("rank", "global_rank") if key in entry), None)
    return f"[rank{value}]: " if type(value) is int and value >= 0 else ""


def _pod(entry: dict[str, object]) -> str:
    """Of Kubernetes' metadata the pod: a stream of lines of its own."""
    about = entry.get("kubernetes")
    name = about.get("pod_name") if isinstance(about, dict) else None
    named = isinstance(name, str) and re.fullmatch(r"[\w.-]{1,80}", name)
    return f"[pod/{name}/main] " if named else ""


def _quiet(entry: dict[str, object]) -> str:
    """A traceback that a logger wrote as a warning or less was caught."""
    level = next((str(entry[key]).upper() for key in _LEVELS if key in entry), "")
    return f"{level} " if level in ("WARNING", "WARN", "INFO", "DEBUG") else ""
