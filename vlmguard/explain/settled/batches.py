"""Batches and data sets: what is dispatched, how large a table may be, what wrote a file."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_DISPATCHED = (
    "with an IterableDataset the main process fetches every rank's batch, joins them and cuts them "
    "again, which fails where they are padded to different lengths; each rank can fetch its own"
)
# Every path within the rows that has values of more than one type, and its first row of each.
_TYPES = (
    "python -c $'import json, sys\\nt, k = open(sys.argv[1]).read(), {}\\ndef w(x, p, n):\\n "
    'k.setdefault(p, {}).setdefault(type(x).__name__, n)\\n [w(v, p + "/" + a, n) for a, v in '
    'x.items()] if isinstance(x, dict) else [w(v, p + "/[]", n) for v in x] if isinstance(x, '
    'list) else 0\\nfor n, x in enumerate(json.loads(t) if t[:1] == "[" else map(json.loads, '
    'filter(str.strip, t.splitlines())), 1): w(x, "", n)\\nprint(*[(p, d) for p, d in k.items() '
    "if len(d) > 1], sep=chr(10))' "
)
_ONE_TYPE = ": each path with values of several types, and the first row of each: one type in all"
_MIXED = (
    "the rows do not agree: what stands at one place is a text in some and a list or number in "
    "others, which a table's column cannot hold"
)
TABLE = (
    Settled(
        said=("can't decode byte 0x8b in position 1",),
        trace=("in dataset_module_factory",),
        steps=(
            "python -m pip install -U 'datasets>=3,<4' huggingface_hub fsspec: older ones of the "
            "three together read the data set's script packed (gzip); no data is at fault",
        ),
        why="the script of a data set came packed from the hub, and was read as text",
        code="VG570",
    ),
    Settled(
        said=("Couldn't cast array of type", " to null"),
        trace=("llamafactory/",),
        steps=(
            "preprocessing_num_workers: 1 (--preprocessing_num_workers 1), and under dataset: the "
            "one with images and videos first: a piece of the rows that has none makes an empty "
            "column, into which the next piece's paths do not go",
            "streaming: true with max_steps: no table is made of all rows",
        ),
        why=(
            "the rows' pieces (one for each process, a thousand rows each) do not agree: where no "
            "row has an image or a video, the column has no type, and another piece's paths "
            "cannot be put beside it"
        ),
        code="VG554",
    ),
    *(
        Settled(
            said=said,
            steps=((f"{_TYPES}{{data}}{_ONE_TYPE}", f"{_TYPES}FILE.json{_ONE_TYPE}"),),
            why=_MIXED,
        )
        for said in (
            ("JSON parse error: Column(", " changed from "),
            ("cannot mix list and non-list",),
            ("cannot mix struct and non-struct",),
            ("Couldn't cast array of type",),
        )
    ),
    Settled(
        said=("use batches of different size",),
        steps=("own_batches",),
        why=_DISPATCHED,
    ),
    Settled(
        said=("Sizes of tensors must match",),
        trace=("in _fetch_batches", "accelerate/utils/operations.py"),
        steps=("own_batches",),
        why=_DISPATCHED,
    ),
    Settled(
        said=("offset overflow while concatenating arrays",),
        steps=(
            "small_tables",
            "media as paths in the rows, not as bytes or base64: {'image': '/data/a.jpg'}",
        ),
        why=(
            "one table of Arrow's holds at most 2 GiB of text or bytes in a column, and 1,000 "
            "rows at a time are more than that here (long rows, or images in them)"
        ),
    ),
    Settled(
        said=("module 'pyarrow' has no attribute 'PyExtensionType'",),
        steps=(
            "python -m pip install -U 'datasets>=2.14.7': older ones ask pyarrow for what 21 took "
            "away; or 'pyarrow<21' beside the datasets that is here",
        ),
        mended="datasets 2.14.7",
    ),
    Settled(
        said=("Feature type 'List' not found",),
        steps=(
            "python -m pip install -U 'datasets>=4': the data set was written by datasets 4, "
            "which names its lists so",
            "rm -r ~/.cache/huggingface/datasets/…, and load_dataset anew, where this older "
            "datasets has to stay (the copy in the cache is of a newer one)",
        ),
        mended="datasets 4",
    ),
    Settled(
        said=("Dataset scripts are no longer supported",),
        steps=(
            "python -m pip install 'datasets<4': newer ones do not run a data set's own script "
            "any more; with it load_dataset(…, trust_remote_code=True)",
            'load_dataset("{repo}", revision="refs/convert/parquet"): the hub\'s own copy '
            "without a script, where it has one",
        ),
    ),
    Settled(
        said=("unexpected keyword argument 'trust_remote_code'",),
        trace=("datasets/",),
        steps=(
            "{place}: take trust_remote_code=… out of the call: datasets has it from 2.16 to 3 "
            "alone; a data set with a script of its own wants python -m pip install "
            "'datasets>=2.16,<4'",
        ),
    ),
    Settled(
        said=("Unknown split", "Should be one of ["),
        steps=(
            'split="{othersplit}" in load_dataset(…): the message lists those that there are; a '
            'part to train on: .train_test_split(test_size=0.1)["train"]',
        ),
    ),
    Settled(
        said=("saved using `save_to_disk`", "load_from_disk"),
        steps=(
            "datasets.load_from_disk(FOLDER) in place of load_dataset(FOLDER) in {place}: the "
            "folder was written by save_to_disk",
        ),
    ),
    Settled(
        said=("features can't be aligned because",),
        steps=(
            "b = b.cast(a.features): before concatenate_datasets([a, b]) or interleave: each "
            "column of one type in both (a path as text and an Image are two)",
        ),
    ),
    Settled(
        said=("To support decoding", "please install 'torchcodec'"),
        steps=(
            "python -m pip install torchcodec: datasets 4 decodes audio and video with it (ffmpeg "
            "beside it); or python -m pip install 'datasets<4'",
        ),
    ),
    *(
        Settled(
            said=("the number of samples", "test_size="),
            trace=(place,),
            steps=(f"{off}: no row is left for training beside the evaluation's",),
            why="of so few rows a part for the evaluation was to be split off",
            code="VG554",
        )
        for place, off in (
            ("swift/llm/utils/dataset.py", "--dataset_test_ratio 0"),
            ("/swift/", "--split_dataset_ratio 0"),
            ("/llamafactory/", "val_size: 0"),
            ("/llmtuner/", "--val_size 0"),
        )
    ),
)
