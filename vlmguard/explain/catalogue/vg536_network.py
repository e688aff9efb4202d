"""The network between the ranks failed."""

from __future__ import annotations

from dataclasses import replace

from vlmguard.explain import looks, named
from vlmguard.explain.catalogue import fabric_steps, pods_steps
from vlmguard.explain.catalogue import ranks_steps as ranks
from vlmguard.explain.catalogue.network_signs import SIGNS
from vlmguard.explain.failure import Do, Example, Known
from vlmguard.explain.logfacts import Facts

_DEBUG = Do(
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET in front of the command: it names interface and "
    "peer",
    "a long log",
)

# Words of the fabric, of ssh and of names: another step's, no matter of a socket's interface.
_ELSEWHERE = (
    "IB",
    "ibv",
    "mlx",
    "publickey",
    "ssh",
    "authentication",
    "client socket",
    "Name or service",
)
_NO_ROUTE = "No route to host"
_STEPS = (
    Do(
        "ping -c 2 {host}; sudo firewall-cmd --list-all || sudo iptables -L INPUT -n, on both "
        "nodes: it answers, and rules reject ports: sudo firewall-cmd --permanent --zone=trusted "
        "--add-source={host}, each node the other's address, and sudo firewall-cmd --reload: the "
        "ranks meet on any port; no answer: another interface (next step)",
        "none",
        when=(_NO_ROUTE,),
        kind="rejected",
    ),
    Do(
        "sudo firewall-cmd --list-all || sudo iptables -L INPUT -n, on both nodes: where they "
        "answer a ping, rules reject ports: sudo firewall-cmd --permanent --zone=trusted "
        "--add-source=OTHER_NODE and sudo firewall-cmd --reload: the ranks meet on any port",
        "none",
        when=(_NO_ROUTE,),
        kind="rejected",
    ),
    Do(
        "nc -vz {host} 22: nobody listens for ssh there: start sshd on that node, or, where it "
        "listens on another port (containers), PDSH_SSH_ARGS_APPEND='-p PORT' in front of the "
        "command",
        "none",
        when=("port 22: Connection refused",),
        kind="ssh",
    ),
    Do(
        "ssh {host} hostname: it must answer without asking for a password (ssh-copy-id "
        "{host}); one machine: deepspeed --num_gpus N SCRIPT.py, with no hostfile",
        "none",
        when=("via ssh", "publickey", "Host key verification", "connect to host"),
        kind="ssh",
    ),
    Do(
        "ssh NODE hostname, from the first node: it must answer without asking for a password "
        "(ssh-copy-id NODE); torchrun or srun on each node need no ssh",
        "none",
        kind="ssh",
        when=("publickey", "ssh:", "Host key verification", "pdsh", "authentication methods"),
    ),
    Do(
        "getent hosts {host}, on each node: no answer: a line in /etc/hosts, or the first "
        "node's address as a number (MASTER_ADDR, --master_addr)",
        "none",
        when=("Name or service not known", "name resolution", "servname", "gaierror"),
        kind="name",
    ),
    Do(
        "getent hosts NAME, on each node, for every name in MASTER_ADDR, --master_addr, the "
        "hostfile and --include: one is not known there; its address, or a line in /etc/hosts",
        "none",
        when=("Name or service not known", "name resolution", "servname", "gaierror"),
        kind="name",
    ),
    Do(
        "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME in the script that starts the job: "
        "{ifname} is no interface of this node (ip -br addr lists them), and NCCL finds one by "
        "itself",
        "none",
        when=("no socket interface found",),
        kind="interface",
    ),
    Do(
        "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME in the script that starts the job: the "
        "name that they have is no interface of this node (ip -br addr lists them)",
        "none",
        when=("no socket interface found",),
        kind="interface",
    ),
    Do(
        "getent hosts {host}; nc -vz {host} {port}, from the node that waited: no address: a "
        "line in /etc/hosts, or MASTER_ADDR as a number; refused: nothing listens there (is "
        "rank 0 up?); no answer: a firewall",
        "none",
        when=("client socket",),
        kind="interface",
    ),
    Do(
        "sysctl -w net.ipv6.conf.all.disable_ipv6=1, as root, on the node that has an IPv6 "
        "address alone for its name (getent ahosts $(hostname)): the ranks mix both kinds",
        "none",
        when=("ss_family",),
    ),
    Do(
        "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME in the script that starts the job: "
        "{interface} is no interface of this node (ip -br addr lists them)",
        "none",
        kind="interface",
    ),
    Do(
        "ulimit -l, in the job: unlimited, or InfiniBand cannot register memory (docker run "
        "--ulimit memlock=-1; LimitMEMLOCK=infinity for slurmd)",
        "none",
        when=("ibv_create", "ibv_reg_mr"),
    ),
    Do(
        "NCCL_IB_GID_INDEX=3 in front of the command, on every node (RoCE v2; show_gids lists "
        "the numbers of each card)",
        "none",
        when=("ibv_modify_qp",),
    ),
    Do(
        looks.ROUTE_GLOO,
        "none",
        when=("gloo", "Gloo"),
        unless=("client socket", "Name or service", "ss_family"),
        kind="interface",
    ),
    Do(
        looks.NETWORK,
        "none",
        unless=_ELSEWHERE,
        kind="interface",
    ),
    Do(
        looks.ROUTE,
        "none",
        unless=_ELSEWHERE,
        kind="interface",
    ),
    _DEBUG,
    Do(
        "ibstat; ulimit -l (unlimited, in containers too); NCCL_IB_GID_INDEX=3 on RoCE",
        "none",
        when=("IB", "ibv", "mlx"),
    ),
    Do(
        "NCCL_IB_DISABLE=1 in front of the command, as a test: if it then works, the fabric is "
        "at fault",
        "much slower between nodes",
    ),
    Do("ibstat, and ulimit -l unlimited in containers", "none", unless=("IB", "ibv", "mlx")),
    Do(
        "launchers that use ssh (deepspeed with a hostfile, pdsh, mpirun): ssh NODE hostname "
        "must answer from the first node without asking for a password",
        "none; torchrun or srun on each node need no ssh",
        unless=("publickey", "ssh:", "ibv", "mlx", "NET/IB"),
    ),
)


