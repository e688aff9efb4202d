"""What a failure's own words name (a module, a file, a port), for the steps that are advised.

A log is a stranger's text. Each value has to look like what it is meant to be, is left out where
it holds a secret, and is quoted for a shell: a command that is pasted from an answer reads a file,
asks for a package or for the help of the run's own program, and can do no more.
"""

from __future__ import annotations

import re
import shlex

from vlmguard.explain import (
    architectures,
    clean,
    fabric,
    given,
    layers,
    moved,
    named_code,
    named_files,
    named_numbers,
    packages,
    shapes,
    templates,
    upstream,
    wheels,
)
from vlmguard.explain.logfacts import Facts
from vlmguard.explain.renamed import LIGHTNING

_PORT = re.compile(
    r"(?i)\bport[ :=]{1,3}(\d{2,5})\b|\]:(\d{4,5})\b|:(\d{4,5})(?:[ ,)]|$)"
    r"|connect to (?:any network address of )?\([\w.:-]{1,120}, (\d{2,5})\)"
)
_JOB = re.compile(
    r"(?:JOB|STEP|Job|job|\bstep|StepId=|JobId=)[ =]?(\d{2,12})(?:\.\w{1,12})?(?:\b|/slurm_script)"
)
_HOST = re.compile(
    # A node that is left says of itself that it ends its step for another's failure.
    r"(?: ON (?!.{0,80}DUE TO NODE FAILURE)| on node |[Nn]ode failure on |host |host="
    r"|Node (?!fail|is |has |not ))([A-Za-z][\w.-]{1,60}|\d{1,3}(?:\.\d{1,3}){3})"
    r"|connect to (?:any network address of )?[\[(]?([A-Za-z0-9][\w.-]{1,120})\]?[,:] ?\d{2,5}"
    r"|@([A-Za-z0-9][\w.-]{1,60}): Permission denied|connect to host ([A-Za-z0-9][\w.-]{1,60}) port"
    r"|Connect to (\d{1,3}(?:\.\d{1,3}){3})<"
)
_BRIDGE = re.compile(r"\b(?:[Cc]onnect to|peer) (172\.17\.\d{1,3}\.\d{1,3})<")  # Docker's
_PID = re.compile(r"Process (\d{1,9}) has [\d.]{1,9} GiB memory in use")
_VOCABULARY = re.compile(
    r"(?:embed_tokens|lm_head|word_embeddings|wte)[\w.]{0,60}: copying a param with shape "
    r"torch\.Size\(\[(\d{4,7}), "
)
_LIB = re.compile(r"(lib[A-Za-z][\w.+-]{0,60}\.so[\w.]{0,12}): cannot open shared")
_COMMAND = re.compile(
    r"(?:line \d{1,6}: |: command not found: )?([A-Za-z][\w.-]{1,40}): (?:command )?not found"
    r"|execve\(\): ([A-Za-z][\w.-]{1,40}):"
    r"|exec: \"([A-Za-z][\w.-]{1,40})\": executable file not found"
)
_TYPE = re.compile(r"^([A-Z]\w{2,40}Error): ")
_EMBEDDING = re.compile(r"in this process with sizes \[(\d{5,7}), \d{2,5}\] appears not to match")
_FUNCTION = re.compile(r"TypeError: (?:[\w.<>]{1,60}\.)?([a-z]\w{1,60}(?<!__))\(\)")
_REFUSED = re.compile(r"invalid [\w ]{1,30} value: ['\"]([^'\"\s]{1,60})")
_MISSING = re.compile(r"required positional arguments?: ([\w', ]{3,200})")
_CLASS = re.compile(r"TypeError: ([A-Za-z_]\w{0,60})\.__init__\(\)")
_REWARD = re.compile(r"reward_function ['\"]?([\w-]{1,60})")
_KEY = re.compile(r"(?:KeyError:|Key) ['\"]([\w.-]{1,80})['\"]")
_MODEL = re.compile(
    r"(?:model type ['\"`]|model_type: ?['\"]|model_type['\"]? ['\"]|architectures \[['\"]|"
    r"KeyError: ['\"]|No module named ['\"]transformers\.models\.)([\w.-]{2,60})"
)
_TEMPLATE = re.compile(r"[Tt]emplate ['\"`]?([\w.-]{1,60})['\"`]? (?:does not exist|is not)")
# Choices that are the letters of one string.
_LETTERS = re.compile(
    r"argument --(\w{2,60})[^:]{0,80}: invalid choice: [^\n]{1,80} "
    r"\(choose from '?\w'?, '?\w'?, '?\w'?,"
)
_CHOICE = re.compile(r"invalid choice: ['\"]([\w.-]{1,60})['\"]")
_LINE = re.compile(r"\bline (\d{1,9})(?: column \d{1,6})?")
_ANY_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z_-]{1,60})(?![\w=-])")
_REQUIRED = re.compile(r"arguments are required: --([a-z][\w-]{1,60})")
_INTERFACE = re.compile(r"(?:Unable to find address for:|find interface) ['\"]?([a-z][\w.-]{1,20})")
_YAML = re.compile(r"in ['\"]([\w./@+~-]{1,200}\.ya?ml)['\"], line (\d{1,7})")
_SCRIPT = re.compile(r"([\w./@+~-]{1,200}): line \d{1,6}: --[\w-]{1,60}: ")
_ONE_OF = re.compile(
    r"`?\b([A-Za-z_]\w{2,60})`? must be (?:one of|in) .{1,300}?(?:got|but was|received|not) "
    r"['\"`]?([\w.-]{1,60})"
)
_SERVER = re.compile(r"reached at (https?://[\w.-]{1,80}:\d{2,5})")
_PYDANTIC = re.compile(
    r"\d{1,3} validation errors? for [\w.]{1,60} ([A-Za-z_][\w.]{1,60}) (?!validation)"
)
_WRAPPED = re.compile(r"transformer layer class ([A-Z]\w{2,60}) (?:to wrap )?in the model")
_URL = re.compile(r"for url: (https?://[\w.-]{1,80}(?::\d{2,5})?)")
_LOCAL = re.compile(r"pickle local object ['\"]?[\w.<>]{0,80}<locals>\.([A-Za-z_]\w{0,60})")
_METRIC = re.compile(r"module script at \S{0,200}?/([a-z_]\w{1,40})\.py")
_TOKENS = re.compile(r"max_num_batched_tokens \((\d{2,7})\)")
_FORWARD = re.compile(r"\b([A-Z]\w{2,60})\.forward\(\) got an unexpected")
_SPLIT = re.compile(r"Unknown split \S{1,40} Should be one of \[['\"]([\w.-]{1,40})")
_SAME_COUNTS = re.compile(r"in each batch \[([\d, ]{1,400})\] should be the same {1,3}\[\1\]")
_IN_TEXT = re.compile(r"images in the text \[(0(?:, 0){0,200})\] and")
_NESTED = re.compile(r"features \(`?(\w{1,60})`? in this case\)")
_REQUIRER = re.compile(r"distribution was not found and is required by ([A-Za-z][\w.-]{1,40})")
_BUCKET = re.compile(r"\b((?:s3|gs)://[\w.-]{3,63}(?:/[\w./-]{1,120})?)")

