"""Addresses in settings lead to Services of the tree and their ports, and gRPC names to all pods behind one."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from feedkit.kafka import TOPICS

from tests.k8s.checks.labels import is_subset
from tests.k8s.checks.objects import Object, Problem, Tree, at, listed, where
from tests.k8s.checks.references import number
from tests.k8s.checks.settings import told

_GRPC = re.compile(r"dns:///(?P<host>[^:/\s]+):(?P<port>\d+)$")
_URL = re.compile(r"\w+://(?:[^@/\s]*@)?(?P<host>[^:/@,\s]+)(?::(?P<port>\d+))?(?:[/?].*)?$")
_HOST_AND_PORT = re.compile(r"(?P<host>[a-z][a-z0-9.-]*):(?P<port>\d+)$")
_IN_FULL = re.compile(r"(?P<service>[a-z0-9-]+)\.feed\.svc(\.cluster\.local)?")
DEFAULT_PORTS = {"postgresql": 5432, "redis": 6379, "http": 80, "https": 443}


class Address(NamedTuple):
    """A host and a port that a setting names."""

    host: str
    port: int
    is_grpc: bool = False


def addresses(value: str) -> Iterator[Address]:
    """What a setting names, if it names something: a gRPC name, a URL, or a list of `host:port`."""
    if match := _GRPC.match(value):
        yield Address(match["host"], int(match["port"]), is_grpc=True)
    elif match := _URL.match(value):
        yield Address(match["host"], int(match["port"] or DEFAULT_PORTS[value.partition(":")[0]]))
    else:
        for one in value.split(","):
            if (match := _HOST_AND_PORT.match(one)) and not one.startswith("localhost"):
                yield Address(match["host"], int(match["port"]))


def lead_somewhere(tree: Tree) -> Iterator[Problem]:
    """All that settings name. A host with a dot is outside the tree; one without is a Service of it."""
    for workload in tree.workloads:
        for container in workload.all_containers:
            for variable, value in told(tree, container).items():
                for address in addresses(value):
                    place = f"{workload.where} {container['name']}"
                    for what in _leads(tree, address):
                        yield Problem(place, f"{variable} is {value}: {what}")


def advertised(tree: Tree) -> Iterator[Problem]:
    """Kafka tells clients a name under which it can be reached."""
    for thing in tree.of("ConfigMap"):
        for text in thing.get("data", {}).values():
            for listener in re.findall(r"^advertised\.listeners=(.*)$", text, re.MULTILINE):
                for address in addresses(listener):
                    for what in _leads(tree, address):
                        yield Problem(f"ConfigMap/{thing['metadata']['name']}", f"advertises {listener}: {what}")


def triggers(tree: Tree) -> Iterator[Problem]:
    """What scales by lag asks brokers that are there for topics that the mesh has."""
    for scaler in tree.of("ScaledObject"):
        for trigger in (one for one in listed(scaler, "spec.triggers") if one["type"] == "kafka"):
            place, metadata = f"{where(scaler)} {trigger.get('name')}", trigger["metadata"]
            if metadata["topic"] not in TOPICS:
                yield Problem(place, f"asks for {metadata['topic']}, which is no topic of the mesh")
            for address in addresses(metadata["bootstrapServers"]):
                for what in _leads(tree, address):
                    yield Problem(place, f"asks {metadata['bootstrapServers']}: {what}")


def _leads(tree: Tree, address: Address) -> Iterator[str]:
    if match := _IN_FULL.fullmatch(address.host):
        address = address._replace(host=match["service"])
    if "." in address.host:
        if address.is_grpc:
            yield "is no Service of the tree"
        return
    service = tree.find("Service", address.host)
    if service is None:
        yield f"there is no Service {address.host}"
        return
    ports = {port["port"]: port for port in at(service, "spec.ports", [])}
    if address.port not in ports:
        yield f"the Service {address.host} has no port {address.port}"
    elif address.is_grpc:
        yield from _balances(tree, service, ports[address.port])


def _balances(tree: Tree, service: Object, port: Object) -> Iterator[str]:
    """gRPC clients see every pod, and reach them: they balance calls themselves over the addresses of a name."""
    if at(service, "spec.clusterIP") != "None":
        yield "it is not headless, so that a client would know one pod only"
    if port.get("name") != "grpc":
        yield "its port is not called grpc"
    behind = [one for one in tree.workloads if is_subset(at(service, "spec.selector", {}), one.labels)]
    if not any(number(port.get("targetPort", port["port"]), one) == port["port"] for one in behind):
        yield f"no pod behind it listens on {port['port']}"


CHECKS = (lead_somewhere, advertised, triggers)