# What a list of interfaces shows, and a container's address.
_SHOWN = (
    Do(
        "NCCL_SOCKET_IFNAME={realif} GLOO_SOCKET_IFNAME={realif} in front of the command, on every "
        "node: NCCL took this machine's own bridges of containers as well, which no other node "
        "reaches",
        "none",
        unless=("ibv", "NET/IB", "mlx"),
        kind="interface",
    ),
    Do(
        "docker run --network=host --ipc=host --device /dev/infiniband --ulimit memlock=-1 … (the "
        "rest as it was): {bridge} is Docker's own bridge, in which the host's cards have no "
        "address; or NCCL_IB_DISABLE=1 in front of the command",
        "none",
        when=("ibv", "NET/IB", "mlx"),
        kind="bridge",
    ),
    Do(
        "docker run --network=host --ipc=host … (the rest as it was), on every node: {bridge} is "
        "Docker's own bridge, which no other node reaches",
        "none",
        unless=("ibv", "NET/IB", "mlx"),
        kind="bridge",
    ),
)
_LOST = ("closed by remote peer", "onnection reset by peer", "remote process exited")


# Ranks of one machine: their data goes by shared memory, or from card to card.
_WITHIN = (
    Do(
        "df -h /dev/shm: 64M is a container's default, which NCCL fills: docker run --ipc=host … "
        "(the rest as it was; in Kubernetes an emptyDir with medium: Memory on /dev/shm)",
        "none",
    ),
    replace(
        _DEBUG,
        action="NCCL_DEBUG=INFO in front of the command: the line with WARN in front of the "
        "exception names the call that failed",
    ),
    Do("NCCL_P2P_DISABLE=1 in front of the command, as a test: it runs: it is the cards' way"),
    Do("NCCL_SHM_DISABLE=1 in front of the command, as a test: it runs: /dev/shm is too small"),
)


def _one_machine(facts: Facts) -> bool:
    said = facts.said
    several = said.get("nnodes", "1") not in ("0", "1") or said.get("nodes", "1") not in ("0", "1")
    return "loopback" in said and not several


def _why(facts: Facts) -> str:
    if _within(facts):
        return (
            "a call of the system failed while NCCL joined the ranks of one machine: mostly shared "
            "memory (/dev/shm) in which there is no room; no other machine is asked"
        )
    return (
        "NCCL or gloo could not use the network: a wrong or missing interface, a link that went "
        "down, a firewall, or containers without the fabric"
    )


def _within(facts: Facts) -> bool:
    """Whether NCCL failed on one machine, and says nothing of where."""
    told = "NCCL INFO" in facts.message or "nccl_debug" in facts.said
    return _one_machine(facts) and not told and "ystem error" in facts.message


def _do(facts: Facts) -> tuple[Do, ...]:
    """A completion error of InfiniBand is told by NCCL already: what decides is a run without."""
    went = "portnode" in facts.said
    if went or any(words in facts.message for words in fabric_steps.COMPLETION):
        return fabric_steps.steps(facts)
    told = "NCCL INFO" in facts.message or "nccl_debug" in facts.said
    shown = tuple(do for do in _SHOWN if named.wants(do.action) <= named.of(facts).keys())
    steps = tuple(do for do in _STEPS if do is not _DEBUG) if told else _STEPS
    shown = (*pods_steps.early(facts), *shown)
    if _within(facts):
        return (*shown, *_WITHIN)
    # torch's store or a launcher's ssh, before NCCL or a fabric
    if "any network address" in facts.message or "ssh: connect" in facts.message:
        return (*shown, *(do for do in steps if do.when))
    if any(words in facts.message for words in _LOST):  # whoever was there a moment ago has ended
        return (*shown, *ranks.others(facts), *ranks.late(facts), *steps, *ranks.logs(facts))
    return (*shown, *steps)


FAILURE = Known(
    code="VG536",
    name="explain-network",
    title="The network between the ranks failed",
    zh="rank 之间的网络（InfiniBand / socket）出错",
    why=_why,
    do=_do,
    wrong="If another rank failed first (its exception is in the log), "
    "the connection is a victim, not the cause.",
    signs=SIGNS,
    examples=(
        Example(
            "gpu-node-17:4242:4300 [0] transport/net_ib.cc:1295 NCCL WARN "
            "NET/IB : Got completion from peer 10.0.0.7<41112> with "
            "status=12 opcode=0 len=0 vendor err 129 (Recv)",
            "nccl/src/transport/net_ib.cc, 2.18",
        ),
        Example(
            "RuntimeError: [enforce fail at ...] Unable to find address for: eth9",
            "gloo/transport/tcp/device.cc",
        ),
    ),
    evidence="NCCL's and gloo's own messages.",
)
