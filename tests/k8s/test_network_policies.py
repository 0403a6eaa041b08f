"""Who may talk to whom is what the picture says, no more and no less. But first: the evaluator knows what policies mean."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.k8s import arrows_table
from tests.k8s.checks.objects import Object, Tree, at
from tests.k8s.network_policies import Arrow, End, Port, allows, arrows, directions, pods

pytestmark = pytest.mark.manifests

HTTP = Port(80)


def pod(name: str, namespace: str = "here", **ports: int) -> End:
    """A pod with a label of its name, in a namespace with one of its."""
    named = {port: Port(number) for port, number in ports.items()}
    address = str(ipaddress.ip_address("10.0.0.0") + sum(f"{namespace}/{name}".encode()))
    return End(name, address, namespace, {"app": name}, {"name": namespace}, named)


A, B, C, ELSEWHERE = pod("a"), pod("b", web=80), pod("c"), pod("a", "there")
OUTSIDE = End("outside", "198.51.100.7")


def policy(app: str | None = "b", namespace: str = "here", **spec: Any) -> Object:
    """A policy for the pods of one name, or for all of its namespace."""
    selector: Object = {"matchLabels": {"app": app}} if app else {}
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"podSelector": selector, **spec}}


def from_app(*names: str) -> Object:
    return {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [*names]}]}}


DENY_ALL = policy(None, policyTypes=["Ingress", "Egress"])


# --- what policies mean ----------------------------------------------------------------------------------------------


def test_without_a_policy_everything_is_allowed() -> None:
    assert allows([], A, B, HTTP)
    assert allows([], A, OUTSIDE, HTTP)
    assert allows([], OUTSIDE, B, HTTP)


def test_an_empty_pod_selector_isolates_all_pods_of_its_namespace_and_no_others() -> None:
    assert not allows([DENY_ALL], A, B, HTTP)
    assert not allows([DENY_ALL], A, OUTSIDE, HTTP)
    assert not allows([DENY_ALL], ELSEWHERE, B, HTTP)
    assert allows([DENY_ALL], ELSEWHERE, pod("x", "there"), HTTP)


DIRECTIONS: list[tuple[Object, set[str]]] = [
    ({}, {"ingress"}),
    ({"egress": []}, {"ingress"}),
    ({"egress": [{}]}, {"ingress", "egress"}),
    ({"ingress": [{}]}, {"ingress"}),
    ({"policyTypes": [], "egress": [{}]}, {"ingress", "egress"}),
    ({"policyTypes": ["Egress"]}, {"egress"}),
    ({"policyTypes": ["Egress"], "ingress": [{}]}, {"egress"}),
]


@pytest.mark.parametrize(("spec", "expected"), DIRECTIONS)
def test_directions_follow_from_the_rules_where_no_types_are_given(spec: Object, expected: set[str]) -> None:
    assert directions(policy(**spec)) == expected


def test_both_ends_have_to_allow_it() -> None:
    into_b = policy("b", ingress=[{"from": [from_app("a")]}])
    out_of_a = policy("a", policyTypes=["Egress"], egress=[{"to": [from_app("b")]}])
    assert not allows([DENY_ALL, into_b], A, B, HTTP)
    assert not allows([DENY_ALL, out_of_a], A, B, HTTP)
    assert allows([DENY_ALL, into_b, out_of_a], A, B, HTTP)
    assert not allows([DENY_ALL, into_b, out_of_a], B, A, HTTP)


def test_rules_and_policies_add_up() -> None:
    one, other = (policy("b", ingress=[{"from": [from_app(name)]}]) for name in ("a", "c"))
    both = policy("b", ingress=[{"from": [from_app("a")]}, {"from": [from_app("c")]}])
    for policies in ([one, other], [both]):
        assert allows(policies, A, B, HTTP)
        assert allows(policies, C, B, HTTP)
        assert not allows(policies, OUTSIDE, B, HTTP)


@pytest.mark.parametrize("rule", [{}, {"from": []}, {"ports": []}, {"from": None, "ports": None}])
def test_a_rule_without_peers_or_ports_is_for_all(rule: Object) -> None:
    for source in (A, ELSEWHERE, OUTSIDE):
        assert allows([policy(ingress=[rule])], source, B, Port(1234, "UDP"))


def test_no_rules_is_not_the_same_as_an_empty_rule() -> None:
    assert not allows([policy(ingress=[])], A, B, HTTP)
    assert allows([policy(ingress=[{}])], A, B, HTTP)


def test_a_pod_selector_alone_means_pods_of_the_same_namespace() -> None:
    rules = [policy(ingress=[{"from": [{"podSelector": {}}]}])]
    assert allows(rules, A, B, HTTP)
    assert not allows(rules, ELSEWHERE, B, HTTP)
    assert not allows(rules, OUTSIDE, B, HTTP)


def test_a_namespace_selector_alone_means_all_pods_there() -> None:
    rules = [policy(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"name": "there"}}}]}])]
    assert allows(rules, ELSEWHERE, B, HTTP)
    assert not allows(rules, A, B, HTTP)


def test_an_empty_namespace_selector_means_every_namespace_but_nobody_outside() -> None:
    rules = [policy(ingress=[{"from": [{"namespaceSelector": {}}]}])]
    assert allows(rules, ELSEWHERE, B, HTTP)
    assert allows(rules, A, B, HTTP)
    assert not allows(rules, OUTSIDE, B, HTTP)


def test_both_selectors_of_one_peer_have_to_match_and_two_peers_are_alternatives() -> None:
    there, c = {"namespaceSelector": {"matchLabels": {"name": "there"}}}, from_app("c")
    assert not allows([policy(ingress=[{"from": [{**there, **c}]}])], ELSEWHERE, B, HTTP)
    assert not allows([policy(ingress=[{"from": [{**there, **c}]}])], C, B, HTTP)
    assert allows([policy(ingress=[{"from": [there, c]}])], ELSEWHERE, B, HTTP)
    assert allows([policy(ingress=[{"from": [there, c]}])], C, B, HTTP)


def test_a_block_of_addresses_has_exceptions() -> None:
    block = {"ipBlock": {"cidr": "198.51.100.0/24", "except": ["198.51.100.8/30"]}}
    rules = [policy(ingress=[{"from": [block]}])]
    assert allows(rules, OUTSIDE, B, HTTP)
    assert not allows(rules, replace(OUTSIDE, address="198.51.100.9"), B, HTTP)
    assert not allows(rules, replace(OUTSIDE, address="198.51.101.7"), B, HTTP)
    assert not allows(rules, A, B, HTTP)


def test_a_port_without_a_protocol_is_of_tcp() -> None:
    rules = [policy(ingress=[{"ports": [{"port": 80}]}])]
    assert allows(rules, A, B, HTTP)
    assert not allows(rules, A, B, Port(80, "UDP"))
    assert not allows(rules, A, B, Port(81))


def test_a_protocol_without_a_port_is_all_of_it() -> None:
    rules = [policy(ingress=[{"ports": [{"protocol": "UDP"}]}])]
    assert allows(rules, A, B, Port(5353, "UDP"))
    assert not allows(rules, A, B, Port(5353))


def test_ports_may_be_a_range() -> None:
    rules = [policy(ingress=[{"ports": [{"port": 80, "endPort": 90}]}])]
    assert [number for number in (79, 80, 85, 90, 91) if allows(rules, A, B, Port(number))] == [80, 85, 90]


def test_a_named_port_is_what_the_pod_at_the_end_calls_so() -> None:
    into = [policy("b", ingress=[{"ports": [{"port": "web"}]}])]
    out = [policy("a", policyTypes=["Egress"], egress=[{"ports": [{"port": "web"}]}])]
    for rules in (into, out):
        assert allows(rules, A, B, HTTP)
        assert not allows(rules, A, B, Port(81))
    assert not allows(out, A, C, HTTP)
    assert not allows(out, A, OUTSIDE, HTTP)


@pytest.mark.parametrize(
    ("operator", "values", "matching"),
    [("In", ["a", "c"], "ac"), ("NotIn", ["a"], "bc"), ("Exists", [], "abc"), ("DoesNotExist", [], "")],
)
def test_selectors_may_be_expressions(operator: str, values: list[str], matching: str) -> None:
    peer = {"podSelector": {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}}
    rules = [policy("target", ingress=[{"from": [peer]}])]
    assert [end.name for end in (A, B, C) if allows(rules, end, pod("target"), HTTP)] == list(matching)


Specs = st.SearchStrategy[Object]

labels: Specs = st.fixed_dictionaries({"app": st.sampled_from("abc")})
selectors: Specs = st.fixed_dictionaries({}, optional={"matchLabels": labels})
numbers = st.integers(1, 5)
allowed_ports: Specs = st.fixed_dictionaries(
    {}, optional={"port": numbers | st.just("web"), "protocol": st.sampled_from(["TCP", "UDP"])}
)
ANYBODY: Object = {}
peers: Specs = st.one_of(
    st.fixed_dictionaries({"podSelector": selectors}),
    st.fixed_dictionaries({"namespaceSelector": st.just(ANYBODY)}),
    st.just({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}),
)
rules_in: Specs = st.fixed_dictionaries(
    {}, optional={"from": st.lists(peers, max_size=2), "ports": st.lists(allowed_ports, max_size=2)}
)
rules_out: Specs = st.fixed_dictionaries(
    {}, optional={"to": st.lists(peers, max_size=2), "ports": st.lists(allowed_ports, max_size=2)}
)
specs: Specs = st.fixed_dictionaries(
    {"podSelector": selectors},
    optional={
        "policyTypes": st.lists(st.sampled_from(["Ingress", "Egress"]), max_size=2, unique=True),
        "ingress": st.lists(rules_in, max_size=2),
        "egress": st.lists(rules_out, max_size=2),
    },
)


def of_here(spec: Object) -> Object:
    return {"metadata": {"name": "p", "namespace": "here"}, "spec": spec}


policies_of_here = st.lists(specs.map(of_here), max_size=4)
ends = st.sampled_from([A, B, C, ELSEWHERE, OUTSIDE])
target_ports = st.builds(Port, numbers, st.sampled_from(["TCP", "UDP"]))


@given(policies_of_here, ends, ends, target_ports, st.randoms(use_true_random=False))
def test_the_order_of_policies_means_nothing(policies: list[Object], a: End, b: End, port: Port, random: Any) -> None:
    shuffled = list(policies)
    random.shuffle(shuffled)
    assert allows(policies, a, b, port) == allows(shuffled, a, b, port)


@given(policies_of_here, specs, ends, ends, target_ports)
def test_where_all_are_isolated_another_policy_only_allows_more(
    policies: list[Object], spec: Mapping[str, Any], a: End, b: End, port: Port
) -> None:
    more: Object = {"metadata": {"name": "more", "namespace": "here"}, "spec": spec}
    if allows([DENY_ALL, *policies], a, b, port):
        assert allows([DENY_ALL, *policies, more], a, b, port)


@given(policies_of_here, ends, ends, target_ports)
def test_isolating_everybody_allows_nothing_new(policies: list[Object], a: End, b: End, port: Port) -> None:
    if allows([DENY_ALL, *policies], a, b, port):
        assert allows(policies, a, b, port)


@given(policies_of_here, target_ports)
def test_policies_have_no_say_between_pods_of_other_namespaces(policies: list[Object], port: Port) -> None:
    assert allows(policies, ELSEWHERE, pod("b", "there"), port)
    assert allows(policies, ELSEWHERE, OUTSIDE, port)


@given(policies_of_here, st.integers(1, 65535))
def test_all_arrows_are_found_by_a_few_telling_ports(policies: list[Object], number: int) -> None:
    found = {(arrow.source, arrow.target) for arrow in arrows(policies, [A, C], "here") if arrow.protocol == "TCP"}
    for source, target in ((A, C), (C, A)):
        if allows(policies, source, target, Port(number)):
            assert (source.name, target.name) in found


# --- the mesh --------------------------------------------------------------------------------------------------------

STRANGERS = (
    End(
        "kube-dns", "10.42.1.1", "kube-system", {"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"}
    ),
    End("node agent", "10.42.1.2", "kube-system", {"k8s-app": "agent"}, {"kubernetes.io/metadata.name": "kube-system"}),
    End("Ingress controller", "10.42.1.3", "ingress-nginx", {}, {"kubernetes.io/metadata.name": "ingress-nginx"}),
    # Whoever may make pods in another namespace may give them any labels.
    End(
        "impostor",
        "10.42.1.4",
        "default",
        {"app.kubernetes.io/name": "gateway", "k8s-app": "kube-dns"},
        {"kubernetes.io/metadata.name": "default"},
    ),
    End("internet", "203.0.113.9"),
)


PROMETHEUS = End(
    "Prometheus",
    "10.42.1.5",
    "monitoring",
    {"app.kubernetes.io/name": "prometheus"},
    {"kubernetes.io/metadata.name": "monitoring"},
)
KEDA = End("KEDA", "10.42.1.6", "keda", {"app": "keda-operator"}, {"kubernetes.io/metadata.name": "keda"})


def of_the_mesh(tree: Tree, strangers: Sequence[End] = STRANGERS) -> set[Arrow]:
    """All arrows that the tree's policies allow, from, to and between its pods."""
    return arrows(tree.of("NetworkPolicy"), [*pods(tree), *strangers], "feed")


