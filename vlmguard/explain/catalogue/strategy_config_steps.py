"""What to change in DeepSpeed's or accelerate's configuration (VG575)."""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do

_SAID = (
    "JSONDecodeError",
    "existing deepspeed config",
    "Expected a string path",
    "No such file",
    "passed configuration file",
    "unknown keys",
    "main process",
    "pdsh' not installed",
    "zero_ddp_wrapper",
    "hostfile",
    "validation error",
    "'NoneType' object has no attribute 'backward'",
    "plugin",
    "Plugin",
    "device_map",  # the call's, and no file's
)

STEPS = (
    looks.CHECK,
    Do(
        "{advised}: the message itself asks for it",
        "none",
    ),
    Do(
        '"{badkey}": with a value of the kind that the message asks for (true or false '
        "without quotes, a number), or leave it out of DeepSpeed's file",
        "none",
        when=("validation error",),
        kind="pydantic",
    ),
    Do(
        "model, optimizer = accelerator.prepare(model, optimizer), in one call: the "
        "engine is made of both, and backward needs it",
        "none",
        when=("'NoneType' object has no attribute 'backward'",),
    ),
    Do(
        "cat the hostfile: a name in --include or --exclude must stand in it as it is "
        "written there (name slots=8)",
        "none",
        when=("not found in hostfile",),
    ),
    Do(
        "ls -l {path}: DeepSpeed's file is looked for there (relative to where the job starts)",
        "none",
        when=("existing deepspeed config", "Expected a string path", "No such file"),
    ),
    Do(
        "python -m json.tool {dsfile}: line {line} is where it breaks (a comma too many, "
        "a comment, True for true)",
        "none",
        when=("JSONDecodeError",),
        kind="json",
    ),
    Do(
        "python -m json.tool DS_CONFIG.json: line {line} is where it breaks (a comma too many, "
        "a comment, True for true)",
        "none",
        when=("JSONDecodeError",),
        kind="json",
    ),
    Do(
        "ls -l {path}: the file is looked for there, relative to where the job starts; "
        "accelerate config writes one",
        "none",
        when=("passed configuration file",),
    ),
    Do(
        "take {argument} out of the configuration file, or python -m pip install -U "
        "accelerate: "
        "this release does not know the key",
        "none",
        when=("unknown keys",),
    ),
    Do(
        '"auto" in DeepSpeed\'s file for each value that the message names: the Trainer then '
        "fills in its own",
        "none",
        when=("mismatch TrainingArguments", "DeepSpeed config values that mismatch"),
    ),
    Do(
        "no_unsloth",
        "slower steps: unsloth loads with a device_map, which ZeRO-3 refuses",
        when=("low_cpu_mem_usage", "device_map"),
        kind="places",
    ),
    Do(
        "take device_map and low_cpu_mem_usage out of from_pretrained: ZeRO-3 places the weights",
        "none",
        when=("low_cpu_mem_usage",),
        kind="places",
    ),
    Do(
        "leave gradient_accumulation_steps, gradient_clipping, zero_stage, the offload "
        "keys and "
        "mixed_precision out of accelerate's file: DeepSpeed's file says them",
        "none",
        when=("accelerate config variables will be ignored",),
    ),
    Do(
        'set "train_micro_batch_size_per_gpu" to a number in DeepSpeed\'s file',
        "none",
        when=(
            "has `None` as",
            "dataloaders passed to",
            "at least one of training or evaluation",
            "train_micro_batch_size",
        ),
    ),
    Do(
        "transformers.get_scheduler(…) and torch.optim.AdamW in place of DummyScheduler and "
        "DummyOptim in the code: the file has no section that these stand for",
        "none",
        when=("without specifying a scheduler", "without specifying an optimizer"),
        kind="dummy",
    ),
    Do(
        "take the optimizer and scheduler sections out of DeepSpeed's file: the code's own are "
        "used (or DummyOptim and DummyScheduler in the code, and the file's are)",
        "none",
        when=(
            "in the config file and in the code",
            "DummyOptim",
            "DummyScheduler",
            "specify an optimizer",
            "specify a scheduler",
        ),
        kind="dummy",
    ),
    Do(
        '"zero_allow_untested_optimizer": true in DeepSpeed\'s file',
        "none",
        when=("untested ZeRO Optimizer", "not a ZeRO supported optimizer"),
    ),
    Do(
        '"zero_force_ds_cpu_optimizer": false in DeepSpeed\'s file, or its own DeepSpeedCPUAdam',
        "a slower step with an optimizer that is not DeepSpeed's",
        when=("client provided optimizer",),
    ),
    Do(
        '"stage3_gather_16bit_weights_on_model_save": true in the zero_optimization section',
        "time and memory at each save",
        when=("16bit model weights", "stage3_gather_16bit"),
    ),
    Do(
        "apt-get install pdsh, or deepspeed --launcher openmpi",
        "none",
        when=("pdsh' not installed",),
    ),
    Do(
        "--main_process_ip ADDRESS_OF_THE_FIRST_NODE --main_process_port 29500 "
        "--machine_rank N, on each node",
        "none",
        when=("main process",),
    ),
    Do(
        "zero2",
        "one run: if it works, your own file's keys are at fault: add them one at a time",
        unless=_SAID,
    ),
    Do(
        "start from the framework's own file for the stage (ms-swift: "
        '--deepspeed zero2; transformers: zero3 with "auto" values) '
        "and add one key at a time",
        "none",
        unless=("device_map",),
    ),
    Do(
        'for "auto" values start through the Trainer or accelerate, '
        "which fill them; DeepSpeed alone does not",
        "none",
        when=("auto",),
    ),
    Do(
        "python -m json.tool ds_config.json; accelerate env: the configuration that is used",
        "none",
        unless=("device_map",),
    ),
)
