"""Who may import what: the rules of the house, checked on every module's direct imports."""

import sys
from collections.abc import Iterator
from functools import cache

import grimp
import pytest

SERVICES = ("post_service", "graph_service", "fanout_service", "timeline_service", "hydrate_service")
EVERYTHING = (*SERVICES, "gateway", "feedkit", "feedrank", "devmesh", "feedctl")

ADAPTERS = {"__main__", "config", "rpc", "consumer", "relay", "measures"}
"""Modules of a service that may know the outside; so may `*_client` and `*store`, and whatever lies in such a package."""
PURE_FEEDKIT = {"feedkit.errors", "feedkit.cursor"}
DOMAIN_LIBRARIES = {"numpy"}
DRIVERS = {"asyncpg", "redis", "confluent_kafka"}
OUTSIDE = {
    "grpc",
    "google",
    "feed",
    "starlette",
    "uvicorn",
    "httpx",
    "pydantic",
    "opentelemetry",
    "protovalidate",
    *DRIVERS,
}


@cache
def graph() -> grimp.ImportGraph:
    """All imports of the project, drivers and libraries included."""
    return grimp.build_graph(*EVERYTHING, include_external_packages=True, cache_dir=None)


def modules(package: str) -> list[str]:
    """A package and everything in it."""
    return sorted(name for name in graph().modules if name == package or name.startswith(f"{package}."))


def imports(module: str) -> set[str]:
    """What a module imports directly."""
    return graph().find_modules_directly_imported_by(module)


def is_adapter(module: str) -> bool:
    """Whether a service's module is one of those that may know the outside."""
    return any(part in ADAPTERS or part.endswith(("_client", "store")) for part in module.split(".")[1:])


def domain_modules() -> Iterator[str]:
    """Everything in a service that is no adapter."""
    for service in SERVICES:
        yield from (module for module in modules(service) if not is_adapter(module))


@pytest.mark.parametrize("package", [*SERVICES, "gateway"])
def test_services_and_gateway_never_import_one_another(package: str) -> None:
    others = {*SERVICES, "gateway", "devmesh", "feedctl"} - {package}
    for module in modules(package):
        assert not {name.split(".")[0] for name in imports(module)} & others, module


@pytest.mark.parametrize("package", ["feedkit", "feedrank", "devmesh", "feedctl"])
def test_shared_packages_and_tools_import_no_service(package: str) -> None:
    tools = {"devmesh", "feedctl"} - {package}
    for module in modules(package):
        assert not {name.split(".")[0] for name in imports(module)} & {*SERVICES, "gateway", *tools}, module


def test_features_and_models_know_nothing_else_of_ours() -> None:
    """So that they can be served, trained and judged wherever there is NumPy."""
    for module in modules("feedrank"):
        tops = {name.split(".")[0] for name in imports(module)}
        assert not tops & ({*EVERYTHING, *OUTSIDE} - {"feedrank"}), module


def test_who_serves_a_model_needs_nothing_of_those_who_train_it() -> None:
    served = {name for service in SERVICES for module in modules(service) for name in imports(module)}
    entries = {name for name in served if name.startswith("feedrank.")}
    assert "feedrank.models" in entries
    for module in entries.union(*(graph().find_upstream_modules(entry) for entry in entries)):
        assert module.split(".")[0] in {"feedrank", "numpy", *sys.stdlib_module_names}, module


def test_there_are_domain_modules_to_check() -> None:
    assert len({module.split(".")[0] for module in domain_modules()}) == len(SERVICES)


@pytest.mark.parametrize("module", list(domain_modules()))
def test_domain_modules_know_neither_transport_nor_driver(module: str) -> None:
    service = module.split(".", maxsplit=1)[0]
    for name in imports(module):
        top = name.split(".")[0]
        if top == "feedkit":
            assert name in PURE_FEEDKIT, f"{module} imports {name}"
        elif top == service:
            assert not is_adapter(name), f"{module} imports the adapter {name}"
        else:
            assert top not in OUTSIDE - DOMAIN_LIBRARIES, f"{module} imports {name}"


@pytest.mark.parametrize("service", SERVICES)
def test_rpc_modules_leave_drivers_alone(service: str) -> None:
    for module in modules(service):
        if module.split(".")[-1] == "rpc":
            assert not {name.split(".")[0] for name in imports(module)} & DRIVERS


def test_the_pure_part_of_feedkit_is_pure() -> None:
    for module in PURE_FEEDKIT:
        assert not {name.split(".")[0] for name in imports(module)} & OUTSIDE, module
        assert {name for name in imports(module) if name.startswith("feedkit.")} <= PURE_FEEDKIT
