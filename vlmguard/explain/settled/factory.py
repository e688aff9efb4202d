"""LLaMA-Factory's data: what dataset_info.json says of rows, where media lie, whose template."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_ENTRY = "in the entry {dataset} of data/dataset_info.json"
_ANY = "in the data set's entry of data/dataset_info.json"
# Which tag names the role that a turn has; the default is another (human, gpt, observation).
_ROLES = {
    "user": ("user", "assistant"),
    "assistant": ("user", "assistant"),
    "human": ("human", "gpt"),
    "gpt": ("human", "gpt"),
}
_OTHER = '"tags": {{"role_tag": "{0}", "content_tag": "{1}", {2}}}'
_OPENAI = _OTHER.format(
    "role", "content", '"user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"'
)
_SHAREGPT = _OTHER.format("from", "value", '"user_tag": "human", "assistant_tag": "gpt"')


def _entry(words: str, why: str) -> tuple[str, str]:
    """Where the data set's name is known, and where it is not."""
    return f"{words} {_ENTRY}: {why}", f"{words} {_ANY}: {why}"


def _tags() -> tuple[Settled, ...]:
    found = []
    for key, other, tags in (
        *(("from", "role", _OPENAI), ("value", "content", _OPENAI)),
        *(("role", "from", _SHAREGPT), ("content", "value", _SHAREGPT)),
    ):
        why = f"a turn of a row has no {key} (its other usual name is {other})"
        for column in ("role_tag", "content_tag"):
            one = Settled(
                said=(f"KeyError: '{key}'",),
                trace=(f"dataset_attr.{column}]",),
                steps=(_entry(tags, why), _LOOK),
                why=f"the rows' turns name role and text otherwise than {key}",
                code="VG554",
            )
            found.append(one)
    for key, (user, assistant) in _ROLES.items():
        tags = f'"tags": {{"user_tag": "{user}", "assistant_tag": "{assistant}"}}'
        one = Settled(
            said=(f"KeyError: '{key}'",),
            trace=("tag_mapping[", "dataset_attr.role_tag]"),
            steps=(
                _entry(tags, f"(beside the tags that are there) a turn's role is {key}"),
                "python -m pip install -U 'llamafactory>=0.9.2': which leaves out such rows with a "
                "warning, where only a few have that role",
            ),
            why=f"a turn's role is {key}, which no tag of dataset_info.json names",
            code="VG554",
        )
        found.append(one)
    return tuple(found)


_LOOK = (
    "head -c 600 {data}: the keys of a row and of a turn, which columns and tags have to name",
    "head -c 600 FILE: the keys of a row and of a turn, which columns and tags have to name (FILE: "
    "file_name of the entry)",
)


def _columns() -> tuple[Settled, ...]:
    sharegpt = '"formatting": "sharegpt", "columns": {{"messages": "{}"}}'
    rows = (
        ("conversations", "messages", sharegpt.format("messages")),
        ("messages", "messages", sharegpt.format("conversations")),
        ("instruction", "prompt", sharegpt.format("messages")),
    )
    return tuple(
        Settled(
            said=(f"KeyError: '{key}'",),
            trace=(f"dataset_attr.{column}]",),
            steps=(
                _entry(
                    columns,
                    f'the rows have no {key}; rows without turns: "columns": {{"prompt": '
                    '"YOURS", "response": "YOURS"}',
                ),
                _LOOK,
            ),
            why=f"the rows have no column {key}, which the data set's entry asks for or is silent "
            "about",
            code="VG554",
        )
        for key, column, columns in rows
    )


_NAMED = (
    '"columns": {"prompt": "…", "response": "…"} (or "formatting": "sharegpt", "columns": '
    '{"messages": "…"})'
)
# Stages of pairs, by the folder of their workflow.
_PAIRS = ("dpo", "rm", "orpo")
_RANKED = (
    '"ranking": true, "columns": {"prompt": "instruction", "query": "input", "chosen": "chosen", '
    '"rejected": "rejected"}'
)
_WHICH = (
    "grep -nE 'Invalid role tag|Invalid message count|Dropped (lengthy|invalid)' {log} | head -3: "
    "LLaMA-Factory says there why it left each row out"
)
_SEES = "of the model's own family, which has a place for images, videos or sounds"
TABLE = (
    *_tags(),
    *_columns(),
    Settled(
        said=("KeyError: None",),
        trace=("dataset_attr.",),
        steps=(
            _entry(_NAMED, "the names of the rows' own keys: it names a column as null or none"),
            _LOOK,
        ),
        why="the data set's entry names no column for what is read here",
        code="VG554",
    ),
    Settled(
        said=("Input must be string or dict[str, str], got <class 'list'>",),
        steps=(
            '"output": "ONE ANSWER" in each row (a text), and "ranking": true out of the data '
            "set's entry: with --stage sft; a list of answers is for --stage dpo or rm",
            _LOOK,
        ),
        why="a row holds a list where this stage takes a text",
        code="VG554",
    ),
    *(
        Settled(
            said=("Cannot find valid samples",),
            trace=(f"/llmtuner/train/{stage}/",),
            steps=(
                '"output": ["BETTER ANSWER", "WORSE ANSWER"] in each row (beside instruction and '
                'input), and "ranking": true in its entry of data/dataset_info.json: before 0.8 '
                "LLaMA-Factory knows no columns chosen and rejected",
                "git pull in LLaMA-Factory's folder, python -m pip install -e . (0.8 and later): "
                "which take chosen and rejected as columns",
            ),
            why="no row was left: pairs are read in another form by this release",
        )
        for stage in _PAIRS
    ),
    *(
        Settled(
            said=("Cannot find valid samples",),
            trace=(f"/llamafactory/train/{stage}/",),
            steps=(
                _entry(_RANKED, "the columns of the rows' pairs, without which none is one"),
                _WHICH,
                _LOOK,
            ),
            why="no row was left: none had a better and a worse answer where the entry says",
        )
        for stage in _PAIRS
    ),
    *(
        Settled(
            said=(f"The number of {kind}s does not match the number of <{kind}> tokens",),
            steps=(
                _entry(
                    f'"columns": {{"messages": "messages", "{kind}s": "{kind}s"}}',
                    f"(with the rows' own names) without {kind}s among the columns no row has one; "
                    "it is there: the next step",
                ),
            ),
            code="VG510",
            more=True,
        )
        for kind in ("video", "audio")
    ),
    *(
        Settled(
            said=(f"This model does not support {kind} input",),
            steps=(
                (
                    "template: {seeing}: the model's own; the one that is set has no place for "
                    f"{kind}s",
                    f"template: NAME {_SEES} (qwen2_vl, qwen3_vl_nothink, minicpm_v, llava, "
                    "intern_vl, gemma3, …: the README's table of models): the one that is set has "
                    f"no place for {kind}s",
                ),
                "python -m pip install -U llamafactory: where the template's name is right, this "
                "release knows it for text alone",
            ),
            why="the template decides what a row may hold, and this one is of a model for text",
            code="VG574",
        )
        for kind in ("image", "video", "audio")
    ),
    Settled(
        said=("No such file or directory: '",),
        trace=("/data/mm_plugin.py",),
        unless=("directory: '/",),
        steps=(
            "find / -path \"*/\"{path} -not -path '/proc/*' 2>/dev/null | head -3: what stands "
            "there in front of {path} is the folder for the next step",
            "media_dir: FOLDER (image_dir in 0.9.1): relative paths count from it, by default from "
            "dataset_dir; not found: from where the job was started",
        ),
        why="the rows' paths are relative, and the media do not lie below media_dir",
        code="VG555",
    ),
)
