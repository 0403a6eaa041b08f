"""Whatever is applied again, scaled or replaced goes on serving."""

from collections.abc import Iterator

from feedkit import kafka, postgres, telemetry
from feedkit.config import PREFIX, Settings
from feedkit.kafka import KafkaSettings
from feedkit.postgres import PostgresSettings

from tests.k8s.checks.objects import Object, Problem, Tree, at, walk, where
from tests.k8s.checks.settings import settings_of, told

VERSION = "app.kubernetes.io/version"
POOLS = 2
"""How many pools of connections a process of a database holds at most: for requests, and for its upkeep."""


def versions(tree: Tree) -> Iterator[Problem]:
    """No selector knows the version: most are immutable, so the next version could not be applied."""
    for thing in tree.objects:
        for path, value in walk(thing):
            if path.lower().endswith("selector") and VERSION in str(value):
                yield Problem(where(thing), f"selects by {VERSION} at {path}")
    for workload in tree.workloads:
        if workload.is_ours and VERSION not in workload.labels:
            yield Problem(workload.where, f"its pods do not say their {VERSION}")


def replicas(tree: Tree) -> Iterator[Problem]:
    """The number of pods is the autoscaler's alone. Where nobody scales, the workload says it."""
    for scaler in tree.of("HorizontalPodAutoscaler", "ScaledObject"):
        target = at(scaler, "spec.scaleTargetRef", {})
        workload = tree.find(target.get("kind", "Deployment"), target["name"])
        if workload is None:
            yield Problem(where(scaler), f"scales {target['name']}, which is not there")
        elif "replicas" in workload["spec"]:
            yield Problem(where(workload), f"says how many replicas it has, which {where(scaler)} decides")
    for workload in tree.workloads:
        scalers = [where(scaler) for scaler in _scalers(tree, workload.name)]
        if len(scalers) > 1:
            yield Problem(workload.where, f"is scaled by {' and '.join(scalers)}")
        if workload.is_ours and not scalers:
            yield Problem(workload.where, "is scaled by nobody")


def _scalers(tree: Tree, name: str) -> list[Object]:
    return [
        scaler
        for scaler in tree.of("HorizontalPodAutoscaler", "ScaledObject")
        if at(scaler, "spec.scaleTargetRef.name") == name
    ]


def bounds(tree: Tree) -> Iterator[Problem]:
    """There are always two pods of ours, and no more than can have work."""
    for scaler in tree.of("HorizontalPodAutoscaler", "ScaledObject"):
        least = at(scaler, "spec.minReplicas", at(scaler, "spec.minReplicaCount", 0))
        most = at(scaler, "spec.maxReplicas", at(scaler, "spec.maxReplicaCount", 100))
        if not 2 <= least <= most:
            yield Problem(where(scaler), f"scales from {least} to {most} pods")
        for workload in tree.workloads:
            if workload.name == "fanout" == at(scaler, "spec.scaleTargetRef.name"):
                partitions = _number(tree, workload.containers[0], "kafka_partitions")
                if most > partitions:
                    yield Problem(where(scaler), f"scales to {most} pods, and there are {partitions:g} partitions")


def budgets(tree: Tree) -> Iterator[Problem]:
    """Each workload of ours has one disruption budget, which lets nodes be drained."""
    covered = {workload.name: 0 for workload in tree.workloads if workload.is_ours}
    for budget in tree.of("PodDisruptionBudget"):
        name = at(budget, "spec.selector.matchLabels", {}).get("app.kubernetes.io/name")
        if name in covered:
            covered[name] += 1
        if "minAvailable" in budget["spec"] or at(budget, "spec.maxUnavailable", 0) in (0, "0%"):
            yield Problem(where(budget), "may keep a node from being drained for ever")
    for name, count in covered.items():
        if count != 1:
            yield Problem(f"Deployment/{name}", f"has {count} disruption budgets")


def surges(tree: Tree) -> Iterator[Problem]:
    """A new pod of ours comes before an old one goes."""
    for workload in tree.workloads:
        if workload.is_ours:
            strategy = at(workload.object, "spec.strategy", {})
            unavailable = at(strategy, "rollingUpdate.maxUnavailable")
            if strategy.get("type") != "RollingUpdate" or unavailable not in (0, "0%"):
                yield Problem(workload.where, "takes old pods away before new ones are there")


def graces(tree: Tree) -> Iterator[Problem]:
    """A pod that ends is killed only after it has drained, ended its calls, closed what it holds and told its telemetry."""
    for workload in tree.workloads:
        for container in workload.containers:
            settings = settings_of(container)
            if settings is None:
                continue
            needed = _number(tree, container, "drain_seconds") + _number(tree, container, "grace_seconds")
            needed += at(container, "lifecycle.preStop.sleep.seconds", 0) + closing_seconds(settings)
            if workload.pod.get("terminationGracePeriodSeconds", 30) <= needed:
                yield Problem(workload.where, f"is killed before it has ended, which may take {needed:g} s")


def closing_seconds(settings: type[Settings]) -> float:
    """How long a process that has these settings may take at most to close what it holds, and to tell its telemetry."""
    seconds = telemetry.FLUSH_SECONDS
    if issubclass(settings, PostgresSettings):
        seconds += POOLS * postgres.CLOSE_SECONDS
    if issubclass(settings, KafkaSettings):
        seconds += kafka.CLOSE_SECONDS
    return seconds


def _number(tree: Tree, container: Object, setting: str) -> float:
    """What a container is told, or the default. `settings` tells of what is no number."""
    settings = settings_of(container)
    default = settings.model_fields[setting].default if settings else 0
    try:
        return float(told(tree, container).get(f"{PREFIX}{setting.upper()}", default))
    except ValueError:
        return float(default)


CHECKS = (versions, replicas, bounds, budgets, surges, graces)
