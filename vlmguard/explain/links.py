"""NCCL's start: what its lines show of the ways between the ranks, and what decides where it ends.

The log has been read: what it shows is said here, a step asks for what it cannot show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vlmguard.explain import looks
from vlmguard.explain.digest import Digest
from vlmguard.explain.sites import VIRTUAL

_USED = re.compile(
    r"(?m)^([A-Za-z][\w.-]{0,60}):\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL INFO Bootstrap : Using "
    r"([\w-]{1,15}):(\d{1,3}(?:\.\d{1,3}){3})<"
)
_GIVEN = re.compile(r"NCCL_SOCKET_IFNAME set (?:by environment )?to ([\w.^=,-]{1,40})")
_CARDS = (
    "NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1 in front of the command: it runs: the cards cannot reach "
    "each other directly (IOMMU or PCIe ACS is on), keep it so"
)
_REACH = (
    "ping -c 2 {address}; ping -c 2 -M do -s $(($(cat /sys/class/net/{here}/mtu) - 28)) {address}; "
    "for p in $(seq 33000 5000 60000); do timeout 3 nc -vz {address} $p; done, on {other}: NCCL "
    "takes any high port of {host} ({there}): “refused” is well, nobody listens; silence is a "
    "firewall or a missing route; the large ping alone fails: another MTU on the way"
)
MANY = 8  # hosts that are named


def used(digests: Sequence[Digest]) -> dict[str, tuple[str, str]]:
    """Machine → the interface and the address on which NCCL began."""
    found: dict[str, tuple[str, str]] = {}
    for digest in digests:
        if "Bootstrap : Using" in digest.text:
            for match in _USED.finditer(digest.text):
                found.setdefault(match[1], (match[2], match[3]))
    return found


def shown(digests: Sequence[Digest]) -> str:
    """The interfaces in words, where there are several machines."""
    hosts = used(digests)
    if not 1 < len(hosts) <= MANY:
        return ""
    given = next((m[1] for d in digests if (m := _GIVEN.search(d.text))), "")
    by = f", as NCCL_SOCKET_IFNAME={given} asks" if given else ""
    each = ", ".join(f"{host} {name} {at}" for host, (name, at) in hosts.items())
    return f"NCCL goes by {each}{by}"


def bridged(digests: Sequence[Digest], real: str) -> Iterator[str]:
    """Where NCCL began on a machine's own bridge of containers, and there are several machines."""
    own = [name for name, _ in used(digests).values() if name.startswith(VIRTUAL)]
    several = len(used(digests)) > 1 or any(_SEVERAL.search(d.text) for d in digests)
    given = any(_GIVEN.search(digest.text) for digest in digests)
    if own and several and real and not given:
        yield (
            f"NCCL_SOCKET_IFNAME={real} GLOO_SOCKET_IFNAME={real} in front of the command, on "
            f"every node: NCCL began on {own[0]}, this machine's own bridge, which no other node "
            "reaches"
        )


_SEVERAL = re.compile(
    r"(?:--nnodes|--num_machines)[= ](?:[2-9]|\d\d)|--(?:machine|node)_rank[= ]\d"
)


def shared(digests: Sequence[Digest]) -> bool:
    """Whether the cards talk by the host's memory already: there is no direct way to forbid."""
    said = [d.text for d in digests]
    return any(" via SHM" in text for text in said) and not any(" via P2P" in text for text in said)


def direct(digests: Sequence[Digest]) -> Iterator[str]:
    """Where all of one machine's ranks ended NCCL's start, on direct ways, and nothing came."""
    said = "\n".join(d.text for d in digests)
    ended, ranks = said.count("- Init COMPLETE"), _RANKS.search(said)
    whole = ranks is not None and ended >= int(ranks[1]) > 1
    if whole and len(used(digests)) < 2 and " via P2P" in said and not _FORBIDDEN.search(said):
        yield _CARDS + _ACS


_RANKS = re.compile(r"\bn[rR]anks (\d{1,4})\b")
_FORBIDDEN = re.compile(r"NCCL_P2P_(?:DISABLE|LEVEL)")
_ACS = (
    "; its cause: sudo lspci -vvv | grep ACSCtl: a line with SrcValid+: off in the BIOS (ACS, "
    "IOMMU)"
)


def steps(digests: Sequence[Digest], machines: int) -> Iterator[str]:
    """What decides whether the ranks reach each other."""
    if machines == 1:
        if not shared(digests):
            yield _CARDS
        return
    hosts = used(digests)
    given = any(_GIVEN.search(digest.text) for digest in digests)
    if len({name for name, _ in hosts.values()}) != 1 and not given:
        yield looks.ROUTE
    if len(hosts) > 1:
        (host, (there, address)), (other, (here, _)) = list(hosts.items())[:2]
        yield _REACH.format(host=host, there=there, address=address, other=other, here=here)
    if len({name for name, _ in hosts.values()}) == 1 and not given:
        yield looks.ROUTE
