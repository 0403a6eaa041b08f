"""The Pod Security Standard `restricted`, as published for Kubernetes 1.32, which includes `baseline`.

The namespace has the API server enforce it; here it is known before anything is applied. Beyond the standard, root file
systems are read-only.
"""

from collections.abc import Iterator

from tests.k8s.checks.objects import Object, Problem, Tree, Workload, at

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SELINUX_TYPES = {"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SECCOMP = {"RuntimeDefault", "Localhost"}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}


def restricted(tree: Tree) -> Iterator[Problem]:
    """Every pod of the tree."""
    for workload in tree.workloads:
        for what in _pod(workload):
            yield Problem(workload.where, what)
        for container in [*workload.all_containers, *workload.pod.get("ephemeralContainers", [])]:
            for what in _container(container, workload.pod):
                yield Problem(f"{workload.where} {container['name']}", what)


def _pod(workload: Workload) -> Iterator[str]:
    pod, security = workload.pod, workload.pod.get("securityContext", {})
    for shared in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(shared):
            yield f"{shared} is the node's"
    for volume in pod.get("volumes", []):
        for kind in sorted({*volume} - {"name"} - VOLUMES):
            yield f"the volume {volume['name']} is a {kind}"
    for sysctl in security.get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"sets the sysctl {sysctl['name']}"
    annotations: dict[str, str] = at(workload.object, "spec.template.metadata.annotations", {})
    for key, value in annotations.items():
        allowed = value == "runtime/default" or value.startswith("localhost/")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not allowed:
            yield f"has the AppArmor profile {value}"
    yield from _context(security)


def _container(container: Object, pod: Object) -> Iterator[str]:
    own, shared = container.get("securityContext", {}), pod.get("securityContext", {})
    yield from _context(own)
    if own.get("privileged"):
        yield "is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True:
        yield "may run as root"
    if at({**shared, **own}, "seccompProfile.type") not in SECCOMP:
        yield "has no seccomp profile"
    if "ALL" not in at(own, "capabilities.drop", []):
        yield "keeps capabilities"
    if added := set(at(own, "capabilities.add", [])) - {"NET_BIND_SERVICE"}:
        yield f"adds the capabilities {', '.join(sorted(added))}"
    if own.get("procMount", "Default") != "Default":
        yield "sees all of /proc"
    if own.get("readOnlyRootFilesystem") is not True:
        yield "may write to its root file system"
    for port in container.get("ports", []):
        if port.get("hostPort", 0) != 0:
            yield f"takes the node's port {port['hostPort']}"


def _context(security: Object) -> Iterator[str]:
    """What pods and containers can both say."""
    if security.get("runAsNonRoot") is False or security.get("runAsUser") == 0:
        yield "runs as root"
    if security.get("seccompProfile") and at(security, "seccompProfile.type") not in SECCOMP:
        yield f"has the seccomp profile {at(security, 'seccompProfile.type')}"
    if at(security, "appArmorProfile.type", "RuntimeDefault") not in SECCOMP:
        yield f"has the AppArmor profile {at(security, 'appArmorProfile.type')}"
    if at(security, "windowsOptions.hostProcess"):
        yield "is a process of the node"
    selinux = security.get("seLinuxOptions", {})
    if selinux.get("type", "") not in {"", *SELINUX_TYPES} or selinux.get("user") or selinux.get("role"):
        yield f"has the SELinux options {selinux}"


def is_enforced(tree: Tree) -> Iterator[Problem]:
    """The namespace has the API server refuse what is not restricted."""
    for namespace in tree.of("Namespace"):
        labels = at(namespace, "metadata.labels", {})
        if labels.get("pod-security.kubernetes.io/enforce") != "restricted":
            yield Problem(f"Namespace/{namespace['metadata']['name']}", "does not enforce restricted pod security")


CHECKS = (restricted, is_enforced)