# What the log said is a value as it is.
_SAID = (
    *("absent", "offline", "peer", "pulled", "imagedriver", "hostdriver", "addedtokens"),
    *("lock", "crash", "crashpackage", "crashplace", "crashlib", "trainables", "preprocessor"),
    *("onenode", "xidnode", "bus", "realif"),
    *("worncard", "stepmemory", "preloaded", "container"),
    *("memoryline", "memorynow", "memorymore", "undermain"),
    *("rowtokens", "rowimages", "fewerimages", "settings"),
)


_asked: list[tuple[Facts, dict[str, str]]] = []  # the last: each step of an answer asks again


def of(facts: Facts) -> dict[str, str]:
    """Name → value, quoted for a shell; only what the failure or the run's arguments tell."""
    if not _asked or _asked[0][0] is not facts:
        _asked[:] = [(facts, _of(facts))]
    return dict(_asked[0][1])


def _of(facts: Facts) -> dict[str, str]:
    said = clean.shown(facts.message)  # what is blacked out here can be no value
    found = {
        **named_code.modules(said),
        **named_code.arguments(said),
        **named_code.renamed(facts, said),
        "port": _first(_PORT, said)
        or facts.said.get("busyport", "")
        or facts.said.get("master_port", ""),
        "path": named_files.path(said),
        "repo": named_files.repo(said)
        or named_files.repo(facts.model)
        or _first(named_files.LOADED, facts.trace)
        or facts.said.get("repo", ""),
        "job": _first(_JOB, said),
        **given.network(facts),
        "host": _first(_HOST, said) or given.master(facts),
        "texttemplate": templates.text_alone(facts.model),
        "pod": facts.said.get("peer", "").partition(".")[0],
        "tower": architectures.tower(facts),
        "experts": architectures.experts(facts),
        "pid": _first(_PID, said),
        "node": facts.said.get("node", ""),
        **{name: facts.said.get(name, "") for name in _SAID},
        "bridge": facts.said.get("bridge", "") or _first(_BRIDGE, said),
        "card": facts.said.get("card", ""),
        "failed": facts.said.get("failed", ""),
        **named_numbers.ranks(said),
        **fabric.names(said),
        "capability": facts.said.get("capability", ""),
        "vocabulary": "" if shapes.of_widths(said) else _first(_VOCABULARY, said),
        "key": _first(_KEY, said),
        "modeltype": _first(_MODEL, said),
        "template": _first(_TEMPLATE, said),
        "seeing": templates.seeing(facts.model),
        "letters": _first(_LETTERS, said),
        "choice": _first(_CHOICE, said) or _first(_REWARD, said),
        "line": _first(_LINE, said),
        **_refusals(said),
        "saved": facts.said.get("saved", ""),
        "output": facts.said.get("output_dir", "")
        or facts.said.get("saved", "").rpartition("/")[0],
        "config": given.config(facts),
        "ifname": facts.said.get("nccl_socket_ifname", ""),
        "modelfolder": facts.model if facts.model.startswith(("/", "./", "../")) else "",
        "modelrepo": facts.model if re.fullmatch(r"\w[\w.-]*/[\w.-]+", facts.model) else "",
        "lib": _first(_LIB, said),
        "log": facts.log,
        "wrapped": _first(_WRAPPED, said),
        "judge": _first(_URL, said),
        "local": _first(_LOCAL, said),
        "metric": _first(_METRIC, said),
        "commandpackage": packages.of_command(_first(_COMMAND, said)),
        "tokens": _first(_TOKENS, said),
        "server": _first(_SERVER, said),
        "command": _first(_COMMAND, said),
        "vision": wheels.vision(facts),
        "flash": wheels.flash(facts),
        "cardwheels": wheels.of_card(facts.said.get("capability", "")),
        **wheels.of_driver(said),
        "framework": _DISTRIBUTIONS.get(facts.framework, ""),
        "class": _first(_CLASS, said),
        "refused": _first(_REFUSED, said),
        "missing": _first(_MISSING, said).replace("'", "").replace(" and ", ", "),
        "function": _first(_FUNCTION, said),
        "required": _first(_REQUIRED, said),
        "anyflag": _first(_ANY_FLAG, said),
        "interface": _first(_INTERFACE, said),
        "bucket": _first(_BUCKET, said),
        "divisors": named_numbers.divisors(said),
        "place": given.place(facts.trace),
        "ownload": given.own_load(facts.trace),
        "reward": given.reward(facts.trace),
        "internvl": given.internvl(facts.trace),
        "exception": _first(_TYPE, said) or "Exception",
        "codefolder": given.code(facts.trace),
        "callfolder": given.call_folder(facts.trace),
        "embedding": _first(_EMBEDDING, said),
        **shapes.of_adapter(said, facts.model),
        **shapes.of_names(said),
        **shapes.of_projector(said),
        "layers": layers.of(architectures.names(facts)) or layers.of(named_code.model(facts.trace)),
        "main": given.script(facts.trace),
        "forward": _first(_FORWARD, said),
        "builtin": _BUILTIN.get(facts.framework, ""),
        "starter": given.starter(facts.trace),
        "ownclass": given.own_class(facts.trace, _first(_CLASS, said)),
        "collator": given.collator(facts.trace),
        "operand": given.operand(facts.trace, _first(_KEY, said)),
        **given.check(facts.trace),
        **given.files(facts),
        "longer": str(2 * (facts.number("model_max_length") or 0) or ""),
        "rows": given.rows(facts),
        "numbers": named_numbers.numbers(said),
        **named_numbers.fitting(said),
        "nested": _first(_NESTED, said),
        "othersplit": _first(_SPLIT, said),
        "samecounts": _first(_SAME_COUNTS, said),
        "imagesintext": _first(_IN_TEXT, said),
    }
    if blank := named_files.BLANK.search(found["path"]):
        found.update(unblanked=found["path"].replace(blank[0], blank[1]), ending=blank[1][1:])
    port = found["port"]
    found["otherport"] = named_numbers.other_port(int(port)) if port.isdecimal() else ""
    top = re.match(r"/[\w.@+~-]{1,80}/[\w.@+~-]{1,80}", found["path"])
    found["top"] = top[0] if top else ""
    found["folder"] = found["path"].rpartition("/")[0] if found["path"][:1] != "-" else ""
    if match := named_code.ATTRIBUTE.search(said):
        found["owner"], found["attribute"] = match[1] or match[2], match[3]
        asker = packages.asking(facts.trace)
        found["ownerpackage"] = (
            packages.of(match[2] or "")
            or named_code.brings(match[1] or "")
            or asker
            or ("transformers" if named_code.MODELS.fullmatch(match[1] or "") else "")
        )
        found["asker"] = asker if asker != found["ownerpackage"] else ""
        found["attributepin"] = moved.pin(found["ownerpackage"], match[3])
        found["askedin"] = named_code.asked_in(facts.trace, match[1] or "", match[3])
    found["clone"] = upstream.clone(facts.trace, found.get("source", "") or found.get("part", ""))
    found["requirer"] = _first(_REQUIRER, said) if "<" in found.get("wanted", "") else ""
    trl = facts.releases.get("trl", "")
    served = re.fullmatch(r"(?:0\.(?:1[4-9]|[2-9]\d)|[1-9]\d?\.\d{1,3})(?:\.\d{1,3})?", trl)
    found["trlpin"] = f"trl[vllm]=={trl}" if served else ""
    found["typepin"] = moved.type_pin(found["modeltype"].partition(".")[0].lower())
    found["modelpin"] = moved.repo_pin(
        found.get("modelrepo", ""), facts.releases.get("transformers", "")
    )
    told = {name: safe for name, value in found.items() if value and (safe := quoted(value))}
    program = given.program(facts, said)
    if newer := upstream.of_trace(facts.trace):
        told["upstream"] = newer  # a command of our own
    if asked := given.advised(said):
        told["advised"] = asked  # a name and a value
    if renamed := LIGHTNING.get(named_code.argument(said), ""):
        told["lightning"] = renamed  # of our own table
    if name := told.get("newname", ""):
        told["newflag"] = named_code.newflag(name, facts, said)
    if many := named_code.flags(said):
        told["flags"] = many  # words, each of a flag's own form
    return {**told, "program": program} if program else told


