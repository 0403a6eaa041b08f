"""What a kustomization renders to: objects of the Kubernetes API, and among them the workloads, whose pods run."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

Object = dict[str, Any]
"""An object as its YAML says it."""

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job")


class Problem(NamedTuple):
    """Something that is wrong with a tree."""

    where: str
    """The object, `Kind/name`, and what in it, such as a container."""
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Tree:
    """All objects of one rendered kustomization."""

    name: str
    objects: Sequence[Object]
    outside: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The Secrets that somebody else has to bring, and their keys."""

    def of(self, *kinds: str) -> list[Object]:
        """The objects of these kinds."""
        return [thing for thing in self.objects if thing["kind"] in kinds]

    def find(self, kind: str, name: str) -> Object | None:
        """The object of this name, if there is one."""
        return next((thing for thing in self.of(kind) if name_of(thing) == name), None)

    @cached_property
    def workloads(self) -> list["Workload"]:
        """Whatever runs pods."""
        return [Workload(thing) for thing in self.of(*WORKLOADS)]


Check = Callable[[Tree], Iterator[Problem]]
"""Tells what is wrong with a tree, from one point of view."""


@dataclass(frozen=True)
class Workload:
    """An object that runs pods, all of one template."""

    object: Object

    @property
    def name(self) -> str:
        return name_of(self.object)

    @property
    def kind(self) -> str:
        return cast("str", self.object["kind"])

    @property
    def where(self) -> str:
        return where(self.object)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its pods."""
        return cast("dict[str, str]", at(self.object, "spec.template.metadata.labels", {}))

    @property
    def pod(self) -> Object:
        """What its pods are."""
        return cast("Object", at(self.object, "spec.template.spec", {}))

    @property
    def containers(self) -> list[Object]:
        """What its pods run, without what only prepares them."""
        return cast("list[Object]", self.pod.get("containers", []))

    @property
    def all_containers(self) -> list[Object]:
        """What prepares its pods, and what they then run."""
        return [*self.pod.get("initContainers", []), *self.containers]

    @property
    def ports(self) -> dict[str, tuple[str, int]]:
        """The named ports of its pods: protocol and number."""
        return {
            port["name"]: (port.get("protocol", "TCP"), port["containerPort"])
            for container in self.containers
            for port in container.get("ports", [])
            if "name" in port
        }

    @property
    def listens(self) -> set[int]:
        """The numbers of all declared ports of its pods."""
        return {port["containerPort"] for container in self.containers for port in container.get("ports", [])}

    @property
    def is_ours(self) -> bool:
        """Whether it is a process of the mesh, and no backend."""
        return any(is_our_image(container["image"]) for container in self.containers)


def is_our_image(image: str) -> bool:
    """Whether the image is one that this project builds."""
    return "/feed/" in f"/{image}"


def name_of(thing: Object) -> str:
    """The name of an object."""
    return cast("str", thing["metadata"]["name"])


def where(thing: Object) -> str:
    """What a problem's place is called."""
    return f"{thing['kind']}/{name_of(thing)}"


def at(thing: Any, path: str, default: Any = None) -> Any:
    """What is at a path such as `spec.template`, or the default where there is nothing or `null`."""
    for step in path.split("."):
        if not isinstance(thing, Mapping) or cast("Object", thing).get(step) is None:
            return default
        thing = cast("Object", thing)[step]
    return thing


def listed(thing: Any, path: str) -> list[Any]:
    """The list at a path; an empty one where there is none."""
    return cast("list[Any]", at(thing, path, []))


def walk(thing: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value within, with its path."""
    yield path, thing
    if isinstance(thing, dict):
        for key, value in cast("Object", thing).items():
            yield from walk(value, f"{path}.{key}".removeprefix("."))
    elif isinstance(thing, list):
        for index, value in enumerate(cast("list[Any]", thing)):
            yield from walk(value, f"{path}[{index}]")


def canonical(thing: Any) -> str:
    """A text that is the same for what is equal."""
    return json.dumps(thing, sort_keys=True)
