"""The hub cannot be reached."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# A local file that is not there is taken for a data set of the hub (VG554).
_FILES = tuple(f".{kind}' on the Hub" for kind in ("json", "jsonl", "csv", "parquet"))

_ELSEWHERE = "another machine"
_TWICE = (
    " in front of the same command; SHARED: a folder that both machines see, which is to hold all "
    "that the run loads: the old cache is not looked at any more"
)
_THEN = (
    " where there is a network (a login node; huggingface-cli download before hub 0.34), then "
    "HF_HOME=/SHARED/hf HF_HUB_OFFLINE=1" + _TWICE
)
_THEN_MODELSCOPE = (
    " where there is a network (a login node), then MODELSCOPE_CACHE=/SHARED/ms" + _TWICE
)

_ASK = Do(
    "curl -sSI https://huggingface.co | head -1, on the node itself: an answer means that the "
    "network is there",
    "none",
    unless=("swanlab", "wandb", "modelscope"),
)
_AGAIN = Do("the same command again: ModelScope's download goes on where it stopped", "none")
_MIRROR = Do(
    "HF_ENDPOINT=https://hf-mirror.com in front of the command (a public mirror, for what is not "
    "gated), or HTTPS_PROXY=…, where your site has one",
    "none",
    unless=("swanlab", "wandb", "modelscope"),
)
_STEPS = (
    Do(
        "the same command without {offline}, once, where there is a network: it switches the "
        "hub off by itself, and the cache lacks the files",
        "none",
    ),
    Do(
        "HF_HUB_DOWNLOAD_TIMEOUT=60 HF_HUB_ETAG_TIMEOUT=60 in front of the same command: "
        "the download goes on where it stopped",
        "none",
        when=(
            "Read timed out",
            "ReadTimeout",
            "read timeout",
            "IncompleteRead",
            "Connection broken",
        ),
        unless=(
            "swanlab",
            "wandb",
            "modelscope",
        ),
    ),
    Do(
        "env | grep -i proxy, in the job: the proxy that it names does not let this "
        "through; unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY, or the "
        "right one",
        "none",
        when=(
            "ProxyError",
            "to proxy",
            "Proxy",
        ),
    ),
    Do(
        "REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt in front of the command: "
        "your site's certificate is in the system's list, not in Python's",
        "none",
        when=(
            "CERTIFICATE_VERIFY",
            "certificate verify",
        ),
    ),
    Do(
        "env | grep -E 'HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|HF_DATASETS_OFFLINE', in the "
        "job: unset them for one run where there is a network",
        "none",
        when=(
            "OfflineMode",
            "offline mode is enabled",
            "HF_HUB_OFFLINE",
        ),
    ),
    Do(
        "HF_HUB_DISABLE_XET=1 HF_HUB_ENABLE_HF_TRANSFER=0 in front of the same command: "
        "the plain download",
        "none",
        when=(
            "hf_transfer",
            "hf_xet",
            "xet",
        ),
    ),
    Do(
        "MODELSCOPE_CACHE=/SHARED/ms modelscope download --model {repo}" + _THEN_MODELSCOPE,
        "disk",
        when=("modelscope",),
        kind="load",
    ),
    Do(
        "HF_HOME=/SHARED/hf hf download --repo-type dataset {repo}" + _THEN,
        "disk",
        when=(
            "huggingface.co/datasets/",
            "api/datasets/",
            "hf-mirror.com/datasets/",
            "' on the Hub",
        ),
        kind="load",
    ),
    Do(
        "HF_HOME=/SHARED/hf hf download {repo}" + _THEN,
        "disk",
        kind="load",
    ),
    Do(
        "MODELSCOPE_CACHE=/SHARED/ms modelscope download --model {modelrepo}" + _THEN_MODELSCOPE,
        "disk",
        when=("modelscope",),
        kind="load",
    ),
    Do(
        "HF_HOME=/SHARED/hf hf download {modelrepo}" + _THEN,
        "disk",
        unless=(
            "swanlab",
            "wandb",
            "modelscope",
        ),
        kind="load",
    ),
    _ASK,
    Do(
        "curl -sSI https://www.modelscope.cn | head -1, on the node itself: an answer "
        "means that "
        "the network is there",
        "none",
        when=("modelscope",),
    ),
    Do(
        "python -m pip install -U datasets: releases before 2.20 fetch a script for each data set",
        "none",
        when=("raw.githubusercontent.com",),
    ),
    Do("no_tracker", "no curves on line", when=("swanlab", "wandb")),
    Do(
        "HF_HOME=/SHARED/hf hf download NAME" + _THEN,
        "disk",
        kind="load",
        unless=("swanlab", "wandb"),
    ),
    Do("local_model", "none", unless=("swanlab", "wandb")),
    _MIRROR,
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """Nobody need ask again whether the hub is to be reached, where the log has it that it is not.

    A login node is where Slurm is.
    """
    steps: tuple[Do, ...] = _STEPS
    if "modelscope/hub/" in facts.trace and "modelscope" not in facts.message:
        own = (replace(do, when=()) for do in _STEPS if "modelscope" in do.when)
        return (_AGAIN, *own, *(do for do in _STEPS if do.action == "local_model"))
    if "noname" in facts.said:
        steps = tuple(do for do in _STEPS if do != _ASK)
    elif "noway" in facts.said:
        steps = tuple(_MIRROR if do == _ASK else do for do in _STEPS if do != _MIRROR)
    if "slurm" in facts.said or not facts.trace:
        return steps
    return tuple(replace(do, action=do.action.replace("a login node", _ELSEWHERE)) for do in steps)


FAILURE = Known(
    code="VG540",
    name="explain-hub-offline",
    title="The hub cannot be reached, and nothing is cached",
    zh="无法连接模型仓库，且本地没有缓存",
    why="this machine has no way to the hub (compute nodes often have "
    "none), or it is told to be offline, and the files are not in "
    "its cache",
    do=_do,
    wrong="One failed attempt that is repeated with success is noise.",
    signs=(
        Sign("urllib3.exceptions."),
        Sign("requests.exceptions.ConnectionError"),
        Sign("requests.exceptions.ChunkedEncodingError"),
        Sign("couldn't find them in the cached files"),
        Sign("We couldn't connect to"),
        Sign("OfflineModeIsEnabled", no=_FILES),
        Sign("LocalEntryNotFoundError"),
        Sign("outgoing traffic has been disabled"),
        Sign("Cannot reach https://huggingface.co"),
        Sign("HTTPSConnectionPool"),
        Sign("Max retries exceeded with url"),
        Sign("ConnectTimeoutError"),
        Sign("Couldn't reach", no=_FILES),
        Sign("is not cached locally"),
        Sign("offline mode is enabled"),
        Sign("MaxRetryError"),
        Sign("ProxyError"),
        Sign("SSLCertVerificationError"),
        Sign("CERTIFICATE_VERIFY_FAILED"),
        Sign("ReadTimeoutError"),
        Sign("ConnectionError", also=("http",)),
        Sign("ConnectError", also=("httpx",)),
        Sign("IncompleteRead"),
        Sign("An error happened while trying to locate the file on the Hub"),
        Sign("An error happened while trying to locate the files on the Hub"),
        Sign("Consistency check failed"),
        Sign("504 Server Error"),
        Sign("502 Server Error"),
        Sign("503 Server Error"),
        Sign("429 Client Error"),
        Sign("We had to rate limit"),
        Sign("couldn't find them in the cached files", where="trace"),
        Sign(
            "Cannot send a request, as the client has been closed",
        ),
        Sign("httpx.ReadTimeout"),
        Sign("httpx.ConnectTimeout"),
        Sign("requests.exceptions.ReadTimeout"),
        Sign("requests.exceptions.ConnectTimeout"),
        Sign("EOF occurred in violation of protocol"),
        Sign("urlopen error"),
        Sign("CAS service error"),
        Sign("ReqwestMiddleware"),
        Sign("Connection broken"),
        Sign("refs/main'"),
        Sign("ChunkedEncodingError"),
        Sign("Remote end closed connection"),
        Sign("Network is unreachable')"),
        Sign("-packages/huggingface_hub/", where="raised"),
        Sign("-packages/requests/", where="raised"),
        Sign("-packages/urllib3/", where="raised"),
        Sign("-packages/httpx/", where="raised"),
        Sign("-packages/httpcore/", where="raised"),
        Sign("urllib/request.py", where="raised"),
        Sign("HuggingFace seems to be down", releases="unsloth"),
        Sign("We could not connect to"),
        Sign("Network is unreachable", also=("urllib3",)),
        Sign("Temporary failure in name resolution", also=("urllib3",)),
        Sign("huggingface_hub/utils/_http.py", where="within", no=("out of memory",)),
        Sign("huggingface_hub/file_download.py", where="within", no=("out of memory",)),
        Sign("huggingface_hub/hf_api.py", where="within", no=("out of memory",)),
        Sign("huggingface_hub/_snapshot_download.py", where="within", no=("out of memory",)),
        Sign("-packages/httpx/", where="within", no=("out of memory",)),
        Sign("-packages/urllib3/", where="within", no=("out of memory",)),
        Sign("requests/adapters.py", where="within", no=("out of memory",)),
        Sign("huggingface.co", where="else"),
        Sign("the Hub", where="else"),
    ),
    examples=(
        Example(
            "OSError: We couldn't connect to 'https://huggingface.co' to "
            "load the files, and couldn't find them in the cached files.",
            "made by causing it, transformers 5.19.0, HF_HUB_OFFLINE=1",
        ),
        Example(
            "huggingface_hub.errors.LocalEntryNotFoundError: An error "
            "happened while trying to locate the file on the Hub and we "
            "cannot find the requested files in the local cache.",
            "huggingface_hub/file_download.py",
        ),
    ),
    evidence="transformers' and huggingface_hub's own messages.",
    narrow=2,
)
