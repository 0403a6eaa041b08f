"""Whatever an object names is there, and whatever is there is named by somebody."""

from collections.abc import Iterator
from typing import Any

from tests.k8s.checks.labels import is_subset, matches
from tests.k8s.checks.objects import Object, Problem, Tree, Workload, at, listed, where

CLUSTER_WIDE = {"Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding"}
DASHBOARD = "grafana_dashboard"
"""The label by which Grafana finds ConfigMaps, which no pod of the tree reads."""
BUILT_IN_PRIORITIES = {"system-cluster-critical", "system-node-critical"}


def namespaces(tree: Tree) -> Iterator[Problem]:
    """One namespace, which the tree itself makes."""
    (namespace,) = tree.of("Namespace")
    for thing in tree.objects:
        if thing["kind"] not in CLUSTER_WIDE and at(thing, "metadata.namespace") != namespace["metadata"]["name"]:
            yield Problem(where(thing), "is in no namespace of the tree")


def configuration(tree: Tree) -> Iterator[Problem]:
    """ConfigMaps and Secrets that containers and volumes read, with their keys."""
    for workload in tree.workloads:
        for kind, name, key, optional in _read_by(workload):
            keys = _keys(tree, kind, name)
            if keys is None and not optional:
                yield Problem(workload.where, f"reads the {kind} {name}, which is not there")
            elif keys is not None and key is not None and key not in keys:
                yield Problem(workload.where, f"reads {key} of the {kind} {name}, which has no such key")


def _keys(tree: Tree, kind: str, name: str) -> frozenset[str] | None:
    if kind == "Secret" and name in tree.outside:
        return tree.outside[name]
    thing = tree.find(kind, name)
    if thing is None:
        return None
    return frozenset({*thing.get("data", {}), *thing.get("stringData", {}), *thing.get("binaryData", {})})


def _read_by(workload: Workload) -> Iterator[tuple[str, str, str | None, bool]]:
    """Kind, name, key (None: all of it) and whether it may be missing."""
    kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
    keyed = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}
    for container in workload.all_containers:
        for source in container.get("envFrom", []):
            for field, kind in kinds.items():
                if field in source:
                    yield kind, source[field]["name"], None, source[field].get("optional", False)
        for variable in container.get("env", []):
            for field, kind in keyed.items():
                if reference := at(variable, f"valueFrom.{field}"):
                    yield kind, reference["name"], reference["key"], reference.get("optional", False)
    for volume in workload.pod.get("volumes", []):
        yield from _read_by_volume(volume)
    for secret in workload.pod.get("imagePullSecrets", []):
        yield "Secret", secret["name"], None, False


def _read_by_volume(volume: Object) -> Iterator[tuple[str, str, str | None, bool]]:
    sources: list[Object] = [volume, *at(volume, "projected.sources", [])]
    for source in sources:
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if field in source:
                name = source[field].get("name") or source[field]["secretName"]
                optional = source[field].get("optional", False)
                keys: list[str | None] = [item["key"] for item in source[field].get("items", [])]
                for key in keys or [None]:
                    yield kind, name, key, optional


def nothing_unused(tree: Tree) -> Iterator[Problem]:
    """What nobody names is a remainder, or the name that should lead to it is misspelt."""
    used = {(kind, name) for workload in tree.workloads for kind, name, _, _ in _read_by(workload)}
    used |= {("ServiceAccount", workload.pod.get("serviceAccountName", "default")) for workload in tree.workloads}
    used |= {("PriorityClass", workload.pod.get("priorityClassName", "")) for workload in tree.workloads}
    for thing in tree.of("ConfigMap", "Secret", "ServiceAccount", "PriorityClass"):
        is_found_by_label = DASHBOARD in at(thing, "metadata.labels", {})
        if (thing["kind"], thing["metadata"]["name"]) not in used and not is_found_by_label:
            yield Problem(where(thing), "is used by nobody")


