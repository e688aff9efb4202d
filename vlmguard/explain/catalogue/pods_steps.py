"""Steps for pods that do not reach one another before the first step."""

from __future__ import annotations

import re

from vlmguard.explain import named
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

_SIDECAR = Do(
    'annotations: {sidecar.istio.io/inject: "false"} under template: metadata: of Master and '
    "Worker in the job's YAML, then kubectl delete -f and kubectl apply -f of it: a proxy beside "
    "the container takes the ranks' connections",
    "the pods are outside the mesh",
)
_NAMED = Do(
    "until getent hosts {host}; do sleep 2; done; in front of torchrun in the pod's command: a pod "
    "has its name some seconds after it has started; a name that never comes: its headless service "
    "is missing (kubectl get svc)",
    "none",
)
_POD_NAME = re.compile(r"-\d{1,4}\.[a-z][\w.-]{1,100}$|\.svc\b|-(?:master|worker)-\d{1,4}$")


def early(facts: Facts) -> tuple[Do, ...]:
    """What keeps pods from one another before the first step: a mesh's proxy, a name too early."""
    if facts.steps is not None:
        return ()
    host = named.of(facts).get("host", "")
    named_late = _POD_NAME.search(host) and any(
        w in facts.message for w in ("network address", "not known")
    )
    return (*((_SIDECAR,) if "sidecar" in facts.said else ()), *((_NAMED,) if named_late else ()))
