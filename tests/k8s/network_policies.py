"""What NetworkPolicies allow, as the Kubernetes documentation defines it; a network plugin computes the same.

Not modelled: a pod always reaches itself, and the node always reaches its pods (which is how probes get in). Answers to
allowed connections are always allowed, so only who begins one counts.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tests.k8s.checks.labels import matches
from tests.k8s.checks.objects import Object, Tree, Workload, at, listed

Direction = Literal["ingress", "egress"]
PROTOCOLS = ("TCP", "UDP", "SCTP")
LAST_PORT = 65535


class Port(NamedTuple):
    """Where a connection goes to at its end."""

    number: int
    protocol: str = "TCP"


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod, or an address outside the cluster, which has no namespace."""

    name: str
    address: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    namespace_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: Mapping[str, Port] = field(default_factory=dict[str, Port])
    """Its named ports."""


class Arrow(NamedTuple):
    """Somebody may begin connections to a port of somebody else."""

    source: str
    target: str
    port: int
    protocol: str = "TCP"


def allows(policies: Iterable[Object], source: End, target: End, port: Port) -> bool:
    """Whether the source may connect to that port of the target: both ends have to allow it."""
    policies = list(policies)
    connection = _Connection(source, target, port)
    return _end_allows(policies, "egress", connection) and _end_allows(policies, "ingress", connection)


class _Connection(NamedTuple):
    source: End
    target: End
    port: Port


def _end_allows(policies: Sequence[Object], direction: Direction, connection: _Connection) -> bool:
    """Whether one end allows it: no policy is for it in this direction, or one of those that are has a rule for it."""
    source, target, port = connection
    end, peer = (source, target) if direction == "egress" else (target, source)
    applying = [policy for policy in policies if _is_for(policy, end) and direction in directions(policy)]
    return not applying or any(
        _has_peer(policy, rule, direction, peer) and _has_port(rule, target, port)
        for policy in applying
        for rule in at(policy, f"spec.{direction}", [])
    )


def directions(policy: Object) -> set[str]:
    """In which directions the policy isolates its pods. Where it does not say: in, and out if it has rules for that."""
    types: list[str] = at(policy, "spec.policyTypes", [])
    if types:
        return {direction.lower() for direction in types}
    return {"ingress", "egress"} if at(policy, "spec.egress", []) else {"ingress"}


def _is_for(policy: Object, end: End) -> bool:
    return end.namespace == policy["metadata"]["namespace"] and matches(at(policy, "spec.podSelector", {}), end.labels)


def _has_peer(policy: Object, rule: Object, direction: Direction, end: End) -> bool:
    peers: list[Object] = rule.get("from" if direction == "ingress" else "to") or []
    return not peers or any(_is_peer(policy, peer, end) for peer in peers)


def _is_peer(policy: Object, peer: Object, end: End) -> bool:
    if (block := peer.get("ipBlock")) is not None:
        address = ipaddress.ip_address(end.address)
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(excepted) for excepted in listed(block, "except")
        )
    if end.namespace is None:
        return False
    pods, namespaces = peer.get("podSelector"), peer.get("namespaceSelector")
    if namespaces is None and end.namespace != policy["metadata"]["namespace"]:
        return False
    return matches(namespaces or {}, end.namespace_labels) and matches(pods or {}, end.labels)


def _has_port(rule: Object, target: End, port: Port) -> bool:
    ports: list[Object] = rule.get("ports") or []
    return not ports or any(_is_port(one, target, port) for one in ports)


def _is_port(allowed: Object, target: End, port: Port) -> bool:
    number: Any = allowed.get("port")
    if allowed.get("protocol", "TCP") != port.protocol:
        return False
    if number is None:
        return True
    if isinstance(number, str):
        # A name means whatever the pod that is connected to calls so, if it does.
        return target.ports.get(number) == port
    return number <= port.number <= allowed.get("endPort", number)


def arrows(policies: Iterable[Object], ends: Sequence[End], namespace: str) -> set[Arrow]:
    """All that is allowed among these ends from, to and within a namespace."""
    policies = list(policies)
    ports = list(_telling_ports(policies, ends))
    return {
        Arrow(source.name, target.name, *port)
        for source in ends
        for target in ends
        if source != target and namespace in (source.namespace, target.namespace)
        for port in ports
        if allows(policies, source, target, port)
    }


def _telling_ports(policies: Sequence[Object], ends: Sequence[End]) -> Iterator[Port]:
    """One of every set of ports that no policy tells apart, so that nothing allowed is overlooked."""
    numbers = {1} | {port.number for end in ends for port in end.ports.values()}
    for policy in policies:
        rules: list[Object] = [*at(policy, "spec.ingress", []), *at(policy, "spec.egress", [])]
        for allowed in (port for rule in rules for port in listed(rule, "ports")):
            if isinstance(allowed.get("port"), int):
                numbers |= {allowed["port"], allowed.get("endPort", allowed["port"]) + 1}
    numbers |= {number + 1 for number in numbers}
    for protocol in PROTOCOLS:
        yield from (Port(number, protocol) for number in sorted(numbers) if number <= LAST_PORT)


def pods(tree: Tree) -> list[End]:
    """One pod of each workload of the tree."""
    (namespace,) = tree.of("Namespace")
    name: str = namespace["metadata"]["name"]
    labels = {"kubernetes.io/metadata.name": name, **at(namespace, "metadata.labels", {})}
    return [
        End(workload.name, f"10.42.0.{number}", name, workload.labels, labels, _named(workload))
        for number, workload in enumerate(tree.workloads, 1)
    ]


def _named(workload: Workload) -> dict[str, Port]:
    return {name: Port(number, protocol) for name, (protocol, number) in workload.ports.items()}
