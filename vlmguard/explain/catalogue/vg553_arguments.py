"""An argument is unknown or has a wrong value."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG553",
    name="explain-arguments",
    title="The command line has an argument that this release does not know",
    zh="命令行参数未知或取值错误",
    why="the program refused its arguments before it did anything: a "
    "flag of another release, a misspelling, or a value that does "
    "not fit",
    do=(
        Do(
            "the program's --help in this environment: flags move between "
            "releases (ms-swift 4 renamed --train_type to --tuner_type)",
            "none",
        ),
        Do(
            "evaluation_strategy became eval_strategy, tokenizer= became "
            "processing_class= in newer transformers",
            "none",
        ),
        Do("quote JSON values in single quotes", "none"),
    ),
    wrong="Ignoring unknown arguments lets the run go on without what you asked for.",
    signs=(
        Sign("Some specified arguments are not used by the HfArgumentParser"),
        Sign("Some keys are not used by the HfArgumentParser"),
        Sign("remaining_argv"),
        Sign("error: unrecognized arguments"),
        Sign("error: argument"),
        Sign("error: the following arguments are required"),
        Sign("Arguments.__init__() got an unexpected keyword argument"),
        Sign("Config.__init__() got an unexpected keyword argument"),
        Sign("unexpected keyword argument 'evaluation_strategy'"),
        Sign("invalid choice:"),
        Sign("error: unrecognized arguments", where="line"),
        Sign("error: the following arguments are required", where="line"),
        Sign(": error: argument ", where="line"),
        Sign("conflicting option string"),
        Sign("are mutually exclusive"),
        Sign("At most one of fp16 and bf16 can be True"),
        Sign(
            "The save and eval strategy",
        ),
        Sign(
            "--load_best_model_at_end requires",
        ),
        Sign("not a valid IntervalStrategy"),
        Sign("is not a valid"),
        Sign(
            "unknown argument",
        ),
        Sign("ScannerError"),
        Sign("while parsing a block"),
        Sign("omegaconf.errors"),
        Sign("hydra.errors"),
        Sign("ConfigAttributeError"),
        Sign("divisible by the number of generations"),
        Sign("must be divisible by num_generations"),
        Sign("Trainer: training requires a train_dataset"),
        Sign("but you didn't pass an `eval_dataset`"),
        Sign("Unsupported nproc_per_node value"),
        Sign("`Trainer` requires either"),
        Sign("do_eval requires"),
        Sign("Could not override '", where="line"),
        Sign("Error merging override", where="line"),
        Sign("hydra.errors", where="line"),
        Sign("metric_for_best_model"),
        Sign("ConfigKeyError"),
        Sign("expected a number of generations"),
        Sign("at least 2 generations per prompt"),
        Sign("AcceleratorConfig"),
        Sign("yaml.parser"),
        Sign("yaml.constructor"),
        Sign("transformers/training_args", where="raised"),
        Sign("transformers/hf_argparser.py", where="raised"),
        Sign("/hparams/", where="raised"),
        Sign("swift/arguments/", where="raised"),
        Sign("swift/llm/argument/", where="raised"),
        Sign("argparse.py", where="raised"),
        Sign("-packages/omegaconf/", where="raised"),
        Sign("-packages/hydra/", where="raised"),
        Sign("-packages/yaml/", where="raised"),
        Sign("in _validate_args", where="raised"),
        Sign("trl/trainer/utils.py in __post_init__", where="raised"),
        Sign("_config.py in __post_init__", where="raised"),
        Sign("transformers/trainer.py in __init__", where="raised"),
        Sign("_trainer.py in __init__", where="raised"),
        Sign("in create_accelerator_and_postprocess", where="raised"),
        Sign("-packages/click/", where="raised"),
        Sign("cli/main.py in cli_main", where="raised"),
        Sign("swift/megatron/arguments/", where="raised"),
        Sign("transformers/trainer_optimizer.py", where="raised"),
        Sign("torch/distributed/run.py", where="raised"),
    ),
    examples=(
        Example(
            "ValueError: Some specified arguments are not used by the "
            "HfArgumentParser: ['--evaluation_strategy', 'no']",
            "made by causing it, transformers 5.19.0",
        ),
        Example(
            "train.py: error: unrecognized arguments: --train_type lora",
            "made by causing it, Python 3.11",
        ),
    ),
    evidence="transformers' and Python's own messages.",
)
