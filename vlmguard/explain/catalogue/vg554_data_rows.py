"""The data set cannot be read or lacks a column."""

from __future__ import annotations

import re
import shlex

from vlmguard.explain import given
from vlmguard.explain.catalogue import empty_lists_steps
from vlmguard.explain.catalogue.data_rows_steps import NOTHING, STEPS
from vlmguard.explain.catalogue.refusals import MODEL_FILES
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if any(words in facts.message for words in NOTHING):
        return (
            "the code counts batches, rows or tokens, and there were none: the data set is empty "
            "here, or smaller than one batch of all ranks (micro-batch × ranks × accumulation)"
        )
    return (
        "a data file is missing, is no valid JSON, or its rows have other columns than the "
        "template expects"
    )


_KEY = re.compile(r"KeyError: '(\w{1,60})'")
_SOURCE = re.compile(r'File "(/[^"\n]{1,200}?)/swift/(?:llm|template|dataset)/')
_OWN = {"ms-swift": "ms-swift", "LLaMA-Factory": "llamafactory", "axolotl": "axolotl"}
_TENSORS = ("input_ids", "attention_mask", "position_ids", "labels")  # a batch's, never a row's
_RENAMED = ("columns", "key", "form")  # kinds of steps that ask for the rows' keys


def _of_framework(facts: Facts) -> bool:
    """Whether no line of the user's own code is among those that failed."""
    return facts.framework in _OWN and not given.place(facts.trace)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Where the log shows that the rows have the key, the code that asks for it is at fault."""
    if empty := empty_lists_steps.steps(facts):
        return empty
    key = _KEY.search(facts.message)
    columns = facts.said.get("columns", "").split(", ")
    if key is not None and "trl/trainer/" in facts.trace and facts.framework in _OWN:
        said = f"python -m pip install -U {_OWN[facts.framework]}: its trainer hands the rows to a "
        said += f"TRL of another time, which asks for {key[1]}; it is no column that you lack"
        return (Do(said, "other releases than those that are there"), *STEPS)
    if key is not None and key[1] in _TENSORS and _of_framework(facts):
        said = f"python -m pip install -U {_OWN[facts.framework]}: {key[1]} is made of the rows by "
        said += "it, and no column of them: its hooks or what is patched in (liger) lost it"
        left = tuple(do for do in STEPS if do.kind not in _RENAMED)
        return (Do(said, "other releases than those that are there"), *left)
    if key is None or key[1] not in columns or facts.framework != "ms-swift":
        return STEPS
    why = f"the log's rows have {key[1]} (features): it is the framework that loses it"
    folder = _SOURCE.search(facts.trace)
    newer = Do(f"python -m pip install -U ms-swift: {why}", "another release")
    if folder is not None and "-packages" not in folder[1]:
        checkout = shlex.quote(folder[1])
        newer = Do(f"git -C {checkout} pull && python -m pip install -e {checkout}: {why}")
    release = re.match(r"(\d{1,3}\.\d{1,3})\.\d{1,3}\.?dev", facts.releases.get("swift", ""))
    older = Do(
        f"python -m pip install 'ms-swift<{release[1] if release else 'THIS_RELEASE'}': the last "
        "one before this " + ("state of development" if release else "one"),
        "fewer features",
    )
    cached = Do("--load_from_cache_file false, with the same command", "the rows are read anew")
    left = tuple(do for do in STEPS if do.kind not in _RENAMED and do.when)
    return (newer, older, cached, *left)


FAILURE = Known(
    code="VG554",
    name="explain-data-rows",
    title="The data set cannot be read, is empty, or its rows are not as expected",
    zh="数据集无法读取、为空或字段不符",
    why=_why,
    do=_do,
    wrong="If it only fails on some ranks, a file is missing on those nodes.",
    signs=(
        *(
            Sign("Couldn't reach '", also=(f"{kind}' on the Hub",))
            for kind in (".json", ".jsonl", ".csv", ".parquet")
        ),
        Sign("ValueError: File ", also=(" not found.",)),
        Sign("JSONDecodeError", no=MODEL_FILES),
        Sign("assistant_message: {", releases="ms-swift: as its siblings below"),
        Sign("AssertionError: user_message {'role'"),
        Sign("AssertionError: message: {'role'"),
        Sign("AssertionError: messages: []"),
        Sign("Error: rejected_response: "),
        Sign("Anthropic content block"),
        # Fewer rows than one step takes: the run ended before its first checkpoint.
        Sign("'TrainerState' object has no attribute 'last_model_checkpoint'"),
        Sign("raise KeyError(key) from err", where="trace", also=("KeyError",), releases="pandas"),
        Sign("-packages/pandas/core/index", where="raised", also=("KeyError",)),
        Sign("JSON parse error"),
        Sign("An error occurred while generating the dataset"),
        Sign("DatasetGenerationError"),
        Sign("CastError"),
        Sign("Couldn't cast"),
        Sign("column names don't match"),
        Sign("all the data files must have the same columns"),
        Sign("matches no teacher; available tags", releases="ms-swift 4"),
        Sign("swift/agent_template/", where="raised", releases="ms-swift 4"),
        Sign("out of range for dataset of size"),
        Sign("The custom dataset only supports", releases="ms-swift 2"),
        Sign("Failed to access dataset attributes", releases="ms-swift 2"),
        Sign("swift/llm/sft.py in prepare_dataset", where="raised", releases="ms-swift 2"),
        Sign("swift/llm/utils/template.py", where="raised", releases="ms-swift 2"),
        Sign("swift/llm/utils/preprocess.py", where="raised", releases="ms-swift 2"),
        Sign("swift/llm/utils/dataset.py", where="raised", releases="ms-swift 2"),
        Sign("modelscope/msdatasets/", where="raised"),
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
        Sign(
            "FileNotFoundError",
            beside=(".json",),
            no=("dapter", "in makedirs", "to_abspath", "config.json"),
        ),
        Sign(
            "FileNotFoundError",
            beside=("data",),
            no=("dapter", "in makedirs", "to_abspath", ".yaml'"),
        ),
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
        Sign("does not implement __len__", no=("max_steps has to be",)),
        Sign("make_dataset_from_rlds", where="trace"),
        Sign("in load_data_list", where="raised"),
        Sign("lerobot/datasets/", where="raised"),
        Sign("lerobot_datasets.py", where="within", no=("out of memory",)),
        Sign("vla/datasets/rlds/", where="within", no=("out of memory",)),
        Sign("conversations length must large than"),
        Sign("No tokens available to compute loss"),
        Sign("first message should come from user"),
        Sign("first message should not be none"),
        Sign("Conversation should alternate user/assistant"),
        Sign("Conversation length is 0 for"),
        Sign("Don't know why it is wrapped to a list"),
        Sign("Failed to fetch sample"),
        Sign("in get_modality_length_grouped_indices", where="raised"),
        Sign("in modality_lengths", where="raised"),
        Sign("llava/train/train.py in preprocess", where="raised"),
        Sign("llava/train/train_dpo.py in preprocess", where="raised"),
        Sign("finetune/dataset.py", where="raised"),
        Sign("mmengine/dataset/", where="raised"),
        Sign("mmdet/datasets/", where="raised"),
        Sign("lavis/datasets/", where="raised"),
        Sign("lerobot/processor/", where="raised"),
        Sign("/processor_", where="raised", also=("lerobot/policies/",)),
        Sign("lerobot/common/datasets/", where="raised"),
        Sign("-packages/tensorflow_datasets/", where="raised"),
        Sign("Failed to load JSON"),
        Sign("No columns in the dataset match"),
        Sign("dataset_path"),
        Sign("local path does not exist", also=("dataset",)),
        Sign("Dataset not found"),
        Sign("dataset is empty"),
        Sign("training dataset contains keys expected by the model"),
        Sign("Column '", also=("doesn't exist",)),
        Sign("KeyError: 'input_ids'"),
        Sign("KeyError: 'from'"),
        Sign("KeyError: 'value'"),
        Sign("KeyError: 'role'"),
        Sign("KeyError: 'conversation'"),
        Sign("KeyError: 'text'"),
        Sign("KeyError: 'response'"),
        Sign("KeyError: 'instruction'"),
        Sign("KeyError: 'question'"),
        Sign("KeyError: 'answer'"),
        Sign("KeyError: 'rejected'"),
        Sign("KeyError: 'completion'"),
        Sign("KeyError: 'labels'"),
        Sign("KeyError: 'human'"),
        Sign("KeyError: 'video'"),
        Sign("KeyError: 'videos'"),
        Sign("KeyError: 'id'"),
        Sign("KeyError: 'output'"),
        Sign("KeyError: 'train'"),
        Sign("KeyError: 'solution'"),
        Sign("Cannot find valid samples"),
        Sign("Cannot find sufficient samples"),
        Sign("ArrowTypeError"),
        Sign("ArrowNotImplementedError"),
        Sign("ArrowCapacityError"),
        Sign("offset overflow while concatenating"),
        Sign("Error tokenizing data"),
        Sign("Unknown split"),
        Sign("BuilderConfig '"),
        Sign("appears to be vision-related"),
        Sign("`train_dataset` is required"),
        Sign("Sample num mismatched"),
        Sign("not applicable in the current training stage"),
        Sign("Could not read JSON"),
        Sign("No JSON/JSONL files found"),
        Sign("data files found"),
        Sign(
            "Invalid keys in the example",
        ),
        Sign("Invalid role in message"),
        Sign("Bad split:"),
        Sign("The number of rows in"),
        Sign("Dataset scripts are no longer supported"),
        Sign("trust_remote_code` is not supported anymore"),
        Sign("File ", also=("not found.", ".json")),
        Sign("-packages/datasets/", where="raised"),
        Sign("-packages/pyarrow/", where="raised"),
        Sign("-packages/pandas/", where="raised"),
        Sign("swift/dataset/", where="raised"),
        Sign("swift/llm/dataset/", where="raised"),
        Sign("llamafactory/data/loader.py", where="raised"),
        Sign("llamafactory/data/converter.py", where="raised"),
        Sign("llamafactory/data/parser.py", where="raised"),
        Sign("llamafactory/data/data_utils.py", where="raised"),
        Sign("trl/data_utils.py", where="raised"),
        Sign("-packages/fsspec/", where="raised"),
        Sign("json/decoder.py", where="raised"),
        Sign("json/__init__.py", where="raised"),
        Sign("llamafactory/data/", where="raised"),
        Sign("swift/template/", where="raised"),
        Sign("swift/llm/template/", where="raised"),
        Sign("You must specify exactly one of input_ids"),
        Sign("You have to specify either input_ids"),
        Sign("You have to specify pixel_values"),
        Sign("You cannot specify both input_ids and inputs_embeds"),
        Sign("datasets/arrow_dataset.py in _map_single()", where="within", no=("out of memory",)),
        Sign("datasets/arrow_dataset.py in map()", where="within", no=("out of memory",)),
        Sign("datasets/builder.py in ", where="within", no=("out of memory",)),
        Sign("datasets/load.py in ", where="within", no=("out of memory",)),
        Sign("datasets/arrow_writer.py", where="within", no=("out of memory",)),
        Sign("datasets/iterable_dataset.py", where="within", no=("out of memory",)),
        Sign("in _prepare_dataset()", where="within", no=("out of memory",)),
        Sign("in collate_fn()", where="within", no=("out of memory",)),
        Sign("Invalid key:", also=("out of bounds for size",)),
        Sign("KeyError: 'input_ids_"),
        Sign("KeyError: 'label'"),
        Sign("KeyError: 'attention_mask'"),
        Sign("KeyError: 'chosen_"),
        Sign("KeyError: 'rejected_"),
        Sign("KeyError: 'prompt_"),
        Sign("KeyError: 'validation'"),
        Sign("KeyError: 'test'"),
        Sign("KeyError: 'caption'"),
        Sign("KeyError: 'audio'"),
        Sign("KeyError: 'input'"),
        Sign("You need to specify either `text` or `text_target`"),
        Sign("SchemaInferenceError"),
        Sign("Please pass `features` or at least one example"),
        Sign("your model won't be able to train on it"),
        Sign("Batch does not contain any data"),
        Sign("Can only automatically infer lengths for datasets"),
        Sign("One of dataset and lengths must be provided"),
        Sign("corresponds to no data!"),
        Sign("Config name is missing"),
        Sign("Please pick one among the available configs"),
        Sign("Couldn't infer the same data file format"),
        Sign("Couldn't find any data file at"),
        Sign("DuplicatedKeysError"),
        Sign("NonMatchingSplitsSizesError"),
        Sign("NonMatchingChecksumError"),
        Sign("ExpectedMoreSplits"),
        Sign("UnexpectedSplits"),
        Sign("UnexpectedDownloadedFile"),
        Sign("requires you to execute the dataset script"),
        Sign("required_keys_mapping", releases="ms-swift 2"),
        Sign("StdTemplateInputs(", releases="ms-swift 3, 4"),
        Sign("InferRequest(messages=", also=("AssertionError",), releases="ms-swift 3, 4"),
        Sign("AssertionError: messages: [", releases="ms-swift"),
        Sign("AssertionError: message: {", releases="ms-swift"),
        Sign("assert len(self.train_dataloader) >= 1", where="trace", releases="verl"),
        Sign("assert len(self.val_dataloader) >= 1", where="trace", releases="verl"),
        Sign("dataloader is empty!", releases="verl"),
        Sign("verl/utils/dataset/", where="raised"),
        Sign("must contain either 'messages'"),
        Sign("Unexpected input keys in examples"),
        Sign("but the dataset is not conversational"),
        Sign("one example has no assistant tokens"),
        Sign("requires all columns to be list"),
        Sign("List columns must have matching lengths"),
        Sign("requires conversational prompts"),
        Sign("Invalid role in the last message"),
        Sign("No datasets were loaded"),
        Sign("Please use `load_from_disk` instead"),
        Sign("is neither a `Dataset` directory"),
        Sign("is not a `Dataset`"),
        Sign("Provided `function` which is applied"),
        Sign("Invalid string class label"),
        Sign("Invalid integer class label"),
        Sign("should have one of 'path' or 'bytes'"),
        Sign("Decoding is disabled for this feature"),
        Sign("Column mismatch between batch"),
        Sign("Dataset", also=("is not cached in",)),
        Sign("are already in the dataset"),
        Sign("already in the dataset. Please choose"),
        Sign("Please first select a split"),
        Sign("the files in the archive don't share"),
        Sign("Column lengths mismatch"),
        Sign("Folder-based datasets require"),
        Sign("must be present as dictionary key in metadata"),
        Sign("in `DatasetDict` should have the same features"),
        Sign("Minimum class count error"),
        Sign("should be greater or equal to the number of classes"),
        Sign("The least populated class"),
        Sign("should be either positive and smaller than the number of samples"),
        Sign("should be smaller than the number of samples"),
        Sign("Sharding is ambiguous"),
        Sign("Couldn't embed array"),
        Sign("Index", also=("out of range for dataset of size",)),
        Sign("not in table columns"),
        Sign("not found in dataset!"),
        Sign("Label column"),
        Sign("must be identical as the columns in the dataset"),
        Sign("Unable to shard a dataset"),
        Sign("Unable to interleave"),
        Sign("Failed to retrieve results from map"),
        Sign("Failed to retrieve results from prepare_split"),
        Sign("There was an overflow with type"),
        Sign("Number of rows must match for all datasets"),
        Sign("can't have duplicated columns"),
        Sign("does not match the number of columns"),
        Sign("don't match the existing splits"),
        Sign("Split name should match"),
        Sign("One of the subprocesses has abruptly died"),
        Sign("axolotl/prompt_strategies/", where="raised"),
        Sign("axolotl/prompt_tokenizers.py", where="raised"),
        Sign("axolotl/datasets.py", where="raised"),
        Sign("xtuner/dataset/", where="raised"),
        Sign("xtuner/v1/datasets/", where="raised"),
        Sign("trainer/connectors/data_connector.py", where="raised", releases="Lightning"),
        Sign("AbsDataset.py", where="raised", releases="FlagEmbedding ≥ 1.3"),
        Sign("finetune/data.py", where="raised", releases="FlagEmbedding ≤ 1.2"),
        Sign("cannot find file: ", releases="FlagEmbedding"),
        Sign("pos_score or neg_score must be digit", releases="FlagEmbedding"),
        Sign("`pos_scores` and `neg_scores` not found", releases="FlagEmbedding"),
        Sign("sentence_transformers/losses/", where="raised"),
        Sign("sentence_transformers/base/losses/", where="raised"),
        Sign("sentence_transformers/cross_encoder/losses/", where="raised"),
        Sign("sentence_transformers/sparse_encoder/losses/", where="raised"),
        Sign("sentence_transformers/trainer.py", where="raised"),
        Sign("sentence_transformers/base/trainer.py", where="raised"),
        Sign("sentence_transformers/sampler.py", where="raised"),
        Sign("sentence_transformers/base/sampler.py", where="raised"),
        Sign("non-label columns, but got a dataset", releases="sentence-transformers"),
        Sign("unsloth_zoo/dataset_utils.py", where="raised"),
        Sign("axolotl/utils/data/", where="raised"),
        Sign("axolotl/core/datasets/", where="raised"),
        Sign("in data_collator", where="raised", also=("KeyError",)),
        Sign("in collate_fn", where="raised", also=("KeyError",)),
        Sign("in __getitem__", where="raised", also=("KeyError", "_utils/fetch.py")),
        Sign("datasets/arrow_dataset.py in _getitem()", where="within", no=("out of memory",)),
        Sign("datasets/arrow_dataset.py in __getitem__()", where="within", no=("out of memory",)),
        Sign("datasets/formatting/", where="within", no=("out of memory",)),
        Sign("next(self.sampler_iter)", where="trace", also=("StopIteration",)),
        Sign(".forward() missing", also=("required positional argument",)),
        Sign(" forward() missing", also=("required positional argument",)),
        Sign("datasets/table.py", where="within", no=("out of memory",)),
        Sign("pyarrow/", where="within", no=("out of memory",)),
        Sign("torch/utils/data/_utils/fetch.py in fetch()", where="within", no=("out of memory",)),
        Sign("torch/utils/data/dataset.py in __getitem", where="within", no=("out of memory",)),
        Sign("dataset.py in __getitem__()", where="within", no=("out of memory",)),
        Sign("data.py in __getitem__()", where="within", no=("out of memory",)),
        Sign("dataset", where="else"),
        Sign("train_dataset` must be", where="else"),
        Sign("datasets/arrow_dataset.py in wrapper()", where="within", no=("out of memory",)),
        Sign(" in _get_preprocessed_dataset()", where="within", no=("out of memory",)),
        Sign(" in preprocess_dataset()", where="within", no=("out of memory",)),
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
