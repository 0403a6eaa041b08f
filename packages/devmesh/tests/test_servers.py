import sys
from types import ModuleType

import pytest
from devmesh.backends.kafka import Kafka
from devmesh.backends.valkey import Valkey
from devmesh.errors import MeshError
from devmesh.servers import VARIABLE, Servers, chosen

OTHERS = Servers(kafka=Kafka, redis=Valkey, durable=frozenset({"postgres", "kafka"}))


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with servers in it."""
    module = ModuleType("of_this_machine")
    vars(module).update(OTHERS=OTHERS, NONE=17)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delenv(VARIABLE, raising=False)


def test_unless_others_are_named_they_are_those_from_wheels() -> None:
    assert chosen() == Servers(kafka=Kafka, redis=Valkey, pooler=None)


def test_the_environment_may_name_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "of_this_machine:OTHERS")
    assert chosen() is OTHERS


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module:REAL", "names no servers: No module named"),
        ("of_this_machine:REAL", "names no servers: .* has no attribute 'REAL'"),
        ("of_this_machine", "names no servers: "),
        ("of_this_machine:NONE", "is no devmesh.servers.Servers"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_clear_line(name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(MeshError, match=f"^{VARIABLE}={name} {why}"):
        chosen()
