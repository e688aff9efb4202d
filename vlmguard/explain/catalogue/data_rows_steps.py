"""What to do about rows and their files (VG554)."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do

_TYPES = (
    "changed from object to array",
    "changed from array to object",
    "Expected bytes, got",
    "Couldn't cast array of type",
    "generating the dataset",
    "cannot mix",
)
NOTHING = ("division by zero", "division or modulo by zero", "UnboundLocalError")
STEPS = (
    looks.CHECK,
    Do(
        "load_dataset(…, data_files='ONE_OF_THEM'), or one configuration for each kind of "
        "file: they have other columns, which the message lists",
        "none",
        when=("must have the same columns",),
        kind="json",
    ),
    Do(
        looks.TYPES + "{data}: a key with two types (int and str, list and dict) is what it "
        "stumbles over: write one of them, as text for instance",
        "none",
        when=_TYPES,
        kind="json",
    ),
    Do(
        looks.TYPES + "FILE.json (the run's data): a key with two types (int and str, list and "
        "dict) is what it stumbles over: write one of them, as text for instance",
        "none",
        when=_TYPES,
        kind="json",
    ),
    Do(
        'SFTConfig(…, remove_unused_columns=False, dataset_kwargs={"skip_prepare_dataset": True})'
        ", or TrainingArguments(…, remove_unused_columns=False) of a Trainer that is not TRL's: it "
        "tokenized the rows, or took out what forward does not name, before {collator} asked for "
        "{key}",
        "none",
        when=("KeyError: 'messages'", "KeyError: 'conversations'", "KeyError: 'images'"),
        kind="taken",
    ),
    Do(
        "--remove_unused_columns false (remove_unused_columns=False in TrainingArguments): the "
        "Trainer took out what the model's forward does not name, before {collator} asked for "
        "{key}",
        "none",
        when=("KeyError: '",),
        kind="taken",
    ),
    Do(
        "eager_rows",
        "the run stops at the first bad row, whose own exception says what it lacks",
        when=("Failed to retrieve the dataset",),
    ),
    Do(
        "{place}: int(float(x)) in place of int(x): the data have numbers with a point, "
        "and the data have it as a text",
        "none",
        when=("invalid literal for int",),
        kind="row",
    ),
    Do(
        "{place}: print(repr(x)) in front of this line; an empty field: float(x or "
        "'nan'), or take such rows out",
        "none",
        when=("could not convert string to float",),
        kind="row",
    ),
    Do(
        "ls -l {data}: no file of it was read: FlagEmbedding takes names that end in .json or "
        ".jsonl, and leaves others and empty ones out",
        "none",
        when=("empty list of datasets",),
    ),
    Do(
        "packing: false, or a smaller cutoff_len: packed together the rows do not fill one",
        "more padding",
        when=("sufficient samples",),
    ),
    Do(
        "dataset.map(…, remove_columns=dataset.column_names): the function gives another "
        "number of rows than it got, and the old columns do not fit any more",
        "none",
        when=("expected length",),
    ),
    Do(
        "python -m pip install 'datasets<4', and trust_remote_code=True: the data set is code",
        "runs the data set's own code",
        when=("requires you to execute the dataset script",),
    ),
    Do(
        "columns",
        "none",
        when=("valid samples", "AssertionError: messages:", "StdTemplateInputs", "dict_keys("),
        kind="form",
    ),
    Do(
        "--remove_unused_columns false (remove_unused_columns=False): the Trainer dropped "
        "every column, since none is an argument of the model's forward",
        "none",
        when=("out of bounds for size 0",),
    ),
    Do(
        "print(dataset) after each step of the preparation: where it has no row any more, a "
        "filter, a max_length, or a split or column of another name dropped them all",
        "none",
        when=("num_samples=0", "at least one example", "is empty", "empty dataset", *NOTHING),
    ),
    Do(
        "a smaller --per_device_train_batch_size or --gradient_accumulation_steps, or more "
        "rows: fewer than one whole batch gives no step (drop_last)",
        "none",
        when=NOTHING,
    ),
    Do(
        "head -c 600 {data}: is {key} one of the keys of a row? rename one to it, or name "
        "yours to the framework",
        "none",
        kind="columns",
    ),
    Do(
        "{place}: print(list({operand})) in front of this line: {key} is not among them; "
        "rename the column that is meant to it (or take yours in the code)",
        "none",
        when=("KeyError: '",),
        kind="columns",
    ),
    Do(
        "print(next(iter(dataset)).keys()) beside the key that is asked for; where the "
        "collator asks for it: remove_unused_columns=False in TrainingArguments, or the "
        "Trainer takes out what the model's forward does not name",
        "none",
        when=("KeyError: '",),
        kind="columns",
    ),
    Do(
        "python -c 'from datasets import load_dataset; d = load_dataset(PATH); print(d)': is "
        "{key} one of the columns or splits? rename one to it, or name yours to the framework",
        "none",
        kind="key",
    ),
    Do(
        "ls -l {path}, on every node: a relative path counts from the job's working directory",
        "none",
        when=(
            "No such file",
            "FileNotFound",
            "Unable to find",
            "not find",
            "cannot find file",
            "Couldn't reach",
            "doesn't exist",
            "does not exist",
            "not exist",
        ),
    ),
    Do(
        looks.WHOSE_FOLDER,
        "none",
        when=(
            "No such file",
            "FileNotFound",
        ),
    ),
    Do(
        "python -m json.tool {path} > /dev/null (--json-lines for .jsonl): it names the line "
        "that is broken",
        "none",
        when=("JSON", "json", "Expecting", "Extra data", "delimiter"),
        unless=("FileNotFound", "Unable to find", "Couldn't reach"),
        kind="json",
    ),
    Do(
        looks.LINES + "{data}: the numbers of the rows that are no JSON",
        "none",
        when=(
            "JSON",
            "json",
            "Expecting",
            "Extra data",
            "delimiter",
            "ArrowInvalid",
            "generating the dataset",
        ),
        unless=("FileNotFound", "Unable to find", "Couldn't reach"),
        kind="json",
    ),
    Do(
        looks.LINES + "FILE.jsonl: the numbers of the rows that are no JSON (FILE.jsonl: the "
        "run's data); none: the rows' keys or types differ, the exception above tells which",
        "none",
        when=("generating the dataset",),
        kind="json",
    ),
    Do(
        "python -m json.tool FILE > /dev/null (--json-lines for .jsonl): it names the "
        "line that "
        "is broken",
        "none",
        when=("JSON", "json", "Expecting", "Extra data", "delimiter", "ArrowInvalid"),
        unless=("FileNotFound", "Unable to find", "Couldn't reach"),
        kind="json",
    ),
    Do(
        "the error names the data set that dataset_info.json must define (a key there, with "
        "file_name); dataset_dir names its folder",
        "none",
        when=("dataset_info", "Undefined dataset"),
    ),
    Do(
        "rm -rf ~/.cache/huggingface/datasets/NAME_OF_THE_DATA_SET: the cache is of another "
        "release of datasets",
        "the data set is prepared again",
        when=("NonMatching", "ExpectedMoreSplits", "Feature type 'List'", "Feature type"),
    ),
    Do("head -c 600 {path}: the first row, beside the form that is wanted", "none", kind="row"),
    Do(
        "python -c 'from datasets import load_dataset; d = load_dataset(PATH); print(d)': "
        "its columns beside those that the message names",
        "none",
        when=("Current columns", "dict_keys", "Column '", "column names"),
        kind="row",
    ),
    Do("head -c 600 {data}: the first row, beside the form that is wanted", "none", kind="row"),
    Do("head -c 600 FILE: the first row, beside the form that is wanted", "none", kind="row"),
    Do("columns", "none", kind="form"),
    Do(
        "paths relative to the job's working directory, or absolute ones that every node sees",
        "none",
    ),
)
