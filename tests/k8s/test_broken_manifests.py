"""The checks find what they are for: each breaks one thing in the default tree, and somebody names it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.k8s.checks import CHECKS
from tests.k8s.checks.immutable import differs_from, immutable
from tests.k8s.checks.objects import Object, Tree, Workload, at, where
from tests.k8s.checks.resources import quantity
from tests.k8s.network_policies import Arrow, End, arrows, pods

pytestmark = pytest.mark.manifests

VERSION = "app.kubernetes.io/version"
Breaking = Callable[[Tree], Any]


def thing(tree: Tree, kind: str, name: str) -> Object:
    """The object, whose name may end in a hash."""
    return next(one for one in tree.of(kind) if one["metadata"]["name"].startswith(name))


def pod(tree: Tree, name: str) -> Object:
    """The pod of a workload."""
    return next(workload.pod for workload in tree.workloads if workload.name == name)


def container(tree: Tree, name: str) -> Object:
    """The container of a workload."""
    return pod(tree, name)["containers"][0]


def spec(tree: Tree, kind: str, name: str) -> Object:
    return thing(tree, kind, name)["spec"]


def told(tree: Tree, name: str, **variables: str) -> None:
    """Tell one process alone."""
    container(tree, name).setdefault("env", []).extend(
        {"name": key, "value": value} for key, value in variables.items()
    )


def lag_scaler(**metadata: str) -> Object:
    """A custom resource, as the component `keda` has it."""
    trigger = {"bootstrapServers": "kafka.feed.svc:9092", "topic": "feed.post.events.v1", "consumerGroup": "feed"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "fanout", "namespace": "feed"},
        "spec": {
            "scaleTargetRef": {"name": "fanout"},
            "triggers": [{"type": "kafka", "name": "posts", "metadata": {**trigger, **metadata}}],
        },
    }


def drop(tree: Tree, kind: str, name: str) -> None:
    tree.objects.remove(thing(tree, kind, name))  # type: ignore[attr-defined] - a copy of ours, a list


BREAKINGS: dict[str, tuple[Breaking, str]] = {
    # names that lead nowhere
    "a ConfigMap is misspelt": (
        lambda tree: container(tree, "post")["envFrom"][0]["configMapRef"].update(name="feed-setings"),
        "Deployment/post: reads the ConfigMap feed-setings, which is not there",
    ),
    "a ConfigMap of a volume keeps its name without the hash": (
        lambda tree: pod(tree, "redis")["volumes"][0]["configMap"].update(name="redis-configuration"),
        "StatefulSet/redis: reads the ConfigMap redis-configuration, which is not there",
    ),
    "a key of a Secret is missing": (
        lambda tree: thing(tree, "Secret", "feed-throw-away")["data"].pop("graph-dsn"),
        "Deployment/graph-relay: reads graph-dsn of the Secret feed-throw-away",
    ),
    "a ServiceAccount is misspelt": (
        lambda tree: pod(tree, "hydrate").update(serviceAccountName="hydrat"),
        "Deployment/hydrate: runs as the ServiceAccount hydrat, which is not there",
    ),
    "two workloads share a ServiceAccount": (
        lambda tree: pod(tree, "hydrate").update(serviceAccountName="post"),
        "Deployment/hydrate: runs as the ServiceAccount post, which is another's",
    ),
    "nobody uses an object any more": (
        lambda tree: pod(tree, "hydrate").update(serviceAccountName="post"),
        "ServiceAccount/hydrate: is used by nobody",
    ),
    "a PriorityClass is not there": (
        lambda tree: pod(tree, "post").update(priorityClassName="feed-serving"),
        "Deployment/post: has the PriorityClass feed-serving, which is not there",
    ),
    "a volume that is mounted is not there": (
        lambda tree: container(tree, "kafka")["volumeMounts"][0].update(name="date"),
        "StatefulSet/kafka: mounts date, which is no volume",
    ),
    "a Service leads to a port that its pods do not name": (
        lambda tree: spec(tree, "Service", "gateway")["ports"][0].update(targetPort="https"),
        "Service/gateway: leads to the port https, which gateway has not",
    ),
    "a Service selects nobody": (
        lambda tree: spec(tree, "Service", "graph").update(selector={"app.kubernetes.io/name": "grph"}),
        "Service/graph: leads to the pods of 0 workloads",
    ),
    "a headless Service translates its port": (
        lambda tree: spec(tree, "Service", "redis")["ports"][0].update(port=6380),
        "Service/redis: is headless, and 6380 is not the number",
    ),
    "an Ingress leads to a port that its Service has not": (
        lambda tree: spec(tree, "Ingress", "gateway")["rules"][0]["http"]["paths"][0]["backend"]["service"].update(
            port={"number": 8080}
        ),
        "Ingress/gateway: leads to the port {'number': 8080} of the Service gateway",
    ),
    "an Ingress leads to no Service": (
        lambda tree: spec(tree, "Ingress", "gateway")["rules"][0]["http"]["paths"][0]["backend"]["service"].update(
            name="gate"
        ),
        "Ingress/gateway: leads to the Service gate, which is not there",
    ),
    "a label is dropped from a template": (
        lambda tree: spec(tree, "Deployment", "timeline")["template"]["metadata"]["labels"].pop(
            "app.kubernetes.io/name"
        ),
        "Deployment/timeline: selects the pods of nobody",
    ),
    "two workloads have the same pods": (
        lambda tree: spec(tree, "Deployment", "timeline")["template"]["metadata"]["labels"].update(
            {"app.kubernetes.io/name": "hydrate"}
        ),
        "Deployment/hydrate: selects the pods of ['hydrate', 'timeline']",
    ),
    "a peer of a policy is misspelt": (
        lambda tree: spec(tree, "NetworkPolicy", "timeline")["egress"][0]["to"][0]["podSelector"]["matchExpressions"][
            0
        ]["values"].append("fan-out"),
        "NetworkPolicy/timeline: has as a peer pods with app.kubernetes.io/name=fan-out",
    ),
    "a policy is for nobody": (
        lambda tree: spec(tree, "NetworkPolicy", "timeline").update(podSelector={"matchLabels": {"app": "timeline"}}),
        "NetworkPolicy/timeline: is for pods that there are not",
    ),
    "an object is in another namespace": (
        lambda tree: thing(tree, "Service", "post")["metadata"].update(namespace="default"),
        "Service/post: is in no namespace of the tree",
    ),
    # settings
    "a setting does not exist": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_DRAIN_SECOND="5"),
        "Deployment/post post: is told FEED_DRAIN_SECOND, which is no setting",
    ),
    "a process is told another's setting": (
        lambda tree: told(tree, "gateway", FEED_PUSH_BATCH="10"),
        "Deployment/gateway gateway: is told FEED_PUSH_BATCH, which is a setting of others",
    ),
    "a variable of OpenTelemetry is misspelt": (
        lambda tree: told(tree, "gateway", OTEL_TRACE_EXPORTER="otlp"),
        "is told OTEL_TRACE_EXPORTER, which OpenTelemetry does not know",
    ),
    "a value is not of its setting's type": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_GRACE_SECONDS="10s"),
        "Deployment/post post: would not start: FEED_GRACE_SECONDS",
    ),
    "a setting that is needed is missing": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].pop("FEED_REDIS_URL"),
        "Deployment/hydrate hydrate: would not start: FEED_REDIS_URL",
    ),
    "throw-away secrets are in production": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_ENV="production"),
        "Deployment/graph graph: is told FEED_POSTGRES_DSN, FEED_OPERATOR_TOKEN in production",
    ),
    "a secret that nobody threw away is in the tree": (
        lambda tree: thing(tree, "Secret", "feed-throw-away")["data"].update({"operator-token": "aHVudGVyMg=="}),
        "operator-token does not say that it is to be thrown away",
    ),
    "a process of the mesh is missing": (
        lambda tree: drop(tree, "Deployment", "graph-relay"),
        "Deployment/graph-relay: is not there, but is a process of the mesh",
    ),
    "a relay serves instead": (
        lambda tree: container(tree, "post-relay").update(command=["python", "-m", "post_service"]),
        "Deployment/post-relay: runs ['python', '-m', 'post_service'], and not post_service relay",
    ),
    "nobody migrates": (
        lambda tree: pod(tree, "graph").pop("initContainers"),
        "Deployment/graph: nobody brings its database up to date",
    ),
    "nobody makes topics": (
        lambda tree: pod(tree, "fanout").pop("initContainers"),
        "Deployment/fanout: nobody makes its topics",
    ),
    # addresses
    "a gRPC name leads to a Service with one address": (
        lambda tree: spec(tree, "Service", "post").pop("clusterIP"),
        "FEED_POST_TARGET is dns:///post:50051: it is not headless",
    ),
    "a gRPC name has the wrong port": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_POST_TARGET="dns:///post:50052"),
        "the Service post has no port 50052",
    ),
    "a gRPC name is misspelt": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_POST_TARGET="dns:///posts:50051"),
        "there is no Service posts",
    ),
    "a gRPC port is called otherwise": (
        lambda tree: spec(tree, "Service", "post")["ports"][0].update(name="http"),
        "its port is not called grpc",
    ),
    "a store's address leads nowhere": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_REDIS_URL="redis://valkey:6379/0"),
        "FEED_REDIS_URL is redis://valkey:6379/0: there is no Service valkey",
    ),
    "brokers have another port": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_KAFKA_BROKERS="kafka:9094"),
        "FEED_KAFKA_BROKERS is kafka:9094: the Service kafka has no port 9094",
    ),
    "Kafka advertises a name that leads nowhere": (
        lambda tree: thing(tree, "ConfigMap", "kafka-configuration")["data"].update(
            {"server.properties": "advertised.listeners=PLAINTEXT://broker:9092"}
        ),
        "there is no Service broker",
    ),
    "what scales by lag asks for no topic of the mesh": (
        lambda tree: tree.objects.append(lag_scaler(topic="feed.posts.v1")),  # type: ignore[attr-defined]
        "ScaledObject/fanout posts: asks for feed.posts.v1, which is no topic of the mesh",
    ),
    "what scales by lag asks no broker": (
        lambda tree: tree.objects.append(lag_scaler(bootstrapServers="broker.feed.svc:9092")),  # type: ignore[attr-defined]
        "ScaledObject/fanout posts: asks broker.feed.svc:9092: there is no Service broker",
    ),
    "a field of a custom resource is misspelt": (
        lambda tree: tree.objects.append(put(lag_scaler(), "spec.pollInterval", 10)),  # type: ignore[attr-defined]
        "ScaledObject/fanout: spec.pollInterval: no such field",
    ),
    "a field of a custom resource is missing": (
        lambda tree: tree.objects.append(put(lag_scaler(), "spec.triggers", None)),  # type: ignore[attr-defined]
        "ScaledObject/fanout: spec.triggers: Field required",
    ),
    # the shape of objects
    "a field is misspelt": (
        lambda tree: spec(tree, "Deployment", "post").update(minReadySecond=3),
        "Deployment/post: spec: Additional properties are not allowed ('minReadySecond' was unexpected)",
    ),
    "a value has the wrong type": (
        lambda tree: spec(tree, "Deployment", "post").update(minReadySeconds="3"),
        "Deployment/post: spec.minReadySeconds: '3' is not of type",
    ),
    "an API is no longer served": (
        lambda tree: thing(tree, "PodDisruptionBudget", "post").update(apiVersion="policy/v1beta1"),
        "Couldn't find schema for kind PodDisruptionBudget",
    ),
    "a kind is unknown": (
        lambda tree: thing(tree, "PodDisruptionBudget", "post").update(kind="PodDisruptionsBudget"),
        "Couldn't find schema for kind PodDisruptionsBudget",
    ),
    # quantities
    "a quantity does not parse": (
        lambda tree: container(tree, "post")["resources"]["requests"].update(memory="128 MB"),
        "its request of memory, 128 MB, is no quantity",
    ),
    "a request is above its limit": (
        lambda tree: container(tree, "post")["resources"]["requests"].update(memory="1Gi"),
        "Deployment/post post: requests more memory than its limit",
    ),
    "a container is not limited in memory": (
        lambda tree: container(tree, "kafka")["resources"].pop("limits"),
        "StatefulSet/kafka kafka: has no limit of memory",
    ),
    "a container requests no CPU": (
        lambda tree: container(tree, "kafka")["resources"]["requests"].pop("cpu"),
        "StatefulSet/kafka kafka: requests no cpu",
    ),
    "a directory may fill the disk": (
        lambda tree: pod(tree, "kafka")["volumes"].append({"name": "tmp2", "emptyDir": {}}),
        "the volume tmp2 may fill the node's disk",
    ),
    "an autoscaler's target does not parse": (
        lambda tree: spec(tree, "HorizontalPodAutoscaler", "post")["metrics"][0]["resource"]["target"].update(
            averageValue="0,6"
        ),
        "HorizontalPodAutoscaler/post: 0,6 is no quantity",
    ),
    # images
    "an image is whatever is latest": (
        lambda tree: container(tree, "redis").update(image="redis:latest"),
        "StatefulSet/redis redis: runs redis:latest",
    ),
    "an image has no tag": (
        lambda tree: container(tree, "post").update(image="feed/post"),
        "Deployment/post post: runs feed/post, whatever that is",
    ),
    "one image is of another version": (
        lambda tree: container(tree, "post").update(image="feed/post:0.2.0"),
        "images: are of several versions: ['0.1.0', '0.2.0']",
    ),
    # probes
    "liveness depends on readiness": (
        lambda tree: container(tree, "post")["livenessProbe"]["grpc"].pop("service"),
        "Deployment/post: its livenessProbe asks {'port': 50051}",
    ),
    "a start waits for dependencies": (
        lambda tree: container(tree, "gateway")["startupProbe"]["httpGet"].update(path="/readyz"),
        "Deployment/gateway: its startupProbe asks {'path': '/readyz'}",
    ),
    "readiness asks whether the process lives": (
        lambda tree: container(tree, "gateway")["readinessProbe"]["httpGet"].update(path="/healthz"),
        "Deployment/gateway: its readinessProbe asks {'path': '/healthz'}",
    ),
    "a probe asks another port": (
        lambda tree: container(tree, "redis")["livenessProbe"]["tcpSocket"].update(port="rediss"),
        "StatefulSet/redis redis: its livenessProbe asks the port rediss",
    ),
    "a probe is missing": (
        lambda tree: container(tree, "graph").pop("readinessProbe"),
        "Deployment/graph graph: has no readinessProbe",
    ),
    "a restart comes too soon": (
        lambda tree: container(tree, "graph")["livenessProbe"].update(failureThreshold=1),
        "Deployment/graph graph: is restarted after less than 30 s",
    ),
    # the pod security standard
    **{
        f"restricted: {what}": (
            lambda tree, path=path, value=value: put(pod(tree, "post"), path, value),
            what,
        )
        for path, value, what in (
            ("hostNetwork", True, "hostNetwork is the node's"),
            ("volumes", [{"name": "host", "hostPath": {"path": "/"}}], "the volume host is a hostPath"),
            ("securityContext.runAsUser", 0, "runs as root"),
            ("securityContext.runAsNonRoot", None, "may run as root"),
            ("securityContext.seccompProfile", None, "has no seccomp profile"),
            ("securityContext.seccompProfile", {"type": "Unconfined"}, "has the seccomp profile Unconfined"),
            ("securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}], "sets the sysctl kernel.msgmax"),
            ("containers.0.securityContext.privileged", True, "is privileged"),
            ("containers.0.securityContext.allowPrivilegeEscalation", None, "may gain privileges"),
            ("containers.0.securityContext.runAsUser", 0, "runs as root"),
            ("containers.0.securityContext.runAsNonRoot", False, "may run as root"),
            ("containers.0.securityContext.capabilities", {"drop": ["NET_RAW"]}, "keeps capabilities"),
            (
                "containers.0.securityContext.capabilities",
                {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
                "adds the capabilities SYS_PTRACE",
            ),
            ("containers.0.securityContext.procMount", "Unmasked", "sees all of /proc"),
            ("containers.0.securityContext.seLinuxOptions", {"type": "spc_t"}, "has the SELinux options"),
            ("containers.0.securityContext.appArmorProfile", {"type": "Unconfined"}, "has the AppArmor profile"),
            ("containers.0.securityContext.windowsOptions", {"hostProcess": True}, "is a process of the node"),
            ("containers.0.securityContext.readOnlyRootFilesystem", None, "may write to its root file system"),
            ("containers.0.ports.0.hostPort", 50051, "takes the node's port 50051"),
            ("initContainers.0.securityContext.allowPrivilegeEscalation", True, "post migrate: may gain privileges"),
            ("automountServiceAccountToken", None, "has a token of its ServiceAccount"),
        )
    },
    "pod security is not enforced": (
        lambda tree: thing(tree, "Namespace", "feed")["metadata"]["labels"].pop("pod-security.kubernetes.io/enforce"),
        "Namespace/feed: does not enforce restricted pod security",
    ),
    # rollouts
    "a version is in a workload's selector": (
        lambda tree: spec(tree, "Deployment", "post")["selector"]["matchLabels"].update({VERSION: "0.1.0"}),
        f"Deployment/post: selects by {VERSION} at spec.selector",
    ),
    "a version is in a Service's selector": (
        lambda tree: spec(tree, "Service", "post")["selector"].update({VERSION: "0.1.0"}),
        f"Service/post: selects by {VERSION} at spec.selector",
    ),
    "a version is in a policy": (
        lambda tree: spec(tree, "NetworkPolicy", "post")["podSelector"]["matchLabels"].update({VERSION: "0.1.0"}),
        f"NetworkPolicy/post: selects by {VERSION} at spec.podSelector",
    ),
    "replicas fight an autoscaler": (
        lambda tree: spec(tree, "Deployment", "post").update(replicas=3),
        "Deployment/post: says how many replicas it has, which HorizontalPodAutoscaler/post decides",
    ),
    "nobody scales": (
        lambda tree: drop(tree, "HorizontalPodAutoscaler", "gateway"),
        "Deployment/gateway: is scaled by nobody",
    ),
    "an autoscaler's target is misspelt": (
        lambda tree: spec(tree, "HorizontalPodAutoscaler", "gateway")["scaleTargetRef"].update(name="gate"),
        "HorizontalPodAutoscaler/gateway: scales gate, which is not there",
    ),
    "two scale the same": (
        lambda tree: spec(tree, "HorizontalPodAutoscaler", "gateway")["scaleTargetRef"].update(name="post"),
        "Deployment/post: is scaled by HorizontalPodAutoscaler/gateway and HorizontalPodAutoscaler/post",
    ),
    "an autoscaler may leave one pod": (
        lambda tree: spec(tree, "HorizontalPodAutoscaler", "post").update(minReplicas=1),
        "HorizontalPodAutoscaler/post: scales from 1 to 10 pods",
    ),
    "more pods than partitions": (
        lambda tree: spec(tree, "HorizontalPodAutoscaler", "fanout").update(maxReplicas=17),
        "HorizontalPodAutoscaler/fanout: scales to 17 pods, and there are 16 partitions",
    ),
    "a node cannot be drained": (
        lambda tree: spec(tree, "PodDisruptionBudget", "post").update(maxUnavailable=0),
        "PodDisruptionBudget/post: may keep a node from being drained for ever",
    ),
    "a disruption budget is missing": (
        lambda tree: drop(tree, "PodDisruptionBudget", "post"),
        "Deployment/post: has 0 disruption budgets",
    ),
    "old pods go before new ones are there": (
        lambda tree: spec(tree, "Deployment", "post")["strategy"]["rollingUpdate"].update(maxUnavailable=1),
        "Deployment/post: takes old pods away before new ones are there",
    ),
    "the grace is too short": (
        lambda tree: pod(tree, "post").update(terminationGracePeriodSeconds=28),
        "Deployment/post: is killed before it has ended, which may take 28 s",
    ),
    "the drain is too long": (
        lambda tree: thing(tree, "ConfigMap", "feed-settings")["data"].update(FEED_DRAIN_SECONDS="30"),
        "Deployment/fanout: is killed before it has ended",
    ),
}


def put(whole: Any, path: str, value: Any) -> Any:
    """Write a value at a path such as `containers.0.ports`; None takes away what is there."""
    thing, (*steps, last) = whole, path.split(".")
    for step in steps:
        thing = thing[int(step)] if step.isdigit() else thing.setdefault(step, {})
    if value is None:
        thing.pop(last, None)
    else:
        thing[last] = value
    return whole


@pytest.fixture
def broken(default: Tree) -> Tree:
    """A copy of the default tree, to break something in."""
    return Tree("broken", deepcopy(list(default.objects)))


@pytest.mark.parametrize("name", BREAKINGS)
def test_what_is_broken_is_named(broken: Tree, name: str) -> None:
    breaking, expected = BREAKINGS[name]
    breaking(broken)
    found = [str(problem) for check in CHECKS for problem in check(broken)]
    assert any(expected in problem for problem in found), found


def test_every_check_finds_something(default: Tree) -> None:
    idle = set(CHECKS)
    for breaking, _ in BREAKINGS.values():
        broken = Tree("broken", deepcopy(list(default.objects)))
        breaking(broken)
        idle -= {check for check in idle if any(check(broken))}
    assert {check.__name__ for check in idle} == set()


# --- policies, and what stays for ever -----------------------------------------------------------------------------------


def reaches(tree: Tree) -> set[Arrow]:
    return arrows(tree.of("NetworkPolicy"), [*pods(tree), End("internet", "203.0.113.9")], "feed")


def test_an_egress_rule_for_everything_opens_the_way_out_and_nothing_within(broken: Tree) -> None:
    before = reaches(broken)
    spec(broken, "NetworkPolicy", "hydrate")["egress"].append({})
    opened = reaches(broken) - before
    assert {(arrow.source, arrow.target) for arrow in opened} == {("hydrate", "internet")}


def test_a_rule_at_both_ends_is_a_new_arrow(broken: Tree) -> None:
    before = reaches(broken)
    for name, direction, peer in (("hydrate", "egress", "fanout"), ("fanout", "ingress", "hydrate")):
        (rule,) = spec(broken, "NetworkPolicy", name)[direction]
        (end,) = rule["to" if direction == "egress" else "from"]
        end["podSelector"]["matchExpressions"][0]["values"].append(peer)
    assert reaches(broken) - before == {Arrow("hydrate", "fanout", 50051)}


def test_without_default_deny_whoever_nobody_calls_lets_everybody_in(broken: Tree) -> None:
    before = reaches(broken)
    drop(broken, "NetworkPolicy", "default-deny")
    opened = reaches(broken) - before
    assert {(arrow.source, arrow.target) for arrow in opened} == {
        ("internet", "post-relay"),
        ("internet", "graph-relay"),
    }


@pytest.mark.parametrize(
    ("kind", "name", "path", "value"),
    [
        ("Deployment", "post", "selector.matchLabels.tier", "core"),
        ("StatefulSet", "postgres", "serviceName", "database"),
        ("StatefulSet", "kafka", "volumeClaimTemplates.0.spec.resources.requests.storage", "20Gi"),
        ("Service", "graph", "clusterIP", None),
    ],
)
def test_what_cannot_be_applied_over_what_runs_is_named(
    broken: Tree, kind: str, name: str, path: str, value: str | None
) -> None:
    committed = {where(one): part for one in deepcopy(broken.objects) if (part := immutable(one)) is not None}
    assert list(differs_from(committed, broken)) == []
    put(spec(broken, kind, name), path, value)
    assert [problem.where for problem in differs_from(committed, broken)] == [f"{kind}/{name}"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("100m", 0.1),
        ("1.5Gi", 1.5 * 1024**3),
        ("2e3", 2000),
        ("1k", 1000),
        (".5", 0.5),
        ("128Mi", 128 * 1024**2),
    ],
)
def test_quantities_are_what_kubernetes_takes_them_for(text: str, number: float) -> None:
    assert float(quantity(text)) == number


@pytest.mark.parametrize("text", ["", "Mi", "1 Gi", "1gi", "1KB", "1KiB", "one", None, "1.2.3"])
def test_nothing_else_is_a_quantity(text: str | None) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        quantity(text)


def test_all_pods_are_looked_at(default: Tree) -> None:
    """Whatever has a template of pods is a workload, so that no kind is passed over."""
    assert [thing for thing in default.objects if at(thing, "spec.template")] == [
        workload.object for workload in default.workloads
    ]
    assert all(isinstance(workload, Workload) and workload.containers for workload in default.workloads)
