import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from devmesh.errors import MeshError
from devmesh.ports import Ports, conflict, free_ports, is_free
from devmesh.processes import PROCESSES


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_the_fixed_ports_are_the_documented_ones() -> None:
    assert Ports.fixed().by_name() == {
        "gateway": 8080,
        "post": 15051,
        "graph": 15052,
        "post-relay": 15061,
        "graph-relay": 15062,
        "fanout": 15053,
        "timeline": 15054,
        "hydrate": 15055,
        "postgres": 15432,
        "redis": 16379,
        "kafka": 19092,
    }


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(map(is_free, ports))


def test_free_ports_cover_every_process_and_keep_a_chosen_gateway_port() -> None:
    ports = Ports.free(gateway=8099)
    assert ports.gateway == 8099
    assert set(ports.grpc) == {process.name for process in PROCESSES if process.serves == "grpc"}


def test_a_port_on_which_somebody_listens_is_not_free(taken_port: int) -> None:
    assert not is_free(taken_port)


def test_a_taken_gateway_port_is_refused_with_the_way_out(taken_port: int) -> None:
    with pytest.raises(MeshError, match=rf"^port {taken_port} \(gateway\) is in use: .* ARGS=\"--gateway-port \d+\"$"):
        Ports.free(gateway=taken_port).require_free()


def test_other_taken_ports_are_all_named() -> None:
    line = conflict({"gateway": 8080, "post": 15051})
    assert line == (
        'ports 8080 (gateway), 15051 (post) are in use: stop what listens there, or run make up ARGS="--free-ports"'
    )


def test_ports_that_nobody_listens_on_yet_are_not_given_out_again() -> None:
    ports = [port for _ in range(10) for port in free_ports(20)]
    assert len(set(ports)) == 200


def test_processes_side_by_side_choose_from_different_ports() -> None:
    program = "from devmesh.ports import free_ports; print(*free_ports(300), flush=True); input()"
    command = [sys.executable, "-c", program]
    with ExitStack() as running:
        others = [
            running.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(3)
        ]
        chosen = [port for other in others if other.stdout for port in other.stdout.readline().split()]
        for other in others:
            other.communicate("")
    assert len(set(chosen)) == 900


def test_a_process_never_runs_out_of_ports() -> None:
    for _ in range(100):
        assert len(free_ports(20)) == 20