def accounts(tree: Tree) -> Iterator[Problem]:
    """Each workload has a ServiceAccount of its own, and no token: nothing here talks to the Kubernetes API."""
    for workload in tree.workloads:
        name = workload.pod.get("serviceAccountName", "default")
        if tree.find("ServiceAccount", name) is None:
            yield Problem(workload.where, f"runs as the ServiceAccount {name}, which is not there")
        elif name != workload.name:
            yield Problem(workload.where, f"runs as the ServiceAccount {name}, which is another's")
        if workload.pod.get("automountServiceAccountToken") is not False:
            yield Problem(workload.where, "has a token of its ServiceAccount")
        if workload.pod.get("enableServiceLinks") is not False:
            yield Problem(workload.where, "is told variables of all Services")
    for account in tree.of("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield Problem(where(account), "gives its token to pods that do not ask for it")


def priorities(tree: Tree) -> Iterator[Problem]:
    """PriorityClasses."""
    for workload in tree.workloads:
        name = workload.pod.get("priorityClassName")
        if name and name not in BUILT_IN_PRIORITIES and tree.find("PriorityClass", name) is None:
            yield Problem(workload.where, f"has the PriorityClass {name}, which is not there")


def volumes(tree: Tree) -> Iterator[Problem]:
    """What is mounted is a volume of the pod; claims are templates of the StatefulSet, or there."""
    for workload in tree.workloads:
        declared = {volume["name"] for volume in workload.pod.get("volumes", [])}
        templates = {template["metadata"]["name"] for template in at(workload.object, "spec.volumeClaimTemplates", [])}
        mounted = {
            mount["name"] for container in workload.all_containers for mount in container.get("volumeMounts", [])
        }
        for name in sorted(mounted - declared - templates):
            yield Problem(workload.where, f"mounts {name}, which is no volume of its pods")
        for name in sorted((declared | templates) - mounted):
            yield Problem(workload.where, f"has the volume {name}, which nobody mounts")
        for volume in workload.pod.get("volumes", []):
            claim = at(volume, "persistentVolumeClaim.claimName")
            if claim and tree.find("PersistentVolumeClaim", claim) is None:
                yield Problem(workload.where, f"mounts the claim {claim}, which is not there")


def services(tree: Tree) -> Iterator[Problem]:
    """A Service leads to the pods of one workload, and to ports that they have."""
    for service in tree.of("Service"):
        selector = at(service, "spec.selector", {})
        behind = [workload for workload in tree.workloads if selector and is_subset(selector, workload.labels)]
        if len(behind) != 1:
            yield Problem(where(service), f"leads to the pods of {len(behind)} workloads, not of one")
            continue
        for port in at(service, "spec.ports", []):
            yield from _port(service, port, behind[0])
    for workload in tree.of("StatefulSet"):
        service = tree.find("Service", at(workload, "spec.serviceName", ""))
        if service is None or at(service, "spec.clusterIP") != "None":
            yield Problem(where(workload), "names no headless Service")


def _port(service: Object, port: Object, behind: Workload) -> Iterator[Problem]:
    target = port.get("targetPort", port["port"])
    known: set[Any] = {*behind.ports, *behind.listens}
    if target not in known:
        yield Problem(where(service), f"leads to the port {target}, which {behind.name} has not")
    elif at(service, "spec.clusterIP") == "None" and number(target, behind) != port["port"]:
        # The name of a headless Service leads to the pods themselves: nobody translates.
        yield Problem(where(service), f"is headless, and {port['port']} is not the number of the pods' port {target}")


def number(port: Any, workload: Workload) -> int | None:
    """The number of a port that is named, or is a number already."""
    return port if isinstance(port, int) else workload.ports.get(str(port), ("", None))[1]


def ingresses(tree: Tree) -> Iterator[Problem]:
    """An Ingress leads to ports of Services, with certificates that are brought from outside."""
    for ingress in tree.of("Ingress"):
        backends = [path["backend"] for rule in at(ingress, "spec.rules", []) for path in rule["http"]["paths"]]
        backends += [backend] if (backend := at(ingress, "spec.defaultBackend")) else []
        for backend in backends:
            name, port = backend["service"]["name"], backend["service"]["port"]
            service = tree.find("Service", name)
            ports = at(service, "spec.ports", [])
            if service is None:
                yield Problem(where(ingress), f"leads to the Service {name}, which is not there")
            elif not any(port.get("name", one.get("name")) == one.get("name") for one in ports) or not any(
                port.get("number", one["port"]) == one["port"] for one in ports
            ):
                yield Problem(where(ingress), f"leads to the port {port} of the Service {name}, which has no such port")
        for name in {tls["secretName"] for tls in at(ingress, "spec.tls", []) if "secretName" in tls}:
            if _keys(tree, "Secret", name) is None:
                yield Problem(where(ingress), f"has the certificate {name}, which is not there")


def selected(tree: Tree) -> Iterator[Problem]:
    """Whatever selects pods by labels selects some; workloads select those of their own template, and no others'."""
    for workload in tree.workloads:
        selector = at(workload.object, "spec.selector", {})
        chosen = [other.name for other in tree.workloads if matches(selector, other.labels)]
        if chosen != [workload.name]:
            yield Problem(workload.where, f"selects the pods of {chosen or 'nobody'}, not its own alone")
    for budget in tree.of("PodDisruptionBudget"):
        yield from _selects_one(tree, budget, at(budget, "spec.selector", {}))
    for policy in tree.of("NetworkPolicy"):
        yield from _selects_some(tree, policy, at(policy, "spec.podSelector", {}), "is for")
        rules: list[Object] = [*at(policy, "spec.ingress", []), *at(policy, "spec.egress", [])]
        for peer in (peer for rule in rules for peer in [*rule.get("from", []), *rule.get("to", [])]):
            if "podSelector" in peer and "namespaceSelector" not in peer:
                yield from _selects_some(tree, policy, peer["podSelector"], "has as a peer")


def _selects_one(tree: Tree, thing: Object, selector: Object) -> Iterator[Problem]:
    chosen = [workload.name for workload in tree.workloads if matches(selector, workload.labels)]
    if len(chosen) != 1:
        yield Problem(where(thing), f"selects the pods of {chosen or 'nobody'}, not of one workload")


def _selects_some(tree: Tree, thing: Object, selector: Object, verb: str) -> Iterator[Problem]:
    """Each name in a list counts: one that nobody has is misspelt."""
    for expression in listed(selector, "matchExpressions"):
        for value in listed(expression, "values"):
            if not any(workload.labels.get(expression["key"]) == value for workload in tree.workloads):
                yield Problem(where(thing), f"{verb} pods with {expression['key']}={value}, which there are not")
    if not any(matches(selector, workload.labels) for workload in tree.workloads):
        yield Problem(where(thing), f"{verb} pods that there are not: {selector}")


CHECKS = (
    namespaces,
    configuration,
    nothing_unused,
    accounts,
    priorities,
    volumes,
    services,
    ingresses,
    selected,
)
