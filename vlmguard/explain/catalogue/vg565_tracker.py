"""The tracker refused."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEPS = (
    Do(
        "wandb_name",
        "none",
        when=("weights_and_biases",),
    ),
    Do(
        "python -m pip install {package}",
        "none",
        when=("please install", "Please install", "pip install", "to be installed"),
        unless=("swanlab[dashboard]",),
    ),
    Do("no_tracker", "no curves on line"),
    Do(
        "WANDB_MODE=offline in front of the command",
        "no curves on line; wandb sync later",
        when=("wandb", "api_key", "WANDB"),
    ),
    Do(
        "wandb login, on the machine that the job runs on, or WANDB_API_KEY in its environment",
        "none",
        when=("wandb", "api_key", "WANDB"),
    ),
    Do("python -m pip install 'swanlab[dashboard]'", "none", when=("swanlab[dashboard]",)),
    Do("swanlab login, on the machine that the job runs on", "none", when=("swanlab",)),
)


# wandb knows who asks: the project is another's. No login with the same account mends that.
_DENIED = ("PERMISSION_ERROR", "permission denied", "403", "404", "entity")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{1,60}")


def _do(facts: Facts) -> tuple[Do, ...]:
    """A project of one's own, in the log's own account, where wandb refused another's."""
    if "upsert" not in facts.message or not any(word in facts.message for word in _DENIED):
        return _STEPS
    told = facts.said.get("wandb_account", "")
    name = told if _NAME.fullmatch(told) else "YOUR_ACCOUNT"
    theirs = facts.said.get("wandb_project", "")
    project = theirs if _NAME.fullmatch(theirs) else "PROJECT"
    who = "the project that the run names is not this account's"
    way = f"WANDB_ENTITY={name} WANDB_PROJECT={project} in front of the command"
    if "open_r1/" in facts.trace:  # its own arguments, which set those variables again
        way = f"--wandb_entity {name} --wandb_project {project}"
    own = Do(f"{way}: {who}, and no new login mends that", "none")
    return (own, *(do for do in _STEPS if "login" not in do.action))


FAILURE = Known(
    code="VG565",
    name="explain-tracker",
    title="The experiment tracker refused to start",
    zh="实验记录工具（wandb 等）启动失败",
    why="the run was told to report to a tracker that has no key, no network or no project here",
    do=_do,
    wrong="A tracker's warning during training ends nothing.",
    signs=(
        Sign("api_key not configured (no-tty)"),
        Sign("wandb.errors"),
        Sign("wandb: ERROR", no=("Error while calling W&B API",)),  # its own process tries again
        Sign("wandb: ERROR api_key not configured", where="line"),
        Sign("wandb: ERROR Unable to", where="line"),
        Sign("CommError"),
        Sign("UsageError", also=("wandb",)),
        Sign("swanlab", also=("Error",)),
        Sign("mlflow", also=("Exception",)),
        Sign(
            "RuntimeError: TensorBoardCallback requires",
        ),
        Sign("requires wandb to be installed"),
        Sign("requires tensorboard to be installed"),
        Sign("Callback requires"),
        Sign("is not supported, only", also=("mlflow",)),
        Sign("API key must be"),
        Sign("api.wandb.ai"),
        Sign("-packages/wandb/", where="raised"),
        Sign("-packages/swanlab/", where="raised"),
        Sign("-packages/mlflow/", where="raised"),
        Sign("-packages/tensorboard", where="raised"),
        Sign("integration_utils.py", where="raised"),
        Sign("-packages/comet_ml/", where="raised"),
        Sign("-packages/clearml/", where="raised"),
        Sign("-packages/neptune/", where="raised"),
        Sign("accelerate/tracking.py", where="within"),
        Sign("integration_utils.py in setup()", where="within"),
        Sign("integration_utils.py in on_log()", where="within"),
        Sign("integration_utils.py in on_train_begin()", where="within"),
        Sign("integration_utils.py in on_save()", where="within"),
        Sign("integration_utils.py in on_train_end()", where="within"),
        Sign("torch/utils/tensorboard/", where="within"),
        Sign("-packages/wandb/", where="within"),
        Sign("You can only call `wandb.watch` once"),
        Sign("value should be one of int, float, str, bool, or torch.Tensor"),
        Sign("lightning/pytorch/loggers/", where="raised"),
        Sign("pytorch_lightning/loggers/", where="raised"),
        Sign("-packages/swanboard/", where="raised"),
        Sign("weave and wandb must be", releases="weave"),
        Sign("wandb", where="else"),
        Sign("ensorboard", where="else"),
        Sign("mlflow", where="else"),
        Sign("ClearML", where="else"),
        Sign("swanlab", where="else"),
        Sign("tracker", where="else"),
    ),
    examples=(
        Example(
            "wandb.errors.errors.UsageError: api_key not configured "
            "(no-tty). call wandb.login(key=[your_api_key])",
            "wandb/sdk/wandb_login.py, 0.19",
        ),
    ),
    evidence="wandb's own message.",
    narrow=3,
)
