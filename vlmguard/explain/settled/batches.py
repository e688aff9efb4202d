"""Batches and data sets: what is dispatched, how large a table may be, what wrote a file."""

from __future__ import annotations

from vlmguard.explain.settled.fault import Settled

_DISPATCHED = (
    "with an IterableDataset the main process fetches every rank's batch, joins them and cuts them "
    "again, which fails where they are padded to different lengths; each rank can fetch its own"
)
TABLE = (
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
            "python -m pip install -U 'datasets>=2.15': older ones ask pyarrow for what 21 took "
            "away; or 'pyarrow<21' beside the datasets that is here",
        ),
        mended="datasets 2.15",
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
            "{place}: take trust_remote_code=… out of load_dataset(…): datasets 4 knows it no "
            "more; a data set with a script of its own wants python -m pip install 'datasets<4'",
        ),
    ),
)