def names(tree: Tree) -> list[str]:
    return [workload.name for workload in tree.workloads]


def test_the_table_names_everybody(default: Tree) -> None:
    rows = arrows_table.table()
    assert len(rows) == len(set(rows)) > 20
    known = {*names(default), "Ingress controller", "kube-dns", arrows_table.EVERY_POD}
    assert {end for row in rows for end in (row.source, row.target)} >= known


def test_policies_allow_what_the_table_says_and_nothing_else(default: Tree) -> None:
    assert of_the_mesh(default) == arrows_table.allowed(names(default), in_the_default_tree(default))


def test_processes_reach_what_their_settings_name_and_nothing_else(default: Tree) -> None:
    inside = set(names(default))
    rows = {row for row in in_the_default_tree(default) if row.source in inside and row.target in inside}
    assert rows == arrows_table.needed()


def test_production_has_the_same_arrows_with_backends_at_their_addresses(production: Tree) -> None:
    backends = [End(name, address) for name, address in backends_of(production).items()]
    assert {backend.name for backend in backends} == {"postgres", "redis", "kafka"}
    allowed = arrows_table.allowed(names(production), in_the_default_tree(production, managed=True))
    past_the_pooler = {arrow for arrow in allowed if arrow.target == "postgres"}
    to_the_pooler = {arrow._replace(port=6432) for arrow in past_the_pooler}
    assert of_the_mesh(production, [*STRANGERS, *backends]) == allowed | to_the_pooler


