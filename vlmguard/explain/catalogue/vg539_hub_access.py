"""The hub refuses this model or data set to this user."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

# The hub knows who asks, and says what lacks.
_KNOWN = ("awaiting a review", "awaiting review", "authorized list", "fine-grained")

FAILURE = Known(
    code="VG539",
    name="explain-hub-access",
    title="The hub refused access: gated, private or mistyped",
    zh="模型仓库拒绝访问：受限、私有或名称有误",
    why="the model or data set is gated or private and this job has no "
    "token that may read it, or no such repository exists",
    do=(
        Do(
            "ls -la {repo}: a folder of this name here is taken in place of the hub's (rename "
            "it); none there: the name itself (open https://huggingface.co/{repo})",
            "none",
            when=("same name",),
            kind="page",
        ),
        Do(
            "ls -l {path}, on the node itself: a local folder that is not there is taken for "
            "a name on "
            "the hub",
            "none",
            when=(
                "path: '/",
                "access model /",
                "' not found",
                "Repo id must",
                "Can't load tokenizer for '/",
                "Can't load the model for '/",
                "Can't load the configuration of '/",
                "processor for '/",
            ),
        ),
        Do(
            "a token with the right to write: hf auth login, with a token of type Write",
            "none",
            when=("/commit/", "not allow writing", "create a model", "repos/create"),
        ),
        Do(
            "without a push: --push_to_hub false",
            "the model stays on this machine",
            when=("/commit/", "not allow writing", "repos/create"),
        ),
        Do(
            "curl -sSI https://modelscope.cn/models/{repo} | head -1: 404 means another name there "
            "(Llama is LLM-Research/…); --use_hf true takes it from Hugging Face",
            "none",
            when=("modelscope.cn/api",),
        ),
        Do(
            "modelscope login --token TOKEN (of modelscope.cn), and see on the page that {repo} "
            "is there",
            "none",
            when=("modelscope",),
            unless=("not exist in",),
        ),
        Do(
            "look for {repo} on https://modelscope.cn; not there: --use_hf true takes it from "
            "Hugging Face",
            "none",
            when=("not exist in", "NotExistError"),
        ),
        Do(
            "hf auth whoami, in the job: with that account open https://huggingface.co/{repo}: its "
            "request waits for the authors' answer, and no login mends that: the same command once "
            "it is granted, until then with a copy of the model that is not gated",
            "none",
            when=("awaiting a review", "awaiting review"),
            kind="access",
        ),
        Do(
            "https://huggingface.co/settings/tokens: edit the token of the job: read access to "
            "public gated repositories; a fine-grained token has it not by itself",
            "none",
            when=("fine-grained", "enable access to public gated"),
            kind="access",
        ),
        Do(
            "hf auth whoami, in the job: ask for access on https://huggingface.co/{repo} with "
            "that account: its token is known, and not in the list",
            "none",
            when=("authorized list", "ask for access"),
            kind="access",
        ),
        Do(
            "hf auth login (huggingface-cli login before hub 0.34), or HF_TOKEN in the job's "
            "environment: it came without a token; then, if not done yet, ask for access on "
            "https://huggingface.co/{repo}",
            "none",
            when=("401", "must be authenticated", "must have access to it and be authenticated"),
            unless=(
                "Repository Not Found",
                "RepositoryNotFound",
                "/commit/",
                "modelscope",
                "valid model identifier",
                "Invalid username",
            ),
            kind="access",
        ),
        Do(
            "ask for access on https://huggingface.co/{repo}, then hf auth login "
            "(huggingface-cli login before hub 0.34) or HF_TOKEN in the job's environment; if you "
            "have both: hf auth whoami in the job, since an HF_TOKEN there goes before the login",
            "none",
            when=("gated", "restricted", "Gated", "403"),
            unless=("/commit/", "modelscope"),
            kind="access",
        ),
        Do(
            "open https://huggingface.co/{repo} in a browser: not there means that the name is "
            "wrong (owner/name, capitals too) or that it is private: hf auth login",
            "none",
            unless=("gated", "Gated", "/commit/", "modelscope"),
            kind="page",
        ),
        Do("hub", "none", unless=_KNOWN, kind="access"),
        Do("local_model", "none", unless=_KNOWN),
        Do("check the name: owner/name, capitals as on its page", unless=_KNOWN),
    ),
    wrong="A token of another user, or a fine-grained one without 'read "
    "gated repositories', is refused in the same words.",
    signs=(
        Sign("You are trying to access a gated repo"),
        Sign("GatedRepoError"),
        Sign("RepositoryNotFoundError"),
        Sign("Cannot access gated repo"),
        Sign("401 Client Error", no=("api.wandb",)),
        Sign("403 Client Error", no=("ProxyError", "to proxy")),
        Sign("is not a local folder and is not a valid model identifier"),
        Sign("Repository Not Found for url"),
        Sign("Please specify correct dataset_name and namespace", releases="modelscope"),
        Sign("path: '", also=("' not found",), no=(".json", "data"), releases="ms-swift"),
        Sign("Token does not exist, please login", releases="modelscope"),
        Sign("NotLoginException", releases="modelscope"),
        Sign("swift/hub/", where="raised", releases="ms-swift 2"),
        Sign("Invalid repo_id", releases="modelscope"),
        Sign("MODELSCOPE_API_TOKEN="),
        Sign("Please enter a valid hub_model_id"),
        Sign("swift/utils/hub_utils.py", where="raised"),
        Sign("Invalid user token"),
        Sign("Invalid credentials in Authorization header"),
        Sign("is a gated dataset"),
        Sign("Access to model"),
        Sign("Access to dataset"),
        Sign("NotExistError"),
        Sign("Repo id must be in the form"),
        Sign("HFValidationError"),
        Sign("The model does not exist"),
        Sign("doesn't exist on the Hub or cannot be accessed"),
        Sign("RevisionNotFoundError"),
        Sign("Invalid username or password"),
        Sign("Authorization error"),
        Sign("LocalTokenNotFoundError"),
        Sign("Token is required (`token=True`)"),
        Sign("EntryNotFoundError", no=("LocalEntryNotFoundError",)),
        Sign("404 Client Error"),
        Sign("Bad request for commit endpoint"),
        Sign("Invalid token passed"),
        Sign("403 Forbidden", no=("ProxyError", "to proxy", "upsert", "wandb")),
        Sign("401 Unauthorized", no=("upsert", "wandb")),
        Sign("Repo id must use alphanumeric"),
        Sign("not exists on modelscope"),
        Sign("Failed to login"),
        Sign("modelscope/hub/", where="raised"),
        Sign("-packages/huggingface_hub/utils/_validators.py", where="raised"),
        Sign("does not allow writing to the Hub"),
        Sign("Client Error: Forbidden for url: https://huggingface.co"),
        Sign("400 Client Error: Bad Request for url: https://huggingface.co"),
        Sign("You don't have the rights to create a model"),
        Sign("Authentication token does not exist", releases="modelscope"),
        Sign(
            "Authentication token does not exist",
            where="line",
            also=("ERROR",),
            releases="modelscope",
        ),
        Sign("Can't load ", also=("ake sure",)),
        Sign("OSError: Can't load "),
        Sign("No config file found - are you sure the `model_name`", releases="unsloth"),
    ),
    examples=(
        Example(
            "OSError: You are trying to access a gated repo.\nMake sure to "
            "have access to it at "
            "https://huggingface.co/google/paligemma-3b-pt-224.",
            "transformers/utils/hub.py, 5.19.0",
        ),
        Example(
            "OSError: nosuch/model is not a local folder and is not a "
            "valid model identifier listed on "
            "'https://huggingface.co/models'",
            "transformers/utils/hub.py, 5.19.0",
        ),
    ),
    evidence="transformers' and huggingface_hub's own messages.",
    narrow=3,
)
