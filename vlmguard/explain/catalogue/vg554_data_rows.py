"""The data set cannot be read or lacks a column."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG554",
    name="explain-data-rows",
    title="The data set cannot be read, or its rows are not as expected",
    zh="数据集无法读取或字段不符",
    why="a data file is missing, is no valid JSON, or its rows have "
    "other columns than the template expects",
    do=(
        Do("python -c with json.loads on each line: it names the line that is broken", "none"),
        Do(
            "the columns that the framework wants: messages and images for "
            "ms-swift and TRL, conversations in ShareGPT's form for "
            "LLaMA-Factory",
            "none",
        ),
        Do(
            "paths relative to the job's working directory, or absolute ones that every node sees",
            "none",
        ),
    ),
    wrong="If it only fails on some ranks, a file is missing on those nodes.",
    signs=(
        Sign("JSONDecodeError"),
        Sign("JSON parse error"),
        Sign("An error occurred while generating the dataset"),
        Sign("DatasetGenerationError"),
        Sign("CastError"),
        Sign("Couldn't cast"),
        Sign("column names don't match"),
        Sign("all the data files must have the same columns"),
        Sign("EmptyDatasetError"),
        Sign("DataFilesNotFoundError"),
        Sign("The directory at"),
        Sign("DatasetNotFoundError"),
        Sign("Cannot find data_files"),
        Sign("num_samples should be a positive integer value"),
        Sign("The train dataset is empty"),
        Sign("No valid data"),
        Sign("dataset_info.json"),
        Sign("No examples remain"),
        Sign("is empty"),
        Sign(
            "KeyError: 'messages'",
        ),
        Sign(
            "KeyError: 'conversations'",
        ),
        Sign(
            "KeyError: 'images'",
        ),
        Sign(
            "KeyError: 'image'",
        ),
        Sign(
            "KeyError: 'query'",
        ),
        Sign(
            "KeyError: 'prompt'",
        ),
        Sign(
            "KeyError: 'chosen'",
        ),
        Sign("FileNotFoundError", also=(".json",)),
        Sign("FileNotFoundError", also=("data",)),
        Sign("Undefined dataset"),
        Sign("ArrowInvalid"),
        Sign("UnicodeDecodeError"),
        Sign("Unable to find '"),
        Sign("doesn't exist on the Hub"),
        Sign(
            "KeyError: 'content'",
        ),
        Sign("dataset", also=("No such file",)),
        Sign("Unable to concatenate an empty list of datasets"),
        Sign("the resulting train set will be empty"),
        Sign("not in the dataset", also=("olumn",)),
        Sign("features can't be aligned"),
        Sign("does not implement __len__"),
        Sign("Failed to load JSON"),
        Sign("No columns in the dataset match"),
        Sign("dataset_path"),
        Sign("local path does not exist", also=("dataset",)),
        Sign("Dataset not found"),
        Sign("dataset is empty"),
        Sign("training dataset contains keys expected by the model"),
        Sign("Column '", also=("doesn't exist",)),
    ),
    examples=(
        Example(
            "datasets.exceptions.DatasetGenerationError: An error occurred "
            "while generating the dataset",
            "datasets/builder.py, 4.8.4",
        ),
        Example(
            "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 27 (char 26)",
            "made by causing it (names and numbers changed), Python 3.11",
        ),
    ),
    evidence="datasets' and Python's own messages.",
)
