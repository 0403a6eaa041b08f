"""A mesh of small stand-in processes: what the mesh does with processes, whatever they are."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer

import psutil
import pytest
from devmesh import probe
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from devmesh.errors import MeshCancelled, MeshError
from devmesh.guard import Guard
from devmesh.mesh import Mesh
from devmesh.ports import Ports, is_free
from devmesh.processes import Process
from devmesh.servers import Servers

pytestmark = pytest.mark.integration

TOYS = os.pathsep.join([str(Path(__file__).parent.parent / "toys"), *filter(None, sys.path)])
POST = Process("post", "toy_service", "grpc", 15051, database="post", migrates=True)
GRAPH = Process("graph", "toy_service", "grpc", 15052, database="graph", migrates=True, knows_operators=True)
RELAY = Process("post-relay", "toy_service", "grpc", 15061, role="relay", database="post")
TIMELINE = Process("timeline", "toy_service", "grpc", 15054)
GATEWAY = Process("gateway", "toy_gateway", "http", 8080)
ALL = (POST, GRAPH, RELAY, TIMELINE, GATEWAY)


def toy_mesh(
    directory: Path,
    *,
    trouble: str = "",
    processes: tuple[Process, ...] = (POST, GATEWAY),
    servers: Servers | None = None,
    settings: dict[str, str] | None = None,
    ports: Ports | None = None,
    supervise: bool = False,
    report: Callable[[str], None] = print,
    changed: Callable[[], None] = lambda: None,
    cancelled: Event | None = None,
) -> Mesh:
    return Mesh(
        {"PYTHONPATH": TOYS, "TOY_TROUBLE": trouble, **(settings or {})},
        ports=ports,
        directory=directory,
        supervise=supervise,
        processes=processes,
        servers=servers or Servers(),
        report=report,
        changed=changed,
        cancelled=cancelled,
    )


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def children() -> set[int]:
    """Whoever runs below us; whoever has ended, and is only not reaped yet, does not."""
    return {process.pid for process in psutil.Process().children(recursive=True) if runs(process)}


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """One for the tests that leave a mesh as they found it."""
    with toy_mesh(tmp_path_factory.mktemp("mesh"), processes=ALL) as running:
        yield running


# --- as it should be ---------------------------------------------------------------------------------------------------


def test_everything_is_ready_on_entry_and_nothing_is_left_on_exit(tmp_path: Path) -> None:
    before = children()
    with toy_mesh(tmp_path, processes=ALL) as mesh:
        addresses = mesh.addresses
        assert set(addresses.pids) == {"mesh", *(process.name for process in ALL), "postgres", "redis", "kafka"}
        assert all(probe.ready("grpc", int(target.rpartition(":")[2])) for target in addresses.grpc.values())
        assert probe.ready("http", int(addresses.gateway.rpartition(":")[2]))
    assert children() == before
    assert all(is_free(int(target.rpartition(":")[2])) for target in addresses.grpc.values())


def test_each_process_is_given_the_addresses_of_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TIMELINE_LENGTH", "17")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=1")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with toy_mesh(tmp_path, processes=ALL, settings={"FEED_AUTH_MODE": "other"}) as mesh:
        addresses = mesh.addresses
        said = {line.partition("=")[0]: line.partition("=")[2] for line in mesh.log("graph").splitlines()}
    assert said["FEED_GRPC_LISTEN"] == addresses.grpc["graph"]
    assert said["FEED_POSTGRES_DSN"] == addresses.postgres["graph"]
    assert said["FEED_POST_TARGET"] == addresses.grpc["post"]
    assert said["FEED_TIMELINE_TARGET"] == addresses.grpc["timeline"]
    assert said["FEED_REDIS_URL"] == addresses.redis
    assert said["FEED_KAFKA_BROKERS"] == addresses.kafka
    assert said["FEED_ENV"] == "development"
    assert said["OTEL_TRACES_SAMPLER"] == "always_off", "the rest of the environment is inherited"
    assert said["FEED_AUTH_MODE"] == "other", "settings win over what the mesh sets itself"
    assert not {"FEED_TIMELINE_LENGTH", "PGOPTIONS"} & set(said), "what the caller's shell holds by chance is not"


class StandIn(Valkey):
    """Takes the place of a pooler: it listens, and is told of as one would be."""

    name = "pooler"

    def __init__(self, postgres: Postgres, *, guard: Guard, log: Path) -> None:
        super().__init__(guard=guard, log=log)
        self._postgres = postgres

    def settings_for(self, database: str | None) -> dict[str, str]:
        if database is None:
            return {}
        return {
            "FEED_POSTGRES_DSN": f"postgresql://{self.address}",
            "FEED_POSTGRES_DIRECT_DSN": self._postgres.dsn(database),
        }


def test_a_pooler_is_what_processes_are_told_of_and_addresses_lead_past_it(tmp_path: Path) -> None:
    with toy_mesh(tmp_path, processes=ALL, servers=Servers(pooler=StandIn)) as mesh:
        addresses = mesh.addresses
        said = mesh.log("graph").splitlines()
        assert not any("POSTGRES" in line for line in mesh.log("timeline").splitlines())
        mesh.kill("pooler")
        assert "pooler" not in mesh.addresses.pids
        mesh.restart("pooler")
    assert f"FEED_POSTGRES_DIRECT_DSN={addresses.postgres['graph']}" in said
    [pooled] = [line for line in said if line.startswith("FEED_POSTGRES_DSN=")]
    assert pooled not in addresses.postgres.values()


def test_a_process_may_be_given_settings_of_its_own_that_last(tmp_path: Path) -> None:
    with toy_mesh(tmp_path, processes=ALL, settings={"FEED_TIMELINE_LENGTH": "800"}) as mesh:
        for settings in ({"FEED_TIMELINE_LENGTH": "100"}, None):
            mesh.kill("graph")
            mesh.restart("graph", settings)
            assert [line for line in mesh.log("graph").splitlines() if "TIMELINE_LENGTH" in line][-1].endswith("=100")
        mesh.kill("post")
        mesh.restart("post")
        assert not [line for line in mesh.log("post").splitlines() if line == "FEED_TIMELINE_LENGTH=100"]


def test_databases_are_migrated_before_their_service_starts(mesh: Mesh) -> None:
    assert mesh.log("post").startswith(f"migrated {mesh.addresses.postgres['post']}\n")


def test_a_role_runs_on_the_database_of_its_service_which_alone_migrates_it_and_is_no_target(mesh: Mesh) -> None:
    said = mesh.log("post-relay").splitlines()
    assert said[0] == "ROLE=relay", "without a migration before"
    assert f"FEED_POSTGRES_DSN={mesh.addresses.postgres['post']}" in said
    assert f"FEED_GRPC_LISTEN={mesh.addresses.grpc['post-relay']}" in said
    assert "ROLE=" in mesh.log("post").splitlines()
    targets = {line.partition("=")[0] for line in said if "_TARGET=" in line}
    assert targets == {"FEED_POST_TARGET", "FEED_GRAPH_TARGET", "FEED_TIMELINE_TARGET"}


def test_the_operators_token_is_told_to_those_alone_who_know_operators_and_stays(mesh: Mesh) -> None:
    token = mesh.addresses.operator_token
    assert len(token) >= 32
    mesh.kill("graph")
    mesh.restart("graph")
    assert mesh.addresses.operator_token == token
    given = [line for line in mesh.log("graph").splitlines() if line.startswith("FEED_OPERATOR_TOKEN=")]
    assert set(given) == {f"FEED_OPERATOR_TOKEN={token}"}
    assert token not in "".join(mesh.log(process.name) for process in ALL if process is not GRAPH)


def test_every_mesh_has_a_token_of_its_own_unless_it_is_told_one(tmp_path: Path) -> None:
    tokens = {toy_mesh(tmp_path).addresses.operator_token for _ in range(2)}
    assert len(tokens) == 2
    told = "by its starter"
    assert toy_mesh(tmp_path, settings={"FEED_OPERATOR_TOKEN": told}).addresses.operator_token == told


# --- one process -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["post", "post-relay", "gateway", "redis", "postgres", "kafka"])
def test_a_killed_process_is_down_until_it_is_started_again_at_its_address(mesh: Mesh, name: str) -> None:
    before = mesh.addresses
    mesh.kill(name)
    assert name not in mesh.addresses.pids
    mesh.restart(name)
    after = mesh.addresses
    assert after.pids[name] != before.pids[name]
    assert replace(after, pids={}) == replace(before, pids={})


@pytest.mark.parametrize(("name", "exit_code"), [("post", 0), ("gateway", -signal.SIGTERM), ("postgres", 0)])
def test_a_terminated_process_gives_its_exit_code(mesh: Mesh, name: str, exit_code: int) -> None:
    assert mesh.terminate(name) == exit_code
    mesh.restart(name)


def test_a_process_that_is_down_is_not_ended_again(mesh: Mesh) -> None:
    mesh.kill("post")
    with pytest.raises(MeshError, match="post is not running"):
        mesh.terminate("post")
    with pytest.raises(MeshError, match="post is not running"):
        mesh.kill("post")
    mesh.restart("post")


def test_a_frozen_process_can_be_ended_in_order(mesh: Mesh) -> None:
    os.kill(mesh.addresses.pids["post"], signal.SIGSTOP)
    assert mesh.terminate("post") == 0
    mesh.restart("post")


def test_an_unknown_process_is_refused_with_the_known_ones(mesh: Mesh) -> None:
    known = "post, graph, post-relay, timeline, gateway, kafka, redis, postgres"
    with pytest.raises(MeshError, match=f"no process 'pots' in this mesh; there are {known}"):
        mesh.kill("pots")


def test_a_process_that_runs_is_not_started_again(mesh: Mesh) -> None:
    with pytest.raises(MeshError, match="post is still running"):
        mesh.restart("post")


def test_all_that_stands_behind_a_name_is_known_while_it_runs(mesh: Mesh) -> None:
    assert mesh.pids_of("redis") == [mesh.addresses.pids["redis"]]
    assert mesh.pids_of("post") == [mesh.addresses.pids["post"]]
    mesh.kill("redis")
    assert mesh.pids_of("redis") == []
    mesh.restart("redis")
    with pytest.raises(MeshError, match="no process 'pots' in this mesh"):
        mesh.pids_of("pots")


# --- what goes wrong at the start --------------------------------------------------------------------------------------


def refused(mesh: Mesh) -> str:
    """Why it did not start. It leaves nothing running."""
    before = children()
    with pytest.raises(MeshError) as error:
        mesh.start()
    assert children() == before
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_process_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    line = refused(toy_mesh(tmp_path, trouble="later"))
    assert line.startswith("post ended with exit code 1 while starting: it went well for a moment (log: ")


def test_the_last_words_of_a_log_in_json_are_its_message(tmp_path: Path) -> None:
    assert ": no good: the toy is broken (log: " in refused(toy_mesh(tmp_path, trouble="start"))


def test_a_migration_that_fails_stops_the_start(tmp_path: Path) -> None:
    assert "post ended with exit code 3 while migrating" in refused(toy_mesh(tmp_path, trouble="migrate"))


def test_a_module_that_does_not_exist_is_told(tmp_path: Path) -> None:
    missing = replace(GATEWAY, module="no_such_module")
    assert "No module named no_such_module" in refused(toy_mesh(tmp_path, processes=(missing,)))


def test_a_port_in_use_is_told_before_anything_starts(mesh: Mesh, tmp_path: Path) -> None:
    port = int(mesh.addresses.grpc["post"].rpartition(":")[2])
    ports = replace(Ports.free(processes=(POST, GATEWAY)), grpc={"post": port})
    line = refused(toy_mesh(tmp_path / "second", ports=ports))
    assert line.startswith(f"port {port} (post) is in use: stop what listens there")
    assert not (tmp_path / "second").exists()


def test_a_port_taken_meanwhile_is_told_too(mesh: Mesh, tmp_path: Path) -> None:
    """``FEED_GRPC_LISTEN`` leads the process to a port that is in use, which only the process finds out."""
    line = refused(toy_mesh(tmp_path, settings={"FEED_GRPC_LISTEN": mesh.addresses.grpc["post"]}))
    assert line.startswith("port ") and "of post is in use" in line


def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    before = children()
    cancelled = Event()
    reported: list[str] = []

    def report(line: str) -> None:
        reported.append(line)
        cancelled.set()

    with pytest.raises(MeshCancelled):
        toy_mesh(tmp_path, report=report, cancelled=cancelled).start()
    assert children() == before


@pytest.mark.parametrize("seconds", [0.03, 0.3], ids=["while the guard starts", "while backends start"])
def test_an_interrupted_start_leaves_nothing(tmp_path: Path, seconds: float) -> None:
    before = children()
    timer = Timer(seconds, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        toy_mesh(tmp_path, trouble="crash").start()
    timer.join()
    # Within a moment: what is interrupted while it is being started is known to its guard alone.
    assert eventually(lambda: children() == before)


# --- supervision -------------------------------------------------------------------------------------------------------


def test_a_supervised_process_that_dies_comes_back(tmp_path: Path) -> None:
    lines: list[str] = []
    changes: list[int] = []
    mesh = toy_mesh(
        tmp_path,
        supervise=True,
        report=lines.append,
        changed=lambda: changes.append(mesh.addresses.pids["post"]),
    )
    with mesh:
        pid = mesh.addresses.pids["post"]
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: any("post is ready again" in line for line in lines))
        assert changes == [mesh.addresses.pids["post"]] != [pid]
        assert any(line.startswith("post was killed by SIGKILL; started again as pid") for line in lines)
        assert mesh.failure is None


def test_a_supervised_process_that_was_ended_on_purpose_stays_down(tmp_path: Path) -> None:
    with toy_mesh(tmp_path, supervise=True) as mesh:
        mesh.kill("post")
        assert not eventually(lambda: "post" in mesh.addresses.pids, seconds=1)
        mesh.restart("post")
        assert mesh.failure is None


def test_a_process_that_dies_again_and_again_ends_the_mesh(tmp_path: Path) -> None:
    lines: list[str] = []
    with toy_mesh(tmp_path, trouble="soon", supervise=True, report=lines.append) as mesh:
        assert eventually(lambda: mesh.failure is not None)
        assert "post ended with exit code 1 again and again" in str(mesh.failure)
    assert sum("started again" in line for line in lines) == 2


def test_the_death_of_a_backend_ends_the_mesh(tmp_path: Path) -> None:
    with toy_mesh(tmp_path, processes=(GATEWAY,), supervise=True) as mesh:
        os.kill(mesh.addresses.pids["redis"], signal.SIGKILL)
        assert eventually(lambda: mesh.failure is not None)
        assert "redis was killed by SIGKILL while the mesh was running" in str(mesh.failure)
