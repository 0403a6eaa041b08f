"""The compose file names what is there: images that can be built, settings that exist, services that are declared."""

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from devmesh.backends.kafka import TOPICS
from devmesh.processes import PROCESSES, Process
from devmesh.seed import PULLED_FROM_FOLLOWERS

ROOT = Path(__file__).resolve().parents[2]
SERVICES = cast("dict[str, dict[str, Any]]", yaml.safe_load((ROOT / "compose.yaml").read_text())["services"])
OURS = {name: service for name, service in SERVICES.items() if str(service.get("image", "")).startswith("feed/")}
SETTINGS = (ROOT / "docs" / "configuration.md").read_text()


def waits_for(name: str, condition: str) -> set[str]:
    """What a service waits for, until it has started, is healthy or has ended well."""
    waited: dict[str, dict[str, str]] = SERVICES[name].get("depends_on", {})
    return {other for other, terms in waited.items() if terms["condition"] == condition}


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_every_process_of_the_mesh_is_in_it(process: Process) -> None:
    service = OURS[process.name]
    if process.role is not None:
        assert service["command"] == ["python", "-m", process.module, process.role]
    if process.database is not None:
        assert service["environment"]["FEED_POSTGRES_DSN"].endswith(f"/{process.database}")
        assert waits_for(process.name, "service_completed_successfully") >= {f"{process.database}-migrate"}


def test_every_service_is_told_where_all_others_are() -> None:
    services = [process.name for process in PROCESSES if process.serves == "grpc" and process.role is None]
    for name, service in OURS.items():
        for other in services:
            assert service["environment"][f"FEED_{other.upper()}_TARGET"] == f"dns:///{other}:50051", name


def test_stores_are_there_before_those_that_use_them() -> None:
    for name in ("post", "graph", "fanout", "timeline", "hydrate"):
        assert "redis" in waits_for(name, "service_healthy"), name
    for name in ("post-relay", "graph-relay", "fanout"):
        assert "topics" in waits_for(name, "service_completed_successfully"), name


def test_its_topics_are_those_of_the_mesh() -> None:
    (script,) = [word for word in SERVICES["topics"]["command"] if "--create" in word]
    assert set(re.findall(r"feed\.[a-z.]+\.v1", script)) == set(TOPICS)


def test_all_count_the_same_authors_as_celebrities_as_in_the_embedded_mesh() -> None:
    thresholds = {service["environment"]["FEED_CELEBRITY_THRESHOLD"] for service in OURS.values()}
    assert thresholds == {str(PULLED_FROM_FOLLOWERS)}


@pytest.mark.parametrize("name", OURS)
def test_its_image_is_built_somewhere_from_a_dockerfile_that_exists(name: str) -> None:
    builds = [
        service["build"] for service in OURS.values() if service["image"] == OURS[name]["image"] and "build" in service
    ]
    assert len(builds) == 1
    assert (ROOT / builds[0]["dockerfile"]).is_file()


@pytest.mark.parametrize("name", OURS)
def test_its_settings_exist(name: str) -> None:
    for variable in OURS[name]["environment"]:
        assert f"`{variable}`" in SETTINGS, variable


@pytest.mark.parametrize("name", SERVICES)
def test_what_it_waits_for_is_declared(name: str) -> None:
    for other in SERVICES[name].get("depends_on", {}):
        assert other in SERVICES


def test_targets_are_names_of_declared_services() -> None:
    for service in OURS.values():
        for variable, value in service["environment"].items():
            if variable.endswith("_TARGET"):
                assert value.removeprefix("dns:///").partition(":")[0] in SERVICES
