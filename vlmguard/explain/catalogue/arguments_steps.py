"""What to change where an argument is refused (VG553), by what the message names."""

from __future__ import annotations

from vlmguard.explain import looks, newer
from vlmguard.explain.catalogue import generations_steps
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

SETTINGS = ("EasyDict", "ConfigDict", "AttrDict", "CfgNode", "Munch", "HParams", "DotDict")
_MISSING = tuple(f"'{kind}' object has no attribute" for kind in SETTINGS)


def steps(facts: Facts) -> tuple[Do, ...]:
    if fitting := generations_steps.steps(facts):
        return fitting
    upgrade = newer.upgrade(facts)
    return (Do(upgrade, "other defaults, too"), *STEPS) if upgrade else STEPS


STEPS = (
    looks.CHECK,
    Do(
        "python -m pip install -U unsloth unsloth_zoo, and the model by "
        "FastVisionModel.from_pretrained(…): an older one does not take this model for "
        "one that sees",
        "none",
        when=("is only for image models",),
        kind="help",
    ),
    Do(
        "{program} --help: what this script takes; {flags} are another parser's: start "
        "that script, or args, rest = parser.parse_known_args() here",
        "none",
        kind="help",
    ),
    Do(
        "sed -n {yamlspan} {yamlfile}: line {line} breaks it (a colon without a blank "
        "behind it, a tab, an indentation that differs, a value with a colon that is not "
        "in quotes)",
        "none",
        when=("yaml.",),
        kind="help",
    ),
    Do(
        "grep -nE '\\\\[[:space:]]+$' {script}: a backslash with a blank behind it ends the "
        "command there; take the blanks away",
        "none",
        when=("--",),
        kind="help",
    ),
    Do(
        "--max_steps 1000 (the number of steps that you want): streamed data have no length",
        "none",
        when=(
            "Please specify `max_steps`",
            "max_steps has to be specified",
        ),
        kind="help",
    ),
    Do(
        "--{argument} VALUE: nothing stands behind it (or what does begins with a dash: "
        "--{argument}=VALUE)",
        "none",
        when=(
            "expected one argument",
            "expected at least one argument",
        ),
        kind="help",
    ),
    Do(
        "{oneof} with one of the values that the message lists: {refusedvalue} is none of them",
        "none",
        kind="help",
    ),
    Do(
        "model_name_or_path",
        "none",
        when=(
            "provide `model_name_or_path`",
            "Please set --model",
        ),
        kind="help",
    ),
    Do(
        "python -m pip install -U {framework}: {key} is a choice of a newer release (or misspelt)",
        "none",
        when=("KeyError: '",),
        kind="help",
    ),
    Do(
        "JSON in an argument stands in single quotes, with double ones inside: --NAME "
        '\'{"key": "value"}\' (without them the shell takes the double ones away)',
        "none",
        when=("JSONDecodeError",),
        kind="help",
    ),
    Do(
        "grep -rn -e {attribute} --include=*.py . | grep add_argument: which script defines "
        "it? start that one, or take script and modules of one release",
        "none",
        when=("'Namespace' object has no attribute",),
        kind="help",
    ),
    Do(
        "drop_last=True for the data loader, or two rows per rank and more",
        "the last rows are left out",
        when=("more than 1 value per channel",),
        kind="help",
    ),
    Do(
        "grep -n {attribute} in the configuration's file: add it there (or take the file and "
        "the code of one release)",
        "none",
        when=_MISSING,
        kind="help",
    ),
    Do(
        "--gradient_accumulation_steps 1 or more: a global batch that is smaller than "
        "micro-batch × ranks gives 0",
        "none",
        when=("by zero",),
        kind="help",
    ),
    Do(
        "print(args) in front of the line that failed: which one is None? give it",
        "none",
        when=("NoneType",),
        kind="help",
    ),
    Do(
        "val_size: 0.05, or eval_dataset: NAME, or eval_strategy: no",
        "rows that are not trained on; or no evaluation",
        when=("eval_dataset be provided", "specify `eval_dataset`"),
    ),
    Do(
        "--use_liger False (or --use_liger_kernel False, as the command has it): its kernels are "
        "not made for this model",
        "more memory",
        when=("Liger is not supported",),
        kind="help",
    ),
    Do(
        "choices of the field {letters} in the script's own class of arguments: a list of names "
        '(["a", "b"]) in place of one string, which is taken apart into its letters; then the '
        "same command",
        "none",
        when=("invalid choice",),
        kind="help",
    ),
    Do(
        "one of the values behind 'choose from' for --{argument}: {choice} is none of them",
        "none",
        when=("invalid choice",),
        kind="help",
    ),
    Do(
        "--{argument} with another value: {refused} is not of the kind that the message names "
        "(a number without a unit, true or false)",
        "none",
        when=(" value: ",),
        kind="help",
    ),
    Do(
        "{newflag} in place of --{argument}: it has another name in this release",
        "none",
        when=("remaining_argv", "not used by the HfArgumentParser", "unrecognized arguments"),
        kind="newname",
    ),
    Do(
        "{newname} instead of {argument}: it has another name in this release",
        "none",
        unless=("invalid choice", " value: "),
        kind="newname",
    ),
    Do("leave {argument} out: {dropped}", "none"),
    Do(
        "ls -l {path}: it is not there; a relative path counts from where the job starts, "
        "and every node must see it",
        "none",
        when=("FileNotFoundError", "No such file", "Error: path: '", "Error: py_dir: "),
        kind="help",
    ),
    Do(
        'parser.add_argument("--local_rank", "--local-rank", type=int, default=0): the '
        "launcher hands it over; torchrun, and deepspeed --no_local_rank, set LOCAL_RANK alone",
        "none",
        when=("arguments: --local_rank", "arguments: --local-rank"),
        kind="help",
    ),
    Do(
        "python -c 'import inspect, colossalai.booster.plugin as p; "
        "print(inspect.signature(p.{class}))': what it takes in this release; {argument} is "
        "none of it",
        "none",
        when=("Plugin.__init__()",),
        kind="help",
    ),
    Do(
        "--{required} VALUE behind the command: the program does not start without it",
        "none",
        kind="help",
    ),
    Do(
        "a list in the YAML: a dash in front of the entry (NAME:, and below it - path: …)",
        "none",
        when=("Input should be a valid list",),
        kind="help",
    ),
    Do(
        "grep -rnw {argument} --include=*.py --include=*.y*ml --include=*.json . | head: "
        "where it is set: {ownclass} does not know it: take it out there, or git pull "
        "(file and script are of different releases)",
        "none",
        when=(
            "Config.__init__()",
            "Arguments.__init__()",
            "Args.__init__()",
        ),
        kind="help",
    ),
    Do(
        "python - <<< 'import inspect, trl, transformers; "
        'c = getattr(trl, "{class}", 0) or getattr(transformers, "{class}"); '
        "print(*inspect.signature(c).parameters)' | tr ' ' '\\n' | grep -i {stem}: the name "
        "that this release has; {argument} is none of it",
        "none",
        when=("Config.__init__()", "Arguments.__init__()"),
        kind="help",
    ),
    Do(
        "{program} --help | grep -i {stem}: the name that this release has; {argument} is "
        "misspelt, or of another release: correct it, or leave it out",
        "none",
        kind="help",
    ),
    Do(
        "which -a deepspeed torchrun; python -m pip show deepspeed torch: launch.py is the "
        "launcher's own, of another release than the command that started it; install one "
        "release, or start with torchrun",
        "none",
        when=("launch.py: error", "run.py: error", "launcher.py: error"),
        kind="help",
    ),
    Do(
        "grep -rn --include='*.py' --include='*.y*ml' --include='*.sh' {stem} . | head: "
        "the names that the script's own parser has; {argument} is none: correct or drop it",
        "none",
        kind="help",
    ),
    Do(
        "one of the values behind 'choose from'; {choice} needs another release of the program "
        "(python -m pip install -U it)",
        "none",
        kind="help",
    ),
    Do(
        "--save_strategy and --eval_strategy alike (steps and steps, with the same number), or "
        "--load_best_model_at_end false",
        "none",
        when=("load_best_model_at_end",),
    ),
    Do(
        "+NAME=VALUE adds a key that Hydra's file lacks (NAME with its dots: {key} is not "
        "in it); "
        "without the plus it must be there: misspelt, or of another release",
        "none",
        when=("is not in struct",),
    ),
    Do(
        "use_reentrant=False by hand: gradient_checkpointing_kwargs={'use_reentrant': False}",
        "none",
        when=("pass in use_reentrant=True or",),
    ),
    Do(
        "{program} --help | grep -i -A2 {anyflag}: what it takes in this release",
        "none",
        kind="help",
    ),
    Do(
        "grep -rn {attribute} --include=*.py . | head: the field that the arguments lack; add "
        "it, or take the script and its arguments from one release",
        "none",
        when=("'Namespace' object", "Arguments' object", "Args' object", "Config' object"),
        kind="help",
    ),
    Do(
        "{advised}: the message itself asks for it",
        "none",
        kind="help",
    ),
    Do(
        "{program} --help | less: the names and values that this release takes; the message "
        "names the one that it refused",
        "none",
        kind="help",
    ),
    Do(
        "the message names the argument and what it takes; PROGRAM --help in this environment "
        "shows the rest (swift sft, llamafactory-cli train, trl sft: flags move between "
        "releases)",
        "none",
        kind="help",
    ),
    Do(
        "quote JSON values in single quotes",
        "none",
        when=("JSON", "json", "{", "Expecting"),
    ),
    Do(
        "python -m pip show ms-swift transformers trl: ms-swift 4 renamed --train_type to "
        "--tuner_type, transformers 4.46 evaluation_strategy to eval_strategy, TRL 1 "
        "max_seq_length to max_length",
        "none",
    ),
    Do(
        "ls the path that the message names, where the ranks run: it is not there",
        "none",
        when=("FileNotFoundError", "No such file"),
    ),
)
