"""Each distribution names what it imports, so that it installs and runs alone."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = sorted(
    path.parent
    for path in [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")]
    if path.parent.name != "protos"  # holds generated code only
)
IMPLIED = {"feed-kit": {"feed-protos"}}
"""What a dependency of ours is sure to bring along."""


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(directory: Path) -> set[str]:
    """The distributions that one may import, by its own pyproject.toml."""
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    names = {normal(re.match(r"[A-Za-z0-9._-]+", line)[0]) for lines in lists for line in lines}  # type: ignore[index]
    for name in list(names):
        names |= IMPLIED.get(name, set())
    return names | {normal(project["name"])}


def imported(directory: Path) -> set[str]:
    """The top-level modules that its code imports."""
    tops: set[str] = set()
    package = next(path for path in directory.iterdir() if (path / "__init__.py").exists())
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                tops |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                tops.add(
                    ".".join(node.module.split(".")[:2])
                    if node.module.startswith("google.")
                    else node.module.split(".")[0]
                )
    return tops - set(sys.stdlib_module_names) - {package.name}


# Where the metadata of installed distributions does not tell: namespaces that several share, and our own, which are
# installed in place.
OWNERS = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "grpc": "grpcio",
    "feed": "feed-protos",
    "feedkit": "feed-kit",
    "feedrank": "feed-rank",
}


@pytest.mark.parametrize("directory", DISTRIBUTIONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_import_is_a_declared_dependency(directory: Path) -> None:
    owners = packages_distributions()
    for top in imported(directory):
        names = {OWNERS[top]} if top in OWNERS else {normal(name) for name in owners.get(top, [top])}
        assert names & declared(directory), f"{top} is imported but {sorted(names)} is not declared"