@pytest.mark.parametrize("whole", ["k8s", "production"])
@pytest.mark.parametrize("component", ["monitoring", "keda", "otel-collector"])
def test_a_component_brings_its_own_arrows(
    default: Tree, production: Tree, extended: Mapping[str, Tree], whole: str, component: str
) -> None:
    before, after = default if whole == "k8s" else production, extended[f"{whole}+{component}"]
    ours = [workload.name for workload in after.workloads if workload.is_ours]
    brought = {
        "monitoring": {Arrow("Prometheus", name, 9464) for name in ours},
        # To brokers that somebody else runs, that is for others to allow.
        "keda": {Arrow("KEDA", "kafka", 9092)} if whole == "k8s" else set[Arrow](),
        "otel-collector": {
            *(Arrow(name, "otel-collector", 4317) for name in ours),
            Arrow("otel-collector", "jaeger", 4317),
            *arrows_table.allowed(["otel-collector", "jaeger"], [Arrow(arrows_table.EVERY_POD, "kube-dns", 53)]),
        },
    }[component]
    askers = [*STRANGERS, PROMETHEUS, KEDA]
    assert of_the_mesh(after, askers) == of_the_mesh(before, askers) | brought


def in_the_default_tree(tree: Tree, managed: bool = False) -> list[Arrow]:
    """The rows that hold without further components."""
    there = {*names(tree), *(end.name for end in STRANGERS), arrows_table.EVERY_POD}
    there |= {"postgres", "redis", "kafka"} if managed else set[str]()
    return [row for row in arrows_table.table() if row.source in there and row.target in there]


def backends_of(tree: Tree) -> dict[str, str]:
    """An address of each managed backend, from the policy that is called after it."""
    return {
        policy["metadata"]["name"].removeprefix("to-"): str(ipaddress.ip_network(peer["ipBlock"]["cidr"])[1])
        for policy in tree.of("NetworkPolicy")
        for rule in at(policy, "spec.egress", [])
        for peer in rule.get("to", [])
        if "ipBlock" in peer
    }
