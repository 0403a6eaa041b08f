"""The compose file names what is there: images that can be built, settings that exist, services that are declared."""

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SERVICES = cast("dict[str, dict[str, Any]]", yaml.safe_load((ROOT / "compose.yaml").read_text())["services"])
OURS = {name: service for name, service in SERVICES.items() if str(service.get("image", "")).startswith("feed/")}
SETTINGS = (ROOT / "docs" / "configuration.md").read_text()


def test_every_process_of_the_mesh_is_in_it() -> None:
    assert {"post", "graph", "timeline", "hydrate", "gateway"} <= OURS.keys()


@pytest.mark.parametrize("name", OURS)
def test_its_image_is_built_somewhere_from_a_dockerfile_that_exists(name: str) -> None:
    builds = [
        service["build"] for service in OURS.values() if service["image"] == OURS[name]["image"] and "build" in service
    ]
    assert len(builds) == 1
    assert (ROOT / builds[0]["dockerfile"]).is_file()


@pytest.mark.parametrize("name", OURS)
def test_its_settings_exist_or_are_addresses_for_what_comes(name: str) -> None:
    later = {"FEED_REDIS_URL", "FEED_KAFKA_BROKERS"}
    for variable in OURS[name]["environment"]:
        assert variable in later or f"`{variable}`" in SETTINGS, variable


@pytest.mark.parametrize("name", SERVICES)
def test_what_it_waits_for_is_declared(name: str) -> None:
    for other in SERVICES[name].get("depends_on", {}):
        assert other in SERVICES


def test_targets_are_names_of_declared_services() -> None:
    for service in OURS.values():
        for variable, value in service["environment"].items():
            if variable.endswith("_TARGET"):
                assert value.removeprefix("dns:///").partition(":")[0] in SERVICES