# Those that collate the rows themselves.
_BUILTIN = {"ms-swift": "ms-swift", "LLaMA-Factory": "llamafactory", "axolotl": "axolotl"}
_DISTRIBUTIONS = {
    "ms-swift": "ms-swift",
    "LLaMA-Factory": "llamafactory",
    "TRL": "trl",
    "axolotl": "axolotl",
    "FlagEmbedding": "FlagEmbedding",
}


def _refusals(said: str) -> dict[str, str]:
    """A YAML file's broken line, a script's broken command, an argument that has choices."""
    found: dict[str, str] = {}
    if match := _YAML.search(said):
        line = int(match[2])
        found.update(yamlfile=match[1], yamlspan=f"{max(line - 2, 1)},{line + 1}p")
    if match := _SCRIPT.search(said):
        found["script"] = match[1]
    if match := _ONE_OF.search(said):
        found.update(oneof=match[1], refusedvalue=match[2])
    if match := _PYDANTIC.search(said):
        found["badkey"] = match[1]
    return found


# Words of a step that a value of the log takes the place of: {package}, {path}, …
_PLACE = re.compile(r"\{([a-z]{3,20})\}")


def wants(action: str) -> set[str]:
    """The names whose values ``action`` needs."""
    return set(_PLACE.findall(action))


def filled(action: str, values: dict[str, str]) -> str:
    """``action`` with the values; a name in capitals where there is none."""
    return _PLACE.sub(lambda found: values.get(found[1], found[1].upper()), action)


def quoted(value: str) -> str:
    """``value`` for a command line, or "" where it is not fit to stand in one."""
    value = clean.shown(value).strip().rstrip(".,;:'\"`’")
    option = value.startswith("-") and not re.fullmatch(r"--?[A-Za-z][\w-]{0,60}", value)
    if not value or option or "█" in value or "\n" in value or len(value) > 240:
        return ""
    return value if re.fullmatch(r"[\d, ]+", value) else shlex.quote(value)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return next((group for group in match.groups() if group), "") if match else ""
