"""An object store (S3, Google Cloud Storage, Azure) refused or failed."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

# S3's own codes, as botocore and s3fs quote them.
_REFUSED = (
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "403",
)
_FAILED = ("SlowDown", "NoSuchKey", "NoSuchBucket", "RequestTimeout", "InternalError", "503", "404")

FAILURE = Known(
    code="VG598",
    name="explain-object-store",
    title="An object store (S3, Google Cloud, Azure) refused or failed",
    zh="对象存储（S3、GCS、Azure）拒绝访问或出错",
    why=(
        "data or a checkpoint is read from or written to an object store, and that said no: no "
        "or outdated credentials in this process, no right to this bucket, no such object, or "
        "more requests than it answers (many ranks and loader workers at once)"
    ),
    do=(
        Do(
            "AWS_RETRY_MODE=adaptive AWS_MAX_ATTEMPTS=10 in front of the command, and fewer "
            "loader workers: the store asks to be asked less often",
            "slower reading",
            when=(
                "SlowDown",
                "503",
                "RequestLimitExceeded",
                "Throttling",
            ),
            kind="slow",
        ),
        Do(
            "aws configure list, in the job and on each node: no key there: export "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, mount ~/.aws, or give the node a "
            "role",
            "none",
            when=(
                "NoCredentials",
                "Unable to locate credentials",
                "PartialCredentials",
            ),
            kind="who",
        ),
        Do(
            "aws sts get-caller-identity: it fails: export AWS_SESSION_TOKEN and its two keys "
            "anew (a session's token runs out after 1 to 12 hours)",
            "none",
            when=(
                "ExpiredToken",
                "InvalidToken",
                "InvalidAccessKeyId",
                "SignatureDoesNotMatch",
            ),
            kind="who",
        ),
        Do(
            "aws s3 ls {bucket}/: is the object there, under this name and in this region?",
            "none",
            when=(
                "NoSuchKey",
                "NoSuchBucket",
                "404",
            ),
            kind="look",
        ),
        Do(
            "aws sts get-caller-identity; aws s3 ls {bucket} (gs: gcloud auth list; gcloud storage "
            "ls {bucket}), within the job and on each node: who it is and what it may see",
            "none",
            kind="look",
        ),
        Do(
            "aws sts get-caller-identity; aws s3 ls s3://BUCKET/PREFIX (gcloud auth list and "
            "gcloud storage ls, az storage blob list), within the job and on each node: who it is "
            "and what it may see",
            "none",
            kind="look",
        ),
        Do(
            "credentials that last as long as the run: a role of the node or the pod instead of "
            "a session's token; AWS_REGION and the endpoint as the bucket has them",
            "none",
        ),
        Do(
            "SlowDown, 503: fewer loader workers, larger files, AWS_RETRY_MODE=adaptive "
            "AWS_MAX_ATTEMPTS=10",
            "slower reading",
            kind="slow",
        ),
        Do("copy the data to a local disk before the run", "disk space, and the time it takes"),
    ),
    wrong="A mounted bucket (s3fs, gcsfuse) that fails as a file does: see VG580.",
    signs=(
        Sign("NoCredentialsError", also=("nable to locate credentials",), releases="botocore"),
        Sign("PartialCredentialsError", releases="botocore"),
        Sign("TokenRetrievalError", releases="botocore"),
        Sign("CredentialRetrievalError", releases="botocore"),
        Sign("EndpointConnectionError", releases="botocore"),
        Sign("botocore.exceptions.", also=("imeout",), releases="botocore"),
        *(Sign(f"An error occurred ({code})", releases="botocore") for code in _REFUSED),
        *(Sign(f"An error occurred ({code})", releases="botocore") for code in _FAILED),
        Sign("fatal error: Unable to locate credentials", where="line", releases="aws s3"),
        Sign("download failed: s3://", where="line", releases="aws s3"),
        Sign("upload failed: ", where="line", also=("s3://",), releases="aws s3"),
        Sign("DefaultCredentialsError", releases="google-auth"),
        Sign("google.api_core.exceptions.", releases="Google Cloud"),
        Sign("does not have storage.objects", releases="Google Cloud"),
        Sign("azure.core.exceptions.", releases="Azure"),
        Sign("-packages/botocore/", where="raised"),
        Sign("-packages/s3fs/", where="raised"),
        Sign("-packages/gcsfs/", where="raised"),
        Sign("-packages/azure/storage/", where="raised"),
        Sign("-packages/google/cloud/storage/", where="raised"),
        Sign("streaming/base/storage/", where="raised", releases="mosaicml-streaming"),
    ),
    examples=(
        Example(
            "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
            "botocore/exceptions.py, 1.34",
        ),
        Example(
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the "
            "GetObject operation (reached max retries: 4): Please reduce your request rate.",
            "botocore/exceptions.py, 1.34, with S3's own words",
        ),
    ),
    evidence="botocore's, Google Cloud's and Azure's own exceptions.",
    narrow=1,
)
