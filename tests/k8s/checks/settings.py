"""What processes are told is what they can be told, and they would start with it."""

import base64
import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

from devmesh.processes import PROCESSES
from feedkit.config import PREFIX, ConfigurationError, Settings, load
from opentelemetry import environment_variables as otel_api
from opentelemetry.sdk import environment_variables as otel_sdk

from docs.generate_configuration import PROCESSES as SETTINGS
from tests.k8s.checks.objects import Object, Problem, Tree, Workload, at, is_our_image

TELEMETRY = {name for module in (otel_api, otel_sdk) for name in dir(module) if name.startswith("OTEL_")}
BROUGHT = {
    "-dsn": "postgresql://somebody:whatever@postgres.example.internal:5432/somewhere",
    "operator-token": "brought-from-outside",
}
"""Such values as somebody brings from outside, by the end of their key."""

_EVERY_SETTING = {f"{PREFIX}{name.upper()}" for settings in SETTINGS.values() for name in settings.model_fields}
_OF_DOWNWARD_API = "10.0.0.1"
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def settings_of(container: Object) -> type[Settings] | None:
    """The settings that the container's process reads; None where it is no process of the mesh."""
    if not is_our_image(container["image"]):
        return None
    service = image_name(container["image"])
    is_relay = container.get("command", [])[-1:] == ["relay"]
    return SETTINGS["relays" if is_relay else service]


def image_name(image: str) -> str:
    """The last part of an image's name, without its tag: `post` of `feed/post:0.1.0`."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def told(tree: Tree, container: Object) -> dict[str, str]:
    """The environment that the container gets; what is brought from outside has such a value as it may have."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom", []):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if field in source:
                prefix = source.get("prefix", "")
                values = _values(tree, kind, source[field]["name"])
                variables |= {prefix + key: value for key, value in values.items()}
    for variable in container.get("env", []):
        variables[variable["name"]] = _value(tree, variable, variables)
    return variables


def _value(tree: Tree, variable: Object, before: Mapping[str, str]) -> str:
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if reference := at(variable, f"valueFrom.{field}"):
            key: str = reference["key"]
            if kind == "Secret" and reference["name"] in tree.outside:
                return next((value for end, value in BROUGHT.items() if key.endswith(end)), "")
            return _values(tree, kind, reference["name"]).get(key, "")
    if at(variable, "valueFrom"):
        return _OF_DOWNWARD_API
    return _REFERENCE.sub(lambda name: before.get(name[1], name[0]), variable.get("value", ""))


def _values(tree: Tree, kind: str, name: str) -> dict[str, str]:
    thing = tree.find(kind, name) or {}
    decoded = {key: _decoded(value) if kind == "Secret" else value for key, value in thing.get("data", {}).items()}
    return {**decoded, **thing.get("stringData", {})}


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode()


def ours(tree: Tree) -> Iterator[tuple[str, Object, type[Settings]]]:
    """Every container of a process of the mesh, where it is, and its settings."""
    for workload in tree.workloads:
        for container in workload.all_containers:
            if settings := settings_of(container):
                yield f"{workload.where} {container['name']}", container, settings


def names(tree: Tree) -> Iterator[Problem]:
    """A variable exists. What one process alone is told is a setting of it; what all are told is one of somebody."""
    for place, container, settings in ours(tree):
        own = {f"{PREFIX}{name.upper()}" for name in settings.model_fields}
        alone = {variable["name"] for variable in container.get("env", [])}
        for name in told(tree, container):
            if name.startswith(PREFIX):
                if name not in _EVERY_SETTING:
                    yield Problem(place, f"is told {name}, which is no setting")
                elif name in alone and name not in own:
                    yield Problem(place, f"is told {name}, which is a setting of others")
            elif name.startswith("OTEL_") and name not in TELEMETRY:
                yield Problem(place, f"is told {name}, which OpenTelemetry does not know")
            elif not name.startswith("OTEL_") and name in alone and at(_named(container, name), "valueFrom") is None:
                yield Problem(place, f"is told {name}, which none of our processes reads")


def _named(container: Object, name: str) -> Object:
    return next(variable for variable in container["env"] if variable["name"] == name)


def values(tree: Tree) -> Iterator[Problem]:
    """Each process can be started with what it is told: nothing that it needs is missing, and all of it parses."""
    for place, container, settings in ours(tree):
        with _environment(told(tree, container)):
            try:
                load(settings)
            except ConfigurationError as error:
                yield Problem(place, f"would not start: {error}")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def processes(tree: Tree) -> Iterator[Problem]:
    """Every process that the mesh has is a Deployment, which runs its module in its role."""
    for process in PROCESSES:
        workload = tree.find("Deployment", process.name)
        if workload is None:
            yield Problem(f"Deployment/{process.name}", "is not there, but is a process of the mesh")
            continue
        (container,) = Workload(workload).containers
        command = container.get("command", ["python", "-m", process.module])
        if container.get("args") or command != [
            "python",
            "-m",
            process.module,
            *([process.role] if process.role else []),
        ]:
            yield Problem(
                f"Deployment/{process.name}", f"runs {command}, and not {process.module} {process.role or ''}"
            )
        if process.migrates and not _prepared_by(workload, process.module, "migrate"):
            yield Problem(f"Deployment/{process.name}", "nobody brings its database up to date")
    fanout = tree.find("Deployment", "fanout")
    if fanout is not None and not _prepared_by(fanout, "fanout_service", "topics"):
        yield Problem("Deployment/fanout", "nobody makes its topics")


def _prepared_by(workload: Object, module: str, command: str) -> bool:
    """Whether an init container of the same image runs this command."""
    (container,) = Workload(workload).containers
    return any(
        first.get("command") == ["python", "-m", module, command] and first["image"] == container["image"]
        for first in at(workload, "spec.template.spec.initContainers", [])
    )


def production_trusts_nothing_thrown_away(tree: Tree) -> Iterator[Problem]:
    """Secrets that stand in the tree are for development only."""
    for place, container, _ in ours(tree):
        variables = told(tree, container)
        thrown = [name for name, value in variables.items() if "throw-away" in value]
        if thrown and variables.get("FEED_ENV", "production") == "production":
            yield Problem(place, f"is told {', '.join(thrown)} in production, which everybody can read")
    for secret in tree.of("Secret"):
        for key, value in _values(tree, "Secret", secret["metadata"]["name"]).items():
            if "throw-away" not in value:
                yield Problem(
                    f"Secret/{secret['metadata']['name']}", f"{key} does not say that it is to be thrown away"
                )


CHECKS = (names, values, processes, production_trusts_nothing_thrown_away)
